"""Fits a device's model to what was measured on that device alone.

A model has many parameters, most of which data sheets and physics give; a few are fitted, in
stages of one or two, each on the runs that depend on them. The fit minimises the squared logarithms
of predicted over measured IOPS with Nelder and Mead's simplex (SciPy), held gently to where it
began, so that runs that say nothing about a parameter leave it alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from blklab.analysis.observations import Observation
from blklab.errors import UsageError
from blklab.runners.sim import runner as sim
from blklab.spec import cells, load
from blklab.spec.fields import EXACT, HOUR, SECTOR
from blklab.text import printable

HOLD: Final = 0.003
"""The weight of a parameter's squared logarithmic distance from its beginning."""

ENOUGH_IOS: Final = 300_000
"""I/Os of a run that a fit simulates: the steady state of a fast disk."""

BAD: Final = 0.25
"""A run whose prediction is further off says that the model does not describe the device."""

ENOUGH_TIME: Final = "300s"
"""And for how long at most: dozens of a slow disk's flushes."""


@dataclass(frozen=True)
class Stage:
    """Parameters that are fitted together, and the runs they are fitted on."""

    parameters: tuple[str, ...]
    runs: Callable[[Observation], bool]


def _mixed(run: Observation) -> bool:
    return not run.reads and not run.writes


STAGES: Final[dict[str, tuple[Stage, ...]]] = {
    # A SATA disk's interface decides: what a command costs, and what its bytes.
    "ssd": (
        Stage(("read_command_ns", "read_bandwidth"), lambda run: run.reads),
        Stage(("write_command_ns", "write_bandwidth"), lambda run: run.writes),
    ),
    # An NVMe's flash does, except for sequential reads.
    "nvme": (
        Stage(("read_command_ns", "page_read_ns"), lambda run: run.reads),
        Stage(("program_ns",), lambda run: run.writes),
        Stage(("suspend_ns",), _mixed),
    ),
    "hdd": (
        Stage(("seek_track_ns",), lambda run: run.reads and run.random),
        Stage(("read_ahead_bytes",), lambda run: run.reads and not run.random),
        Stage(("flush_ns", "destage_ns"), lambda run: not run.reads and run.random),
    ),
}


@dataclass(frozen=True)
class Residual:
    """What the fitted model says of one input."""

    run: Observation
    read_iops: float
    write_iops: float

    @property
    def error(self) -> float:
        """Predicted over measured IOPS, less one."""
        return (self.read_iops + self.write_iops) / (self.run.read_iops + self.run.write_iops) - 1


@dataclass(frozen=True)
class Calibration:
    """A fitted device."""

    device: Mapping[str, Any]
    """Its table, as an experiment's `[devices.x]`."""

    fitted: Mapping[str, tuple[float, float]]
    """Parameters that were fitted: before and after."""

    residuals: Sequence[Residual]

    @property
    def worst(self) -> Residual:
        """The run that the fitted model is furthest off for."""
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
    """Fits a device's table to runs on it alone, on a partition of `size` at its start, or
    on all of it.

    `where` is named in errors; `tell` hears of each stage. Raises UsageError.
    """
    if device.get("kind") not in STAGES:
        raise UsageError(f"{where}: a device of kind {device.get('kind')!r} has nothing to fit")
    if not runs:
        raise UsageError(f"{where}: there is no run to calibrate on")
    settings = {"kernel": kernel, "filesystem": filesystem}
    bench = _Bench(settings, size, where)
    fitted = dict(device)
    changed: dict[str, tuple[float, float]] = {}
    bench.check(device, runs)
    for stage in STAGES[device["kind"]]:
        chosen = [run for run in runs if stage.runs(run)]
        # As many parameters as there are runs to tell them apart.
        parameters = stage.parameters[: len(chosen)]
        if parameters:
            tell(f"fitting {', '.join(parameters)} to {', '.join(run.name for run in chosen)}")
            values = _fit(bench, fitted, parameters, chosen)
            changed |= {name: (fitted[name], values[name]) for name in parameters}
            fitted |= values
    return Calibration(fitted, changed, bench.residuals(fitted, runs))


