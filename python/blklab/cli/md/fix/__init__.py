"""`blklab md fix`: changes arrays, unlike all else of `blklab md`."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "bbl": CommandEntry(
        "blklab.cli.md.fix.bbl:bbl", "Take bad-block lists away, a member at a time"
    ),
}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.option(
    "--resume", is_flag=True, help="Go on with what was interrupted: of every array, or of none."
)
@click.pass_context
def fix(context: click.Context, *, resume: bool) -> None:
    """Repair md arrays; the plan is shown, and you are asked, first.

    What is under way is written down before it is done: after a crash, --resume brings arrays back
    to full redundancy and goes on.
    """
    if resume and context.invoked_subcommand is None:
        from blklab.cli.md.fix.repair_progress import resumed

        resumed()
    elif resume:
        raise click.UsageError("--resume goes without a command")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)
