"""Run a plan with fio on our own file, and compare its I/Os with the trace."""

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from blklab import _core
from blklab.documents.profile import DeviceProfile, Profile
from blklab.errors import BlklabError, UsageError
from blklab.fio import output
from blklab.runners.fio.process import play
from blklab.runners.fio.program import find_fio
from blklab.runners.fio.target_preparation import direct_works
from blklab.trace.fio.compare import TOLERANCE, FioComparisonRow, mix_rows, pace_rows, shape_rows
from blklab.trace.fio.jobfile import JobTarget, VerificationRun, processes, render
from blklab.trace.fio.plan import FioPlan, focus_device
from blklab.trace.profile import characterise
from blklab.units import format_size

OLDEST: Final = (3, 25)
"""The oldest fio with all options used (zoned_abs, sync=dsync, weights of flow); that of Debian 11."""

FEWEST_IOS: Final = 5_000
MOST_IOS: Final = 200_000
LOG_LINE: Final = 80  # Maximum bytes of an iolog line


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
            "passed": self.passed,
            "tolerance_points": TOLERANCE,
            "fio_version": self.fio_version,
            "file_bytes": self.size,
            "ios": self.ios,
            "notes": list(self.notes),
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
    with _own_directory(directory.absolute()) as own:
        tell(f"fio: {count:,} I/Os on a file of {format_size(plan.locality.size)} in {directory}")
        shape, document = _run(fio, plan, target, own, name="shape", seconds=seconds, number_ios=_shares(plan, count))
        rows_of_pace = pace_rows(trace, plan, document)
        mixed = shape
        if plan.loop == "open" or len(plan.jobs) > 1:
            tell(f"fio: the job at its own rate for {seconds:g} s")
            mixed, document = _run(fio, plan, target, own, name="pace", seconds=seconds, number_ios=None)
            rows_of_pace = pace_rows(trace, plan, document)
    rows = [*mix_rows(trace, mixed), *shape_rows(trace, shape), *rows_of_pace]
    issued = sum(op["ios"] for op in shape["load"]["ops"].values())
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
    paths = [str(own / log) for log in logs]
    profile = characterise(paths, _core.Filter(), format_name="iolog")
    if not any(op["ios"] for d in profile["devices"] for op in d["load"]["ops"].values()):
        raise BlklabError(f"fio issued no I/O within {seconds:g} s: use a longer --runtime")
    return focus_device(profile), document


def _shares(plan: FioPlan, count: int) -> list[int]:
    """Returns the number of I/Os of each process; their sum is `count`."""
    return [max(1, round(count * job.ios / plan.ios / job.numjobs)) for job in processes(plan)]


def _check_room(directory: Path, wanted: int) -> None:
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise BlklabError(f"{directory}: {error.strerror}") from None
    if free < wanted * 1.05 + (16 << 20):
        raise BlklabError(
            f"{directory}: {format_size(free)} free, but fio's file and logs need"
            f" {format_size(wanted)}: use a smaller --size or another --directory"
        )


@contextmanager
def _own_directory(parent: Path) -> Iterator[Path]:
    """Creates a directory for the block and removes it afterwards, also on SIGTERM and SIGHUP."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {}
    with suppress(ValueError):  # Python handles signals in the main thread only
        before = {n: signal.signal(n, end) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix="blklab-fio-") as own:
            yield Path(own)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
