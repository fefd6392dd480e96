"""Every runner by name: all that commands, reports and analyses know of it. A new runner is a table of runners.toml."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from blklab.text import toml_file

if TYPE_CHECKING:
    from blklab.outcome import Outcome
    from blklab.runners.base import Runner
    from blklab.spec.cell_form import CellForm
    from blklab.spec.cells import Cell, ExperimentPlan

F = TypeVar("F", bound=Callable[..., Any])

TYPES: dict[str, Callable[[Any], click.ParamType[Any]]] = {
    "choice": click.Choice,
    "path": lambda words: click.Path(path_type=Path, **words),
    "range": lambda ends: click.IntRange(*ends),
}


class RunnerOption(click.Option):
    """An option of `blklab run` that other runners refuse. It is also a decorator, for other commands."""

    def __init__(self, name: str, *, elsewhere: str, type: Mapping[str, Any] | None = None, **attributes: Any) -> None:  # noqa: A002
        for kind, words in (type or {}).items():
            attributes["type"] = TYPES[kind](words)
        super().__init__([f"--{name.replace('_', '-')}"], **attributes)
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


@dataclass(frozen=True)
class RunnerKind:
    """A runner's entry in the registry. What it names is imported when it is used: an entry costs nothing to list."""

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


def runner_kind(name: str, table: Mapping[str, Any], options: Mapping[str, RunnerOption]) -> RunnerKind:
    """Returns a runner's entry; in its table, `module` and `module:attribute` stand for what they name."""
    named = table.keys() & {"make", "form", "descriptions", "explain"}
    entry: dict[str, Any] = {
        **{key: partial(resolve_name, value) if key in named else value for key, value in table.items()},
        "options": [options[option] for option in table["options"]],
    }
    return RunnerKind(name, **entry)


_TABLES = toml_file(__package__, "runners.toml")
OPTIONS = {name: RunnerOption(name, **attributes) for name, attributes in _TABLES.pop("options").items()}
RUNNERS = {name: runner_kind(name, table, OPTIONS) for name, table in _TABLES.items()}
"""The values of `--on`, in this order."""


def predicts(name: str) -> bool:
    """Tells whether a runner's results are predictions; imported results are not."""
    return name in RUNNERS and RUNNERS[name].predicts


def did(name: str) -> str:
    """Returns what a runner, or the program of an import, did: `simulated`."""
    return RUNNERS[name].did if name in RUNNERS else "imported"
