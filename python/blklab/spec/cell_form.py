"""How a runner takes the cells of an experiment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.spec import load
from blklab.spec.device import Uncertainty
from blklab.spec.experiment import Experiment
from blklab.spec.replays import ReplaySource

Made = tuple[dict[str, Any], int, ReplaySource | None, Sequence[Uncertainty]]
"""A cell's document without the seed, its `capacity`, its `replay`, and its `uncertainties`."""


@dataclass(frozen=True)
class CellForm:
    """How a runner takes cells."""

    runner: str

    document: Callable[[load.ExperimentSource, Experiment, str, str, Mapping[str, Any]], Made]
    """Makes a cell from a file, its experiment, the names of a stack and of a workload, and the
    settings of one point of the sweep. Raises SpecProblems."""

    settings_are_keys: bool = False
    """Whether the settings that a sweep changes are keys of the file (`sweep.SIMULATED`)."""

    on_targets: bool = False  # Whether cells run on existing [targets], rather than on [stacks], which are built
