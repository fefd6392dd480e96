"""Fit a device model to measurements of one device.

Data sheets and physics give most parameters of a model. A few parameters are fitted in stages, each to the runs that
depend on it: they minimise the squared logarithm of predicted over measured IOPS (Gauss-Newton). A small penalty keeps
a parameter near its initial value if the runs do not depend on it. The fit starts from the initial model or from what
the rates of the runs say at once, whichever is closer; its first steps simulate a tenth of the I/Os.

The interval of a parameter comes from the residuals and from how much the runs depend on it, as in linear regression,
with Student's t. Repeats of a run count as further runs. A parameter on which no run depends keeps its initial value.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from blklab.calibrate.observations import Observation, observation
from blklab.devices.stock_models import DeviceTable
from blklab.errors import UsageError
from blklab.experiment.load import ExperimentSource
from blklab.fio import output
from blklab.outcome import NOMINAL, Outcome
from blklab.package_data import toml_file
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import KERNEL
from blklab.system.identity import resolve
from blklab.system.roots import Roots
from blklab.text.printing import printable
from blklab.toml_files.fields import EXACT, HOUR
from blklab.units import SECTOR

HOLD = 0.006  # The weight of the penalty: of the squared logarithmic distance from the initial value
ENOUGH_IOS = 300_000
"""I/Os that the simulation of a run has in a fit: enough for the steady state of a fast disk."""

BEFORE = 1.1  # Half of the width of a parameter's interval before the fit, logarithmic: a factor of three
STEP = 0.1  # Logarithmic step of a parameter that shows how much runs depend on it
FEW = 2  # Runs for each parameter among which a fit does not tell outliers from others
FAR = 100.0  # Then no error is an outlier
LONGEST = 1.0  # Largest logarithmic step of a fit
AS_ONE_RUN = 0.15  # Logarithmic error
NARROWER = {"read": ("large_read", "latency"), "write": ("cached_write", "large_write", "large_cached_write")}
"""Deviations of parts of a kind of load, which what was measured replaces."""

CLOSE = 0.001  # A smaller step ends the fit
MAX_STEPS = 8  # Steps of a stage, with few I/Os and again with all
DEPENDS = 0.05  # A run depends on a parameter if this share of its change is in the rate, both logarithmic
LARGE = 1 << 16  # Bytes of an I/O that may be limited by the bandwidth of an NVMe disk
COARSE = 10  # What divides the I/Os and the time of a simulation that need not be exact
MOST_NAMED = 6  # Runs that are named in a message; of more it has the number
BAD = 0.25  # A larger error means that the model does not describe the device
ENOUGH_TIME = 300  # Maximum simulated seconds: dozens of flushes of a slow disk


Stage = Mapping[tuple[str, ...], Callable[[Observation], bool]]
"""Parameters that are fitted together, and the runs that show them. One that is already fitted is left out."""


def _is_mixed(run: Observation) -> bool:
    return not run.reads and not run.writes and not run.synced


def _has_busy_reads(run: Observation) -> bool:
    return run.reads and not run.alone


def _has_busy_writes(run: Observation) -> bool:
    return run.writes and not run.alone and not run.synced


def _has_large_ios(run: Observation) -> bool:
    return not run.random or (run.block_bytes or 0) >= LARGE


# One I/O at a time shows the latency of flash.
READ_LATENCY: Stage = {("read_latency_ns",): lambda run: run.reads and run.alone}
WRITE_LATENCY: Stage = {("write_latency_ns",): lambda run: run.writes and run.alone and not run.synced}
MIXED_LATENCY: Stage = {("read_latency_ns", "write_latency_ns"): lambda run: _is_mixed(run) and run.alone}

# Large requests, and small ones that are merged, show the bandwidth.
READ_BANDWIDTH: Stage = {("read_bandwidth",): lambda run: _has_busy_reads(run) and _has_large_ios(run)}
WRITE_BANDWIDTH: Stage = {("write_bandwidth",): lambda run: _has_busy_writes(run) and _has_large_ios(run)}

NVME_WRITES: Stage = {
    ("write_bandwidth",): lambda run: _has_busy_writes(run) and (run.block_bytes or 0) >= LARGE,
    **WRITE_LATENCY,
}
FLASH_WRITES: Stage = {("program_ns",): _has_busy_writes, **NVME_WRITES}
CACHED_WRITES: Stage = {("write_command_ns", "program_ns"): _has_busy_writes, **NVME_WRITES}
"""Instead of `FLASH_WRITES` for a disk whose cache of single-bit cells takes random writes: commands limit them."""

STAGES: dict[str, tuple[Stage, ...]] = {
    # The interface of a SATA disk is the limit: the time for a command and for its bytes.
    "ssd": (
        {("read_command_ns",): _has_busy_reads, **READ_BANDWIDTH, **READ_LATENCY},
        {("write_command_ns",): _has_busy_writes, **WRITE_BANDWIDTH, **WRITE_LATENCY},
        {("read_command_ns", "write_command_ns"): lambda run: _is_mixed(run) and not run.alone, **MIXED_LATENCY},
        # Linux sends no forced unit access to SATA disks: a flush follows the write.
        {("flush_ns",): lambda run: run.writes and run.synced},
    ),
    # The flash of an NVMe disk is the limit, except for sequential reads.
    "nvme": (
        {
            ("read_command_ns", "page_read_ns"): _has_busy_reads,
            ("read_bandwidth",): lambda run: _has_busy_reads(run) and (run.block_bytes or 0) >= LARGE,
            **READ_LATENCY,
        },
        FLASH_WRITES,
        {("turnaround_ns", "program_ns", "page_read_ns"): _is_mixed},
        MIXED_LATENCY,
        {("flush_ns",): lambda run: run.writes and run.flushes},
        {("fua_ns",): lambda run: run.writes and run.synced and not run.flushes},
    ),
    "hdd": (
        {("seek_track_ns",): lambda run: run.reads and run.random},
        {("read_ahead_bytes",): lambda run: run.reads and not run.random},
        {("seek_track_ns",): lambda run: _is_mixed(run) and run.random},
        {("flush_ns", "destage_ns"): lambda run: not run.reads},
    ),
    # A virtual disk begins with the limits that the runs show: see `as_limits`.
    "throttled": ({("latency_ns",): lambda run: run.alone},),
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
        return self.iops / self.run.iops - 1

    @property
    def iops(self) -> float:
        """Reads and writes together."""
        return self.read_iops + self.write_iops


@dataclass(frozen=True)
class Calibration:
    """A fitted device."""

    device: Mapping[str, Any]  # Its table, as in `[devices.x]` of an experiment
    fitted_values: Mapping[str, tuple[float, float]]  # The fitted parameters: values before and after
    intervals: Mapping[str, tuple[float, float]]  # Of fitted parameters, 90 %; missing if there are too few runs
    residuals: Sequence[Residual]
    unknown: Sequence[str]  # Times and bandwidths on which no run depends: those of the initial model

    @property
    def worst(self) -> Residual:
        """The run with the largest error."""
        return max(self.residuals, key=lambda residual: abs(residual.error))


def calibrate(
    device: DeviceTable, runs: Sequence[Observation], bench: "Bench", tell: Callable[[str], None] = lambda _line: None
) -> Calibration:
    """Fits the table of a device to runs on this device; `tell` gets a line for each stage. Raises UsageError."""
    check(device, runs, bench)
    if device["kind"] == "throttled":
        device = {**device, **as_limits(runs)}
    # What is measured is sustained, so that the times of commands that are fitted hold for every state.
    replaced = _names_of_states(runs)
    device = {key: value for key, value in device.items() if not key.startswith(replaced)}
    write_back = device.get("write_back", device["kind"] != "nvme")
    table = dict(device)
    fitted_values: dict[str, tuple[float, float]] = {}
    stages: list[FittedStage] = []
    for stage in _list_stages(device):
        parameters: list[str] = []
        stage_runs: list[Observation] = []
        for parameter_names, shows in stage.items():
            # The kernel sends no flush to a disk without a volatile cache.
            matching_runs = [run for run in runs if shows(run) and (write_back or not run.synced)]
            # There must not be more parameters than runs.
            parameters += [name for name in parameter_names if name not in fitted_values][: len(matching_runs)]
            stage_runs += [run for run in matching_runs if run not in stage_runs]
        if parameters:
            run_names = [run.name for run in stage_runs]
            named_runs = ", ".join(run_names) if len(run_names) <= MOST_NAMED else f"{len(run_names)} runs"
            tell(f"fitting {', '.join(parameters)} to {named_runs}")
            # A model without this parameter begins with all the time of an I/O.
            table |= {name: round(1e9 / stage_runs[0].write_iops) for name in parameters if name not in table}
            values = _fit(bench, table, parameters, stage_runs)
            fitted_values |= {name: (table[name], values[name]) for name in parameters}
            table = _consistent(table | values)
            stages.append((parameters, stage_runs))
    times = [name for name in table if name.endswith(("_ns", "bandwidth")) and name not in fitted_values]
    slopes = _slopes(bench, table, [*fitted_values, *times], runs)
    unknown = [name for name, row in slopes.items() if max(map(abs, row)) < DEPENDS]
    table |= {name: fitted_values.pop(name)[0] for name in unknown if name in fitted_values}
    (residuals,) = bench.residuals([table], runs)
    table["uncertainty"] = _uncertainty(device.get("uncertainty", {}), residuals)
    changed_stages = []
    for names, runs_of_stage in stages:
        changed_stages.append(([name for name in names if name in fitted_values], runs_of_stage))
    return Calibration(table, fitted_values, _intervals(table, changed_stages, residuals, slopes), residuals, unknown)


def _names_of_states(runs: Sequence[Observation]) -> tuple[str, ...]:
    """Returns how the names of parameters of a disk's states begin that measured rates replace."""
    names: tuple[str, ...] = ()
    if any(run.read_iops for run in runs):
        names += ("sustained_read",)
    if any(run.write_iops for run in runs):
        names += ("sustained_write", "cached_write")
    return names


