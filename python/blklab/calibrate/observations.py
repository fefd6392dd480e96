"""Measurements of a single device: fio runs, from fio's output, a table or the store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blklab.errors import BlklabError, UsageError
from blklab.experiment.jobs import UNSYNCED
from blklab.experiment.workload import SYNCHRONOUS
from blklab.fio import output, text
from blklab.fio.known_options import ALIASES
from blklab.fio.node import FioDocument
from blklab.fio.output import FioJobResult
from blklab.grouping import by_key
from blklab.outcome import Outcome
from blklab.runners.registry import predicts
from blklab.text.user_file import read_user_file
from blklab.units import parse_size

if TYPE_CHECKING:
    from blklab.store.query import StoredRun


@dataclass(frozen=True)
class Observation:
    """One run: the requested options and the measured IOPS."""

    name: str  # Its name in reports
    workload: Mapping[str, Any]  # The workload, as in an experiment: a job, or several `jobs` at the same time
    read_iops: float
    write_iops: float
    disks: Sequence[str] = ()  # Those that its jobs name
    outcome: Outcome | None = None  # All figures, if they are known

    @property
    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """The options of each group of equal jobs, in fio's words."""
        return list(self.workload["jobs"].values()) if "jobs" in self.workload else [self.workload]

    @property
    def iops(self) -> float:
        """Reads and writes together."""
        return self.read_iops + self.write_iops

    @property
    def reads(self) -> bool:
        """Whether all I/Os are reads."""
        return self.write_iops == 0

    @property
    def writes(self) -> bool:
        """Whether all I/Os are writes."""
        return self.read_iops == 0

    @property
    def alone(self) -> bool:
        """Whether one I/O is in flight at a time."""
        return sum(int(job.get("iodepth", 1)) * int(job.get("numjobs", 1)) for job in self.jobs) == 1

    @property
    def flushes(self) -> bool:
        """Whether a flush follows each write, or every few."""
        return any(int(job.get("fsync", 0)) > 0 or "fdatasync" in job.get("options", {}) for job in self.jobs)

    @property
    def synced(self) -> bool:
        """Whether writes must be durable: with flushes, or with forced unit access."""
        return self.flushes or any("sync" in job.get("options", {}) for job in self.jobs)

    @property
    def random(self) -> bool:
        return any(str(job["rw"]).startswith("rand") for job in self.jobs)

    @property
    def block_bytes(self) -> int | None:
        """Bytes of an I/O; None if they differ."""
        sizes = {str(job.get("bs", "4k")) for job in self.jobs}
        return parse_size(sizes.pop()) if len(sizes) == 1 and "," not in "".join(sizes) else None

    @property
    def load(self) -> dict[str, str]:
        """The words that say what it did; those of different jobs are joined by a plus sign."""
        defaults = {"rw": "read", "bs": "4k", "iodepth": "1", "numjobs": "1"}
        options = {}
        for key, value in defaults.items():
            options[key] = "+".join(str(job.get(key, value)) for job in self.jobs)
        return options

    @property
    def seconds_alone(self) -> float:
        """Seconds that a random read of 4 KiB takes if it is alone; infinite if the run has others."""
        small = self.block_bytes == 4096
        return 1 / self.read_iops if small and self.reads and self.random and self.alone else float("inf")


LOAD_OPTIONS = (*("rw", "bs", "iodepth", "numjobs", "rwmixread", "rwmixwrite"), *("size", "offset", "fsync", "options"))
"""fio's options that describe the load of a device."""


OTHER_OPTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (*("rate", "rate_iops", "rate_min", "rate_iops_min", "thinktime"), *("bssplit", "bsrange", "blockalign", "ba")),
        frozenset({"", "0"}),
    ),
    "random_distribution": frozenset({"random"}),
    "percentage_random": frozenset({"100"}),
    "zonemode": frozenset({"none"}),
}
"""Other options that affect the load, with the values that change nothing."""


def observation(name: str, options: Mapping[str, Any], read_iops: float, write_iops: float) -> Observation:
    """Returns a run; of its options, those that describe the load."""
    return Observation(name, {key: options[key] for key in options if key in LOAD_OPTIONS}, read_iops, write_iops)


def is_fio(path: Path) -> bool:
    """Tells whether a path is a directory or a file of fio's results. A pipe is not read."""
    if path.is_dir():
        return True
    try:
        content = read_user_file(path) if path.is_file() else b""
    except UsageError:
        return False
    return b'"jobname"' in content or b"(groupid=" in content


