"""`blklab trace fio`: write a fio job that reproduces a workload, and verify it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import _core
from blklab import output as out
from blklab.cli.common import SECONDS, SIZE, emit, json_option, notes, progress, warn
from blklab.cli.signals import unfinished
from blklab.cli.streams import native
from blklab.cli.trace.selection import TraceSource, trace_options
from blklab.errors import UsageError
from blklab.report.console import Console
from blklab.text import printable
from blklab.units import format_duration

if TYPE_CHECKING:
    from blklab.documents.profile import Profile
    from blklab.trace.fio import FioPlan, JobTarget, Loop, Verification

MIN_RUNTIME = 10**9  # ns; fio counts whole seconds
MAX_RUNTIME = 20 * 86_400 * 10**9  # ns; poll(2), which waits for fio, takes 31 bits of milliseconds


@click.command()
@trace_options
@click.option("-o", "--output", metavar="FILE", help="Job file to write; - for stdout.")
@click.option("--filename", metavar="FILE", help="File or device of the job; writes OVERWRITE it.")
@click.option("--directory", metavar="DIR", help="Directory in which the job or --verify creates its file.")
@click.option("--iolog", metavar="FILE", help="Also write every I/O with its time to FILE, for fio's read_iolog.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--closed", "loop", flag_value="closed", help="Keep a fixed number of I/Os in flight.")
@click.option("--open", "loop", flag_value="open", help="Keep the rate of arrivals.")
@click.option("--runtime", type=SECONDS, metavar="TIME", help="Runtime of the job; default: the length of the trace.")
@click.option("--verify", "verified", is_flag=True, help="Run the job with fio and compare it with the trace.")
@click.option("--verify-size", "size", type=SIZE, default="1g", help="With --verify: maximum size of its file.")
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
    verified: bool,
    size: int,
    as_json: bool,
) -> None:
    """Write a fio job that reproduces the workload of TRACE.

    Comments in the job file state the source of each figure. The job reproduces the device that the
    whole workload passes through, or --device. In a closed loop, I/Os wait for earlier ones; in an
    open loop, they arrive at their own times. blklab infers the loop from the I/Os in flight.

    --verify runs the job with fio on a file of at most --verify-size, in a new directory below --directory
    (default: the current directory), and removes it. It compares fio's I/Os with the trace. Exit
    status 1: the mix of operations or a size distribution differs by more than 2 percentage points
    plus the random error. It takes up to twice --runtime (default: 10s).

    \b
      blklab trace fio md127 -o md127.fio
      blklab trace fio md127 --since 30s --verify --directory /mnt/scratch
      fio --filename=/mnt/scratch/file md127.fio

    \b
    A job has the statistics of the workload; an iolog has each I/O:
      blklab trace fio md127 --iolog md127.iolog
      fio --name=replay --read_iolog=md127.iolog --replay_redirect=/mnt/scratch/file
    """
    from blklab.trace.fio import make_plan, render
    from blklab.trace.profile import characterise

    target = _target(filename, directory, verified)
    _check_runtime(runtime)
    _check_outputs(output, iolog, overwrite=overwrite, prints=verified or as_json)
    if verified:
        out.check_directory(Path(directory or "."))
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
    if verified:
        seconds = (runtime or 10**10) / 1e9
        _verify(profile, plan, directory=directory, seconds=seconds, size=size, as_json=as_json)
    elif as_json:
        emit({"device": plan.device, "loop": plan.loop, "job": text}, as_json, lambda _: None)
    elif output is None and iolog is None:
        click.echo(text, nl=False)
    elif output is not None and output not in out.STDOUT:
        notes().print(f"{printable(output)}: written; --verify compares it with the trace")


def _target(filename: str | None, directory: str | None, verified: bool) -> "JobTarget":
    from blklab.trace.fio import JobTarget

    is_device = filename is not None and Path(filename).is_block_device()
    for path in (filename, directory):
        if path is not None and ("\n" in path or "\0" in path):
            raise UsageError(f"{path!r}: a job file cannot contain this file name")
    if verified and is_device:
        raise UsageError(f"{filename}: is a block device; --verify writes only to its own file")
    if directory is not None and Path(directory).exists() and not Path(directory).is_dir():
        raise UsageError(f"--directory {directory}: not a directory")
    return JobTarget(filename, directory, is_device)


def _check_runtime(runtime: int | None) -> None:
    if runtime is not None and not MIN_RUNTIME <= runtime <= MAX_RUNTIME:
        raise UsageError(
            f"--runtime {format_duration(runtime)}: must be from {format_duration(MIN_RUNTIME)}"
            f" to {format_duration(MAX_RUNTIME)}"
        )


def _check_outputs(output: str | None, iolog: str | None, *, overwrite: bool, prints: bool) -> None:
    """Check the output files before the trace is read, which can take long."""
    for path in (output, iolog):
        out.check(path, overwrite=overwrite)
    for option, path in (("-o", output), ("--iolog", iolog)):
        if path in out.STDOUT and prints:
            raise UsageError(f"{option} {path}: --json and --verify print to stdout; name a file")
    if output is not None and iolog is not None and out.same(output, iolog):
        raise UsageError(f"-o and --iolog: both are {output}; expected two files")


def _replay(source: TraceSource, profile: "Profile", iolog: str, *, overwrite: bool) -> None:
    """Write the selected I/Os of the job's device as an iolog."""
    from blklab.trace.convert import convert
    from blklab.trace.fio.plan import focus_device

    wanted = profile.filter
    only = _core.Filter(
        devices=[focus_device(profile).device],
        processes=wanted.processes,
        ops=wanted.ops,
        since_ns=wanted.since_ns,
        until_ns=wanted.until_ns,
        sectors=(wanted.first_sector, wanted.last_sector),
        sizes=(wanted.min_bytes, wanted.max_bytes),
        min_latency_ns=wanted.min_latency_ns,
    )
    with unfinished(iolog), native(iolog):
        document = convert(source.paths, iolog, only, to="iolog", format_name=source.format_name, overwrite=overwrite)
    count = document["report"]["written"]
    notes().print(f"{printable(iolog)}: {count:,} I/Os; replay them with fio and replay_redirect=FILE")


