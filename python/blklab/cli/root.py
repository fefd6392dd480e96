"""The root of the command line: its commands and options.

Every start imports this module, so it imports little. Commands import rich, altair and other
large libraries when they need them.
"""

import os
from collections.abc import Sequence

import click

from blklab.cli.extras import explain
from blklab.cli.lazy import NEEDED, CommandEntry, LazyGroup
from blklab.text import document_path

COMMANDS = {
    "advise": CommandEntry("blklab.cli.advise:advise", "Find the array to build for a load, on given disks", "run"),
    "run": CommandEntry("blklab.cli.run:run", "Run an experiment: stacks × workloads × settings", "run"),
    "tune": CommandEntry("blklab.cli.tune:tune", "Show which setting of a sweep matters, and how to keep it", "run"),
    "compare": CommandEntry("blklab.cli.compare:compare", "Compare results and show whether they differ", "run"),
    "bisect": CommandEntry("blklab.cli.bisect:bisect", "Find the kernel or commit that changed a figure", "run lab"),
    "import": CommandEntry("blklab.cli.import_:import_", "Import results of other tools into the store", "run"),
    "reproduce": CommandEntry("blklab.cli.reproduce:reproduce", "Predict what fio measured, and show both", "run"),
    "report": CommandEntry("blklab.cli.report:report", "Report results: charts, tables, diagnostics", "run report"),
    "runs": CommandEntry("blklab.cli.runs:runs", "List, show, annotate, export and remove stored results", "run"),
    "serve": CommandEntry("blklab.cli.serve:serve", "Show the store as a web page", "run report serve"),
    "lab": CommandEntry("blklab.cli.lab:lab", "Prepare guests for `run --on lab`, and run a demo", "run"),
    "md": CommandEntry("blklab.cli.md:md", "Audit, repair and monitor md arrays"),
    "devices": CommandEntry("blklab.cli.devices:devices", "Find the model of a disk; list those of the library", "run"),
    "cache": CommandEntry("blklab.cli.cache:cache", "Size and check block caches: dm-cache, bcache, dm-writecache"),
    "restore": CommandEntry("blklab.cli.restore:restore", "Restore settings that a killed run has changed"),
    "trace": CommandEntry("blklab.cli.trace:trace", "Record, read and describe block traces"),
    "calibrate": CommandEntry("blklab.cli.calibrate:calibrate", "Fit a model to measurements of one device", "run"),
    "completion": CommandEntry("blklab.cli.completion:completion", "Print the completion script for your shell"),
}


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from blklab import DEBUG_BUILD, __version__

        note = " (debug build: correct, but slow)" if DEBUG_BUILD else ""
        click.echo(f"blklab {__version__}{note}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    subcommand_metavar="COMMAND ...",
    options_metavar="",
    epilog=f"\b\nDocuments such as docs/howto/install.md are in\n{document_path()}",
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
    """A laboratory for Linux block storage. It describes workloads, predicts and measures arrays,
    and audits and repairs md arrays.

    \b
    First commands to type:
      blklab trace record /dev/md4 -w 60 -o md4   record one minute of an array, as root
      blklab trace stat md4                       describe the workload in the terminal
      blklab trace report md4 -o md4.html         the same as an HTML page
      blklab run exp.toml                         simulate an experiment
      blklab run exp.toml --on host               measure it with fio on this host
      blklab compare exp@sim exp@host             compare prediction and measurement
      blklab md audit                             check the md arrays of this host
      blklab COMMAND --help                       options and examples of a command

    \b
    Results go to stdout, everything else to stderr. Commands that print results
    take --json. Sizes are typed as 512, 4k or 10GiB (powers of 1024), durations
    as 1.5s, 200ms or 10us.

    \b
    Exit status:
      0    success
      1    the command failed, or a check or comparison failed
      2    wrong usage: option, argument or input file
      3    a program or permission is missing (the message says which), or the store failed
      4    a comparison is undecided: measure more repeats
      70   a bug in blklab
      128+N  signal N ended the command: 130 is Ctrl-C

    \b
    Environment:
      NO_COLOR      if set, print no colours
      COLUMNS       width of the output; default: the width of the terminal
      BLKLAB_STORE  file or URL of the store; default: blklab/store.db in your data directory
      BLKLAB_STATE  directory of the journals of unfinished runs and repairs
      BLKLAB_LOCKS  directory of the locks that all users share; default: /run/lock
      BLKLAB_DEBUG  if 1, print the traceback of a failure
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit status. Failures are raised."""
    # Like click's main(), without its error handling: see blklab.cli.exit_status.
    if instruction := os.environ.get("_BLKLAB_COMPLETE"):
        from click.shell_completion import shell_complete

        return shell_complete(blklab, {}, "blklab", "_BLKLAB_COMPLETE", instruction)
    try:
        with blklab.make_context("blklab", list(arguments)) as ctx:
            try:
                blklab.invoke(ctx)
            except ModuleNotFoundError as error:
                explain(error, ctx.meta.get(NEEDED, []), arguments)
                raise
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0
