"""A runner's entry in the registry: all that commands, reports and analyses know of it.

References are `module:attribute`, imported when used: an entry costs nothing to list, and it may
name modules of any layer.
"""

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from blklab.outcome import Outcome
    from blklab.runners.base import Runner
    from blklab.spec.cell_form import CellForm
    from blklab.spec.cells import Cell, ExperimentPlan


@dataclass(frozen=True)
class RunnerOption:
    """An option of `blklab run` that this runner takes, and the others refuse."""

    flag: str
    help: str
    metavar: str | None = None
    type: click.ParamType[Any] | None = None
    multiple: bool = False
    elsewhere: str = ""  # Why other runners refuse it, for the message: `other runners boot no guest`

    @property
    def name(self) -> str:
        """Its name as click's keyword argument."""
        return self.flag.removeprefix("--").replace("-", "_")

    def attributes(self, where: str = "") -> dict[str, Any]:
        """Returns click's attributes; `where` says when it applies, for the help: `In the lab`."""
        return {
            "help": f"{where}: {self.help[0].lower()}{self.help[1:]}" if where else self.help,
            "metavar": self.metavar,
            "type": self.type,
            "multiple": self.multiple,
        }


@dataclass(frozen=True)
class CellDescriptions:
    """How to describe a runner's cells."""

    columns: "Mapping[str, Callable[[Cell], str]]"
    """Columns of the table of cells, in order; `stack` and `workload` are always there."""

    figures: Collection[str] = ()  # Columns of numbers
    notes: "Callable[[ExperimentPlan], list[str]]" = lambda _plan: []  # Lines below the table


@dataclass(frozen=True)
class RunnerKind:
    """A runner's entry in the registry."""

    name: str  # The value of `--on`
    summary: str  # A phrase for the help
    did: str  # What it did with an experiment, as a participle: `simulated`
    make: str
    """Makes the `base.Runner`; called with its options by name, and with `note` and `warn`,
    which show messages to the user."""

    form: str  # The `spec.cell_form.Form` of its cells
    words: str  # The `CellDescriptions` of its cells
    predicts: bool = False  # Whether its results are predictions rather than measurements
    own_devices: bool = False  # Whether it measures the devices of the machine that it runs on
    options: Collection[RunnerOption] = ()
    where: str = ""  # When its options apply, for the help: `In the lab`
    explain: str = ""  # Explains a cell's outcome, one sentence each; empty if it cannot

    def maker(self) -> "Callable[..., Runner]":
        make: Callable[..., Runner] = _load(self.make)
        return make

    def cells(self) -> "CellForm":
        form: CellForm = _load(self.form)
        return form

    def spoken(self) -> CellDescriptions:
        """Returns `words`, imported."""
        descriptions: CellDescriptions = _load(self.words)
        return descriptions

    def explained(self) -> "Callable[[Mapping[str, Any], Outcome], list[str]]":
        explain: Callable[[Mapping[str, Any], Outcome], list[str]] = _load(self.explain)
        return explain


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
