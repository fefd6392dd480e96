"""Parameters, printing and progress that commands share.

Results go to stdout, as tables or as JSON. Everything else goes to stderr.
"""

import functools
import io
import itertools
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar

import click

from blklab import units
from blklab.errors import UsageError
from blklab.text.printing import printable
from blklab.units import format_duration

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from rich.console import Console

    from blklab.cluster import Parallel

F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A", bound="DataclassInstance")


class Quantity(click.ParamType[Any]):
    """A parameter that a parser reads, such as those of blklab.units."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a value; a default is one already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


PIPED_WIDTH = 100  # Columns of paragraphs if stdout is not a terminal and COLUMNS is not set; tables have no limit
DEFAULT_METRICS = "iops,mean,p99"  # What a comparison compares

SIZE = Quantity("size", units.parse_size)  # Option type: `4k`, `10GiB`, `512`; gives bytes
SECONDS = Quantity("duration", units.parse_duration)
"""Option type of options that are blktrace's or fio's: `60` is seconds, as there; gives nanoseconds."""


def parse_with_unit(text: str) -> int:
    """Return the nanoseconds of a duration. Raises ValueError, also for a number without a unit."""
    number = text.strip()
    if units.parse_number(number) > 0:  # NaN is not
        raise ValueError(f"{text!r} has no unit: write {number}s, {number}ms or {number}us")
    return units.parse_duration(text)


DURATION = Quantity("duration", parse_with_unit)  # Option type: `1.5s`, `200ms`, `10us`; gives nanoseconds


class _Input(click.Path):
    def convert(
        self, value: "str | os.PathLike[str]", param: click.Parameter | None, ctx: click.Context | None
    ) -> "str | bytes | os.PathLike[str]":
        if not value:
            self.fail("expected the name of a trace, got an empty string", param, ctx)
        return super().convert(value, param, ctx)


INPUT = _Input(path_type=str)
"""Argument type: a file to read. The reader checks whether it exists: its message is better."""


def collect_options(arguments: type[A]) -> Callable[[Callable[Concatenate[A, ...], None]], Callable[..., None]]:
    """Decorator: pass the options that a dataclass has as fields in one object of this class, as first argument."""

    def decorate(command: Callable[Concatenate[A, ...], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_arguments(**values: Any) -> None:
            field_values = {field.name: values.pop(field.name) for field in fields(arguments)}
            command(arguments(**field_values), **values)

        return with_arguments

    return decorate


def is_given(parameter: str) -> bool:
    """Return whether the user wrote an option of the current command, so that its value is not click's default."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is not click.core.ParameterSource.DEFAULT


repeatable = functools.partial(click.option, multiple=True)
"""Decorator: add an option that may be given several times."""

_COUNT = re.compile("[0-9]{1,3}")
_COUNT_WITH_SIGN = re.compile("[0-9]{1,3}[x×*]")


class DevicesCommand(click.Command):
    """A command whose `--devices 2 x pm983` means `--devices 2xpm983`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after a count and its model are joined."""
        joined = list(args)
        for index in [index for index, text in enumerate(args) if text == "--devices"][::-1]:
            padded = [*joined[index + 1 :], "", "", ""]
            first, second, third = padded[0], padded[1], padded[2]
            if _COUNT.fullmatch(first) and second in {"x", "×", "*"} and third:
                joined[index + 1 : index + 4] = [f"{first}x{third}"]
            elif _COUNT_WITH_SIGN.fullmatch(first) and second and not second.startswith("-"):
                joined[index + 1 : index + 3] = [first + second]
        return super().parse_args(ctx, joined)


CSV = "blklab.csv"  # The key of `--csv` in click's context


