"""Predict published arrays with devices that are calibrated alone; nothing is fitted to arrays."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from accuracy import published_caches, published_cells
from accuracy.cache_tables import BcacheRun, CacheTables
from accuracy.published_caches import CacheRow
from accuracy.reference import FioRun, RandomioRun, Reference
from accuracy.stream_tables import RANDOM, STREAM, StreamRun, block_bytes, stream_cell
from blklab import _core
from blklab.calibrate import fit as calibrate
from blklab.calibrate.observations import Observation, observation
from blklab.cluster import HERE, Parallel
from blklab.compare.decision import is_inside
from blklab.errors import UsageError
from blklab.experiment.cells import Cell
from blklab.outcome import Outcome, PredictionInterval
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import interval, other_run, reads_streams_of_mirrors, seed_count

Kind = Literal["flash", "hdds", "spindles", "six", "ncq", "bcache", "streams", "shared"]
"""Classes: arrays with flash, arrays of HDDs, the ten and the six disks of the randomio rows, the six disks with and
without command queuing, bcache, streams through the page cache, and those with random I/O at the same time."""


KINDS: Mapping[str, Kind] = {"md10fs": "spindles", "six": "six", "ncq": "ncq"}
"""The class of a configuration of randomio."""


@dataclass(frozen=True)
class MemberShare:
    """A member's share of the array's I/Os: of reads if the test reads, otherwise of writes."""

    published: float | None
    predicted: float


@dataclass(frozen=True)
class PublishedRow:
    """One published cell and its prediction. IOPS; latencies are mean read latencies in ms."""

    target: str
    test: str
    published: Mapping[str, float]
    predicted: Mapping[str, float]
    members: Mapping[str, MemberShare]
    outcome: Outcome  # The complete outcome of the simulation
    kind: Kind
    limits: PredictionInterval

    @property
    def interval(self) -> tuple[float, float]:
        """The interval as factors of the predicted IOPS."""
        return self.limits.iops

    @property
    def inside(self) -> bool:
        """Whether the published IOPS are in the interval of the prediction."""
        low, high = map(math.log, self.interval)
        return is_inside(-math.log1p(self.error), (low, high))

    @property
    def error(self) -> float:
        """Predicted over published IOPS, minus one."""
        return _iops(self.predicted) / _iops(self.published) - 1

    @property
    def latency_error(self) -> float | None:
        """Predicted over published mean read latency, minus one; None if it was not published."""
        published = self.published.get("read_lat_ms")
        return self.predicted["read_lat_ms"] / published - 1 if published else None

    def as_dict(self) -> dict[str, Any]:
        """Returns the row for `--json`."""
        return {
            "target": self.target,
            "test": self.test,
            "published": dict(self.published),
            "predicted": dict(self.predicted),
            "error": self.error,
            "interval": [factor * _iops(self.predicted) for factor in self.interval],
            "inside": self.inside,
            "members": {
                name: {"published_share": share.published, "predicted_share": share.predicted}
                for name, share in self.members.items()
            },
        }


def _iops(figures: Mapping[str, float]) -> float:
    return figures["read_iops"] + figures["write_iops"]


@dataclass(frozen=True)
class Validation:
    """All rows and their calibrations."""

    rows: Sequence[PublishedRow]
    calibrations: Mapping[str, calibrate.Calibration]
    caches: Sequence[CacheRow] = ()


@dataclass(frozen=True)
class ErrorBound:
    """Allowed errors of a class of rows."""

    name: str
    kind: Kind
    iops: float
    latency: float | None = None
    median: float | None = None
    share: float | None = None


BOUNDS = (
    ErrorBound("arrays of flash", "flash", 0.15, None, 0.05, 0.05),
    ErrorBound("arrays of two HDDs", "hdds", 0.30),
    ErrorBound("ten spindles", "spindles", 0.20, 0.25),
    ErrorBound("six disks", "six", 0.30),
    ErrorBound("six disks with XFS", "ncq", 0.30),
)


@dataclass(frozen=True)
class PublishedVerdict:
    """The result of a class of rows."""

    bound: ErrorBound
    rows: int
    inside: int  # Rows whose published IOPS are in the interval of the prediction
    within: int  # Rows whose IOPS, and latency if published, are within the bound
    median: float
    worst_share: float | None  # The largest error of a member's share of reads, as a fraction of all

    @property
    def holds(self) -> bool:
        """Whether all rows, the median and the shares are within the bounds."""
        median = self.bound.median is None or self.median <= self.bound.median
        share = self.bound.share is None or (self.worst_share or 0.0) <= self.bound.share
        return self.within == self.rows and median and share


def published_verdicts(rows: Sequence[PublishedRow]) -> list[PublishedVerdict]:
    """Returns the result of each class of predicted rows."""
    verdicts_given = []
    for bound in BOUNDS:
        chosen = [row for row in rows if row.kind == bound.kind]
        if not chosen:
            continue
        shares = [
            abs(share.predicted - share.published)
            for row in chosen
            for share in row.members.values()
            if share.published is not None
        ]
        median = statistics.median(abs(row.error) for row in chosen)
        within = sum(_within(row, bound) for row in chosen)
        inside = sum(row.inside for row in chosen)
        verdicts_given.append(PublishedVerdict(bound, len(chosen), inside, within, median, max(shares, default=None)))
    return verdicts_given


def _within(row: PublishedRow, bound: ErrorBound) -> bool:
    latency = row.latency_error
    late = latency is not None and bound.latency is not None and abs(latency) > bound.latency
    return abs(row.error) <= bound.iops and not late


def validate(
    reference: Reference,
    caches: CacheTables,
    singles: Reference,
    streams: Sequence[StreamRun] = (),
    *,
    tell: Callable[[str], None],
    parallel: Parallel = HERE,
) -> Validation:
    """Calibrates on the single-device rows of `singles` and predicts all other rows, and those of caches.

    Raises UsageError if a device of an array has no row for its calibration.
    """
    devices = published_cells.stock_devices()
    wanted: set[str] = {member for run in _arrays(reference) for member in reference.targets[run.target]["members"]}
    measured: dict[str, list[Observation]] = {}
    for name, target in singles.targets.items():
        kind = target.get("device")
        runs = [observation(*run) for run in singles.of_target(name)]
        if kind in wanted and runs:
            measured[kind] = runs
    missing = sorted(wanted - measured.keys())
    if missing:
        raise UsageError(
            f"{singles.path}: no single-device row of {missing[0]!r}, which arrays need:"
            " add a directory with such rows as --calibration"
        )
    # All rows are checked before minutes are spent on the first one.
    _cells(reference, devices)
    for kind, runs in measured.items():
        tell(f"calibrating {kind} on {len(runs)} runs")
    tasks = [_CalibrationTask(devices[kind], runs, singles.path / "targets.toml") for kind, runs in measured.items()]
    # Not on a cluster: its workers have blklab only, and not this program.
    calibrations = dict(zip(measured, HERE.all(_calibrated, tasks), strict=True))
    devices |= {kind: dict(calibration.device) for kind, calibration in calibrations.items()}
    arrays = _arrays(reference)
    cells = _cells(reference, devices)
    tell(f"predicting {len(cells)} rows")
    bcaches = [published_cells.bcache_cell(run) for run in caches.bcaches]
    predictions = _predict([*cells, *bcaches, *map(stream_cell, streams)], parallel)
    count = len(arrays)
    rows = [
        _fio_row(reference, singles, run, prediction)
        for run, prediction in zip(arrays, predictions[:count], strict=True)
    ]
    rows += map(_randomio_row, reference.randomio, predictions[count : len(cells)])
    stream_predictions = predictions[len(cells) + len(bcaches) :]
    rows += map(_bcache_row, caches.bcaches, predictions[len(cells) : len(cells) + len(bcaches)])
    for run, prediction in zip(streams, stream_predictions, strict=True):
        rows += _stream_rows(run, prediction)
    if caches.runs:
        tell(f"predicting {len(caches.runs)} runs of caches")
    return Validation(rows, calibrations, published_caches.validate(caches, parallel))


@dataclass(frozen=True)
class Prediction:
    """A cell, the outcome that users see, and its interval."""

    cell: Cell
    outcome: Outcome
    limits: PredictionInterval


def _predict(cells: Sequence[Cell], parallel: Parallel) -> list[Prediction]:
    """Simulates cells. Streams on mirrors, which depend on chance, are simulated with as many seeds as users get."""
    runs = [other_run(cell, number) for cell in cells for number in range(_seed_count(cell))]
    outcomes = iter(sim.outcomes([run.document for run in runs], parallel))
    predictions = []
    for cell in cells:
        of_cell = [next(outcomes) for _ in range(_seed_count(cell))]
        typical = of_cell.pop(sim.find_typical_run(of_cell))
        predictions.append(Prediction(cell, typical, interval(cell, typical, of_cell)))
    return predictions


def _seed_count(cell: Cell) -> int:
    return seed_count(cell) if reads_streams_of_mirrors(cell) else 1


@dataclass(frozen=True)
class _CalibrationTask:
    device: dict[str, Any]
    runs: Sequence[Observation]
    where: Path


def _calibrated(task: _CalibrationTask, /, *, stop: _core.Stop | None = None) -> calibrate.Calibration:  # noqa: ARG001
    bench = calibrate.Bench(task.where, published_cells.SINGLE_KERNEL, "ext4", published_cells.PARTITION)
    return calibrate.calibrate(task.device, task.runs, bench)


def _arrays(reference: Reference) -> list[FioRun]:
    """Returns the rows of arrays."""
    return [run for run in reference.runs if "device" not in reference.targets[run.target]]


def _cells(reference: Reference, devices: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Returns the cells of the arrays' rows, then those of the randomio rows."""
    return [
        *(published_cells.fio_cell(reference, run.target, run.test, devices) for run in _arrays(reference)),
        *(published_cells.randomio_cell(run) for run in reference.randomio),
    ]


