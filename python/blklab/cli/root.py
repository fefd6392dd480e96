"""The command line's root: options, commands, and how one is run.

Everything here is imported at every start, so it imports little: rich, altair and the like come
in when a command needs them.
"""

import os
from collections.abc import Sequence

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "run": CommandEntry("blklab.cli.run:run", "Run an experiment: stacks × workloads × settings"),
    "tune": CommandEntry(
        "blklab.cli.tune:tune", "Say which setting of a sweep mattered, and how to keep it"
    ),
    "compare": CommandEntry(
        "blklab.cli.compare:compare", "Compare results, and say whether they differ"
    ),
    "import": CommandEntry(
        "blklab.cli.import_:import_", "Keep what others measured as runs of your own"
    ),
    "report": CommandEntry(
        "blklab.cli.report:report", "Write results as a page: charts, tables, doubts"
    ),
    "runs": CommandEntry("blklab.cli.runs:runs", "See, export and remove results that were kept"),
    "lab": CommandEntry(
        "blklab.cli.lab:lab", "Prepare the guests of `run --on lab`, and see a demo"
    ),
    "md": CommandEntry("blklab.cli.md:md", "Say what is wrong or risky with md arrays"),
    "restore": CommandEntry(
        "blklab.cli.restore:restore", "Put back what a run that was killed has left changed"
    ),
    "trace": CommandEntry(
        "blklab.cli.trace:trace", "Read block traces and say what the workload is"
    ),
    "calibrate": CommandEntry(
        "blklab.cli.calibrate:calibrate", "Fit a device's model to measurements of that device"
    ),
    "validate": CommandEntry(
        "blklab.cli.validate:validate", "Predict published arrays, and say how far off that is"
    ),
    "completion": CommandEntry(
        "blklab.cli.completion:completion", "Print the completion for your shell"
    ),
}


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from blklab import DEBUG_BUILD, __version__

        note = " (debug build: correct, but do not believe its speed)" if DEBUG_BUILD else ""
        click.echo(f"blklab {__version__}{note}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND ...",
    options_metavar="",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def blklab() -> None:
    """A laboratory for Linux block storage: what a server asks of its disks, which arrangement of
    them would suit it, and how fast it is.

    \b
    First commands to type:
      blklab trace record /dev/md4 -w 60 -o md4   record a minute of an array, as root
      blklab trace stat md4                       what the workload is, in the terminal
      blklab trace report md4 -o md4.html         the same as a page to pass on
      blklab run exp.toml                         an experiment, simulated
      blklab run exp.toml --on host               the same, measured with fio
      blklab compare exp@sim exp@host             one beside the other
      blklab COMMAND --help                       what a command takes, with examples

    \b
    Results go to stdout, everything else to stderr. Commands that print results
    take --json. Sizes are typed as 512, 4k or 10GiB (powers of 1024), durations
    as 1.5s, 200ms or 10us.

    \b
    Exit status:
      0    done
      1    it could not be done, or a check or comparison failed
      2    the command line makes no sense
      3    something is missing here, the message says what to install; or the store fails
      70   a bug in blklab
      130  interrupted; 141, 143 and so on: 128 + the signal that ended it

    \b
    Environment:
      NO_COLOR      if set, no colours
      COLUMNS       the width to print for, instead of the terminal's
      BLKLAB_STORE  where results are kept, instead of your data directory
      BLKLAB_STATE  where what must be undone after a crash is written down
      BLKLAB_DEBUG  if 1, a failure shows its traceback
    """


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit status; failures are raised."""
    # What click's own main() does, but for its handling of errors: see blklab.cli.exit_status.
    if instruction := os.environ.get("_BLKLAB_COMPLETE"):
        from click.shell_completion import shell_complete

        return shell_complete(blklab, {}, "blklab", "_BLKLAB_COMPLETE", instruction)
    try:
        with blklab.make_context("blklab", list(arguments)) as ctx:
            blklab.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0
