"""The measurement of one device of this host, from which its model is fitted."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blklab.analysis.observations import Observation, observation
from blklab.errors import UsageError
from blklab.outcome import Outcome
from blklab.spec.load import ExperimentSource
from blklab.system.identity import resolve
from blklab.system.roots import Roots

_TESTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
READS, WRITES, FORCED = _TESTS["reads"], _TESTS["writes"], _TESTS["forced"]

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
    target: Mapping[str, str], tests: Mapping[str, Any], more: Mapping[str, str], seconds: float, top: Mapping[str, Any]
) -> ExperimentSource:
    each = seconds / len(tests)
    raw = {
        "title": f"Calibration of {next(iter(target.values()))}",
        "targets": {"device": dict(target)},
        "workloads": {name: {**test, **more, "time_based": True} for name, test in tests.items()},
        "settings": {"runtime": f"{each * (1 - RAMP):.1f}s", "ramp_time": f"{each * RAMP:.1f}s"},
        **top,
    }
    return ExperimentSource(Path("calibrate"), raw)


def expected_runs(source: ExperimentSource) -> list[Observation]:
    """Returns the runs before they are measured, with rates of 1."""
    return [observation(name, options, 1.0, 0.0) for name, options in source.raw["workloads"].items()]


def observations(source: ExperimentSource, outcomes: Iterable[tuple[str, Outcome]]) -> list[Observation]:
    """Returns the runs as `blklab calibrate` takes them, from outcomes with the names of their tests."""
    return [
        observation(name, source.raw["workloads"][name], outcome.read.iops, outcome.write.iops)
        for name, outcome in outcomes
    ]
