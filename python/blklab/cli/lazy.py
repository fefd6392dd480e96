"""A click group that imports a command only when it runs."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from blklab.cli.extras import ExtraName, missing
from blklab.text.suggestions import similar

NEEDED = "blklab.extras"  # Key in `Context.meta`: the extras of the commands that were resolved
ALL = "blklab.all"  # Key in `Context.meta`: whether the help shows everything


@dataclass(frozen=True)
class CommandEntry:
    """A registered command: its module and its line in the group's help."""

    target: str  # `module:attribute` of the click command
    summary: str  # What the command does, in one line without a full stop
    extras: tuple[ExtraName, ...] = ()  # Those that it and its subcommands always need
    heading: str = ""  # The group of commands in the help that it belongs to
    rare: bool = False  # Whether only `--help --all` lists it


def _remember_all(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.meta[ALL] = value


class LazyGroup(click.Group):
    """A group of registered commands; listing them imports none."""

    def __init__(
        self,
        *args: Any,
        entries: Mapping[str, CommandEntry],
        aliases: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """`aliases`: the words that other first words stand for. The text behind a form feed needs --all."""
        super().__init__(*args, **kwargs)
        self.entries = entries
        self.aliases = aliases or {}
        if any(entry.rare for entry in entries.values()):
            behind = ", exit status, environment" if "\f" in (self.help or "") else ""
            text = f"With --help: also rare commands{behind}."
            self.params.append(
                click.Option(
                    ["--all"], is_flag=True, is_eager=True, expose_value=False, callback=_remember_all, help=text
                )
            )

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option, which acts after --all."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.is_eager = False
        return option

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text up to its form feed; with --all, the whole text."""
        super().format_help_text(ctx, formatter)
        if ctx.meta.get(ALL) and (details := inspect.cleandoc(self.help or "").partition("\f")[2]):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(details)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the registry."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command `cmd_name`, or None if there is no such command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        ctx.meta[NEEDED] = [*ctx.meta.get(NEEDED, ()), *entry.extras]
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a click command")
        command.short_help = entry.summary
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the registry, without importing the commands; mark those that lack an extra."""
        rows = []
        heading = ""
        for name, entry in self.entries.items():
            if entry.rare and not ctx.meta.get(ALL):
                continue
            shown = name
            if entry.heading:
                new_heading = entry.heading if entry.heading != heading else ""
                shown = f"{new_heading:9}{name}"
            heading = entry.heading
            summary = entry.summary
            lacking = missing([*ctx.meta.get(NEEDED, ()), *entry.extras])
            if lacking:
                summary += f" (missing extras: {', '.join(lacking)})"
            rows.append((shown, summary))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, but replace aliases, and suggest the nearest name for a mistyped one."""
        args = [*self.aliases.get(args[0], args[:1]), *args[1:]]
        name = args[0]
        if not name.startswith("-") and name not in self.entries and not ctx.resilient_parsing:
            near = similar(name, [*self.entries, *self.aliases])
            instead = f"; see '{ctx.command_path} --help'"
            raise click.UsageError(f"no command {name!r}{near or instead}", ctx)
        return super().resolve_command(ctx, args)
