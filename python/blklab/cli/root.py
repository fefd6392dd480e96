"""The root of the command line: its commands and options.

Every start imports this module, so it imports little. Commands import rich, altair and other
large libraries when they need them.
"""

import os
import re
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any

import click

from blklab.cli.extras import explain
from blklab.cli.lazy import NEEDED, CommandEntry, LazyGroup
from blklab.installed_documents import document_path
from blklab.text.printing import printable

ALIASES = {"audit": ("md", "audit"), "record": ("trace", "record"), "stat": ("trace", "stat")}


EXPERIMENT = re.compile(rb"^[ \t]*\[*(workloads|stacks|cells|measured)\b", re.M)  # A table of an experiment
PASTED = re.compile(rb"Magic : a92b4efc|^[^\n]{0,8}Personalities :|^[^\n]{0,8}\bRaid Level :", re.M)  # md audit FILE
HEAD = 1 << 20  # Bytes of a file that are searched for both


class _Root(LazyGroup):
    """The root, where a file may stand in the place of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; `help md audit` is `md audit --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Like a group's, but do the obvious with a file, and print which command does it."""
        is_command = args[0] in {"", *self.entries, *self.aliases} or args[0].startswith("-")
        if not is_command and not ctx.resilient_parsing and (match := _recognise_file(Path(args[0]))):
            description, subcommands, options = match
            command = " ".join(["blklab", *subcommands, args[0], *options])
            click.echo(printable(f"blklab: {args[0]} is {description}: {command}"), err=True)
            args = [*subcommands, args[0], *options, *args[1:]]
        return super().resolve_command(ctx, args)


def _recognise_file(path: Path) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return what a path is, and the command and its options that show it; None if it is nothing that blklab reads."""
    trace = ("a trace", ("trace", "stat"), ())
    recording = "*.blktrace.*" if path.is_dir() else f"{escape(path.name)}.blktrace.*"
    if any((path if path.is_dir() else path.parent).glob(recording)):
        return trace
    if not path.is_file():
        return None
    from blklab import _core
    from blklab.md.superblocks import read_superblocks

    if read_superblocks(path).members:
        return "an image of an md member", ("md", "audit", "--image"), ()
    with path.open("rb") as file:
        head = file.read(HEAD)
    if EXPERIMENT.search(head):
        return "an experiment", ("run",), ("--dry-run",)
    if PASTED.search(head):
        return "a text with output of mdadm or /proc/mdstat", ("md", "audit"), ()
    return trace if _core.is_trace(str(path)) else None


def _print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from blklab import DEBUG_BUILD, __version__

        note = " (debug build: correct, but slow)" if DEBUG_BUILD else ""
        click.echo(f"blklab {__version__}{note}")
        ctx.exit()


COMMANDS = {
    "trace": CommandEntry("blklab.cli.trace:trace", "What is my workload? Record and describe traces", heading="Look"),
    "cache": CommandEntry("blklab.cli.cache:cache", "Would a cache help, and does mine work?", heading="Look"),
    "md": CommandEntry("blklab.cli.md:md", "Are my arrays healthy? Audit, repair and monitor them", heading="Check"),
    "advise": CommandEntry(
        "blklab.cli.advise:advise", "Which array should I build?", extras=("run",), heading="Decide"
    ),
    "devices": CommandEntry(
        "blklab.cli.devices:devices", "What is known of my disk's model?", extras=("run",), heading="Decide"
    ),
    "run": CommandEntry("blklab.cli.run:run", "How fast is it? Predict or measure", extras=("run",), heading="Measure"),
    "tune": CommandEntry(
        "blklab.cli.tune:tune", "Which setting of a sweep matters?", extras=("run",), heading="Measure"
    ),
    "bisect": CommandEntry(
        "blklab.cli.bisect:bisect", "Which kernel changed it?", extras=("run", "lab"), heading="Measure"
    ),
    "restore": CommandEntry(
        "blklab.cli.restore:restore", "How do I undo what a killed run changed?", heading="Measure"
    ),
    "reproduce": CommandEntry(
        "blklab.cli.reproduce:reproduce", "Does the simulator agree with fio?", extras=("run",), heading="Measure"
    ),
    "lab": CommandEntry("blklab.cli.lab:lab", "How do I get guests for --on lab?", extras=("run",), heading="Measure"),
    "runs": CommandEntry("blklab.cli.runs:runs", "Which results are stored?", extras=("run",), heading="Results"),
    "compare": CommandEntry(
        "blklab.cli.compare:compare", "Did it change, or is it noise?", extras=("run",), heading="Results"
    ),
    "report": CommandEntry(
        "blklab.cli.report:report", "How do I show results?", extras=("run", "report"), heading="Results"
    ),
    "serve": CommandEntry(
        "blklab.cli.serve:serve", "Can I browse them?", extras=("run", "report", "serve"), heading="Results"
    ),
    "import": CommandEntry(
        "blklab.cli.import_:import_", "How do I add other tools' results?", extras=("run",), heading="Results"
    ),
    "calibrate": CommandEntry(
        "blklab.cli.calibrate:calibrate", "Fit a model to a device", extras=("run",), heading="Rare", rare=True
    ),
    "completion": CommandEntry(
        "blklab.cli.completion:completion", "Completion of your shell", heading="Rare", rare=True
    ),
}


@click.group(
    cls=_Root,
    entries=COMMANDS,
    aliases=ALIASES,
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
    """Describe block I/O, predict and measure arrays, audit and repair md arrays.

    \b
    First commands to type:
      blklab md audit                            check the md arrays of this host
      blklab trace record /dev/md4 -w 60 -o md4  record a minute of it, as root
      blklab trace stat md4                      describe its workload
      blklab trace report md4 -o md4.html        the same as an HTML page
      blklab run exp.toml                        simulate an experiment
      blklab run exp.toml --on host              measure it with fio on this host
      blklab compare exp@sim exp@host            compare the two results
      blklab COMMAND --help                      options and examples of a command
    Short forms: audit = md audit, record = trace record, stat = trace stat

    \f
    \b
    Results go to stdout, everything else to stderr. Commands that print results
    take --json. Sizes are typed as 512, 4k or 10GiB (powers of 1024), durations
    as 1.5s, 200ms or 10us. `blklab FILE` does the obvious with a trace (trace stat),
    an experiment (run --dry-run), an image of an md member (md audit --image) and pasted
    output of mdadm (md audit).

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
      COLUMNS       width of the output; default: that of the terminal, without one as wide as needed
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
