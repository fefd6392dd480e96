"""`blklab trace`: one module for each command."""

import resource

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "stat": CommandEntry("blklab.cli.trace.stat:stat", "Describe the workload of a trace"),
    "hist": CommandEntry("blklab.cli.trace.hist:hist", "Draw histograms of sizes, latencies, seeks"),
    "diff": CommandEntry("blklab.cli.trace.diff:diff", "Compare two recordings", extras=("run",)),
    "report": CommandEntry("blklab.cli.trace.report:report", "Write an HTML report on a trace", extras=("report",)),
    "fio": CommandEntry("blklab.cli.trace.fio:fio", "Write a fio job that reproduces the workload"),
    "record": CommandEntry("blklab.cli.trace.record:record", "Record live devices with blktrace"),
    "live": CommandEntry("blklab.cli.trace.live:live", "Watch live devices with blktrace"),
    "convert": CommandEntry("blklab.cli.trace.convert:convert", "Convert a trace to another format"),
    "events": CommandEntry("blklab.cli.trace.events:events", "Print events exactly as blkparse does", rare=True),
}


@click.group(cls=LazyGroup, entries=COMMANDS, subcommand_metavar="COMMAND ...", options_metavar="")
def trace() -> None:
    """Record, read and describe block traces.

    A trace is a set of blktrace files NAME.blktrace.0, .1 ... Give its NAME, its directory or the
    files. Other formats are recognised from their content (docs/reference/formats.md).
    """
    # A trace has one open file for each device and CPU; the soft limit is often 1,024.
    _, max_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
