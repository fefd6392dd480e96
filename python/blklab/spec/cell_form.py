"""How a runner takes the cells of an experiment: each names one such form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from blklab.spec import load
from blklab.spec.experiment import Experiment
from blklab.spec.replays import ReplaySource

Made = tuple[dict[str, Any], int, ReplaySource | None]
"""A cell's document but for the seed, its `capacity`, and its `replay`."""


@dataclass(frozen=True)
class CellForm:
    """How a runner takes cells."""

    runner: str

    document: Callable[[load.ExperimentSource, Experiment, str, str, Mapping[str, Any]], Made]
    """Makes a cell of a file, the experiment in it, the names of a stack and of a workload, and the
    settings that the sweep changes. Raises Problems."""

    settings_are_keys: bool = False
    """Whether the settings that a sweep changes are keys of the file (`sweep.SIMULATED`)."""

    on_targets: bool = False
    """Whether cells are on [targets], with what is there; else on [stacks], which are built."""
