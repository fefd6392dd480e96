"""Measurements of a single device: fio runs, from fio's output or from a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, UsageError
from blklab.fio import output, text
from blklab.fio.output import FioJobResult
from blklab.spec.jobs import UNSYNCED
from blklab.units import parse_size


@dataclass(frozen=True)
class Observation:
    """One run: the requested options and the measured IOPS."""

    name: str  # Its name in reports
    workload: Mapping[str, Any]  # The workload, in fio's options
    read_iops: float
    write_iops: float

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
        return int(self.workload.get("iodepth", 1)) * int(self.workload.get("numjobs", 1)) == 1

    @property
    def flushes(self) -> bool:
        """Whether a flush follows each write, or every few."""
        return int(self.workload.get("fsync", 0)) > 0 or "fdatasync" in self.workload.get("options", {})

    @property
    def synced(self) -> bool:
        """Whether writes must be durable: with flushes, or with forced unit access."""
        return self.flushes or "sync" in self.workload.get("options", {})

    @property
    def random(self) -> bool:
        return str(self.workload["rw"]).startswith("rand")

    @property
    def named_by_its_load(self) -> "Observation":
        """The same run under a name that says what it did."""
        words = (f"{key}={self.workload[key]}" for key in ("bs", "iodepth", "numjobs") if key in self.workload)
        return replace(self, name=" ".join([str(self.workload["rw"]), *words]))

    @property
    def seconds_alone(self) -> float:
        """Seconds that a random read of 4 KiB takes if it is alone; infinite if the run has others."""
        small = str(self.workload.get("bs", "4k")).lower() in {"4k", "4096", "4kib", "4096b"}
        return 1 / self.read_iops if small and self.reads and self.random and self.alone else float("inf")


WORDS = (*("rw", "bs", "iodepth", "numjobs", "rwmixread", "rwmixwrite"), *("size", "offset", "fsync", "options"))
"""fio's options that describe the load of a device."""


DIFFERENT: Mapping[str, frozenset[str]] = {
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
    return Observation(name, {key: options[key] for key in options if key in WORDS}, read_iops, write_iops)


def from_fio(path: Path) -> list[Observation]:
    """Returns the runs in a file of fio's output, JSON or text. Raises UsageError."""
    try:
        content = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    observations: list[Observation] = []
    try:
        for jobs in _goings(content):
            observations += _runs(path, jobs)
    except UsageError:
        raise
    except BlklabError as error:
        raise UsageError(f"{path}: {error}") from None
    if not observations:
        raise UsageError(f"{path}: no fio results; expected JSON or text output of fio")
    return observations


def _goings(content: str) -> Iterator[Sequence[FioJobResult]]:
    """Yields the jobs of each run of fio."""
    if "{" in content and '"jobs"' in content:
        yield output.jobs(output.parse_document(content))
        return
    for run in text.parse_runs(content):
        if run.failed is not None:
            raise BlklabError(run.failed)
        yield run.jobs


def _runs(path: Path, jobs: Sequence[FioJobResult]) -> Iterator[Observation]:
    """Returns one run for each group: the clones of a job are merged.

    Raises UsageError for different jobs that ran at the same time, because they share the device.
    """
    groups: dict[int, list[FioJobResult]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job)
    for members in groups.values():
        first = members[0]
        for job in members:
            if job.name != first.name:
                raise UsageError(
                    f"{path}: jobs {first.name!r} and {job.name!r} ran at the same time;"
                    " expected stonewall between them"
                )
        _check(path, first.name, first.options)
        read, write = (sum(job.directions[direction].iops for job in members) for direction in (0, 1))
        if read + write == 0:
            continue
        words = {"numjobs": len(members), **_words(path, first)}
        words.setdefault("rw", "rw" if read and write else "read" if read else "write")
        if read and write and not first.options.keys() & {"rwmixread", "rwmixwrite"}:
            # fio's text output does not contain the requested rate; fio achieves it.
            words["rwmixread"] = round(100 * read / (read + write))
        yield Observation(first.name, words, read, write)


def _check(path: Path, name: str, options: Mapping[str, str]) -> None:
    """Raises UsageError for a job that cannot be simulated from its options."""
    for option, harmless in DIFFERENT.items():
        if option in options and options[option].strip() not in harmless:
            raise UsageError(f"{path}: job {name!r}: {option}={options[option]}: expected a run without {option}")
    if {"rwmixread", "rwmixwrite"} <= options.keys():
        shares = [_whole(path, name, f"rwmix{direction}", options) for direction in ("read", "write")]
        if sum(shares) != 100:
            message = f"{path}: job {name!r}: rwmixread={shares[0]} and rwmixwrite={shares[1]}: expected 100 together"
            raise UsageError(message)


def _whole(path: Path, name: str, key: str, options: Mapping[str, str]) -> int:
    value = options[key].strip()
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UsageError(f"{path}: job {name!r}: {key}: found {value[:60]!r}, expected a whole number")
    return int(value)


def _words(path: Path, job: FioJobResult) -> dict[str, Any]:
    words: dict[str, Any] = {key: job.options[key] for key in WORDS if key in job.options}
    for key in ("iodepth", "numjobs", "rwmixread", "rwmixwrite", "fsync"):
        if key in words:
            words[key] = _whole(path, job.name, key, job.options)
    if durable := {key: job.options[key] for key in ("fdatasync", "sync") if job.options.get(key, "0") not in UNSYNCED}:
        words["options"] = durable
    if "size" in words:
        try:
            parse_size(words["size"])
        except ValueError:
            del words["size"]
    return words
