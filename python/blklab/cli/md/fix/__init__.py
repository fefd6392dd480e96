"""`blklab md fix`: the only commands of `blklab md` that change arrays."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {"bbl": CommandEntry("blklab.cli.md.fix.bbl:bbl", "Remove bad-block lists online, one member at a time")}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.option("--resume", is_flag=True, help="Continue the interrupted repairs of all arrays.")
@click.pass_context
def fix(context: click.Context, *, resume: bool) -> None:
    """Repair md arrays. blklab shows the plan and asks before it changes anything.

    It writes each step to a journal first. After a crash, --resume restores the redundancy of the arrays and continues.
    """
    if resume and context.invoked_subcommand is None:
        from blklab.cli.md.fix.repair_progress import resume_repairs

        resume_repairs()
    elif resume:
        raise click.UsageError("--resume: expected no command with it")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)
