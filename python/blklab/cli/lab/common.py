"""Options of the runner `lab` for other commands."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from blklab.cli.common import F
    from blklab.runners.kind import RunnerOption


def taking(*options: "RunnerOption", where: str = "") -> "Callable[[F], F]":
    """Decorator: add options of a runner. `where` begins their help, such as "With --lab"."""

    def add(command: "F") -> "F":
        for option in reversed(options):
            command = click.option(option.flag, **option.attributes(where))(command)
        return command

    return add