def _verify(
    profile: "Profile", plan: "FioPlan", *, directory: str | None, seconds: float, size: int, as_json: bool
) -> None:
    from blklab.trace.fio import verify

    place = Path(directory or ".")
    verification = verify(profile, plan, directory=place, seconds=seconds, most_bytes=size, tell=notes().print)
    for note in verification.notes:
        notes().print(f"note: {note}")
    emit(verification.as_dict(), as_json, lambda console: _draw(console, plan, verification))
    if not verification.passed:
        click.get_current_context().exit(1)


def _draw(console: Console, plan: "FioPlan", verification: "Verification") -> None:
    from rich import box
    from rich.table import Table

    title = f"{printable(plan.device)}: the trace and {verification.fio_version} ({plan.loop} loop)"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("metric")
    for heading in ("trace", "fio", "difference", "allowed", ""):
        table.add_column(heading, justify="right")
    for row in verification.rows:
        verdict = {True: "ok", False: "OFF", None: ""}[row.passed]
        unit = f", {row.unit}" if row.unit else ""
        table.add_row(
            row.metric + unit,
            *(_figure(value) for value in (row.trace, row.fio)),
            _figure(row.difference, signed=True),
            f"± {row.allowed:.2f}" if row.allowed is not None else "",
            verdict,
            style="red" if row.passed is False else None,
        )
    console.print(table)
    console.print(
        "The mix and the sizes agree."
        if verification.passed
        else "The job does not reproduce the trace: see OFF above."
    )


def _figure(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "–"
    text = f"{value:+,.2f}" if signed else f"{value:,.2f}"
    return text if abs(value) < 1000 else text[:-3]
