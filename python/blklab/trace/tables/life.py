"""Tables of latencies, I/Os in flight, errors, the slowest I/Os and stalls."""

from blklab.documents.profile import LongTimeProfile
from blklab.render import formatting
from blklab.render.table import BAR, TextTable, number_columns, text_column
from blklab.text.printing import printable
from blklab.trace.view import OPS, STAGES, DeviceView

PERCENTILES = ("p50", "p90", "p99", "p99_9")


def stages(device: DeviceView) -> TextTable:
    """Returns the stages of an I/O by operation: time from event to event."""
    keys = ("min", *PERCENTILES, "max", "mean")
    rows = []
    for op in OPS:
        first = True
        for stage in STAGES:
            quantiles = device.latency(op, stage)
            if quantiles is None:
                continue
            durations = [formatting.duration(getattr(quantiles, key)) for key in keys]
            rows.append([op if first else "", stage.upper(), formatting.count(quantiles.count), *durations])
            first = False
    names = [key.replace("_", ".") for key in keys]
    used_letters = {row[1] for row in rows}
    shown_stages = [stage for stage in STAGES if stage.upper() in used_letters]
    note = "; ".join(f"{stage.upper()}: {STAGES[stage]}" for stage in shown_stages)
    if shown_stages and device.passes_on:
        note += f". {device.label} is bio-based, like md and device-mapper: it has no dispatch, so no D2C"
    return TextTable(
        "Life of an I/O",
        [text_column(""), text_column(""), *number_columns("I/Os", *names)],
        rows,
        note,
        spare=("min", "p99.9"),
    )


def depth(device: DeviceView) -> TextTable:
    """Returns I/Os in flight and requests at the device, weighted by time."""
    levels = {"at the device (D to C)": device.data.dispatched}
    if device.start == "Q":
        levels = {"in flight (Q to C)": device.data.in_flight, **levels}
    rows = [
        [
            name,
            *map(formatting.number, (level.mean, level.mean_when_busy)),
            *map(formatting.count, (level.p50, level.p95, level.p99, level.max)),
            formatting.share(level.idle_share),
        ]
        for name, level in levels.items()
        if level.time_ns and device.ends
    ]
    headings = number_columns("mean", "when busy", "p50", "p95", "p99", "max", "idle")
    return TextTable(
        "Queue depth",
        [text_column(""), *headings],
        rows,
        "weighted by time: 95 % of the time, the depth does not exceed p95",
    )


def errors(device: DeviceView) -> TextTable:
    """Returns the table of failed completions."""
    rows = []
    for op, errors_of_op in device.errors.items():
        completions = device.life(op).completed + device.life(op).without_queue
        if not completions:
            continue
        for name, number in errors_of_op.items():
            share = number / completions
            rows.append([op, name, formatting.count(number), formatting.share(share), str(share)])
    columns = [text_column("operation"), text_column("error"), *number_columns("I/Os", "of completed"), BAR]
    return TextTable("Errors", columns, rows)


def slowest(device: DeviceView, limit: int = 20) -> TextTable:
    """Returns the slowest I/Os: when and where, the stage that took most of the time, and what was in flight."""
    slow = device.data.slow.slowest[:limit]
    rows = [
        [
            *_when(io),
            io.op,
            str(io.sector),
            formatting.size(io.bytes),
            printable(io.process),
            f"{_stage(device, io)} {formatting.duration(io.stage_ns)}",
            formatting.count(io.depth),
            _in_flight(io),
        ]
        for io in slow
    ]
    columns = [
        *number_columns("at", "took"),
        text_column("operation"),
        *number_columns("sector", "size"),
        text_column("process"),
    ]
    columns += [text_column("longest stage"), *number_columns("depth before"), text_column("in flight at the end")]
    stages = sorted({_stage(device, io) for io in slow})
    note = "; ".join(f"{stage}: {STAGES[stage.lower()]}" for stage in stages if stage.lower() in STAGES)
    spare = ("in flight at the end", "size", "depth before", "sector")
    return TextTable("Slowest I/Os", columns, rows, note, spare=spare)


def stalls(device: DeviceView, limit: int = 64) -> TextTable:
    """Returns the longest stalls, in order of time."""
    slow = device.data.slow
    longest = sorted(slow.stalls, key=lambda stall: -stall.length_ns)[:limit]
    rows = [
        [*_when(stall), f"{stall.op} of {printable(stall.process)}", _in_flight(stall)]
        for stall in sorted(longest, key=lambda stall: stall.start_ns)
    ]
    note = (
        "nothing completed although I/Os were in flight, "
        f"for at least {formatting.duration(slow.stall_least_ns)}: "
        "10 times the 90th percentile of the gaps between completions, and 10 times the median latency"
    )
    if hidden_count := len(slow.stalls) - len(rows):
        note += f"; {hidden_count:,} more in --json and in the report"
    return TextTable(
        "Stalls", [*number_columns("at", "for"), text_column("ended by"), text_column("also in flight")], rows, note
    )


def _when(time: LongTimeProfile) -> list[str]:
    return [f"{time.start_ns / 1e9:,.3f} s", formatting.duration(time.length_ns)]


def _stage(device: DeviceView, io: LongTimeProfile) -> str:
    # Without Q, the time of the queueing is that of the dispatch.
    return io.stage.upper() if device.start == "Q" else "D2C"


def _in_flight(time: LongTimeProfile) -> str:
    parts = []
    for op, number in time.in_flight.items():
        if number:
            noun = op if number == 1 else formatting.ops(op)
            parts.append(f"{number:,} {noun}")
    return ", ".join(parts) or formatting.NONE