def from_files(paths: Sequence[Path]) -> list[Observation]:
    """Returns the runs in files of fio's output, and in the JSON files below directories. Raises UsageError.

    If there are several files, the names of runs begin with those of their files.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path}: no JSON files of fio; expected results of fio")
        files += inside
    files = list({file.resolve(): file for file in files}.values())
    pairs = [(file, run) for file in files for run in from_fio(file)]
    if len(files) == 1:
        return [run for _, run in pairs]
    return [replace(run, name=" ".join(dict.fromkeys([file.stem, run.name]))) for file, run in pairs]


def from_store(run: "StoredRun") -> Observation:
    """Returns a run of the store. Raises UsageError for one that no fio measured."""
    source = f"run {run.id}"
    jobs = [(str(job["name"]), job["options"]) for job in run.cell.get("jobs") or [] if "options" in job]
    if predicts(run.runner) or not jobs:
        raise UsageError(f"{source}: was not measured with fio ({run.runner}); expected a measured run")
    observation = of_jobs(source, jobs, run.figures.read.iops, run.figures.write.iops)
    if observation is None:
        raise UsageError(f"{source}: is {run.state} and has no I/Os; expected a run that is done")
    return replace(observation, name=f"{source} {observation.name}", outcome=run.figures)


def from_fio(path: Path) -> list[Observation]:
    """Returns the runs in a file of fio's output, JSON or text: one for each group of jobs. Raises UsageError."""
    content = read_user_file(path).decode("utf-8-sig", errors="replace")
    observations = []
    try:
        for document, jobs in _fio_runs(content):
            for members in by_key((job.group, job) for job in jobs).values():
                read = sum(job.directions[0].iops for job in members)
                write = sum(job.directions[1].iops for job in members)
                if run := of_jobs(str(path), [(j.name, j.options) for j in members], read, write):
                    has_ios = any(part.total_ios for job in members for part in job.directions)
                    outcome = output.group_outcomes(document, members)[0] if has_ios else None
                    observations.append(replace(run, outcome=outcome))
    except UsageError:
        raise
    except BlklabError as error:
        raise UsageError(f"{path}: {error}") from None
    if not observations:
        raise UsageError(f"{path}: no fio results; expected JSON or text output of fio")
    return observations


def _fio_runs(content: str) -> list[tuple[FioDocument, Sequence[FioJobResult]]]:
    """Returns the document and the jobs of each run of fio."""
    if "{" in content and '"jobs"' in content:
        return [(document, output.jobs(document)) for document in output.parse_documents(content)]
    runs = text.parse_runs(content)
    for run in runs:
        if run.error is not None:
            raise BlklabError(run.error)
    return [(run.document, run.jobs) for run in runs]


def of_jobs(
    source: str,
    members: Sequence[tuple[str, Mapping[str, str]]],
    read: float,
    write: float,
    extra_options: Collection[str] = (),
) -> Observation | None:
    """Returns the run of jobs that ran at the same time, each with its name and options; None without I/O.

    Without group_reporting, fio prints each clone of a job. Equal jobs become one with more clones. It keeps
    `extra_options` besides `LOAD_OPTIONS`. Raises UsageError.
    """
    if read + write == 0:
        return None
    by_name = by_key(members)
    files = {options.get("filename", "") for _, options in members}
    disks = sorted(file for file in files if file.startswith("/dev/"))
    jobs: dict[str, dict[str, Any]] = {}
    for name, clones in by_name.items():
        _check(source, name, {key: value for key, value in clones[0].items() if key not in extra_options})
        load_options = _load_options(source, name, clones[0], extra_options)
        if read and write:
            load_options.setdefault("rw", "rw")
        else:
            load_options.setdefault("rw", "read" if read else "write")
        if (
            load_options["rw"] in text.MIXED
            and read
            and write
            and not load_options.keys() & {"rwmixread", "rwmixwrite"}
        ):
            # fio's text output does not contain the requested rate; fio achieves it.
            load_options["rwmixread"] = round(100 * read / (read + write))
        load_options["numjobs"] = max(load_options.get("numjobs", 1), len(clones))
        equal = [job for job in jobs.values() if {**job, "numjobs": 0} == {**load_options, "numjobs": 0}]
        if equal:
            equal[0]["numjobs"] += load_options["numjobs"]
        else:
            jobs[name] = load_options
    workload = {"jobs": jobs} if len(jobs) > 1 else next(iter(jobs.values()))
    return Observation("+".join(by_name), workload, read, write, disks)


def _check(source: str, name: str, options: Mapping[str, str]) -> None:
    """Raises UsageError for a job that cannot be simulated from its options."""
    for option, harmless in OTHER_OPTIONS.items():
        if option in options and options[option].strip() not in harmless:
            raise UsageError(f"{source}: job {name!r}: {option}={options[option]}: expected a run without {option}")
    if {"rwmixread", "rwmixwrite"} <= options.keys():
        shares = [_parse_whole(source, name, f"rwmix{direction}", options) for direction in ("read", "write")]
        if sum(shares) != 100:
            raise UsageError(
                f"{source}: job {name!r}: rwmixread={shares[0]} and rwmixwrite={shares[1]}: expected 100 together"
            )


def _parse_whole(source: str, name: str, key: str, options: Mapping[str, str]) -> int:
    value = options[key].strip()
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UsageError(f"{source}: job {name!r}: {key}: found {value[:60]!r}, expected a whole number")
    return int(value)


def _load_options(source: str, name: str, options: Mapping[str, str], extra_options: Collection[str]) -> dict[str, Any]:
    options = {ALIASES.get(key, key): value for key, value in options.items()}
    load_options: dict[str, Any] = {key: options[key] for key in (*LOAD_OPTIONS, *extra_options) if key in options}
    for key in ("iodepth", "numjobs", "rwmixread", "rwmixwrite", "fsync"):
        if key in load_options:
            load_options[key] = _parse_whole(source, name, key, options)
    if options.get("ioengine") in SYNCHRONOUS:
        load_options["iodepth"] = 1
    if durable := {key: options[key] for key in ("fdatasync", "sync") if options.get(key, "0") not in UNSYNCED}:
        load_options["options"] = durable
    if "size" in load_options:
        try:
            parse_size(load_options["size"])
        except ValueError:
            del load_options["size"]
    return load_options
