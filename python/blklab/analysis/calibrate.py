"""Fit a device model to measurements of one device.

Data sheets and physics give most parameters of a model. A few parameters are fitted, one or two at a time, each to the
runs that depend on it. The fit minimises the squared logarithm of predicted over measured IOPS with the Nelder-Mead
simplex (SciPy). A small penalty keeps a parameter near its initial value if the runs do not depend on it.

The interval of a parameter comes from the residuals and from how much the runs depend on it, as in linear regression
(Gauss-Newton), with Student's t. Repeats of a run count as further runs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.analysis.observations import Observation
from blklab.errors import UsageError
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import NOMINAL
from blklab.spec import cells, load
from blklab.spec.fields import EXACT, HOUR
from blklab.spec.stock_models import DeviceTable
from blklab.text import printable
from blklab.units import SECTOR, parse_size

HOLD = 0.003  # The weight of the penalty: of the squared logarithmic distance from the initial value
ENOUGH_IOS = 300_000
"""I/Os that the simulation of a run has in a fit: enough for the steady state of a fast disk."""

BEFORE = 1.1  # Half of the width of a parameter's interval before the fit, logarithmic: a factor of three
STEP = 0.1  # Logarithmic step of a parameter that shows how much runs depend on it
BAD = 0.25  # A larger error means that the model does not describe the device
ENOUGH_TIME = "300s"  # Maximum simulated time: dozens of flushes of a slow disk


@dataclass(frozen=True)
class Stage:
    """Parameters that are fitted together, and the runs to which they are fitted."""

    parameters: tuple[str, ...]
    runs: Callable[[Observation], bool]


def _mixed(run: Observation) -> bool:
    return not run.reads and not run.writes and not run.synced


def _busy_writes(run: Observation) -> bool:
    return run.writes and not run.alone and not run.synced


LATENCIES = (
    Stage(("read_latency_ns",), lambda run: run.reads and run.alone),
    Stage(("write_latency_ns",), lambda run: run.writes and run.alone and not run.synced),
)
"""One I/O at a time shows the latency of flash."""

STAGES: dict[str, tuple[Stage, ...]] = {
    # The interface of a SATA disk is the limit: the time for a command and for its bytes.
    "ssd": (
        Stage(("read_command_ns", "read_bandwidth"), lambda run: run.reads and not run.alone),
        Stage(("write_command_ns", "write_bandwidth"), _busy_writes),
        *LATENCIES,
        # Linux sends no forced unit access to SATA disks: a flush follows the write.
        Stage(("flush_ns",), lambda run: run.writes and run.synced),
    ),
    # The flash of an NVMe disk is the limit, except for sequential reads.
    "nvme": (
        Stage(("read_command_ns", "page_read_ns"), lambda run: run.reads and not run.alone),
        Stage(("program_ns",), _busy_writes),
        Stage(("suspend_ns",), _mixed),
        *LATENCIES,
        Stage(("flush_ns",), lambda run: run.writes and run.flushes),
        Stage(("fua_ns",), lambda run: run.writes and run.synced and not run.flushes),
    ),
    "hdd": (
        Stage(("seek_track_ns",), lambda run: run.reads and run.random),
        Stage(("read_ahead_bytes",), lambda run: run.reads and not run.random),
        Stage(("flush_ns", "destage_ns"), lambda run: not run.reads),
    ),
    # A virtual disk begins with the limits that the runs show: see `as_limits`.
    "throttled": (Stage(("latency_ns",), lambda run: run.alone),),
}


@dataclass(frozen=True)
class Residual:
    """The prediction of the fitted model for one input."""

    run: Observation
    read_iops: float
    write_iops: float

    @property
    def log_error(self) -> float:
        """The logarithm of predicted over measured IOPS."""
        return math.log(max(1e-9, 1 + self.error))

    @property
    def error(self) -> float:
        """Predicted over measured IOPS, minus one."""
        return (self.read_iops + self.write_iops) / (self.run.read_iops + self.run.write_iops) - 1


@dataclass(frozen=True)
class Calibration:
    """A fitted device."""

    device: Mapping[str, Any]  # Its table, as in `[devices.x]` of an experiment
    fitted: Mapping[str, tuple[float, float]]  # The fitted parameters: values before and after
    intervals: Mapping[str, tuple[float, float]]  # Of fitted parameters, 90 %; missing if there are too few runs
    residuals: Sequence[Residual]

    @property
    def worst(self) -> Residual:
        """The run with the largest error."""
        return max(self.residuals, key=lambda residual: abs(residual.error))


def calibrate(
    device: Mapping[str, Any],
    runs: Sequence[Observation],
    *,
    kernel: str,
    filesystem: str,
    size: str | None,
    where: Path,
    tell: Callable[[str], None] = lambda _line: None,
) -> Calibration:
    """Fits the table of a device to runs on this device, on a partition of `size` at its start or on the whole device.

    `where` names the input in errors; `tell` gets a line for each stage. Raises UsageError.
    """
    check(device, runs, kernel=kernel, filesystem=filesystem, size=size, where=where)
    if device["kind"] == "throttled":
        device = {**device, **as_limits(runs)}
    # What is measured is sustained, so that the times of commands that are fitted hold for every state.
    device = {key: value for key, value in device.items() if not key.startswith("sustained_")}
    settings = {"kernel": kernel, "filesystem": filesystem}
    write_back = device.get("write_back", device["kind"] != "nvme")
    bench = _Bench(settings, size, where)
    fitted = dict(device)
    changed: dict[str, tuple[float, float]] = {}
    stages: list[FittedStage] = []
    for stage in STAGES[device["kind"]]:
        # The kernel sends no flush to a disk without a volatile cache.
        chosen = [run for run in runs if stage.runs(run) and (write_back or not run.synced)]
        # A stage must not have more parameters than runs.
        parameters = stage.parameters[: len(chosen)]
        if parameters:
            tell(f"fitting {', '.join(parameters)} to {', '.join(run.name for run in chosen)}")
            # A model without this parameter begins with all the time of an I/O.
            fitted |= {name: round(1e9 / chosen[0].write_iops) for name in parameters if name not in fitted}
            values = _fit(bench, fitted, parameters, chosen)
            changed |= {name: (fitted[name], values[name]) for name in parameters}
            fitted |= values
            stages.append((parameters, chosen))
    residuals = bench.residuals(fitted, runs)
    fitted["uncertainty"] = _uncertainty(device.get("uncertainty", {}), residuals)
    return Calibration(fitted, changed, _intervals(bench, fitted, stages, residuals), residuals)


def _uncertainty(before: Mapping[str, float], residuals: Sequence[Residual]) -> dict[str, float]:
    """Returns the deviation of each kind of load: the root mean square of the errors, in which that of the initial
    model counts as one run, because few runs can be fitted without an error.
    """
    kinds: dict[str, Callable[[Observation], bool]] = {
        "read": lambda run: run.reads,
        "write": lambda run: run.writes and not run.synced,
        "mixed": _mixed,
        "sync": lambda run: run.synced,
    }
    deviations = {}
    for kind, chosen in kinds.items():
        errors = [before.get(kind, 0.0), *(residual.log_error for residual in residuals if chosen(residual.run))]
        deviations[kind] = round(math.hypot(*errors) / math.sqrt(len(errors)), 4)
    return deviations


FittedStage = tuple[Sequence[str], Sequence[Observation]]
"""The parameters of a stage, and the runs to which they were fitted."""


def _intervals(
    bench: "_Bench", device: DeviceTable, stages: Sequence[FittedStage], residuals: Sequence[Residual]
) -> dict[str, tuple[float, float]]:
    """Returns the interval of each parameter.

    What was known before the fit limits the interval of a parameter on which the runs do not depend. A stage with more
    runs than parameters shows their error itself; for others, all runs together show it.
    """
    import numpy as np
    from scipy.stats import t as student

    def noise(runs: Sequence[Observation], free: int) -> float:
        """Returns half of the width of an interval of one run."""
        squares = sum(residual.log_error**2 for residual in residuals if residual.run in runs)
        return float(math.sqrt(squares / free) * student.ppf((1 + NOMINAL) / 2, free))

    everything = [residual.run for residual in residuals]
    all_free = len(everything) - sum(len(parameters) for parameters, _ in stages)
    intervals = {}
    for parameters, runs in stages:
        free = len(runs) - len(parameters)
        if max(free, all_free) < 1:
            continue
        width = noise(runs, free) if free > 0 else noise(everything, all_free)
        slopes = np.array([_slopes(bench, device, name, runs) for name in parameters])
        known = slopes @ slopes.T / max(width, 1e-6) ** 2 + np.eye(len(parameters)) / BEFORE**2
        for name, variance in zip(parameters, np.diag(np.linalg.inv(known)), strict=True):
            factor = math.exp(math.sqrt(variance))
            intervals[name] = (device[name] / factor, device[name] * factor)
    return intervals


def _slopes(bench: "_Bench", device: DeviceTable, name: str, runs: Sequence[Observation]) -> list[float]:
    """Returns how much the logarithm of each run's IOPS depends on that of a parameter."""
    up, down = (_allowed(name, device[name] * math.exp(step)) for step in (STEP, -STEP))
    sides = [bench.residuals({**device, name: value}, runs) for value in (up, down)]
    step = max(STEP, math.log(up / down))
    return [(above.log_error - below.log_error) / step for above, below in zip(*sides, strict=True)]


