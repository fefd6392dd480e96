"""Tables of latencies, I/Os in flight and errors."""

from collections.abc import Mapping
from typing import Final, cast

from blklab.report import formatting
from blklab.report.tables.base import BAR, TextTable, figures, text
from blklab.report.view import OPS, STAGES, DeviceView

PERCENTILES: Final = ("p50", "p90", "p99", "p99_9")


def stages(device: DeviceView) -> TextTable:
    """Returns the stages of an I/O by operation: time from event to event."""
    rows = []
    for op in OPS:
        first = True
        for stage in STAGES:
            if (quantiles := device.latency(op, stage)) is None:
                continue
            keys = ("min", *PERCENTILES, "max", "mean")
            stage_quantiles = cast(Mapping[str, float | None], quantiles)
            durations = [formatting.duration(stage_quantiles[key]) for key in keys]
            name = f"{stage.upper()}"
            rows.append([op if first else "", name, formatting.count(quantiles["count"]), *durations])
            first = False
    names = [key.replace("_", ".") for key in ("min", *PERCENTILES, "max", "mean")]
    used = [stage for stage in STAGES if any(row[1] == stage.upper() for row in rows)]
    note = "; ".join(f"{stage.upper()}: {STAGES[stage]}" for stage in used)
    if used and device.passes_on:
        note += f". {device.label} is bio-based, like md and device-mapper: it has no dispatch, so no D2C"
    return TextTable(
        "Life of an I/O", [text(""), text(""), *figures("I/Os", *names)], rows, note, spare=("min", "p99.9")
    )


def depth(device: DeviceView) -> TextTable:
    """Returns I/Os in flight and requests at the device, weighted by time."""
    rows = []
    for name, level in (
        ("in flight (Q to C)", device.data["in_flight"]),
        ("at the device (D to C)", device.data["dispatched"]),
    ):
        if not level["time_ns"] or not device.ends or (name.endswith("(Q to C)") and device.start != "Q"):
            continue
        rows.append(
            [
                name,
                formatting.number(level["mean"]),
                formatting.number(level["mean_when_busy"]),
                *map(formatting.count, (level["p50"], level["p95"], level["p99"], level["max"])),
                formatting.share(level["idle_share"]),
            ]
        )
    headings = figures("mean", "when busy", "p50", "p95", "p99", "max", "idle")
    note = "weighted by time: 95 % of the time, the depth does not exceed p95"
    return TextTable("Queue depth", [text(""), *headings], rows, note)


def errors(device: DeviceView) -> TextTable:
    """Returns the table of failed completions."""
    rows = [
        [op, name, formatting.count(number), formatting.share(number / completed), str(number / completed)]
        for op, errors in device.errors.items()
        for name, number in errors.items()
        if (completed := device.life(op)["completed"] + device.life(op)["without_queue"])
    ]
    columns = [text("operation"), text("error"), *figures("I/Os", "of completed"), BAR]
    return TextTable("Errors", columns, rows)
