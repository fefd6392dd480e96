"""A plan as the text of a fio job file; comments state the source of each figure."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from blklab.text.printing import printable
from blklab.trace.fio.plan import SEQUENTIAL, DirectionPlan, FioPlan, JobPlan
from blklab.units import format_duration

MOST_WEIGHT = 1000  # fio's limit for `flow`
WORST_ROUNDING = 0.005  # Allowed error of the total rate from rounding to whole I/Os per second
WORST_OF_MIXED = 0.1
"""Allowed error of the rate of a direction with several sizes: paced by bytes, a short run has the wrong mix."""
SEED = 42


@dataclass(frozen=True)
class JobTarget:
    """The file or directory of the job, as the user wrote it."""

    filename: str | None = None
    directory: str | None = None
    is_device: bool = False


def render(plan: FioPlan, target: JobTarget) -> str:
    lines = [*_head(plan, target)]
    weights = _weights(plan.jobs)
    for job in plan.jobs:
        section = re.sub(r"[^\w.-]+", "_", plan.device, flags=re.A)[:64] or "device"
        lines += ["", f"[{section}-{job.name}]"]
        lines += _job(plan, job, target)
        if plan.loop == "open":
            lines += _pace(plan, job)
        elif len(plan.jobs) > 1:
            lines += ["# The mix: shares of this job and the others.", f"flow={weights[job.name]}"]
        lines += _streams(plan, job)
    return "\n".join(lines) + "\n"


def comment(text: str) -> str:
    """Returns `text` as comment lines; text from a trace cannot end the comment."""
    return "\n".join(textwrap.wrap(printable(text), 98, initial_indent="# ", subsequent_indent="# "))


def _head(plan: FioPlan, target: JobTarget) -> Iterator[str]:
    yield comment(f"The workload of {plan.device}, from the trace {plan.source}")
    yield comment(f"({plan.ios:,} I/Os in {format_duration(plan.duration_ns)}). By blklab.")
    for note in plan.notes:
        yield comment(f"Note: {note}")
    yield ""
    yield "[global]"
    if target.filename is not None:
        yield f"filename={_escape_path(target.filename)}"
    if target.directory is not None:
        yield f"directory={_escape_path(target.directory)}"
        if target.filename is None:
            yield "filename_format=blklab.fio"
    if target.filename is None and target.directory is None:
        yield "# The default file; fio --filename=FILE replaces it. A device is OVERWRITTEN."
        yield "filename_format=blklab.fio"
    yield "# Without libaio, use ioengine=io_uring, or posixaio on systems other than Linux."
    yield "ioengine=libaio"
    yield "direct=1"
    yield comment(f"{plan.locality.size_why}.")
    yield f"size={plan.locality.size}"
    yield comment(f"{plan.locality.why}.")
    yield f"random_distribution={plan.locality.option}"
    yield "# Blocks repeat, as in the trace; all runs use the same random numbers."
    yield "norandommap=1"
    yield "randrepeat=1"
    yield f"randseed={SEED}"
    yield "# The length of the trace, unless --runtime was given."
    yield f"runtime={max(1, round(plan.runtime_ns / 1e9))}"
    yield "time_based=1"
    yield comment(f"{plan.loop.capitalize()} loop: {plan.loop_why}.")
    if len(plan.jobs) > 1 and plan.loop == "closed":
        yield "flow_id=1"


def _job(plan: FioPlan, job: JobPlan, target: JobTarget) -> Iterator[str]:
    directions = job.directions
    yield f"rw={_rw(job)}"
    if directions[0].direction == "trim" and not target.is_device:
        yield "# On a file, a discard is a hole punched with fallocate."
        yield "ioengine=falloc"
    if len(directions) == 2:
        reads = directions[0].ios / job.ios
        yield f"# {directions[0].ios:,} reads, {directions[1].ios:,} writes: {100 * reads:.2f} % reads."
        yield f"rwmixread={round(reads * 100)}"
    if _rw(job).startswith("rand") and any(round(direction.sequential * 100) for direction in directions):
        shares = ", ".join(f"{100 * direction.sequential:.1f} % of {direction.direction}s" for direction in directions)
        yield f"# Continue an earlier I/O: {shares}."
        random = _join_values(directions, lambda direction: 100 - round(direction.sequential * 100))
        yield f"percentage_random={random}"
    yield "# Exact sizes of the trace, the mean of each hundredth of the I/Os."
    yield f"bssplit={_join_values(directions, _split)}"
    coarsest = max(directions, key=lambda direction: direction.sizes[0].bytes)
    locality = plan.locality.for_sizes_from(coarsest.sizes[0].bytes, min(direction.align for direction in directions))
    if locality is not plan.locality:
        yield "# The zones above, with space for this job's smallest I/O."
        yield f"random_distribution={locality.option}"
    yield f"blockalign={_join_values(directions, lambda direction: direction.align)}"
    if any(share.bytes % direction.sizes[0].bytes for direction in directions for share in direction.sizes):
        yield "# Otherwise fio rounds sizes down to multiples of the smallest."
        yield "bs_unaligned=1"
    top = "the most" if plan.loop == "open" else "the 95th percentile"
    if job.name == "flushed":
        yield "# One after the other: each waits for its flush."
    elif directions[0].direction == "trim":
        yield "# falloc takes one at a time."
    elif not plan.depth_known:
        yield "# I/Os in flight: unknown in the trace; a guess."
    else:
        yield f"# I/Os in flight: {top} of the trace, shared out by latency."
    yield f"iodepth={job.iodepth}"
    if job.thinktime_us:
        yield "# The mean pause between the end of an I/O and the next one."
        yield f"thinktime={job.thinktime_us}"
    if job.flush_every:
        after = "after as many of the writes" if job.flush_every == 1 else "among the writes"
        yield f"# {job.flushes:,} flushes, {after}."
        yield f"fdatasync={job.flush_every}"
    if job.dsync:
        yield "# Most writes were FUA."
        yield "sync=dsync"


def _streams(plan: FioPlan, job: JobPlan) -> Iterator[str]:
    if job.numjobs == 1:
        return
    part = plan.locality.size // job.numjobs // 4096 * 4096
    yield f"# {job.numjobs} sequential streams ran in parallel."
    yield f"size={part}"
    yield f"numjobs={job.numjobs}"
    yield f"offset_increment={part}"


def _pace(plan: FioPlan, job: JobPlan) -> Iterator[str]:
    """Yields the arrival rate.

    fio's Poisson process counts whole I/Os per second. Its steady pace counts bytes (`rate_iops`
    times the *smallest* size), so a steady pace is given in bytes (fio 3.33, `usec_for_io` and
    `__setup_rate`). With flushes, the Poisson process divides by the rate of flushes, which is 0,
    and fio dies of SIGFPE (measured with 3.33).
    """
    total = sum(direction.rate for other in plan.jobs for direction in other.directions)
    rates = ", ".join(f"{pace.rate:.2f} {pace.direction}s/s" for pace in job.directions)
    has_whole_rates = all(
        direction.rate >= 0.5
        and abs(round(direction.rate) - direction.rate)
        <= max(WORST_ROUNDING * total, WORST_OF_MIXED * direction.rate * (len(direction.sizes) > 1))
        for direction in job.directions
    )
    yield f"# Arrivals: {rates}, {plan.arrivals}."
    if plan.poisson and has_whole_rates and not job.flush_every:
        yield f"rate_iops={_join_values(job.directions, lambda direction: round(direction.rate))}"
        yield "rate_process=poisson"
    else:
        if plan.poisson and job.flush_every:
            yield "# Steady, in bytes/s: with flushes, fio 3.33 dies of a Poisson process."
        elif plan.poisson:
            yield "# Steady, in bytes/s: fio's Poisson process takes only whole I/Os/s."
        if any(len(direction.sizes) > 1 for direction in job.directions):
            yield "# fio waits longer after larger I/Os: the mix is right only in runs of many I/Os."
        pace = _join_values(job.directions, lambda direction: max(1, round(direction.rate * direction.mean_bytes)))
        yield f"rate={pace}"


def _weights(jobs: Sequence[JobPlan]) -> dict[str, int]:
    """Returns `flow` of each job: fio counts flushes as I/Os of a job (measured with 3.33)."""
    totals = {
        job.name: (job.ios + (job.ios // job.flush_every if job.flush_every else 0)) / job.numjobs for job in jobs
    }
    largest = max(totals.values())
    return {name: max(1, round(total / largest * MOST_WEIGHT)) for name, total in totals.items()}


def _rw(job: JobPlan) -> str:
    word = "rw" if len(job.directions) == 2 else job.directions[0].direction
    sequential = all(direction.sequential >= 1 - 0.005 for direction in job.directions)
    streams = job.numjobs > 1 and all(direction.sequential >= SEQUENTIAL for direction in job.directions)
    return word if sequential or streams else f"rand{word}"


def _join_values(directions: Sequence[DirectionPlan], value: Callable[[DirectionPlan], object]) -> str:
    """Returns a value for reads, then writes; a single value applies to all directions."""
    return ",".join(str(value(direction)) for direction in directions)


def _split(direction: DirectionPlan) -> str:
    return ":".join(f"{share.bytes}/{share.percent}" for share in direction.sizes)


def _escape_path(path: str) -> str:
    """Returns a path for fio: colons separate files unless escaped."""
    return path.replace("\\", "\\\\").replace(":", "\\:")
