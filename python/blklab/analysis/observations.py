"""What was measured on a single device: runs of fio, from its own output or from a table."""

import json
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


WORDS: Final = ("rw", "bs", "iodepth", "numjobs", "rwmixread", "size", "offset", "fsync")
"""fio's options that decide what a run asks of a device."""


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
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    # fio prints notes before its JSON.
    start = text.find("{")
    if start >= 0 and '"jobs"' in text:
        found = list(_json(path, text[start:]))
    else:
        found = list(_text(text))
    if not found:
        raise UsageError(f"{path}: no fio results: JSON or fio's text output is expected")
    return found


def _json(path: Path, text: str) -> Iterator[Observation]:
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except ValueError as error:
        raise UsageError(f"{path}: broken JSON: {error}") from None
    shared = document.get("global options", {})
    for job in document.get("jobs", []):
        try:
            options = {**shared, **job.get("job options", {})}
            iops = [float(job[way]["iops"]) for way in ("read", "write")]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{path}: a job without {error}: fio's JSON is expected") from None
        if sum(iops) > 0:
            options.setdefault("rw", "read" if iops[1] == 0 else "write")
            yield Observation(str(job.get("jobname", "job")), _words(options), *iops)


_HEADER: Final = re.compile(r"^(?P<name>[^\s:]+): \(g=\d+\): rw=(?P<rw>\w+), bs=(?P<rest>.*)$")
_IOPS: Final = re.compile(r"^\s+(?P<way>read|write)\s*:.*?\bIOPS=(?P<iops>[\d.]+[kKmM]?)", re.I)
_JOBS: Final = re.compile(r"^(?P<name>[^\s:]+): \(groupid=\d+, jobs=(?P<jobs>\d+)\)")


def _text(text: str) -> Iterator[Observation]:
    """Reads fio's normal output: a header for each job, then what was measured."""
    asked: dict[str, dict[str, Any]] = {}
    name, measured = "", {"read": 0.0, "write": 0.0}
    for line in [*text.splitlines(), "end: (groupid=0, jobs=0)"]:
        if header := _HEADER.match(line):
            rest = header["rest"]
            size = re.search(r"([\d.]+\s?[kKmM]?i?[bB]?)", rest)
            depth = re.search(r"iodepth=(\d+)", rest)
            words = {"rw": header["rw"], "iodepth": depth[1] if depth else "1"}
            words["bs"] = size[1].strip().rstrip("Bb") if size else "4k"
            asked.setdefault(header["name"], words)
        elif jobs := _JOBS.match(line):
            if name in asked and sum(measured.values()) > 0:
                words = _words(asked[name])
                yield Observation(name, words, measured["read"], measured["write"])
            name, measured = jobs["name"], {"read": 0.0, "write": 0.0}
            if name in asked:
                asked[name]["numjobs"] = jobs["jobs"]
        elif iops := _IOPS.match(line):
            measured[iops["way"].lower()] = _scaled(iops["iops"])


def _scaled(text: str) -> float:
    scale = {"k": 1e3, "m": 1e6}.get(text[-1].lower(), 1.0)
    return float(text.rstrip("kKmM")) * scale


def _words(options: Mapping[str, Any]) -> dict[str, Any]:
    words: dict[str, Any] = {key: options[key] for key in WORDS if key in options}
    for key in ("iodepth", "numjobs", "rwmixread", "fsync"):
        if key in words:
            words[key] = int(words[key])
    if "size" in words:
        try:
            parse_size(str(words["size"]))
        except ValueError:
            del words["size"]
    return words
