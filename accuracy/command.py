"""The command `accuracy/run`: it parses, calls and prints, with the exit status and the messages of blklab."""

import sys

import click

from blklab.cli import exit_status, signals, streams
from blklab.cli.lazy import CommandEntry, LazyGroup

NAME = "accuracy/run"
COMMANDS = {
    "published": CommandEntry(
        "accuracy.published_command:published", "Compare predictions with published measurements", extras=("run",)
    ),
    "disks": CommandEntry(
        "accuracy.disks:disks", "Compare predictions with disks that strangers measured", extras=("run",)
    ),
    "rates": CommandEntry(
        "accuracy.rates_command:rates", "ExpectedRate the rates of flash disks from those of strangers", extras=("run",)
    ),
    "agreement": CommandEntry(
        "accuracy.agreement_command:agreement", "Compare predictions with the lab", extras=("run", "lab")
    ),
}


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND ...",
    options_metavar="",
)
def accuracy() -> None:
    """Compare predictions of the simulator with measurements: published ones, and those of the lab."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its status."""
    streams.replace_closed()
    words = sys.argv[1:] if arguments is None else arguments
    with signals.handle_signals():
        status = exit_status.run_safely(lambda: _run(words))
    sys.exit(status)


def _run(words: list[str]) -> int:
    try:
        with accuracy.make_context(NAME, list(words)) as ctx:
            accuracy.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0
