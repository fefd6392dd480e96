"""Tables of how long I/Os took, how many were under way, and what failed."""

from collections.abc import Mapping
from typing import Final, cast

from blklab.report import words
from blklab.report.tables.base import BAR, Table, figures, text
from blklab.report.view import OPS, STAGES, Device

PERCENTILES: Final = ("p50", "p90", "p99", "p99_9")


def stages(device: Device) -> Table:
    """The life of an I/O: time from event to event, by operation."""
    rows = []
    for op in OPS:
        first = True
        for stage in STAGES:
            if (quantiles := device.latency(op, stage)) is None:
                continue
            keys = ("min", *PERCENTILES, "max", "mean")
            found = cast(Mapping[str, float | None], quantiles)
            durations = [words.duration(found[key]) for key in keys]
            name = f"{stage.upper()}"
            rows.append([op if first else "", name, words.count(quantiles["count"]), *durations])
            first = False
    names = [key.replace("_", ".") for key in ("min", *PERCENTILES, "max", "mean")]
    used = [stage for stage in STAGES if any(row[1] == stage.upper() for row in rows)]
    note = "; ".join(f"{stage.upper()}: {STAGES[stage]}" for stage in used)
    if used and device.passes_on:
        note += (
            f". {device.label} passes I/O on (bio-based, as md and device-mapper are):"
            " it has no dispatch, so no D2C"
        )
    return Table(
        "Life of an I/O",
        [text(""), text(""), *figures("I/Os", *names)],
        rows,
        note,
        spare=("min", "p99.9"),
    )


def depth(device: Device) -> Table:
    """I/Os in flight and requests at the device, weighted by time."""
    rows = []
    for name, level in (
        ("in flight (Q to C)", device.data["in_flight"]),
        ("at the device (D to C)", device.data["dispatched"]),
    ):
        if not level["time_ns"] or not device.ends:
            continue
        rows.append(
            [
                name,
                words.number(level["mean"]),
                words.number(level["mean_when_busy"]),
                *map(words.count, (level["p50"], level["p95"], level["p99"], level["max"])),
                words.share(level["idle_share"]),
            ]
        )
    headings = figures("mean", "when busy", "p50", "p95", "p99", "max", "idle")
    note = "weighted by time: p95 is the depth not exceeded for 95 % of the time"
    return Table("Queue depth", [text(""), *headings], rows, note)


def errors(device: Device) -> Table:
    """Failed completions."""
    rows = [
        [op, name, words.count(number), words.share(number / completed), str(number / completed)]
        for op, errors in device.errors.items()
        for name, number in errors.items()
        if (completed := device.life(op)["completed"] + device.life(op)["without_queue"])
    ]
    columns = [text("operation"), text("error"), *figures("I/Os", "of completed"), BAR]
    return Table("Errors", columns, rows)