def check(
    device: Mapping[str, object],
    runs: Sequence[Observation],
    *,
    kernel: str,
    filesystem: str,
    size: str | None,
    where: Path,
) -> None:
    """Raises UsageError for what `calibrate` cannot fit, which does not depend on the measured rates."""
    if device.get("kind") not in STAGES:
        raise UsageError(f"{where}: a device of kind {device.get('kind')!r} has no parameters to fit")
    if not runs:
        raise UsageError(f"{where}: no run to calibrate on")
    _Bench({"kernel": kernel, "filesystem": filesystem}, size, where).check(device, runs)


ONE_LIMIT = 0.05  # Difference of two rates, as a share, that the same limit makes


def as_limits(runs: Sequence[Observation]) -> dict[str, float]:
    """Returns the limits of a virtual disk, in the parameters of `throttled`, from its busiest runs.

    Small random I/Os show the limit of operations (sequential ones are merged), the largest I/Os that of bytes, and
    mixed ones whether both directions share a limit.
    """
    alone = max((run.read_iops + run.write_iops for run in runs if run.alone), default=0.0)
    limits: dict[str, float] = {}
    for direction in ("read", "write"):
        only = [run for run in runs if (run.reads if direction == "read" else run.writes) and not run.alone]
        rates = [(parse_size(str(run.workload["bs"])), run.read_iops + run.write_iops, run.random) for run in only]
        if not rates:
            continue
        largest = max(size for size, _, _ in rates)
        bandwidth = max(size * rate for size, rate, _ in rates if size == largest)
        small, iops = max(
            ((size, rate) for size, rate, random in rates if random), default=(0, 0.0), key=lambda r: r[1]
        )
        if iops * small < bandwidth * (1 - ONE_LIMIT):
            limits[f"iops_{direction}"] = iops
        if bandwidth / largest < iops * (1 - ONE_LIMIT):
            limits[f"bps_{direction}"] = bandwidth
    mixed = max((run.read_iops + run.write_iops for run in runs if _mixed(run)), default=0.0)
    most = max(limits.get("iops_read", 0.0), limits.get("iops_write", 0.0))
    if 0 < mixed < most * (1 + ONE_LIMIT):
        limits = {key: value for key, value in limits.items() if not key.startswith("iops_")} | {"iops_total": most}
    # One I/O at a time shows the latency, unless a limit already holds it back.
    held_back = alone > most * (1 - ONE_LIMIT) > 0
    return limits | {"latency_ns": round(1e9 / alone) if alone and not held_back else 0}


