"""What a runner says of itself: all that commands, reports and analyses know of it.

References are `module:attribute`, imported when they are used: an entry costs nothing to list, and
it may name modules of any layer.
"""

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
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
    elsewhere: str = ""
    """Why another runner has no use for it."""

    @property
    def name(self) -> str:
        """The name under which click passes it on."""
        return self.flag.removeprefix("--").replace("-", "_")

    def attributes(self, where: str = "") -> dict[str, Any]:
        """Returns what click is told; `where` says when it counts, for the help: `In the lab`."""
        return {
            "help": f"{where}: {self.help[0].lower()}{self.help[1:]}" if where else self.help,
            "metavar": self.metavar,
            "type": self.type,
            "multiple": self.multiple,
        }


@dataclass(frozen=True)
class CellDescriptions:
    """What a runner's cells are in words."""

    columns: "Mapping[str, Callable[[Cell], str]]"
    """Of the table of cells, in their order; `stack` and `workload` are among them."""

    figures: Collection[str] = ()
    """Columns that are figures, and not text."""

    notes: "Callable[[ExperimentPlan], list[str]]" = lambda _plan: []
    """What is to be said below the table, one line each."""


@dataclass(frozen=True)
class RunnerKind:
    """A runner's entry in the registry."""

    name: str
    """What `--on` takes."""

    summary: str
    """What it is, for the help."""

    did: str
    """What it did with an experiment: `simulated`."""

    make: str
    """Makes the `base.Runner`: takes its options by name, and as `note` and `warn` what tells the
    user of progress and of problems."""

    form: str
    """The `spec.cell_form.Form` of its cells."""

    words: str
    """The `Words` for its cells."""

    predicts: bool = False
    """Whether its results are predictions; else they are measurements."""

    own_devices: bool = False
    """Whether it measures the devices of the machine that it runs on."""

    options: Collection[RunnerOption] = ()
    where: str = ""
    """When its options count, for the help: `In the lab`."""

    explain: str = ""
    """Says of a cell and its outcome what decided it, one sentence each; none if nothing can."""

    def maker(self) -> "Callable[..., Runner]":
        """Returns `make`, imported."""
        make: Callable[..., Runner] = _load(self.make)
        return make

    def cells(self) -> "CellForm":
        """Returns `form`, imported."""
        form: CellForm = _load(self.form)
        return form

    def spoken(self) -> CellDescriptions:
        """Returns `words`, imported."""
        descriptions: CellDescriptions = _load(self.words)
        return descriptions

    def explained(self) -> "Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]]":
        """Returns `explain`, imported."""
        explain: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]] = _load(self.explain)
        return explain


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