def _choose_json(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    if value and context.meta.get(CSV):
        raise UsageError("--csv and --json exclude each other")
    return value


def _choose_csv(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and context.params.get("as_json"):
        raise UsageError("--csv and --json exclude each other")
    context.meta[CSV] = value


json_option = click.option("--json", "as_json", is_flag=True, callback=_choose_json, help="Print the result as JSON.")
"""Decorator: add `--json`, passed as `as_json`. Every command that prints results has it."""

csv_option = click.option(
    "--csv", is_flag=True, expose_value=False, callback=_choose_csv, help="Print the tables as CSV."
)
"""Decorator: add `--csv`, which `emit` obeys. Not for commands whose sentences warn, such as audits: CSV has none."""

store_option = click.option(
    "--store",
    metavar="FILE|URL",
    help=(
        "The store: an SQLite file or postgresql://…; default: $BLKLAB_STORE, "
        "otherwise blklab/store.db in your data directory."
    ),
)
"""Decorator: add `--store`, passed as `store`. Every command that uses the store has it."""

cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Compute on a Dask cluster: HOST:PORT of its scheduler, or local:N for N processes here.",
)
"""Decorator: add `--cluster`, passed as `cluster`; `computing` connects."""

jobs_option = click.option(
    "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Simulations at the same time; default: CPUs."
)
"""Decorator: add `--jobs`, passed as `jobs`, for `computing`."""

flash_state_option = click.option(
    "--flash-state",
    type=click.Choice(["used", "fresh", "steady"]),
    default="steady",
    help="State of flash disks: in use and trimmed, new, or full of random writes.",
)
"""Decorator: add `--flash-state`, passed as `flash_state`."""


@contextmanager
def computing(cluster: str | None, jobs: int | None = None) -> "Iterator[Parallel]":
    """Yield where to compute: in `jobs` threads, or on a cluster. Raises EnvironmentLacks and UsageError."""
    from blklab.cluster import Parallel, connect_cluster

    if cluster is None:
        yield Parallel(jobs)
        return
    if jobs:
        raise UsageError("--jobs: the workers of --cluster say how much they compute at the same time")
    with connect_cluster(cluster, warn) as client:
        yield Parallel(cluster=client)


confidence_option = click.option(
    "--confidence", type=click.FloatRange(0.5, 0.999), default=0.95, help="Confidence level of intervals and verdicts."
)
"""Decorator: add `--confidence`, for all intervals and verdicts of a command."""


def parse_share(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    """Parse a share: `5%` or `0.05`."""
    with suppress(ValueError):
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 < share < 1:
            return share
    raise click.BadParameter(f"{text!r}: expected a share between 0 and 100 %, such as 5%")


margin_option = click.option(
    "--margin",
    callback=parse_share,
    default="5%",
    metavar="SHARE",
    help="Differences that are surely smaller are called the same.",
)
"""Decorator: add `--margin`, for verdicts of equality."""


PIECES = 1 << 16  # Pieces of JSON that are written at once


def emit(result: object, as_json: bool, render: Callable[["Console"], None]) -> None:
    """Print `result` as JSON, or its tables as CSV, or call `render` with a console on stdout."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(CSV):
        _emit_csv(render)
    elif as_json:
        # Piece by piece: the profile of a thousand devices is large as one text.
        pieces = json.JSONEncoder(indent=2, allow_nan=False).iterencode(result)
        while block := "".join(itertools.islice(pieces, PIECES)):
            click.echo(block, nl=False)
        click.echo()
    else:
        render(results())


def _emit_csv(render: Callable[["Console"], None]) -> None:
    """Print the tables that `render` draws. Raises UsageError if there is none."""
    from rich.console import Console

    from blklab.render import terminal

    with terminal.collect_tables() as tables:
        render(Console(file=io.StringIO(), markup=False, emoji=False, highlight=False))
    if not tables:
        raise UsageError("--csv: this result has no table: use --json")
    click.echo(terminal.as_csv(tables), nl=False)


def results() -> "Console":
    """Return the console for results: stdout, coloured only on a terminal.

    It prints text literally, without markup or emoji codes. Pass names from traces through
    `blklab.text.printing.printable` first.
    """
    return _console(stderr=False)


def notes() -> "Console":
    """Return the console for notes, warnings and progress: stderr."""
    return _console(stderr=True)


def tell(line: str) -> None:
    """Print a line on stderr."""
    notes().print(printable(line))


def warn(message: str) -> None:
    """Print one line `blklab: warning: …` on stderr."""
    with suppress(OSError):  # stderr may be closed
        click.echo(f"blklab: warning: {printable(message)}", err=True)


def warn_each(messages: Sequence[str]) -> None:
    """Print each message as `warn` does."""
    for message in messages:
        warn(message)


def note(message: str) -> None:
    """Print one line `blklab: …` on stderr if stderr is a terminal."""
    if sys.stderr.isatty():
        with suppress(OSError):
            click.echo(f"blklab: {printable(message)}", err=True)


def first(lines: Sequence[str]) -> str:
    """Return the first line, and how many more there are."""
    return lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")


def fail_with(failures: Sequence[str]) -> None:
    """Raise BlklabError with the first failure, if there is one."""
    if failures:
        from blklab.errors import BlklabError

        raise BlklabError(first(failures))


LOG_INTERVAL = 10.0  # Seconds between lines about progress, where stderr is not a terminal
SOON = 5.0  # The same of lines of JSON


@contextmanager
def at_intervals(describe: Callable[[], str], interval: float | None = None) -> Iterator[None]:
    """Print what `describe` returns as a line on stderr every `interval` seconds while the block runs."""
    end = threading.Event()

    def write() -> None:
        while not end.wait(interval or LOG_INTERVAL):
            if line := describe():
                with suppress(OSError):  # stderr may be closed
                    click.echo(line if line.startswith("{") else f"blklab: {printable(line)}", err=True)

    thread = threading.Thread(target=write, name="blklab-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _format_progress(share: float, seconds: float) -> str:
    """Return how far something is that has taken some seconds, as a line of JSON."""
    seconds_left = round(seconds * (1 - share) / share) if share > 0 else None
    return json.dumps({"progress": round(share, 3), "seconds_left": seconds_left})


@contextmanager
def progress(
    description: str, total: int | None = None, unit: str = "", *, as_json: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal.

    Yields a function that takes the amount done so far. `total` is the whole amount; None if
    unknown. Elsewhere, as in a log file, it prints a line every ten seconds if there is a `unit`; with
    `as_json` and a `total`, every five seconds, a line of JSON with the time left.
    """
    if not sys.stderr.isatty():
        amount = 0
        begun = time.monotonic()

        def line() -> str:
            if as_json and total:
                return _format_progress(amount / total, time.monotonic() - begun)
            if not unit:
                return ""
            seconds_left = (time.monotonic() - begun) * (total - amount) / amount if total and amount else None
            left = f", about {format_duration(round(seconds_left) * 1e9)} left" if seconds_left else ""
            return f"{description}: {amount} of {total} {unit}{left}"

        def set_amount(done: int) -> None:
            nonlocal amount
            amount = done

        with at_intervals(line, SOON if as_json else None):
            yield set_amount
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes(), transient=True) as bar:
        task = bar.add_task(description, total=total)

        def show(position: int) -> None:
            bar.update(task, completed=position)

        yield show


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console
    from rich.text import Text

    class PlainCommand(Console):
        def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
            """Print text without line breaks, so that commands and paths can be copied; tables get the width."""
            text = all(isinstance(item, str | Text) for item in objects)
            super().print(*objects, soft_wrap=text if soft_wrap is None else soft_wrap, **options)

        def on_broken_pipe(self) -> None:  # rich's own ends the program with status 1
            if not stderr:
                raise BrokenPipeError
            self.quiet = True  # stderr is closed

    stream = sys.stderr if stderr else sys.stdout
    has_width = stream.isatty() or bool(os.environ.get("COLUMNS"))
    width = None if has_width else PIPED_WIDTH
    return PlainCommand(file=stream, width=width, soft_wrap=not has_width, markup=False, emoji=False, highlight=False)