class _Bench:
    def __init__(self, settings: Mapping[str, Any], size: str | None, where: Path) -> None:
        self.settings, self.size, self.where = settings, size, where

    def check(self, device: Mapping[str, object], runs: Sequence[Observation]) -> None:
        """Raises UsageError if the device or a run is not valid."""
        for run in runs:
            self._document(device, run)

    def residuals(self, device: Mapping[str, Any], runs: Sequence[Observation]) -> list[Residual]:
        documents = [self._document(device, run) for run in runs]
        outcomes = sim.outcomes(documents)
        return [
            Residual(run, simulated.read.iops, simulated.write.iops)
            for run, simulated in zip(runs, outcomes, strict=True)
        ]

    def _document(self, device: Mapping[str, object], run: Observation) -> Mapping[str, Any]:
        raw = {
            "devices": {"device": {**device, **({"size": self.size} if self.size else {})}},
            "stacks": {"alone": {"device": "device"}},
            "workloads": {run.name: dict(run.workload)},
            "settings": {**self.settings, "max_ios": ENOUGH_IOS, "runtime": ENOUGH_TIME},
        }
        return cells.plan(load.ExperimentSource(self.where, raw)).cells[0].document


def _fit(
    bench: _Bench, device: Mapping[str, Any], parameters: Sequence[str], runs: Sequence[Observation]
) -> dict[str, int]:
    import numpy as np
    from scipy.optimize import minimize

    begin = [math.log(max(1, device[name])) for name in parameters]

    def values(point: Sequence[float]) -> dict[str, int]:
        return {name: _allowed(name, math.exp(min(x, 60.0))) for name, x in zip(parameters, point, strict=True)}

    def misfit(point: Sequence[float]) -> float:
        away = sum((x - x0) ** 2 for x, x0 in zip(point, begin, strict=True))
        residuals = bench.residuals({**device, **values(point)}, runs)
        return sum(residual.log_error**2 for residual in residuals) / len(residuals) + HOLD * away

    count = len(parameters)
    start = begin
    if count == 1:
        # One parameter is cheap to scan, and some disks have two local minima.
        start = min(([begin[0] + math.log(2) * step / 2] for step in range(-4, 5)), key=misfit)
    simplex = np.array([start] + [[x + 0.3 * (i == j) for j, x in enumerate(start)] for i in range(count)])
    best = minimize(
        misfit,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": 30 * count, "xatol": 0.004, "fatol": 1e-6},
    )
    return values(list(best.x))


