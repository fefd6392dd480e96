"""A click group that imports a command only when it runs."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from blklab.cli.extras import missing

NEEDED = "blklab.extras"  # Key in `Context.meta`: the extras of the commands that were resolved


@dataclass(frozen=True)
class CommandEntry:
    """A registered command: its module and its line in the group's help."""

    target: str  # `module:attribute` of the click command
    summary: str  # What the command does, in one line without a full stop
    extras: str = ""  # Those that it and its subcommands always need, such as `run report`


class LazyGroup(click.Group):
    """A group of registered commands; listing them imports none."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the registry."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command `cmd_name`, or None if there is no such command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        ctx.meta[NEEDED] = [*ctx.meta.get(NEEDED, ()), *entry.extras.split()]
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a click command")
        command.short_help = entry.summary
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the registry, without importing the commands; mark those that lack an extra."""
        rows = []
        for name, entry in self.entries.items():
            lacking = missing([*ctx.meta.get(NEEDED, ()), *entry.extras.split()])
            rows.append((name, entry.summary + (f" (missing extras: {', '.join(lacking)})" if lacking else "")))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, but suggest the nearest name for a mistyped one."""
        name = args[0]
        if not name.startswith("-") and name not in self.entries and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, self.entries, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"see '{ctx.command_path} --help'"
            raise click.UsageError(f"no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)
