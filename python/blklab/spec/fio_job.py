"""fio job files as workloads: fio(1), "Job file format".

Options that cannot change what is simulated are ignored; others that are not simulated are errors.
"""

import re
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from blklab.errors import UsageError
from blklab.spec import fio_words, keys, problems
from blklab.spec.fields import shown
from blklab.spec.files import read_text
from blklab.spec.workload import Job

Tables = dict[str, dict[str, Any]]
"""Tables of jobs, by name: valid ones, as they would stand in an experiment file."""

HARMLESS: Final = frozenset(
    re.findall(
        r"\S+",
        """
        allow_file_create allrandrepeat buffer_compress_percentage buffer_pattern bwavgtime
        clat_percentiles clocksource cpus_allowed cpus_allowed_policy create_fsync
        create_on_open create_serialize dedupe_percentage description directory disable_clat
        disable_lat disable_slat disk_util do_verify end_fsync eta exitall fallocate file_append
        file_service_type filename filename_format fixedbufs gid group_reporting gtod_cpu
        gtod_reduce hipri hugepage-size invalidate iomem iopsavgtime ioscheduler kb_base
        lat_percentiles log_avg_msec log_hist_msec log_max_value log_unix_epoch mem mem_align
        name new_group nice norandommap numa_cpu_nodes numa_mem_policy opendir output output-
        format overwrite per_job_logs percentile_list pre_read prio prioclass random_generator
        randrepeat randseed refill_buffers registerfiles scramble_buffers slat_percentiles
        softrandommap sqthread_poll stats status-interval thread uid unified_rw_reporting
        unit_base unlink unlink_each_loop userspace_reap write_bw_log write_hist_log
        write_iops_log write_lat_log zero_buffers
        """,
    )
)
"""Options that say how fio works, measures or reports, and not what I/O it makes."""

STONEWALL: Final = frozenset({"stonewall", "wait_for_previous"})

ASYNCHRONOUS: Final = frozenset({"libaio", "io_uring", "posixaio", "solarisaio", "windowsaio"})
SYNCHRONOUS: Final = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2"})
"""Engines that have one I/O in flight, whatever `iodepth` says."""

FIXED: Final = {
    "direct": ({"1", "true"}, "the page cache is not simulated: direct=1 is allowed"),
    "buffered": ({"0", "false"}, "the page cache is not simulated: buffered=0 is allowed"),
    "sync": ({"0", "none"}, "synchronous writes are not simulated: fsync=1 is near"),
    "nrfiles": ({"1"}, "one file is simulated: nrfiles=1 is allowed"),
    "loops": ({"1"}, "one pass is simulated: loops=1 is allowed, and io_size makes more"),
    "zonemode": ({"none"}, "zonemode=none is simulated"),
    "verify": ({"0", "none"}, "reading back is not simulated: leave verify away"),
}
"""Options that are simulated with these values only."""


def read(path: Path) -> list[tuple[str, Tables]]:
    """Returns the groups of jobs that run at the same time: (the first one's name, jobs by name).

    A group ends where a job has `stonewall`. Raises UsageError naming section and option.
    """
    groups: list[tuple[str, Tables]] = []
    for name, options in _sections(path):
        wall = any(options.pop(word, "0") not in {"0", "false"} for word in STONEWALL)
        job = _job(path, name, options)
        if wall or not groups:
            groups.append((name, {}))
        _, jobs = groups[-1]
        unique, number = name, 2
        while unique in jobs:
            unique, number = f"{name}-{number}", number + 1
        jobs[unique] = job
    if not groups:
        raise UsageError(f"{path}: there is no job in it, only [global]")
    return groups


def _sections(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Returns every job with its options, those of the global sections before it included."""
    shared: dict[str, str] = {}
    found: list[tuple[str, dict[str, str]]] = []
    options: dict[str, str] | None = None
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.split(";")[0].split("#")[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]") and line != "[]":
            name = line[1:-1]
            if name == "global":
                options = shared
            else:
                found.append((name, dict(shared)))
                options = found[-1][1]
            continue
        if line.split()[0] == "include":
            raise UsageError(f"{path}: line {number}: include is not read: copy the file in")
        if options is None or line.startswith("["):
            raise UsageError(
                f"{path}: line {number}: found {shown(line)}, [JOB] is wanted: a fio job"
                " file begins with a section"
            )
        option, equals, value = (part.strip() for part in line.partition("="))
        if "$" in value and option not in HARMLESS:
            raise UsageError(f"{path}: line {number}: variables are not replaced: found {value!r}")
        options[fio_words.ALIASES.get(option, option)] = value if equals else "1"
    return found


def _job(path: Path, name: str, options: dict[str, str]) -> dict[str, Any]:
    where = f"{path}: [{name}]"
    table: dict[str, Any] = {}
    engine = options.pop("ioengine", "libaio")
    if engine not in ASYNCHRONOUS | SYNCHRONOUS:
        allowed = ", ".join(sorted(ASYNCHRONOUS | SYNCHRONOUS))
        raise UsageError(f"{where}: ioengine: found {engine!r}, allowed: {allowed}")
    for option, value in options.items():
        if option in FIXED:
            allowed_values, reason = FIXED[option]
            if value.lower() not in allowed_values:
                raise UsageError(f"{where}: {option}: found {value!r}: {reason}")
        elif option in Job.model_fields:
            table[option] = value
        elif option not in HARMLESS:
            hint = problems.near(option, Job.model_fields)
            raise UsageError(f"{where}: {option}: is not simulated; {hint}")
    if engine in SYNCHRONOUS:
        table["iodepth"] = 1
    try:
        Job.model_validate(table)
    except ValidationError as error:
        raise problems.usage_error(where, problems.translated(error, keys.KNOWN)) from error
    return table