def _allowed(name: str, value: float) -> int:
    """Returns the nearest value that a device table may have."""
    if name.endswith("_bytes"):
        return max(SECTOR, round(min(value, EXACT) / SECTOR) * SECTOR)
    return max(1, round(min(value, HOUR if name.endswith("_ns") else EXACT)))


def as_toml(calibration: Calibration, source: str) -> str:
    """Returns a calibrated file with the `[device]` table that `calibrated = "FILE"` reads."""
    lines = [
        '# Written by `blklab calibrate`. An experiment takes it as calibrated = "this file".',
        "",
        "[device]",
        f"source = {toml_value(source)}",
    ]
    for key, value in calibration.device.items():
        if key != "source":
            mark = "  # fitted" if key in calibration.fitted else ""
            if limits := calibration.intervals.get(key):
                mark += f", {limits[0]:_.0f} to {limits[1]:_.0f} ({NOMINAL:.0%})"
            lines.append(f"{key} = {toml_value(value)}{mark}")
    lines += ["", "# Predicted and measured IOPS of every input:"]
    for residual in calibration.residuals:
        predicted, measured = (
            residual.read_iops + residual.write_iops,
            residual.run.read_iops + residual.run.write_iops,
        )
        name = printable(residual.run.name)
        lines.append(f"#   {name}: {predicted:.0f}, measured {measured:.0f} ({residual.error:+.1%})")
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """Returns a value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        harmless = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{harmless}"'
    return f"{value:_}"
