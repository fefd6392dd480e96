"""Run a plan with fio on our own file, and compare its I/Os with the trace."""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from blklab import _core
from blklab.documents.profile import DeviceProfile, LevelTime, Profile, SizeCount
from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.fio import output
from blklab.runners.fio.process import find_fio, play
from blklab.runners.fio.target_preparation import direct_works
from blklab.trace.fio.jobfile import JobTarget, VerificationRun, processes, render
from blklab.trace.fio.plan import WAYS, FioPlan, focus_device, streams_of
from blklab.trace.profile import characterise
from blklab.units import SECTOR, format_size

OLDEST = (3, 25)
"""The oldest fio with all options used (zoned_abs, sync=dsync, weights of flow); that of Debian 11."""

FEWEST_IOS = 5_000
MOST_IOS = 200_000
LOG_LINE = 80  # Maximum bytes of an iolog line


TOLERANCE = 2.0  # Percentage points by which the mix and the size distributions may differ, plus random error
CHANCE_SHARE = 2.576  # Standard errors of a share that chance exceeds once in a hundred times
CHANCE_CURVE = 1.63  # Kolmogorov-Smirnov: chance exceeds this / sqrt(n) once in a hundred times
FEWEST_JUDGED = 30  # Minimum I/Os of a distribution to judge it


@dataclass(frozen=True)
class FioComparisonRow:
    """One figure of the trace and of fio, both in `unit`."""

    metric: str
    unit: str
    trace: float | None
    fio: float | None
    allowed: float | None = None  # Largest difference that passes; None: not judged

    @property
    def difference(self) -> float | None:
        """`fio` minus `trace`."""
        return None if self.trace is None or self.fio is None else self.fio - self.trace

    @property
    def passed(self) -> bool | None:
        """Whether the difference is allowed; None if it is not judged."""
        if self.allowed is None:
            return None
        difference = self.difference
        return difference is not None and abs(difference) <= self.allowed


def shape_rows(trace: DeviceProfile, fio: DeviceProfile) -> Iterator[FioComparisonRow]:
    """Compares two devices' profiles: sizes, sequential shares, hot blocks, flushes."""
    for op in WAYS:
        sizes, issued = (profile.load.ops[op] for profile in (trace, fio))
        if not sizes.ios:
            continue
        unit = "KiB"
        means = [s.sizes.mean_bytes for s in (sizes, issued)]
        yield FioComparisonRow(f"{op} size, mean", unit, *(m and m / 1024 for m in means))
        gap = largest_gap(sizes.sizes.exact, issued.sizes.exact)
        judged = issued.ios >= FEWEST_JUDGED or not issued.ios
        chance = 100 * CHANCE_CURVE / math.sqrt(max(1, issued.ios))
        allowed = TOLERANCE + chance if judged else None
        gap_percent = None if gap is None else 100 * gap
        yield FioComparisonRow(f"{op} sizes, largest gap", "points", 0.0, gap_percent, allowed)
        pair = [streams_of(profile, op) for profile in (trace, fio)]
        if shares := [streams.sequential_share for streams in pair if streams]:
            yield FioComparisonRow(f"{op}s, sequential", "%", *(s and s * 100 for s in shares))
    hottest = {share.fraction: share.io_share for share in fio.hotness.hottest}
    for share in trace.hotness.hottest:
        other = hottest.get(share.fraction)
        name = f"I/O to the hottest {100 * share.fraction:.0f} %"
        yield FioComparisonRow(name, "%", share.io_share * 100, other and other * 100)
    touched = [profile.hotness.unique_bytes / (1 << 20) for profile in (trace, fio)]
    yield FioComparisonRow("blocks touched", "MiB", *touched)
    if trace.load.ops["flush"].ios:
        yield FioComparisonRow("flushes per 100 writes", "", _flushes(trace), _flushes(fio))


def mix_rows(trace: DeviceProfile, fio: DeviceProfile) -> Iterator[FioComparisonRow]:
    """Compares the shares of reads, writes and discards."""
    mine, theirs = ({op: p.load.ops[op].ios for op in WAYS} for p in (trace, fio))
    total, issued = sum(mine.values()), sum(theirs.values())
    for op in WAYS:
        if not (mine[op] or theirs[op]):
            continue
        share = mine[op] / total
        error = 100 * math.sqrt(share * (1 - share) / max(1, issued))
        reproduced = 100 * theirs[op] / issued if issued else None
        allowed = TOLERANCE + CHANCE_SHARE * error
        yield FioComparisonRow(f"{op}s of all I/O", "%", 100 * share, reproduced, allowed)