def _fio_row(reference: Reference, singles: Reference, run: FioRun, prediction: Prediction) -> PublishedRow:
    cell, outcome = prediction.cell, prediction.outcome
    published = {"read_iops": run.read_iops, "write_iops": run.write_iops}
    predicted = {f"{direction}_iops": outcome.direction(direction).iops for direction in ("read", "write")}
    direction = 0 if run.read_iops > 0 else 1
    target = reference.targets[run.target]
    members: dict[str, MemberShare] = {}
    served = reference.device_io.get((run.target, run.test), {})
    names = _published_names(reference, singles, list(target["members"]), served)
    predicted_ios = [device.ios[direction] for device in outcome.devices]
    everything = max(1, sum(predicted_ios))
    all_served = max(1, sum(ios[direction] for ios in served.values()))
    for member, name, ios in zip(
        (device["name"] for device in cell.document["devices"]), names, predicted_ios, strict=True
    ):
        share = served[name][direction] / all_served if name in served else None
        members[name or member] = MemberShare(share, ios / everything)
    kind: Kind = "hdds" if set(target["members"]) == {"hdd"} else "flash"
    return PublishedRow(run.target, run.test, published, predicted, members, outcome, kind, prediction.limits)


def _published_names(
    reference: Reference, singles: Reference, members: Sequence[str], served: Mapping[str, tuple[int, int]]
) -> list[str]:
    """Returns the disk's name in the published table for each member; "" if there is none.

    The single-device rows identify the disks; otherwise the name of an NVMe disk does.
    """
    known: dict[str, str] = {}
    for table in (reference, singles):
        for (target, _), disks in table.device_io.items():
            kind = table.targets.get(target, {}).get("device")
            if kind and len(disks) == 1:
                known[next(iter(disks))] = kind
    left = list(served)
    names = []
    for member in members:
        likely = [disk for disk in left if known.get(disk) == member] or [
            disk for disk in left if disk not in known and disk.startswith("nvme") == (member == "nvme")
        ]
        names.append(likely[0] if likely else "")
        if likely:
            left.remove(likely[0])
    return names


