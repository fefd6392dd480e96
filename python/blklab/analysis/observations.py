"""What was measured on a single device: runs of fio, from its own output or from a table."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from blklab.analysis import reference
from blklab.errors import UsageError
from blklab.units import parse_size


@dataclass(frozen=True)
class Observation:
    """One run: what fio was asked for, and the IOPS it measured."""

    name: str
    """What to call it in a report."""

    workload: Mapping[str, Any]
    """In fio's words, as a workload of an experiment file."""

    read_iops: float
    write_iops: float

    @property
    def reads(self) -> bool:
        """Whether there were only reads."""
        return self.write_iops == 0

    @property
    def writes(self) -> bool:
        """Whether there were only writes."""
        return self.read_iops == 0

    @property
    def random(self) -> bool:
        """Whether offsets were random."""
        return str(self.workload["rw"]).startswith("rand")


WORDS: Final = (
    *("rw", "bs", "iodepth", "numjobs", "rwmixread", "rwmixwrite"),
    *("size", "offset", "fsync"),
)
"""fio's options that decide what a run asks of a device."""


DIFFERENT: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        (
            *("rate", "rate_iops", "rate_min", "rate_iops_min", "thinktime", "fdatasync"),
            *("bssplit", "bsrange", "blockalign", "ba"),
        ),
        frozenset({"", "0"}),
    ),
    "random_distribution": frozenset({"random"}),
    "percentage_random": frozenset({"100"}),
    "zonemode": frozenset({"none"}),
}
"""Options that decide it as well and are not taken over, with the values that change nothing."""


def from_table(rows: reference.Reference, target: str) -> list[Observation]:
    """Returns the runs of one single-device target of a reference directory."""
    found = []
    for run in rows.runs:
        if run.target == target:
            words = {**rows.tests[run.test], **rows.common}
            table = {key: value for key, value in words.items() if key in WORDS}
            found.append(Observation(run.test, table, run.read_iops, run.write_iops))
    return found


