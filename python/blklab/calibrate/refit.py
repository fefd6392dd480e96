"""Fit the model of a disk to a block trace of the system in use.

The recorded requests are replayed on the model, in windows of a stable load: at the times of their dispatch if the disk
was not busy, or with the recorded queue depth if requests waited for it. The first half of the trace is fitted. The
second half judges the result, and gives its deviations.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from blklab.calibrate.fit import AS_ONE_RUN, BAD, Bench, Calibration, Residual, as_limits, as_toml, calibrate
from blklab.calibrate.observations import Observation
from blklab.calibrate.recorded_disk import (
    FEWEST,
    LoadWindow,
    RecordedDisk,
    find_windows,
    halves,
    observe,
    time_alone,
    write_replay,
)
from blklab.cluster import HERE
from blklab.devices.stock_models import DeviceTable
from blklab.errors import UsageError
from blklab.experiment.cells import Cell
from blklab.outcome import NOMINAL, NORMAL, NOT_KNOWN, Outcome
from blklab.runners.sim import runner as sim
from blklab.text.printing import printable
from blklab.units import format_duration

QUEUE = {"scheduler": "none", "wbt_lat_usec": 0}
"""The queue of a replay: requests were already scheduled when they were dispatched."""

HOST = {"submit_ns": 0, "reap_ns": 0, "wake_ns": 0, "switch_ns": 0}
"""The processor time of an I/O is not part of the time from dispatch to completion."""

STEADY = 8_000
"""Requests of a busy virtual disk that are replayed: its buckets, empty at first, let those of a tenth of a second pass
at once. Its model has no caches, so that the requests of a window can be repeated."""

LARGEST = 3.0  # Deviation that a device may have
UNIT = 1 << 20  # Bytes to which the size of a virtual disk is rounded up


@dataclass(frozen=True)
class ReplayBench(Bench):
    """Replays the windows of a disk; the name of a run is that of its observation."""

    windows: Mapping[str, tuple[LoadWindow, Path]] = field(default_factory=dict, compare=False)
    """The window of each observation, and the file with its requests."""

    def residuals(self, devices: Sequence[DeviceTable], runs: Sequence[Observation]) -> list[list[Residual]]:
        """Returns the predictions of the runs for each device."""
        names = list(dict.fromkeys(self.windows[run.name][0].name for run in runs))
        by_name = {window.name: (window, file) for window, file in self.windows.values()}
        cells = []
        for device in devices:
            cells += [self._cell(device, *by_name[name]) for name in names]
        outcomes = HERE.all(_simulate, cells)
        rows = []
        for number in range(len(devices)):
            results = dict(zip(names, outcomes[number * len(names) : (number + 1) * len(names)], strict=True))
            rows.append([_predict(run, *self._with_outcome(run, results)) for run in runs])
        return rows

    def _with_outcome(self, run: Observation, results: Mapping[str, Outcome]) -> tuple[LoadWindow, Outcome]:
        window = self.windows[run.name][0]
        return window, results[window.name]

    def document(self, device: Mapping[str, object], run: Observation) -> Mapping[str, Any]:
        """Returns the cell that replays the window of a run. Raises UsageError if it does not fit the device."""
        return dict(self._cell(device, *self.windows[run.name]).document)

    def _cell(self, device: Mapping[str, object], window: LoadWindow, file: Path) -> Cell:
        table = {**device, **QUEUE}
        if "fold_ns" in table:
            table["fold_ns"] = max(int(str(table["fold_ns"])), int(str(table.get("program_ns", 0))))
        if self.size:
            table["size"] = self.size
        replay: dict[str, object] = {"replay": str(file), "timing": "recorded"}
        if window.is_busy:
            replay |= {"timing": "closed", "iodepth": window.iodepth}
        settings = {"kernel": self.kernel, "host": HOST}
        return sim.make_device_cell(self.input_path, table, ("replay", replay), settings)


def _simulate(cell: Cell, /, *, stop: Any = None) -> Outcome:
    return sim.outcome(cell.document, stop, cell.replay)


def _predict(run: Observation, window: LoadWindow, outcome: Outcome) -> Residual:
    if window.is_busy:
        return Residual(run, outcome.read.iops, outcome.write.iops)
    # The rate of one request at a time is what the mean latency says.
    rates = []
    for direction in (outcome.read, outcome.write):
        rates.append(1e9 / direction.clat_ns.mean if direction.clat_ns.mean else 0.0)
    return Residual(run, rates[0], 0.0) if run.reads else Residual(run, 0.0, rates[1])


@dataclass(frozen=True)
class WindowError:
    """What the fitted model predicts for a load of the trace."""

    run: Observation
    is_busy: bool
    measured_ns: float  # The mean time from dispatch to completion
    predicted_ns: float

    @property
    def log_error(self) -> float:
        return math.log(self.predicted_ns / self.measured_ns)


@dataclass(frozen=True)
class RefittedDisk:
    """A disk's model from a trace, and how well it predicts what was not fitted."""

    name: str
    calibration: Calibration
    fitted: Sequence[WindowError]  # Of the first half
    judged: Sequence[WindowError]  # Of the second half
    has_unseen_loads: bool = False  # Whether only the second half has reads, or writes

    @property
    def deviation(self) -> float:
        """The root mean square of the logarithmic errors on the second half."""
        return math.sqrt(sum(error.log_error**2 for error in self.judged) / len(self.judged))

    @property
    def interval(self) -> tuple[float, float]:
        """Factors of a predicted latency between which nine of ten measured ones are expected."""
        deviation = math.hypot(self.deviation * math.sqrt(len(self.judged)), AS_ONE_RUN)
        factor = math.exp(NORMAL * deviation / math.sqrt(len(self.judged) + 1))
        return 1 / factor, factor

    @property
    def shows_limit(self) -> bool:
        """Whether the disk was the limit at any time of the fitted half."""
        return any(error.is_busy for error in self.fitted)

    def sentences(self) -> list[str]:
        """Returns what the result says, and what it does not."""
        percent = 100 * (math.exp(self.deviation) - 1)
        low, high = (100 * (factor - 1) for factor in self.interval)
        count = len(self.judged)
        loads = "1 load" if count == 1 else f"{count} loads"
        text = f"the second half of the trace has {loads}; predicted latencies are {percent:.0f} % off"
        if self.deviation > BAD:
            text += ": the model lacks something about this disk, so its interval is wider"
        expected = f"{100 * NOMINAL:.0f} % of latencies are expected from {low:+.0f} % to {high:+.0f} %"
        if self.interval[1] / self.interval[0] > NOT_KNOWN:
            expected = "The latency of this disk is not known"
        sentences = [f"{text}. {expected}."]
        device = self.calibration.device
        limits = [f"{key} = {device[key]:,.0f}" for key in device if key.startswith(("iops_", "bps_"))]
        if limits:
            sentences.append(f"requests waited for these limits: {', '.join(limits)}.")
        if self.has_unseen_loads:
            fitted_reads = any(not error.run.writes for error in self.fitted)
            word = "writes" if fitted_reads else "reads"
            sentences.append(f"the first half has no stable load of {word}: they are as in the initial model.")
        if not self.shows_limit:
            sentences.append(
                "the disk was never busy: only latencies at a low queue depth were fitted. Its limits are those of"
                " the model, with the interval of its class."
            )
        return sentences

    def as_dict(self) -> dict[str, object]:
        """Returns the document for `--json`. Times are ns."""
        fitted = {}
        for name, (before, after) in self.calibration.fitted_values.items():
            fitted[name] = {"before": before, "after": after, "interval": self.calibration.intervals.get(name)}
        loads = []
        for part, errors in (("fitted", self.fitted), ("judged", self.judged)):
            for error in errors:
                figures = {"busy": error.is_busy, "measured_ns": error.measured_ns, "predicted_ns": error.predicted_ns}
                loads.append({"part": part, "name": error.run.name, "load": error.run.load, **figures})
        return {
            "disk": self.name,
            "device": dict(self.calibration.device),
            "fitted": fitted,
            "unknown": list(self.calibration.unknown),
            "loads": loads,
            "deviation": self.deviation,
            "interval": self.interval,
            "shows_limit": self.shows_limit,
        }

    def as_toml(self, base: str, trace: str) -> str:
        """Returns the calibrated file; `base` is the initial model."""
        lines = ["Mean times from dispatch to completion, predicted and measured:"]
        for half, errors in (("first half, fitted", self.fitted), ("second half", self.judged)):
            for error in errors:
                load = " ".join(f"{key}={word}" for key, word in error.run.load.items())
                times = f"{format_duration(error.predicted_ns)}, measured {format_duration(error.measured_ns)}"
                lines.append(printable(f"  {half}: {error.run.name} {load}: {times}"))
        comments = "".join(f"# {line}\n" for line in [*lines, *self.sentences()])
        text = as_toml(replace(self.calibration, residuals=[]), base, [f"{trace} ({self.name})"])
        return f"{text.partition(BEFORE_RESIDUALS)[0]}\n{comments}"