class _Bench:
    """Simulates runs on a device."""

    def __init__(self, settings: Mapping[str, Any], size: str | None, where: Path) -> None:
        self.settings, self.size, self.where = settings, size, where

    def check(self, device: Mapping[str, Any], runs: Sequence[Observation]) -> None:
        """Raises UsageError if the device or a run makes no sense."""
        for run in runs:
            self._document(device, run)

    def residuals(self, device: Mapping[str, Any], runs: Sequence[Observation]) -> list[Residual]:
        documents = [self._document(device, run) for run in runs]
        outcomes = sim.outcomes(documents)
        return [
            Residual(run, simulated["read"]["iops"], simulated["write"]["iops"])
            for run, simulated in zip(runs, outcomes, strict=True)
        ]

    def _document(self, device: Mapping[str, Any], run: Observation) -> Mapping[str, Any]:
        raw = {
            "devices": {"device": {**device, **({"size": self.size} if self.size else {})}},
            "stacks": {"alone": {"device": "device"}},
            "workloads": {run.name: dict(run.workload)},
            "settings": {**self.settings, "max_ios": ENOUGH_IOS, "runtime": ENOUGH_TIME},
        }
        return cells.expand(load.ExperimentSource(self.where, raw)).cells[0].document


def _fit(
    bench: _Bench,
    device: Mapping[str, Any],
    parameters: Sequence[str],
    runs: Sequence[Observation],
) -> dict[str, int]:
    import numpy as np
    from scipy.optimize import minimize

    begin = [math.log(max(1, device[name])) for name in parameters]

    def values(point: Sequence[float]) -> dict[str, int]:
        return {
            name: _allowed(name, math.exp(min(x, 60.0)))
            for name, x in zip(parameters, point, strict=True)
        }

    def misfit(point: Sequence[float]) -> float:
        away = sum((x - x0) ** 2 for x, x0 in zip(point, begin, strict=True))
        residuals = bench.residuals({**device, **values(point)}, runs)
        errors = [math.log(max(1e-9, 1 + residual.error)) for residual in residuals]
        return sum(error**2 for error in errors) / len(errors) + HOLD * away

    count = len(parameters)
    start = begin
    if count == 1:
        # One parameter is cheap to look around for, and some disks have two ways of working.
        start = min(([begin[0] + math.log(2) * step / 2] for step in range(-4, 5)), key=misfit)
    simplex = np.array(
        [start] + [[x + 0.3 * (i == j) for j, x in enumerate(start)] for i in range(count)]
    )
    best = minimize(
        misfit,
        start,
        method="Nelder-Mead",
        options={
            "initial_simplex": simplex,
            "maxfev": 30 * count,
            "xatol": 0.004,
            "fatol": 1e-6,
        },
    )
    return values(list(best.x))


def _allowed(name: str, value: float) -> int:
    """Returns the nearest value that a device's table may have."""
    if name.endswith("_bytes"):
        return max(SECTOR, round(min(value, EXACT) / SECTOR) * SECTOR)
    return max(1, round(min(value, HOUR if name.endswith("_ns") else EXACT)))


def as_toml(calibration: Calibration, source: str) -> str:
    """Returns a calibrated file: the `[device]` table that `calibrated = "FILE"` reads."""
    lines = [
        '# Written by `blklab calibrate`. An experiment takes it as calibrated = "this file".',
        "",
        "[device]",
        f"source = {_shown(source)}",
    ]
    for key, value in calibration.device.items():
        if key != "source":
            mark = "  # fitted" if key in calibration.fitted else ""
            lines.append(f"{key} = {_shown(value)}{mark}")
    lines += ["", "# Predicted beside measured IOPS of every input:"]
    for residual in calibration.residuals:
        predicted, measured = (
            residual.read_iops + residual.write_iops,
            residual.run.read_iops + residual.run.write_iops,
        )
        name = printable(residual.run.name)
        lines.append(
            f"#   {name}: {predicted:.0f}, measured {measured:.0f} ({residual.error:+.1%})"
        )
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    """Returns a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        harmless = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{harmless}"'
    return f"{value:_}"
