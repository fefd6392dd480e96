"""`blklab trace`: one module for each command."""

import resource

import click

from blklab.cli.lazy import LazyGroup, entries


@click.group(cls=LazyGroup, entries=entries("trace"), subcommand_metavar="COMMAND ...", options_metavar="")
def trace() -> None:
    """Record, read and describe block traces.

    A trace is a set of blktrace files NAME.blktrace.0, .1 ... Give its NAME, its directory or the
    files. Other formats are recognised from their content (docs/reference/formats.md).
    """
    # A trace has one open file for each device and CPU; the soft limit is often 1,024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
