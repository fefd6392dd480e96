"""`blklab trace fio`: write a fio job that reproduces a workload."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import _core
from blklab import output as out
from blklab.cli.common import SECONDS, emit, json_option, notes, progress, warn
from blklab.cli.signals import register_output
from blklab.cli.streams import native
from blklab.cli.trace.selection import TraceSource, trace_options
from blklab.errors import UsageError
from blklab.text.printing import printable
from blklab.units import format_duration

if TYPE_CHECKING:
    from blklab.documents.profile import Profile
    from blklab.trace.fio import JobTarget, Loop

MIN_RUNTIME = 10**9  # ns; fio counts whole seconds


@click.command()
@trace_options
@click.option("-o", "--output", metavar="FILE", help="Job file to write; - for stdout.")
@click.option("--filename", metavar="FILE", help="File or device of the job; writes OVERWRITE it.")
@click.option("--directory", metavar="DIR", help="Directory in which the job creates its file.")
@click.option("--iolog", metavar="FILE", help="Also write every I/O with its time to FILE, for fio's read_iolog.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--closed", "loop", flag_value="closed", help="Keep a fixed number of I/Os in flight.")
@click.option("--open", "loop", flag_value="open", help="Keep the rate of arrivals.")
@click.option("--runtime", type=SECONDS, metavar="TIME", help="Runtime of the job; default: the length of the trace.")
@json_option
def fio(
    *,
    source: TraceSource,
    output: str | None,
    filename: str | None,
    directory: str | None,
    iolog: str | None,
    overwrite: bool,
    loop: "Loop | None",
    runtime: int | None,
    as_json: bool,
) -> None:
    """Write a fio job that reproduces the workload of TRACE.

    Comments in the job file state the source of each figure. The job reproduces the device that the
    whole workload passes through, or --device. In a closed loop, I/Os wait for earlier ones; in an
    open loop, they arrive at their own times. blklab infers the loop from the I/Os in flight.

    \b
      blklab trace fio md127 --since 30s -o md127.fio
      fio --filename=/mnt/scratch/file md127.fio

    \b
    fio can log its I/Os, so you can compare them with the trace:
      fio --filename=/mnt/scratch/file --write_iolog=job.iolog md127.fio
      blklab trace diff md127 job.iolog

    \b
    A job has the statistics of the workload; an iolog has each I/O:
      blklab trace fio md127 --iolog md127.iolog
      fio --name=replay --read_iolog=md127.iolog --replay_redirect=/mnt/scratch/file
    """
    from blklab.trace.fio import make_plan, render
    from blklab.trace.profile import characterise

    target = _target(filename, directory)
    if runtime is not None and runtime < MIN_RUNTIME:
        raise UsageError(f"--runtime {format_duration(runtime)}: must be at least {format_duration(MIN_RUNTIME)}")
    _check_outputs(output, iolog, overwrite=overwrite, prints=as_json)
    with progress("Reading") as tick:
        profile = characterise(source.paths, source.selection, format_name=source.format_name, tick=tick)
    for warning in profile.trace.warnings:
        warn(f"{warning.path}: {warning.message}")
    plan = make_plan(profile, loop=loop, runtime_ns=runtime)
    text = render(plan, target)
    if output is not None:
        out.check(output, overwrite=overwrite)
        out.write(output, text.encode("utf-8", "surrogateescape"))
    if iolog is not None:
        _replay(source, profile, iolog, overwrite=overwrite)
    if as_json:
        emit({"device": plan.device, "loop": plan.loop, "job": text}, as_json, lambda _: None)
    elif output is None and iolog is None:
        click.echo(text, nl=False)
    elif output is not None and output not in out.STDOUT:
        notes().print(f"{printable(output)}: written; run it with `fio --filename=FILE`, which OVERWRITES FILE")


def _target(filename: str | None, directory: str | None) -> "JobTarget":
    from blklab.trace.fio import JobTarget

    is_device = filename is not None and Path(filename).is_block_device()
    for path in (filename, directory):
        if path is not None and ("\n" in path or "\0" in path):
            raise UsageError(f"{path!r}: a job file cannot contain this file name")
    if directory is not None and Path(directory).exists() and not Path(directory).is_dir():
        raise UsageError(f"--directory {directory}: not a directory")
    return JobTarget(filename, directory, is_device)


def _check_outputs(output: str | None, iolog: str | None, *, overwrite: bool, prints: bool) -> None:
    """Check the output files before the trace is read, which can take long."""
    for path in (output, iolog):
        out.check(path, overwrite=overwrite)
    for option, path in (("-o", output), ("--iolog", iolog)):
        if path in out.STDOUT and prints:
            raise UsageError(f"{option} {path}: --json prints to stdout; name a file")
    if output is not None and iolog is not None and out.same(output, iolog):
        raise UsageError(f"-o and --iolog: both are {output}; expected two files")


def _replay(source: TraceSource, profile: "Profile", iolog: str, *, overwrite: bool) -> None:
    """Write the selected I/Os of the job's device as an iolog."""
    from blklab.trace.convert import convert
    from blklab.trace.fio.plan import focus_device

    selection = profile.filter
    only = _core.Filter(
        devices=[focus_device(profile).device],
        processes=selection.processes,
        ops=selection.ops,
        since_ns=selection.since_ns,
        until_ns=selection.until_ns,
        sectors=(selection.first_sector, selection.last_sector),
        sizes=(selection.min_bytes, selection.max_bytes),
        min_latency_ns=selection.min_latency_ns,
    )
    with register_output(iolog), native(iolog):
        document = convert(source.paths, iolog, only, to="iolog", format_name=source.format_name, overwrite=overwrite)
    count = document["report"]["written"]
    notes().print(f"{printable(iolog)}: {count:,} I/Os; replay them with fio and replay_redirect=FILE")
