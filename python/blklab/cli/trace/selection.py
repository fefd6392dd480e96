"""The options that every command on a trace shares: which trace, which part of it."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from blklab.cli.common import DURATION, INPUT

F = TypeVar("F", bound=Callable[..., Any])


def trace_arguments(command: F) -> F:
    """Decorator: adds TRACE… and `--format`, passed on as `paths` and `format_name`."""
    command = click.option(
        "--format",
        "format_name",
        metavar="NAME",
        help="The trace's format; recognised from the content unless given.",
    )(command)
    return click.argument("paths", metavar="TRACE...", type=INPUT, nargs=-1, required=True)(command)


def selection_options(command: F) -> F:
    """Decorator: adds the filters, passed on as one `selection` (blklab._core.Filter)."""

    @click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="DEV",
        help="Only this device: md127 or 9,127.",
    )
    @click.option(
        "--process",
        "processes",
        multiple=True,
        metavar="NAME",
        help="Only this process: name or pid.",
    )
    @click.option(
        "--op",
        "ops",
        multiple=True,
        type=click.Choice(["read", "write", "discard", "flush"]),
        help="Only this operation.",
    )
    @click.option(
        "--since", type=DURATION, metavar="TIME", help="Only from this time on: 10s, 1500ms."
    )
    @click.option("--until", type=DURATION, metavar="TIME", help="Only before this time.")
    @functools.wraps(command)
    def with_selection(
        *args: Any,
        devices: tuple[str, ...],
        processes: tuple[str, ...],
        ops: tuple[str, ...],
        since: int | None,
        until: int | None,
        **kwargs: Any,
    ) -> Any:
        from blklab import _core
        from blklab.errors import UsageError

        if since is not None and until is not None and since >= until:
            raise UsageError("--since must be earlier than --until: the window holds no time")
        selection = _core.Filter(
            devices=devices, processes=processes, ops=ops, since_ns=since, until_ns=until
        )
        return command(*args, selection=selection, **kwargs)

    return with_selection  # type: ignore[return-value]
