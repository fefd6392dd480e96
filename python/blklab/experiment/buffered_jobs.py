"""Which jobs the simulator takes that use the page cache (`direct = false`)."""

from blklab.experiment.workload import SYNCHRONOUS, Job
from blklab.fio import option_values
from blklab.fio.known_options import OFF
from blklab.toml_files import problems
from blklab.units import SECTOR

OTHERWISE = "set direct to 1, or use --on host or --on lab"

IN_ORDER = ("read", "write")  # Values of `rw` that are simulated

ADVISED = frozenset({"1", "true", "sequential"})
"""Values of `fadvise_hint` with which fio tells the kernel that it reads in order (fio(1); 1 is the default)."""

READS_BEFORE = {"pre_read": "1", "invalidate": "0"}  # Options that leave the file in the page cache, with this value


def check_buffered_job(job: Job, path: str) -> None:
    """Raises SpecProblems if a job needs more of the page cache than is simulated."""
    if job.rw not in IN_ORDER:
        message = (
            "found false, which is fio's default: of the page cache only sequential I/O is simulated, "
            f"and rw is {job.rw!r}: {OTHERWISE}"
        )
        raise problems.fail(f"{path}.direct", message)
    if job.ioengine == "mmap":
        raise problems.fail(f"{path}.ioengine", f"'mmap' without direct I/O is not simulated: {OTHERWISE}")
    if job.ioengine not in SYNCHRONOUS | {"libaio"} and job.iodepth > 1:
        message = f"found {job.iodepth}, expected 1 without direct I/O: calls that wait together are not simulated"
        raise problems.fail(f"{path}.iodepth", message)
    for sizes in option_values.block_sizes(job.bs, job.bssplit):
        odd_sizes = [size for size, _ in sizes if size % SECTOR]
        if odd_sizes:
            message = f"found {odd_sizes[0]} bytes: the simulator takes multiples of {SECTOR}"
            key = "bs" if job.bssplit is None else "bssplit"
            raise problems.fail(f"{path}.{key}", message)
    for option, value in READS_BEFORE.items():
        if _value(job, option) == value:
            raise problems.fail(f"{path}.options.{option}", f"a file in the page cache is not simulated: {OTHERWISE}")
    if job.rw == "write" and (job.fsync or job.fsync_share):
        key = "fsync" if job.fsync else "fsync_share"
        raise problems.fail(f"{path}.{key}", f"is not simulated without direct I/O: {OTHERWISE}")
    for option in ("sync", "fdatasync"):
        if _value(job, option) not in OFF:
            raise problems.fail(f"{path}.options.{option}", f"is not simulated without direct I/O: {OTHERWISE}")
    if _value(job, "fadvise_hint") == "random":
        raise problems.fail(f"{path}.options.fadvise_hint", "'random' is not simulated: use 0 or 1")


def check_regions(job: Job, size: int, path: str) -> None:
    """Raises SpecProblems if jobs of a group would use the same pages. `size` is the bytes of a job's region."""
    if job.numjobs > 1 and job.offset_increment < size:
        message = (
            f"{job.numjobs} jobs would share pages of the page cache, which is not simulated:"
            " set offset_increment and size so that each has its own region"
        )
        raise problems.fail(f"{path}.numjobs", message)


def advises_kernel(job: Job) -> bool:
    """Returns whether fio tells the kernel that a job reads in order, which doubles its read-ahead."""
    return _value(job, "fadvise_hint", "1") in ADVISED


def _value(job: Job, option: str, default: str = "") -> str:
    value = job.options.get(option, default)
    return str(int(value)) if isinstance(value, bool) else str(value)
