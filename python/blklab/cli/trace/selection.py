"""Options of all commands that read a trace: the trace and the selection of events."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from blklab.cli.common import DURATION, INPUT

F = TypeVar("F", bound=Callable[..., Any])


def trace_arguments(command: F) -> F:
    """Decorator: add TRACE… and `--format`, passed as `paths` and `format_name`."""
    command = click.option(
        "--format",
        "format_name",
        metavar="NAME",
        help="Format of the trace; default: recognised from the content.",
    )(command)
    return click.argument("paths", metavar="TRACE...", type=INPUT, nargs=-1, required=True)(command)


def selection_options(command: F) -> F:
    """Decorator: add the filters, passed as one `selection` (blklab._core.Filter)."""

    @click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="DEV",
        help="Select this device: md127 or 9,127.",
    )
    @click.option(
        "--process",
        "processes",
        multiple=True,
        metavar="NAME",
        help="Select this process: name or pid.",
    )
    @click.option(
        "--op",
        "ops",
        multiple=True,
        type=click.Choice(["read", "write", "discard", "flush"]),
        help="Select this operation.",
    )
    @click.option("--since", type=DURATION, metavar="TIME", help="Select from this time on: 10s, 1500ms.")
    @click.option("--until", type=DURATION, metavar="TIME", help="Select up to this time.")
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
            raise UsageError("--since must be earlier than --until")
        selection = _core.Filter(devices=devices, processes=processes, ops=ops, since_ns=since, until_ns=until)
        return command(*args, selection=selection, **kwargs)

    return with_selection  # type: ignore[return-value]