def _list_stages(device: DeviceTable) -> list[Stage]:
    has_cache = bool(device.get("slc_bytes"))
    return [CACHED_WRITES if has_cache and stage is FLASH_WRITES else stage for stage in STAGES[device["kind"]]]


def _uncertainty(before: Mapping[str, float], residuals: Sequence[Residual]) -> dict[str, float]:
    """Returns the deviation of each kind of load: the root mean square of the errors.

    `AS_ONE_RUN` counts as the error of one more run, because few runs can be fitted without an error. A kind that no
    run shows keeps the deviation of the initial model.
    """
    kinds: dict[str, Callable[[Observation], bool]] = {
        "read": lambda run: run.reads,
        "write": lambda run: run.writes and not run.synced,
        "mixed": _is_mixed,
        "sync": lambda run: run.synced,
    }
    deviations = {}
    for kind, is_of_kind in kinds.items():
        errors = [residual.log_error for residual in residuals if is_of_kind(residual.run)]
        if errors:
            errors.append(min(AS_ONE_RUN, before.get(kind, AS_ONE_RUN)))
            deviations[kind] = round(math.hypot(*errors) / math.sqrt(len(errors)), 4)
            continue
        for name in (kind, *NARROWER.get(kind, ())):
            if name in before:
                deviations[name] = before[name]
    for way in output.WAYS:
        name = f"sequence_{way}"
        is_measured = any(_is_small_sequence(residual.run, way) for residual in residuals)
        if name in before and not is_measured:
            deviations[name] = before[name]
    return deviations


