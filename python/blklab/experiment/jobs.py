"""Converts a workload's options to the jobs that the simulator takes, and checks them."""

from blklab import units
from blklab.documents import cell
from blklab.experiment import buffered_jobs, sweep
from blklab.experiment.workload import RAMP, SYNCHRONOUS, Job
from blklab.fio import option_values
from blklab.fio.known_options import HARMLESS, IGNORED, OFF
from blklab.toml_files import problems

UNSYNCED = {"0", 0, "none"}  # Values that switch an option off
ENDLESS = 1 << 62  # Bytes of a `time_based` job: more than any runtime allows


def job_document(name: str, job: Job, path: str, stack: str, capacity: int) -> cell.Job:
    """Returns a job as the simulator takes it. Raises SpecProblems if it does not fit the stack."""
    _check(job, path)
    # Without direct I/O, io_submit(2) returns when the data are there.
    iodepth = 1 if job.ioengine in SYNCHRONOUS or not job.direct else job.iodepth
    reads, writes, random = option_values.RW[job.rw]
    read_sizes, write_sizes = option_values.block_sizes(job.bs, job.bssplit)
    sizes = [*(size for size, _ in read_sizes if reads), *(size for size, _ in write_sizes if writes)]
    align = job.blockalign or min(sizes)
    offset = _part(job.offset, capacity, align)
    spread = job.offset_increment * (job.numjobs - 1)
    if job.size is None:
        size = (capacity - offset - spread) // align * align
        if size <= 0:
            message = f"leaves no space on stack {stack!r}, whose capacity is {units.format_size(capacity)}"
            raise problems.fail(f"{path}.offset", message)
    else:
        size = _part(job.size, capacity, align)
    if offset + spread + size > capacity:
        raise problems.fail(
            f"{path}.size",
            f"{units.format_size(size)} at offset {units.format_size(offset + spread)} do not fit "
            f"on stack {stack!r}, whose capacity is {units.format_size(capacity)}",
        )
    if size < max(sizes):
        message = f"{units.format_size(size)} is less than a block of {units.format_size(max(sizes))}"
        raise problems.fail(f"{path}.size", message)
    share = _read_share(job, reads=reads, writes=writes)
    document: cell.Job = {
        "name": name,
        "numjobs": job.numjobs,
        "read_share": share,
        "random": random,
        "distribution": (distribution := option_values.distribution(job.random_distribution)),
        "random_map": _random_map(job)
        if random and distribution["kind"] == "random" and {*sizes} == {align}
        else "off",
        "read_sizes": read_sizes,
        "write_sizes": write_sizes,
        "align": align,
        "offset": offset,
        "size": size,
        "offset_increment": job.offset_increment,
        "io_bytes": _io_bytes(job, size, path, align),
        "iodepth": iodepth,
        # fio's init.c, `fixup_options`: 0 and more than iodepth mean iodepth.
        "batch_submit": min(job.iodepth_batch or iodepth, iodepth),
        "batch_complete_min": min(job.iodepth_batch_complete, iodepth),
        "iodepth_low": job.iodepth_low if job.iodepth_low < iodepth else 0,
        # fdatasync is a flush as well.
        "fsync": job.fsync or int(str(job.options.get("fdatasync", 0))),
        "fsync_share": job.fsync_share,
        "thinktime_ns": job.thinktime,
        "thinktime_blocks": job.thinktime_blocks,
        "rate_iops": _rate_iops(job, share, read_sizes, write_sizes),
    }
    if job.options.get("sync", 0) not in UNSYNCED:
        document["fua"] = True
    if job.ioengine == "io_uring":
        document["io_uring"] = True
    if not job.direct:
        buffered_jobs.check_regions(job, size, path)
        document["buffered"] = True
        if reads and buffered_jobs.advises_kernel(job):
            document["fadvise_sequential"] = True
    return document


def ignored_options(job: Job) -> list[str]:
    """Returns the options of fio that change figures, and that the simulator ignores: `prio=2`."""
    values = {option: sweep.format_value(value) for option, value in job.options.items() if option in IGNORED}
    if not job.direct:
        values.pop("fadvise_hint", None)
    return [f"{option}={value}" for option, value in values.items() if value.lower() not in OFF]


def _check(job: Job, path: str) -> None:
    """Raises SpecProblems for what only real fio can do."""
    if not job.direct:
        buffered_jobs.check_buffered_job(job, path)
    for option, value in job.options.items():
        if option not in HARMLESS | IGNORED and option != "sync" and value not in UNSYNCED:
            raise problems.fail(f"{path}.options.{option}", "is not simulated: use --on host")


def _random_map(job: Job) -> cell.RandomMap:
    """Returns how a job of one block size, without `blockalign`, maps visited blocks.

    With several sizes, fio maps blocks of the smallest, and shortens I/Os to what is free behind them. This is not
    simulated: offsets repeat then.
    """
    if sweep.format_value(job.options.get("norandommap", 0)) != "0":
        return "off"
    return "reshuffled" if job.time_based else "repeated"


def _part(portion: int | str, capacity: int, align: int) -> int:
    """Returns bytes; a percentage of the stack is rounded down to whole blocks."""
    size, share = option_values.portion(portion)
    return size if share is None else int(capacity * share) // align * align


def _io_bytes(job: Job, size: int, path: str, align: int) -> int:
    if job.time_based:
        return ENDLESS
    if job.io_size is None:
        return size
    amount = _part(job.io_size, size, align)
    if not amount:
        raise problems.fail(f"{path}.io_size", "found 0, expected at least one block")
    return amount


def _read_share(job: Job, *, reads: bool, writes: bool) -> float:
    if not (reads and writes):
        return 1.0 if reads else 0.0
    if job.rwmixread is not None:
        return job.rwmixread / 100
    return (100 - job.rwmixwrite) / 100 if job.rwmixwrite is not None else 0.5


def _rate_iops(job: Job, share: float, read_sizes: option_values.Sizes, write_sizes: option_values.Sizes) -> float:
    """Returns the I/Os per second of one job, 0 for no limit.

    fio limits each direction separately (fio(1), `rate`). The simulator keeps the mix, so the first
    direction at its limit limits both.
    """
    rates = []
    for part, sizes in ((share, read_sizes), (1 - share, write_sizes)):
        if part <= 0:
            continue
        if job.rate_iops is not None:
            rates.append(option_values.rate(job.rate_iops, "rate_iops", sizes=False) / part)
        elif job.rate not in {None, RAMP}:
            mean = sum(size * weight for size, weight in sizes)
            rates.append(option_values.rate(job.rate or "", "rate", sizes=True) / mean / part)
    return min(rates, default=0.0)
