"""Runs as samples: a value for each run, and its series."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from blklab.compare.metrics import WAYS, Metric
from blklab.compare.model_errors import ModelError
from blklab.compare.variation import RunSample
from blklab.documents.cell import Cell
from blklab.experiment.sweep import AS_IS, is_setting
from blklab.outcome import NORMAL, Outcome
from blklab.store.query import StoredRun
from blklab.store.series import JOBS, SeriesPoint

Points = Callable[[int], Sequence[SeriesPoint]]
"""A function that returns the series of a run, by its number in the store."""

Measured = tuple[StoredRun, RunSample]

LATENCIES_KNOWN = frozenset({"mean", "p50", "p95", "p99"})  # Whose interval is known in a prediction


def mark_unchanged(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Returns runs with the label `as is` where a sweep set the value that the host already had."""
    swept = {label for run in runs for label, value in run.labels.items() if value == AS_IS}
    new_runs = []
    for run in runs:
        changes = run.figures.settings
        if changes is not None:
            changed_keys = {change.key for change in changes}
            unchanged_labels = {label for label in swept if is_setting(label)} - changed_keys
            labels = {**run.labels, **dict.fromkeys(unchanged_labels & set(run.labels), AS_IS)}
            new_runs.append(replace(run, labels=labels))
        else:
            new_runs.append(run)
    return new_runs


def run_samples(runs: Sequence[StoredRun], metric: Metric, points: Points) -> list[Measured]:
    """Returns the samples in the order of measurement; as they are stored if the time of a run is not known."""
    sorted_runs = list(runs)
    if all(run.began for run in runs):
        sorted_runs.sort(key=lambda run: run.began)
    samples = []
    for run in sorted_runs:
        value = metric.compute(run.figures)
        if value is not None:
            series = over_time(metric.name, points(run.id))
            samples.append((run, RunSample(value, series, model_error(run.figures, run.cell, metric))))
    return samples


def model_error(figures: Outcome, cell: Cell, metric: Metric) -> ModelError | None:
    """Returns how uncertain a prediction of a metric is; None for a measurement.

    Latencies up to the 99th percentile have its interval, the widest, except means that follow from the IOPS. Of other
    latencies and of processors, the interval is not known.
    """
    interval = figures.interval
    if interval is None:
        return None if figures.simulated_ios is None else ModelError(math.inf, math.inf)
    is_latency = metric.kind == "time"
    if metric.kind in {"cpus", "share"} or (is_latency and metric.name.rpartition(".")[2] not in LATENCIES_KNOWN):
        return ModelError(math.inf, math.inf)
    low, high = interval.p99 if is_latency else interval.iops
    if metric.name in {"read.mean", "write.mean"} and _is_inverse(cell):
        low = 1 / interval.iops[1]
        high = 1 / interval.iops[0]
    below, above = (abs(math.log(max(factor, 1e-9))) / NORMAL for factor in (low, high))
    setup = [cell.get(key) for key in ("devices", "stack", "jobs")]
    slow, fast = interval.processors
    processors = (fast, slow) if is_latency else (slow, fast)  # The slower a host, the longer an I/O takes
    host = cell.get("host", {})
    return ModelError(
        below,
        above,
        shared=interval.shared,
        setup=setup,
        processors=processors,
        devices=interval.models,
        host=host,
        cell={**cell, "seed": None},
        is_known=interval.is_known,
    )


def _is_inverse(cell: Cell) -> bool:
    """Returns whether the mean latency is the number of I/Os in flight divided by the IOPS (Little's law).

    So it is if as many I/Os of one direction as possible are always in flight.
    """
    jobs = cell.get("jobs") or []
    waits = any(job.get(key) for job in jobs for key in ("rate_iops", "thinktime_ns", "fsync", "fsync_share"))
    return not waits and {job.get("read_share") for job in jobs} in ({1.0}, {0.0})


def over_time(metric: str, points: Sequence[SeriesPoint]) -> list[float]:
    """Returns a metric in each interval of a run's jobs; empty if the run has no series."""
    job_points = [point for point in points if point.source == JOBS and point.width_ns > 0]
    if len(job_points) > 1 and job_points[-1].width_ns < job_points[0].width_ns:
        job_points.pop()  # the last interval is incomplete
    direction, _, figure = metric.rpartition(".")
    if direction not in {"", *WAYS}:
        return []
    match figure:
        case "iops":
            return [_amount(direction, point.read_ios, point.write_ios) * 1e9 / point.width_ns for point in job_points]
        case "bw":
            return [
                _amount(direction, point.read_bytes, point.write_bytes) * 1e9 / point.width_ns for point in job_points
            ]
        case "mean" if direction:
            latencies = [point.read_clat_ns if direction == "read" else point.write_clat_ns for point in job_points]
            return [latency for latency in latencies if latency is not None]
    return []


def _amount(direction: str, read: int, written: int) -> int:
    """Returns what belongs to a direction; without one, both together."""
    if direction == "read":
        return read
    if direction == "write":
        return written
    return read + written