def _is_small_sequence(run: Observation, way: str) -> bool:
    is_of_way = run.writes if way == "write" else run.reads
    return is_of_way and not run.random and run.block_bytes is not None and run.block_bytes < LARGE


FittedStage = tuple[Sequence[str], Sequence[Observation]]
"""The parameters of a stage, and the runs to which they were fitted."""


Slopes = Mapping[str, Sequence[float]]
"""How much the logarithm of each run's IOPS depends on that of a parameter."""


def _intervals(
    device: DeviceTable, stages: Sequence[FittedStage], residuals: Sequence[Residual], slopes: Slopes
) -> dict[str, tuple[float, float]]:
    """Returns the interval of each parameter.

    What was known before the fit limits the interval of a parameter on which the runs do not depend. A stage with more
    runs than parameters shows their error itself; for others, all runs together show it.
    """
    import numpy as np
    from scipy.special import stdtrit

    def noise(runs: Sequence[Observation], free: int) -> float:
        """Returns half of the width of an interval of one run."""
        squares = sum(residual.log_error**2 for residual in residuals if residual.run in runs)
        return float(math.sqrt(squares / free) * stdtrit(free, (1 + NOMINAL) / 2))

    everything = [residual.run for residual in residuals]
    all_free = len(everything) - sum(len(parameters) for parameters, _ in stages)
    intervals = {}
    for parameters, runs in stages:
        free = len(runs) - len(parameters)
        if max(free, all_free) < 1 or not parameters:
            continue
        width = noise(runs, free) if free > 0 else noise(everything, all_free)
        run_indexes = [number for number, run in enumerate(everything) if run in runs]
        rows = []
        for name in parameters:
            rows.append([slopes[name][number] for number in run_indexes])
        depends = np.array(rows)
        information = depends @ depends.T / max(width, 1e-6) ** 2 + np.eye(len(parameters)) / BEFORE**2
        for name, variance in zip(parameters, np.diag(np.linalg.inv(information)), strict=True):
            factor = math.exp(math.sqrt(variance))
            intervals[name] = (device[name] / factor, device[name] * factor)
    return intervals


