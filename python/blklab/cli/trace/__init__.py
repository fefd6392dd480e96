"""`blklab trace`: one module per command, and one line each in COMMANDS."""

import resource

import click

from blklab.cli.lazy import Entry, LazyGroup

COMMANDS: dict[str, Entry] = {
    "stat": Entry("blklab.cli.trace.stat:stat", "Say what the workload of a trace is"),
    "hist": Entry("blklab.cli.trace.hist:hist", "Draw histograms of sizes, latencies, seeks"),
    "report": Entry("blklab.cli.trace.report:report", "Write an HTML report on a trace"),
    "fio": Entry("blklab.cli.trace.fio:fio", "Write a fio job that reproduces the workload"),
    "record": Entry("blklab.cli.trace.record:record", "Record live devices with blktrace"),
    "convert": Entry("blklab.cli.trace.convert:convert", "Convert a trace to another format"),
    "events": Entry("blklab.cli.trace.events:events", "Print events exactly as blkparse does"),
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