BEFORE_RESIDUALS = "\n# Predicted and measured IOPS"


def refit(
    disk: RecordedDisk, device: DeviceTable, trace: str, kernel: str, tell: Callable[[str], None] = lambda _line: None
) -> RefittedDisk:
    """Fits the table of a device to the first half of a disk's requests, and judges it with the second half.

    Raises UsageError for a disk with too few requests, or without any stable load.
    """
    first, second = halves(disk.requests)
    if len(first) < FEWEST:
        raise UsageError(
            f"{disk.name}: half of the trace has {len(first):,} completed requests of this disk, too few to fit a"
            f" model: expected {FEWEST:,}"
        )
    alone_ns = time_alone(disk.requests)
    with TemporaryDirectory() as directory:
        windows: dict[str, tuple[LoadWindow, Path]] = {}
        runs: list[list[Observation]] = []
        for half in (first, second):
            runs.append([])
            for found in find_windows(half, alone_ns):
                window = replace(found, name=f"{len(windows) + 1}: {found.name}")
                file = Path(directory) / f"{len(windows)}.csv"
                repeats = 1
                if window.is_busy and device["kind"] == "throttled":
                    repeats = -(-STEADY // len(window.requests))
                write_replay(window, file, repeats)
                observations = observe(window)
                windows |= {run.name: (window, file) for run in observations}
                runs[-1] += observations
        if not all(runs):
            raise UsageError(f"{disk.name}: no load is stable long enough in both halves of the trace to fit a model")
        size = None
        if device["kind"] == "throttled":
            size = str(-(-disk.requests.end_bytes // UNIT) * UNIT)
        bench = ReplayBench(Path(trace), kernel, size=size, windows=windows)
        before = _in_use(device)
        if device["kind"] == "throttled":
            before |= _limits(runs[0])
        calibration = calibrate(before, runs[0], bench, tell)
        fitted = [_window_error(residual, windows) for residual in calibration.residuals]
        fitted_table = {key: value for key, value in calibration.device.items() if key != "uncertainty"}
        shown = [run for run in runs[1] if _is_shown(run, runs[0])]
        if not shown:
            raise UsageError(f"{disk.name}: the two halves of the trace have no load in common: fit a longer trace")
        (residuals,) = bench.residuals([fitted_table], shown)
        judged = [_window_error(residual, windows) for residual in residuals]
    table = dict(calibration.device)
    if "sustained_write_command_ns" in before:
        # The trace does not tell whether the cache of single-bit cells was full.
        table["sustained_write_command_ns"] = before["sustained_write_command_ns"]
    table["uncertainty"] = _deviations(device.get("uncertainty", {}), judged)
    has_unseen_loads = len(shown) < len(runs[1])
    return RefittedDisk(disk.name, replace(calibration, device=table), fitted, judged, has_unseen_loads)


def _is_shown(run: Observation, fitted: Sequence[Observation]) -> bool:
    """Returns whether runs that were fitted show the direction of a run."""
    if run.reads:
        return any(not other.writes for other in fitted)
    if run.writes:
        return any(not other.reads for other in fitted)
    return any(not other.writes for other in fitted) and any(not other.reads for other in fitted)


def _in_use(device: DeviceTable) -> DeviceTable:
    """Returns a device whose parameters are those of a disk in use, so that what the trace does not show stays."""
    table = dict(device)
    for name in ("read_command_ns", "read_bandwidth", "write_bandwidth", "write_command_ns"):
        value = table.get(f"sustained_{name}", 0)
        if name == "write_command_ns":
            value = table.get("cached_write_command_ns", 0) or value
        if value:
            table[name] = value
    if not table.get("slc_bytes"):
        table.pop("sustained_write_command_ns", None)
    return table


def _limits(runs: Sequence[Observation]) -> dict[str, float]:
    """Returns limits of a virtual disk if requests waited that all have one size, which may be limits of either kind.

    `as_limits` finds them with two sizes.
    """
    found = as_limits(runs)
    if found.keys() - {"latency_ns"}:
        return {}
    rates: dict[str, list[float]] = {"iops_read": [], "iops_write": [], "iops_total": []}
    for run in runs:
        if run.alone:
            continue
        rates["iops_total"].append(run.iops)
        if run.reads:
            rates["iops_read"].append(run.iops)
        elif run.writes:
            rates["iops_write"].append(run.iops)
    pure = len(rates["iops_read"]) + len(rates["iops_write"])
    is_mixed = len(rates["iops_total"]) > pure
    names = ["iops_total"] if is_mixed else ["iops_read", "iops_write"]
    return {name: statistics.median(rates[name]) for name in names if rates[name]}


def _window_error(residual: Residual, windows: Mapping[str, tuple[LoadWindow, Path]]) -> WindowError:
    window = windows[residual.run.name][0]
    times = [1e9 * window.iodepth / iops for iops in (residual.run.iops, max(1e-9, residual.iops))]
    return WindowError(residual.run, window.is_busy, *times)


def _deviations(before: Mapping[str, float], errors: Sequence[WindowError]) -> dict[str, float]:
    """Returns the deviations of a device: of each kind of load that the second half shows, the error there.

    Loads with a busy disk show the deviation of its rates, others that of its latency. The rest stays.
    """
    by_kind: dict[str, list[float]] = {}
    for error in errors:
        kind = "latency"
        if error.is_busy:
            kind = "mixed"
            if error.run.reads:
                kind = "read"
            elif error.run.writes:
                kind = "write"
        by_kind.setdefault(kind, []).append(error.log_error)
    deviations = dict(before)
    for kind, values in by_kind.items():
        deviation = math.hypot(*values, AS_ONE_RUN) / math.sqrt(len(values) + 1)
        deviations[kind] = round(min(LARGEST, deviation), 4)
        if kind == "write":
            deviations.pop("cached_write", None)
    return deviations
