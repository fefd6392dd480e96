"""A runner's entry in the registry: all that commands, reports and analyses know of it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from blklab.outcome import Outcome
    from blklab.runners.base import Runner
    from blklab.spec.cell_form import CellForm
    from blklab.spec.cells import Cell, ExperimentPlan

F = TypeVar("F", bound=Callable[..., Any])


class RunnerOption(click.Option):
    """An option of `blklab run` that other runners refuse. It is also a decorator, for other commands."""

    def __init__(self, flag: str, text: str, *, elsewhere: str, **attributes: Any) -> None:
        super().__init__([flag], help=text, **attributes)
        self.elsewhere = elsewhere  # Why other runners refuse it, for the message: `other runners boot no guest`

    def __call__(self, command: F) -> F:
        vars(command).setdefault("__click_params__", []).append(self)  # As click.option does
        return command


class CellDescriptions(Protocol):
    """A module that describes a runner's cells."""

    COLUMNS: "Mapping[str, Callable[[Cell], str]]"
    """Columns of the table of cells, in order; `stack` and `workload` are always there."""

    def notes(self, plan: "ExperimentPlan", /) -> list[str]:
        """Returns the lines below the table."""


def imported(target: str) -> Callable[[], Any]:
    """Returns a function that imports `module` or `module:attribute`, of any layer."""
    return partial(resolve_name, target)


@dataclass(frozen=True)
class RunnerKind:
    """A runner's entry in the registry. What it names is `imported` when it is used: an entry costs nothing to list."""

    name: str  # The value of `--on`
    summary: str  # A phrase for the help
    did: str  # What it did with an experiment, as a participle: `simulated`
    make: "Callable[[], Callable[..., Runner]]"
    """What makes the runner; called with its options by name, and with `note` and `warn`,
    which show messages to the user."""

    form: "Callable[[], CellForm]"
    descriptions: Callable[[], CellDescriptions]
    predicts: bool = False  # Whether its results are predictions rather than measurements
    own_devices: bool = False  # Whether it measures the devices of the machine that it runs on
    options: Collection[RunnerOption] = ()
    explain: "Callable[[], Callable[[Mapping[str, Any], Outcome], list[str]]] | None" = None
    """What explains a cell's outcome, one sentence each; None if it cannot."""