def _slopes(bench: "Bench", device: DeviceTable, names: Sequence[str], runs: Sequence[Observation]) -> Slopes:
    sides = []
    for name in names:
        value = max(1, device[name])
        sides.append({**device, name: _nearest_valid(name, value * math.exp(STEP))})
        sides.append({**device, name: _nearest_valid(name, value * math.exp(-STEP))})
    rows = bench.rough(device).residuals(sides, runs)
    slopes = {}
    for name, larger, smaller in zip(names, rows[::2], rows[1::2], strict=True):
        pairs = zip(larger, smaller, strict=True)
        slopes[name] = [(up.log_error - down.log_error) / (2 * STEP) for up, down in pairs]
    return slopes


def check(device: DeviceTable, runs: Sequence[Observation], bench: "Bench") -> None:
    """Raises UsageError for what `calibrate` cannot fit, which does not depend on the measured rates."""
    if device.get("kind") not in STAGES:
        raise UsageError(f"{bench.input_path}: a device of kind {device.get('kind')!r} has no parameters to fit")
    if not runs:
        raise UsageError(f"{bench.input_path}: no run to calibrate on")
    for run in runs:
        if len(run.disks) > 1:
            disks = " and ".join(run.disks[:2])
            raise UsageError(f"{bench.input_path}: {run.name}: jobs on {disks} ran at the same time; expected one disk")
        bench.document(device, run)


ONE_LIMIT = 0.05  # Difference of two rates, as a share, that the same limit makes


def _saturating(runs: Sequence[Observation], way: str) -> list[tuple[int, Observation]]:
    """Returns the runs that only read or only write, with several I/Os in flight, each with the bytes of an I/O."""
    busy = _has_busy_reads if way == "read" else _has_busy_writes
    return [(run.block_bytes, run) for run in runs if busy(run) and run.block_bytes]


