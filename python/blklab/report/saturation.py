"""Saturation sweeps: randomio's table and the knee of each curve."""

from collections.abc import Iterator, Sequence

from blklab.analysis.saturation import LOADS, Measured, SaturationCurve, curves
from blklab.outcome import DirectionResult, Outcome
from blklab.report import formatting
from blklab.report.console import Console
from blklab.text import printable

HEAD = (  # The header that randomio 1.6 prints
    "  total |  read:         latency (ms)       |  write:        latency (ms)",
    "   iops |   iops   min    avg    max   sdev |   iops   min    avg    max   sdev",
    "--------+-----------------------------------+----------------------------------",
)


def print_saturation(console: Console, runs: Sequence[Measured]) -> None:
    """Prints a campaign as randomio does, and the knee of each curve."""
    for line in randomio(runs):
        console.print(line)
    for curve in curves(runs):
        console.print(f"· {sentence(curve)}")


def randomio(runs: Sequence[Measured]) -> Iterator[str]:
    """Returns randomio's table: a block for each set of other labels, a line for each run."""
    blocks: dict[tuple[tuple[str, str], ...], list[Measured]] = {}
    for run in runs:
        other_labels = tuple(pair for pair in run[0].items() if pair[0] not in {*LOADS, "repeat"})
        blocks.setdefault(other_labels, []).append(run)
    for other_labels, members in blocks.items():
        yield ""
        yield printable(" ".join(f"{label}={value}" for label, value in other_labels))
        yield from HEAD
        for labels, _, outcome in members:
            load = " ".join(f"{label}={labels[label]}" for label in LOADS if label in labels)
            yield f"{line(outcome)}  {printable(load)}".rstrip()
    yield ""


def line(outcome: Outcome) -> str:
    """Returns a run as a line of randomio's table: rates, and latencies in ms."""
    total = outcome.read.iops + outcome.write.iops
    return f"{total:7.1f} |{_direction(outcome.read)} |{_direction(outcome.write)}"


def _direction(figures: DirectionResult) -> str:
    latency = figures.clat_ns
    times = (latency.min, latency.mean, latency.max, latency.stddev)
    least, mean, most, deviation = ((time or 0) / 1e6 for time in times)
    return f"{figures.iops:7.1f} {least:5.1f} {mean:6.1f} {most:6.1f} {deviation:6.1f}"


def sentence(curve: SaturationCurve) -> str:
    """Returns a sentence about the knee of a curve."""
    knee, full, less = curve.knee, curve.saturated, curve.overloaded
    labels = " ".join(f"{key}={value}" for key, value in curve.labels.items())
    text = (
        f"{f'{labels}: ' if labels else ''}the knee is at {knee.in_flight} I/Os in flight ({knee.iops:,.0f} IOPS,"
        f" {formatting.duration(knee.latency_ns)}); saturated from {full.in_flight} ({full.iops:,.0f} IOPS,"
        f" {formatting.duration(full.latency_ns)})"
    )
    if less is not None:
        text += f"; IOPS fall again at {less.in_flight} ({less.iops:,.0f} IOPS)"
    return printable(text + ".")