def pace_rows(trace: DeviceProfile, plan: FioPlan, document: dict[str, Any]) -> list[FioComparisonRow]:
    """Compares I/Os per second and in flight; they depend on the device and are not judged."""
    jobs = document["jobs"]
    sides = [(job, side) for job in jobs for side in ("read", "write", "trim")]
    rate = sum(job[side]["iops"] for job, side in sides)
    flying = sum(job[side]["iops"] * job[side]["lat_ns"]["mean"] / 1e9 for job, side in sides)
    rows = [FioComparisonRow("I/Os a second", "", plan.ios / plan.duration_ns * 1e9, rate)]
    if not plan.depth_known:
        return rows
    rows += [FioComparisonRow("in flight, mean", "", trace.in_flight.mean, flying)]
    mine, theirs = depth_of_trace(trace.in_flight.histogram), depth_of_fio(jobs)
    for (low, high), share in mine.items():
        other = theirs[low, high]
        if share >= 0.5 or other >= 0.5:
            name = f"in flight {low}" + ("" if low == high else f"–{high}" if high else " and more")
            rows.append(FioComparisonRow(name, "%", share, other))
    return rows


BINS = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63), (64, 0))
"""fio's bins of I/O depth, `iodepth_level`; 0: no upper end."""


def depth_of_trace(histogram: list[LevelTime]) -> dict[tuple[int, int], float]:
    """Returns percents of the busy time at each depth, in fio's bins."""
    busy = sum(part.time_ns for part in histogram if part.low) or 1
    return {
        (low, high): 100 * sum(p.time_ns for p in histogram if p.low >= low and (not high or p.low <= high)) / busy
        for low, high in BINS
    }


def depth_of_fio(jobs: list[dict[str, Any]]) -> dict[tuple[int, int], float]:
    """Returns percents of the I/Os submitted at each depth, for one process each."""
    shares = dict.fromkeys(BINS, 0.0)
    for job in jobs:
        ios = sum(job[side]["total_ios"] for side in ("read", "write", "trim"))
        for key, value in zip(BINS, job["iodepth_level"].values(), strict=False):
            shares[key] += ios * value
    total = sum(shares.values()) or 1.0
    return {key: 100 * value / total for key, value in shares.items()}