def as_limits(runs: Sequence[Observation]) -> dict[str, float]:
    """Returns the limits of a virtual disk, in the parameters of `throttled`, from its busiest runs.

    Small random I/Os show the limit of operations (sequential ones are merged), the largest I/Os that of bytes, and
    mixed ones whether both directions share a limit.
    """
    single_iops = max((run.iops for run in runs if run.alone), default=0.0)
    limits: dict[str, float] = {}
    for way in output.WAYS:
        busy = _saturating(runs, way)
        if not busy:
            continue
        largest = max(size for size, _ in busy)
        bandwidth = max(size * run.iops for size, run in busy if size == largest)
        iops, small = max(((run.iops, size) for size, run in busy if run.random), default=(0.0, 0))
        if iops * small < bandwidth * (1 - ONE_LIMIT):
            limits[f"iops_{way}"] = iops
        if bandwidth / largest < iops * (1 - ONE_LIMIT):
            limits[f"bps_{way}"] = bandwidth
    mixed_iops = max((run.iops for run in runs if _is_mixed(run)), default=0.0)
    max_iops = max(limits.get("iops_read", 0.0), limits.get("iops_write", 0.0))
    if 0 < mixed_iops < max_iops * (1 + ONE_LIMIT):
        limits = {key: value for key, value in limits.items() if not key.startswith("iops_")} | {"iops_total": max_iops}
    # One I/O at a time shows the latency, unless a limit already holds it back.
    held_back = single_iops > max_iops * (1 - ONE_LIMIT) > 0
    return limits | {"latency_ns": round(1e9 / single_iops) if single_iops and not held_back else 0}


