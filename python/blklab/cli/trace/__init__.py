"""`blklab trace`: one module per command, and one line each in COMMANDS."""

import resource

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS: dict[str, CommandEntry] = {
    "stat": CommandEntry("blklab.cli.trace.stat:stat", "Say what the workload of a trace is"),
    "hist": CommandEntry(
        "blklab.cli.trace.hist:hist", "Draw histograms of sizes, latencies, seeks"
    ),
    "report": CommandEntry("blklab.cli.trace.report:report", "Write an HTML report on a trace"),
    "fio": CommandEntry("blklab.cli.trace.fio:fio", "Write a fio job that reproduces the workload"),
    "record": CommandEntry("blklab.cli.trace.record:record", "Record live devices with blktrace"),
    "convert": CommandEntry(
        "blklab.cli.trace.convert:convert", "Convert a trace to another format"
    ),
    "events": CommandEntry(
        "blklab.cli.trace.events:events", "Print events exactly as blkparse does"
    ),
}


@click.group(cls=LazyGroup, entries=COMMANDS, subcommand_metavar="COMMAND ...", options_metavar="")
def trace() -> None:
    """Read block traces and say what the workload is.

    A trace is what `blktrace` recorded: a set of files NAME.blktrace.0, .1 ..., given as NAME, as
    their directory or one by one. The format is recognised from the content.
    """
    # A trace has a file for each device and CPU, all open at once; the soft limit is often 1,024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