def _randomio_row(run: RandomioRun, prediction: Prediction) -> PublishedRow:
    outcome = prediction.outcome
    published = {"read_iops": run.read_iops, "write_iops": run.write_iops}
    published |= {} if run.read_ms is None else {"read_lat_ms": run.read_ms}
    published |= {} if run.write_ms is None else {"write_lat_ms": run.write_ms}
    predicted = {}
    for direction, figures in (("read", outcome.read), ("write", outcome.write)):
        predicted[f"{direction}_iops"] = figures.iops
        predicted[f"{direction}_lat_ms"] = (figures.clat_ns.mean or 0.0) / 1e6
    test = f"{run.threads} threads, {run.io_bytes} B"
    kind = KINDS[run.config.partition("/")[0]]
    return PublishedRow(run.config, test, published, predicted, {}, outcome, kind, prediction.limits)


def _bcache_row(run: BcacheRun, prediction: Prediction) -> PublishedRow:
    """Returns a row whose members are the cache device and the disk: a share is that of their writes."""
    outcome = prediction.outcome
    served = {"ssd": run.cache_writes, "hdd": run.disk_writes}
    known, counted = sum(served.values()), sum(device.ios[1] for device in outcome.devices)
    members = {
        device.name: MemberShare(served[device.name] / known if known else None, device.ios[1] / counted)
        for device in outcome.devices
    }
    published = {"read_iops": 0.0, "write_iops": run.iops}
    predicted = {"read_iops": 0.0, "write_iops": outcome.write.iops, "read_lat_ms": 0.0}
    test = f"{run.rw}, {run.jobs} × {run.job_bytes >> 30} GiB, {run.io_bytes} B"
    return PublishedRow(run.run, test, published, predicted, members, outcome, "bcache", prediction.limits)


def _stream_rows(run: StreamRun, prediction: Prediction) -> Iterator[PublishedRow]:
    """Yields the row of a stream, in calls of its block, and that of the random I/O with it."""
    groups = {group.name: group for group in prediction.outcome.groups}
    kind: Kind = "streams" if run.random_iops is None else "shared"
    pairs = [(STREAM, run.rate / block_bytes(prediction.cell))]
    if run.random_iops is not None:
        pairs.append((RANDOM, run.random_iops))
    for name, iops in pairs:
        # Directions of the random I/O are published as a sum.
        published = {"read_iops": iops, "write_iops": 0.0}
        predicted = {"read_iops": groups[name].read.iops, "write_iops": groups[name].write.iops}
        test = f"{name}: {run.test}" if kind == "shared" else run.test
        yield PublishedRow(run.setup, test, published, predicted, {}, prediction.outcome, kind, prediction.limits)