@dataclass(frozen=True)
class Bench:
    """How runs were measured: on a partition of `size` at the start of the device, or on the whole device."""

    input_path: Path  # The input, for errors
    kernel: str
    filesystem: str = "none"
    size: str | None = None
    part: int = 1  # What divides the I/Os and the time of a simulation

    def rough(self, device: DeviceTable) -> "Bench":
        """The same with shorter simulations, which are enough for flash."""
        return self if device["kind"] == "hdd" else replace(self, part=COARSE)

    def residuals(self, devices: Sequence[DeviceTable], runs: Sequence[Observation]) -> list[list[Residual]]:
        """Returns the predictions of the runs for each device."""
        outcomes = sim.outcomes([self.document(device, run) for device in devices for run in runs])
        rows = []
        for number in range(len(devices)):
            outcomes_of_device = outcomes[number * len(runs) : (number + 1) * len(runs)]
            pairs = zip(runs, outcomes_of_device, strict=True)
            rows.append([Residual(run, outcome.read.iops, outcome.write.iops) for run, outcome in pairs])
        return rows

    def document(self, device: Mapping[str, object], run: Observation) -> Mapping[str, Any]:
        limits = {"max_ios": max(1, ENOUGH_IOS // self.part), "runtime": f"{ENOUGH_TIME / self.part}s"}
        settings = {"kernel": self.kernel, "filesystem": self.filesystem, **limits}
        table = _consistent(device)
        if self.size:
            table["size"] = self.size
        return dict(sim.make_device_cell(self.input_path, table, (run.name, run.workload), settings).document)


def _fit(bench: Bench, device: DeviceTable, parameters: Sequence[str], runs: Sequence[Observation]) -> dict[str, int]:
    """Returns the parameters with the smallest squared errors, with Gauss-Newton.

    Its slopes come from short simulations, which also show where it begins.
    """
    import numpy as np
    from scipy.optimize import minimize

    of_rates = {**device, **_estimate_parameters(device, runs)}
    initial = np.log([max(1.0, device[name]) for name in parameters])
    starts = [initial, np.log([max(1.0, of_rates[name]) for name in parameters])]
    slopes = np.zeros((len(parameters), len(runs)))

    def values(point: Any) -> dict[str, int]:
        return {name: _nearest_valid(name, math.exp(min(x, 60.0))) for name, x in zip(parameters, point, strict=True)}

    def errors(within: Bench, points: Any) -> Any:
        devices = [{**device, **values(point)} for point in points]
        rows = []
        for residuals in within.residuals(devices, runs):
            rows.append([residual.log_error for residual in residuals])
        return np.array(rows)

    def misfit(point: Any, row: Any) -> float:
        return float(2 * far * (np.hypot(row, far) - far).sum() + HOLD * np.sum((point - initial) ** 2))

    rough = bench.rough(device)
    # Errors above that of a known disk count linearly: a run that a controller disturbed must not bend the others.
    far = KERNEL if len(runs) > FEW * len(parameters) else FAR
    if len(parameters) > 1 and rough is bench:
        # The rates of a rotating disk are not smooth.
        simplex = np.vstack([initial, initial + 0.3 * np.eye(len(parameters))])
        options = {"initial_simplex": simplex, "maxfev": 30 * len(parameters), "xatol": 0.004, "fatol": 1e-6}
        return values(
            minimize(lambda x: misfit(x, errors(bench, [x])[0]), initial, method="Nelder-Mead", options=options).x
        )
    # One parameter is cheap to scan, and some disks have two local minima.
    for width in (math.log(2) / 2, math.log(2) / 8) if len(parameters) == 1 else ():
        rows = errors(rough, starts := [starts[0] + width * step for step in range(-4, 5)])
        starts = [min(zip(starts, rows, strict=True), key=lambda pair: misfit(*pair))[0]]
    for within in dict.fromkeys((rough, bench)):
        here, row = min(zip(starts, errors(within, starts), strict=True), key=lambda pair: misfit(*pair))
        for _ in range(MAX_STEPS):
            if within is rough:
                slopes = (errors(within, here + STEP * np.eye(len(parameters))) - row) / STEP
            weighted_slopes = slopes * far / np.hypot(row, far)
            curvature = weighted_slopes @ slopes.T + HOLD * np.eye(len(parameters))
            step = np.linalg.solve(curvature, -(weighted_slopes @ row + HOLD * (here - initial)))
            if (length := max(np.abs(step))) < CLOSE:
                break
            step *= min(1.0, LONGEST / length)
            for share in (1, 0.5, 0.2):
                (new_row,) = errors(within, [here + share * step])
                if misfit(here + share * step, new_row) < misfit(here, row):
                    here = here + share * step
                    row = new_row
                    break
            else:
                break
        starts = [here]
    return values(here)


def _estimate_parameters(device: DeviceTable, runs: Sequence[Observation]) -> dict[str, float]:
    """Returns parameters of a flash disk as the rates of runs say them at once.

    At saturation, I/Os of two sizes show the time of a command and that of a byte; an I/O alone shows the latency.
    """
    parameters: dict[str, float] = {}
    for way in output.WAYS if device["kind"] in {"ssd", "nvme"} else ():
        command_ns = device[f"{way}_command_ns"]
        byte_ns = 1e9 / device[f"{way}_bandwidth"]
        # The time of an I/O at saturation, by its bytes.
        ns = {size: 1e9 / run.iops for size, run in sorted(_saturating(runs, way), key=lambda pair: pair[1].iops)}
        if ns:
            small = min(ns)
            large = max(ns)
            if large > small:
                byte_ns = max((ns[large] - ns[small]) / (large - small), 1e9 / EXACT)
            command_ns = ns[small] - small * byte_ns
            parameters |= {f"{way}_command_ns": command_ns, f"{way}_bandwidth": 1e9 / byte_ns}
            if way == "write":
                parameters["program_ns"] = device["units"] * device["program_bytes"] * ns[large] / large
        media_ns = device["page_read_ns"] if way == "read" else 0
        for run in runs:
            is_of_way = run.writes if way == "write" else run.reads
            size = run.block_bytes
            if run.alone and not run.synced and is_of_way and size:
                parameters[f"{way}_latency_ns"] = 1e9 / run.iops - command_ns - size * byte_ns - media_ns
    return parameters


def _consistent(device: Mapping[str, Any]) -> DeviceTable:
    """Returns a device whose programs into several bits are not faster than those into one."""
    table = dict(device)
    if "fold_ns" in table:
        table["fold_ns"] = max(table.get("program_ns", 0), table["fold_ns"])
    return table


def _nearest_valid(name: str, value: float) -> int:
    """Returns the nearest value that a device table may have."""
    if name.endswith("_bytes"):
        return max(SECTOR, round(min(value, EXACT) / SECTOR) * SECTOR)
    return max(1, round(min(value, HOUR if name.endswith("_ns") else EXACT)))


def as_toml(
    calibration: Calibration, base: str, inputs: Sequence[object], about: Mapping[str, object] | None = None
) -> str:
    """Returns a calibrated file with the `[device]` table that `calibrated = "FILE"` reads.

    `base` is the initial model; `about` is the table `[library]`.
    """
    source = f"calibrated from {base} on {', '.join(map(str, inputs))}"
    lines = [
        '# Written by blklab from measurements. An experiment takes it as calibrated = "this file".',
        f"# Parameters without a mark are those of {printable(base)}; so are unknown ones, on which no run depends.",
        "",
        "[device]",
        toml_line("source", source),
    ]
    for key, value in calibration.device.items():
        if key != "source":
            mark = "  # fitted" if key in calibration.fitted_values else ""
            if limits := calibration.intervals.get(key):
                mark += f", {limits[0]:_.0f} to {limits[1]:_.0f} ({100 * NOMINAL:.0f} %)"
            if key in calibration.unknown:
                mark += f"  # unknown: from {printable(base)}"
            lines.append(toml_line(key, value) + mark)
    lines += ["", "# Predicted and measured IOPS of every input:"]
    for residual in calibration.residuals:
        name = printable(" ".join([residual.run.name, *(f"{key}={word}" for key, word in residual.run.load.items())]))
        lines.append(
            f"#   {name}: {residual.iops:.0f}, measured {residual.run.iops:.0f} ({100 * residual.error:+.1f} %)"
        )
    if about:
        lines += ["", tomli_w.dumps({"library": about}).rstrip()]
    return "\n".join(lines) + "\n"


def toml_line(key: str, value: object) -> str:
    """Returns `key = value` without a line end, to which a comment can be added.

    Large numbers are readable, `3_898`, and tables are inline.
    """
    if isinstance(value, Mapping):
        return f"{key} = {{ {', '.join(toml_line(name, item) for name, item in value.items())} }}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{key} = {value:_}"
    return tomli_w.dumps({key: value}).rstrip("\n")


_TESTS = toml_file(__package__, "fit.toml")
READS = _TESTS["reads"]
WRITES = _TESTS["writes"]
FORCED = _TESTS["forced"]

FILE_SIZE = "8GiB"  # Size of the file below a directory
RAMP = 0.1  # Share of a test's time that is not counted


def device_experiment(device: str, *, destroy: Sequence[str], seconds: float) -> ExperimentSource:
    """Returns the tests of a device; without `destroy` only those that read. Raises UsageError."""
    resolve(device, Roots())
    tests = READS if not destroy else READS | WRITES | FORCED
    return _experiment({"device": device}, tests, {}, seconds, {"destroy": list(destroy)})


def directory_experiment(directory: Path, *, size: str | None, seconds: float) -> ExperimentSource:
    """Returns the tests of the disk below a directory, in a file."""
    if not directory.is_dir():
        raise UsageError(f"--directory {directory}: expected a directory")
    return _experiment({"directory": str(directory)}, READS | WRITES, {"size": size or FILE_SIZE}, seconds, {})


def _experiment(
    target: Mapping[str, str],
    tests: Mapping[str, Any],
    extra_options: Mapping[str, str],
    seconds: float,
    top: Mapping[str, Any],
) -> ExperimentSource:
    test_seconds = seconds / len(tests)
    raw = {
        "title": f"Calibration of {next(iter(target.values()))}",
        "targets": {"device": dict(target)},
        "workloads": {name: {**test, **extra_options, "time_based": True} for name, test in tests.items()},
        "settings": {"runtime": f"{test_seconds * (1 - RAMP):.1f}s", "ramp_time": f"{test_seconds * RAMP:.1f}s"},
        **top,
    }
    return ExperimentSource(Path("calibrate"), raw)


def placeholder_runs(source: ExperimentSource) -> list[Observation]:
    """Returns the runs before they are measured, with rates of 1."""
    return [observation(name, options, 1.0, 0.0) for name, options in source.raw["workloads"].items()]


def observations(source: ExperimentSource, outcomes: Iterable[tuple[str, Outcome]]) -> list[Observation]:
    """Returns the runs as `blklab calibrate` takes them, from outcomes with the names of their tests."""
    runs = []
    for name, outcome in outcomes:
        run = observation(name, source.raw["workloads"][name], outcome.read.iops, outcome.write.iops)
        runs.append(replace(run, outcome=outcome))
    return runs