def largest_gap(mine: list[SizeCount], theirs: list[SizeCount]) -> float | None:
    """Returns the largest difference between two cumulative size distributions, 0..=1.

    Sizes are rounded up to sectors on both sides, as in the job.
    """
    totals = [sum(size.count for size in sizes) for sizes in (mine, theirs)]
    if not all(totals):
        return None
    steps: dict[int, float] = {}
    for sizes, total, sign in ((mine, totals[0], 1), (theirs, totals[1], -1)):
        for size in sizes:
            at = -(-size.bytes // SECTOR)
            steps[at] = steps.get(at, 0.0) + sign * size.count / total
    gap = most = 0.0
    for _, step in sorted(steps.items()):
        gap += step
        most = max(most, abs(gap))
    return most


def _flushes(profile: DeviceProfile) -> float | None:
    ops = profile.load.ops
    return 100 * ops["flush"].ios / ops["write"].ios if ops["write"].ios else None


@dataclass(frozen=True)
class Verification:
    """The result of the comparison."""

    rows: tuple[FioComparisonRow, ...]
    fio_version: str
    size: int
    ios: int  # I/Os of fio for the comparison of sizes and offsets
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the mix and the sizes match those of the trace within the tolerance."""
        return all(row.passed is not False for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as JSON has it."""
        rows = [{**asdict(row), "difference": row.difference, "passed": row.passed} for row in self.rows]
        return {
            **{name: getattr(self, name) for name in ("passed", "fio_version", "ios", "notes")},
            "tolerance_points": TOLERANCE,
            "file_bytes": self.size,
            "rows": rows,
        }


def verify(
    profile: Profile,
    plan: FioPlan,
    *,
    directory: Path,
    seconds: float,
    most_bytes: int,
    tell: Callable[[str], object] = lambda _message: None,
) -> Verification:
    """Runs `plan` on a file in a new directory below `directory`, and removes the directory.

    There are two runs of at most `seconds` each. The first issues as many I/Os as the trace has, at
    full speed, to compare their kinds. The second runs the job at its own rate, to compare their
    number. A closed loop needs only the first. `tell` takes a line on progress.
    """
    fio, version = find_fio(OLDEST)
    trace = focus_device(profile)
    notes: list[str] = []
    if plan.locality.size > most_bytes:
        notes.append(
            f"the file has {format_size(most_bytes)} instead of {format_size(plan.locality.size)} (--size): sequential"
            " shares and hot blocks can differ because of it"
        )
        plan = plan.within(most_bytes)
    largest = max(share.bytes for j in plan.jobs for direction in j.directions for share in direction.sizes)
    if largest * max(job.numjobs for job in plan.jobs) > plan.locality.size:
        raise UsageError(f"the largest I/O is {format_size(largest)}: use a larger --size")
    direct = direct_works(directory)
    if not direct:
        notes.append(f"{directory} refuses direct I/O: fio ran with direct=0")
    count = min(MOST_IOS, max(FEWEST_IOS, plan.ios))
    _check_room(directory, plan.locality.size + 2 * count * LOG_LINE)
    target = JobTarget(filename="data", direct=direct)
    plan = replace(plan, runtime_ns=max(1, round(seconds)) * 10**9)
    with tempfile.TemporaryDirectory(dir=directory.absolute(), prefix="blklab-fio-") as name:
        own = Path(name)
        tell(f"fio: {count:,} I/Os on a file of {format_size(plan.locality.size)} in {directory}")
        shape, document = _run(fio, plan, target, own, name="shape", seconds=seconds, number_ios=_shares(plan, count))
        rows_of_pace = pace_rows(trace, plan, document)
        mixed = shape
        if plan.loop == "open" or len(plan.jobs) > 1:
            tell(f"fio: the job at its own rate for {seconds:g} s")
            mixed, document = _run(fio, plan, target, own, name="pace", seconds=seconds, number_ios=None)
            rows_of_pace = pace_rows(trace, plan, document)
    rows = [*mix_rows(trace, mixed), *shape_rows(trace, shape), *rows_of_pace]
    issued = sum(op.ios for op in shape.load.ops.values())
    return Verification(tuple(rows), version, plan.locality.size, issued, tuple(notes))


def _run(
    fio: str,
    plan: FioPlan,
    target: JobTarget,
    own: Path,
    *,
    name: str,
    seconds: float,
    number_ios: Sequence[int] | None,
) -> tuple[DeviceProfile, dict[str, Any]]:
    """Returns the profile of fio's I/Os, and fio's document."""
    logs = [f"{name}.{at}.iolog" for at in range(len(processes(plan)))]
    job = own / f"{name}.fio"
    job.write_text(render(plan, target, VerificationRun(logs, number_ios)))
    written = own / f"{name}.json"
    play(fio, job, written, ["--output-format=json"], seconds)
    document = output.parse_document(written.read_text(errors="replace"))
    output.jobs(document)  # a failed job raises an error
    profile = characterise([str(own / log) for log in logs], _core.Filter(), format_name="iolog")
    if not any(op.ios for d in profile.devices for op in d.load.ops.values()):
        raise BlklabError(f"fio issued no I/O within {seconds:g} s: use a longer --runtime")
    return focus_device(profile), document


def _shares(plan: FioPlan, count: int) -> list[int]:
    """Returns the number of I/Os of each process; their sum is `count`."""
    return [max(1, round(count * job.ios / plan.ios / job.numjobs)) for job in processes(plan)]


def _check_room(directory: Path, wanted: int) -> None:
    with SystemErrors(BlklabError, directory):
        free = shutil.disk_usage(directory).free
    if free < wanted * 1.05 + (16 << 20):
        raise BlklabError(
            f"{directory}: {format_size(free)} free, but fio's file and logs need"
            f" {format_size(wanted)}: use a smaller --size or another --directory"
        )