def from_fio(path: Path) -> list[Observation]:
    """Returns the runs in a file of fio's output, JSON or text. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    # fio prints notes before its JSON.
    start = text.find("{")
    is_json = start >= 0 and '"jobs"' in text
    found = list(_runs(path, list(_json(path, text[start:]) if is_json else _text(path, text))))
    if not found:
        raise UsageError(f"{path}: no fio results: JSON or fio's text output is expected")
    return found


@dataclass
class _Job:
    """What fio says of one job, or of several clones with `group_reporting`."""

    name: str
    group: int
    """Jobs of one group ran at the same time; a stonewall begins another."""

    words: dict[str, Any]
    jobs: int
    iops: tuple[float, float]


def _runs(path: Path, jobs: list[_Job]) -> Iterator[Observation]:
    """Returns one run a group: the clones of a job together.

    Raises UsageError for different jobs that ran at the same time: neither had the device alone.
    """
    groups: dict[int, list[_Job]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job)
    for members in groups.values():
        first = members[0]
        for job in members:
            if job.name != first.name:
                raise UsageError(
                    f"{path}: jobs {first.name!r} and {job.name!r} ran at the same time:"
                    " stonewall between them is expected"
                )
        read, write = (sum(job.iops[way] for job in members) for way in (0, 1))
        if not math.isfinite(read + write) or min(read, write) < 0:
            raise UsageError(f"{path}: job {first.name!r}: IOPS are no numbers")
        if read + write == 0:
            continue
        words = {"numjobs": sum(job.jobs for job in members), **first.words}
        words.setdefault("rw", "rw" if read and write else "read" if read else "write")
        if read and write and not first.words.keys() & {"rwmixread", "rwmixwrite"}:
            # fio's text does not say what was asked for; fio keeps to it.
            words["rwmixread"] = round(100 * read / (read + write))
        yield Observation(first.name, words, read, write)


def _json(path: Path, text: str) -> Iterator[_Job]:
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: broken JSON: {error}") from None
    jobs = document.get("jobs")
    for number, job in enumerate(jobs if isinstance(jobs, list) else []):
        try:
            options = {**document.get("global options", {}), **job.get("job options", {})}
            words = _words(options)
            failed = int(job.get("error", 0))
            iops = (float(job["read"]["iops"]), float(job["write"]["iops"]))
            group = int(job.get("groupid", number))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UsageError(
                f"{path}: jobs[{number}]: {type(error).__name__}: {error}; fio's JSON is expected"
            ) from None
        name = str(job.get("jobname", "job"))
        _check(path, name, options, failed)
        yield _Job(name, group, words, 1, iops)


def _check(path: Path, name: str, options: Mapping[str, Any], failed: int) -> None:
    """Raises UsageError for a job that failed, or that did what cannot be simulated from here."""
    if failed:
        raise UsageError(f"{path}: job {name!r}: fio ended it with error {failed}")
    for option, harmless in DIFFERENT.items():
        if option in options and str(options[option]).strip() not in harmless:
            raise UsageError(
                f"{path}: job {name!r}: {option}={options[option]}: a run without {option} is"
                " expected"
            )
    if {"rwmixread", "rwmixwrite"} <= options.keys():
        shares = [str(options[f"rwmix{way}"]) for way in ("read", "write")]
        if int(shares[0]) + int(shares[1]) != 100:
            raise UsageError(
                f"{path}: job {name!r}: rwmixwrite={shares[1]} beside rwmixread={shares[0]}:"
                " 100 together is expected"
            )


_HEADER: Final = re.compile(r"^(?P<name>\S.*?): \(g=\d+\): rw=(?P<rw>\w+), bs=(?P<rest>.*)$")
_SIZES: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<prefix>[kKmM]?)(?:i?B)?-")
_IOPS: Final = re.compile(
    r"^\s+(?P<way>read|write)\s*:.*?\bIOPS=\s*(?P<iops>\d+(?:\.\d+)?[kKmM]?)\b", re.I
)
_JOBS: Final = re.compile(
    r"^(?P<name>\S.*?): \(groupid=(?P<group>\d{1,9}), jobs=(?P<jobs>\d{1,9})\)"
    r"(?:: err=\s*(?P<error>\d{1,9}))?"
)


def _text(path: Path, text: str) -> Iterator[_Job]:
    """Reads fio's normal output, of versions 2 and 3: a header for each job, then what it did."""
    asked: dict[str, dict[str, Any]] = {}
    job = None
    for line in text.splitlines():
        if header := _HEADER.match(line):
            depth = re.search(r"\biodepth=(\d{1,9})", header["rest"])
            words = {"rw": header["rw"], "iodepth": int(depth[1]) if depth else 1}
            # 4K-4K/64K-64K/…, or (R) 4096B-4096B, (W) 64.0KiB-64.0KiB, …
            sizes = [_bytes(one) for one in _SIZES.finditer(header["rest"])]
            if sizes:
                words["bs"] = ",".join(map(str, dict.fromkeys(sizes[:2])))
            asked.setdefault(header["name"], words)
        elif found := _JOBS.match(line):
            if job is not None:
                yield job
            job = None
            if found["name"] in asked:
                _check(path, found["name"], {}, int(found["error"] or 0))
                words = dict(asked[found["name"]])
                job = _Job(found["name"], int(found["group"]), words, int(found["jobs"]), (0, 0))
        elif job is not None and (iops := _IOPS.match(line)):
            read, write = job.iops
            value = _scaled(iops["iops"])
            job.iops = (value, write) if iops["way"].lower() == "read" else (read, value)
    if job is not None:
        yield job


def _bytes(size: re.Match[str]) -> int:
    scale = {"k": 1 << 10, "m": 1 << 20}.get(size["prefix"].lower(), 1)
    return round(float(size["number"]) * scale)


def _scaled(text: str) -> float:
    scale = {"k": 1e3, "m": 1e6}.get(text[-1].lower(), 1.0)
    return float(text.rstrip("kKmM")) * scale


def _words(options: Mapping[str, Any]) -> dict[str, Any]:
    words: dict[str, Any] = {key: options[key] for key in WORDS if key in options}
    for key in ("iodepth", "numjobs", "rwmixread", "rwmixwrite", "fsync"):
        if key in words:
            words[key] = int(words[key])
    if "size" in words:
        try:
            parse_size(str(words["size"]))
        except ValueError:
            del words["size"]
    return words
