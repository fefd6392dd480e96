"""Tables of the slowest I/Os and of stalls."""

from blklab.documents.profile import LongTimeProfile
from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.view import STAGES, DeviceView
from blklab.text import printable


def slowest(device: DeviceView, most: int = 20) -> TextTable:
    """Returns the slowest I/Os: when and where, the stage that took most of the time, and what was in flight."""
    slow = device.data["slow"]["slowest"][:most]
    rows = [
        [
            *_when(io),
            io["op"],
            str(io["sector"]),
            formatting.size(io["bytes"]),
            printable(io["process"]),
            f"{_stage(device, io)} {formatting.duration(io['stage_ns'])}",
            formatting.count(io["depth"]),
            _in_flight(io),
        ]
        for io in slow
    ]
    columns = [*figures("at", "took"), text("operation"), *figures("sector", "size"), text("process")]
    columns += [text("longest stage"), *figures("depth before"), text("in flight at the end")]
    stages = sorted({_stage(device, io) for io in slow})
    note = "; ".join(f"{stage}: {STAGES[stage.lower()]}" for stage in stages if stage.lower() in STAGES)
    spare = ("in flight at the end", "size", "depth before", "sector")
    return TextTable("Slowest I/Os", columns, rows, note, spare=spare)


def stalls(device: DeviceView, most: int = 64) -> TextTable:
    """Returns the longest stalls, in order of time."""
    slow = device.data["slow"]
    longest = sorted(slow["stalls"], key=lambda stall: -stall["length_ns"])[:most]
    rows = [
        [*_when(stall), f"{stall['op']} of {printable(stall['process'])}", _in_flight(stall)]
        for stall in sorted(longest, key=lambda stall: stall["start_ns"])
    ]
    least = formatting.duration(slow["stall_least_ns"])
    note = f"nothing completed although I/Os were in flight, for at least 10 times the 99th percentile ({least})"
    if rest := len(slow["stalls"]) - len(rows):
        note += f"; {rest:,} more in --json and in the report"
    return TextTable("Stalls", [*figures("at", "for"), text("ended by"), text("also in flight")], rows, note)


def _when(time: LongTimeProfile) -> list[str]:
    return [f"{time['start_ns'] / 1e9:,.3f} s", formatting.duration(time["length_ns"])]


def _stage(device: DeviceView, io: LongTimeProfile) -> str:
    # Without Q, the time of the queueing is that of the dispatch.
    return io["stage"].upper() if device.start == "Q" else "D2C"


def _in_flight(time: LongTimeProfile) -> str:
    listed = ", ".join(
        f"{number:,} {op if number == 1 else formatting.ops(op)}" for op, number in time["in_flight"].items() if number
    )
    return listed or formatting.NONE
