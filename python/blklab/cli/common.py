"""What commands share: parameters, printing, progress.

Results go to stdout, as tables for people or as JSON for programs; everything else to stderr.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from blklab import units

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

PIPED_WIDTH: Final = 100
"""The width of tables that no terminal shows, unless COLUMNS says otherwise."""


class _Quantity(click.ParamType[int]):
    """A parameter that one of the parsers in blklab.units reads."""

    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE: Final = _Quantity("size", units.parse_size)
"""Option type: `4k`, `10GiB`, `512`; gives bytes."""

DURATION: Final = _Quantity("duration", units.parse_duration)
"""Option type: `1.5s`, `200ms`, `10us`; gives nanoseconds."""


class _Input(click.Path):
    def convert(
        self,
        value: "str | os.PathLike[str]",
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> "str | bytes | os.PathLike[str]":
        if not value:
            self.fail("the name of a trace is empty", param, ctx)
        return super().convert(value, param, ctx)


INPUT: Final = _Input(path_type=str)
"""Argument type: something to read. Whether it is there, its reader says, with a better message."""


def json_option(command: F) -> F:
    """Decorator: adds `--json`, passed on as `as_json`. Every printing command has it."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        command
    )


def store_option(command: F) -> F:
    """Decorator: adds `--store`, passed on as `store`. Every command that uses the store has it."""
    return click.option(
        "--store",
        metavar="FILE|URL",
        help="Where results are kept: an SQLite file or postgresql://…; $BLKLAB_STORE, else"
        " blklab/store.db in your data directory.",
    )(command)


def confidence_option(command: F) -> F:
    """Decorator: adds `--confidence`, of every interval and verdict that a command prints."""
    return click.option(
        "--confidence",
        type=click.FloatRange(0.5, 0.999),
        default=0.95,
        show_default=True,
        help="Of the intervals, and of what is called a difference.",
    )(command)


def emit(result: object, as_json: bool, render: Callable[["Console"], None]) -> None:
    """Prints `result` as JSON, or lets `render` draw it on a console over stdout."""
    if as_json:
        click.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        render(results())


def results() -> "Console":
    """Returns the console for results: stdout, coloured only on a terminal.

    Text is printed as it is: no markup, no emoji codes. Pass names from a trace through
    `blklab.text.printable` first.
    """
    return _console(stderr=False)


def notes() -> "Console":
    """Returns the console for notes, warnings and progress: stderr."""
    return _console(stderr=True)


def warn(message: str) -> None:
    """Prints one line `blklab: warning: …` on stderr."""
    from blklab.text import printable

    with suppress(OSError):  # nobody may be left to read it
        click.echo(f"blklab: warning: {printable(message)}", err=True)


def note(message: str) -> None:
    """Prints one line `blklab: …` on stderr, if that is a terminal."""
    from blklab.text import printable

    if sys.stderr.isatty():
        with suppress(OSError):
            click.echo(f"blklab: {printable(message)}", err=True)


def fail_with(failed: Sequence[str]) -> None:
    """Ends the command with what went wrong first, if anything did. Raises BlklabError."""
    if failed:
        from blklab.errors import BlklabError

        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise BlklabError(f"{failed[0]}{more}")


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows a bar on stderr while the block runs, if stderr is a terminal.

    Gives a function that takes how much is done so far; `total` is when it is complete, None if
    nobody knows.
    """
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes(), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    class PlainCommand(Console):
        def on_broken_pipe(self) -> None:  # rich's ends the program with status 1
            if not stderr:
                raise BrokenPipeError
            self.quiet = True  # nobody is left to read notes

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return PlainCommand(file=stream, width=width, markup=False, emoji=False, highlight=False)
