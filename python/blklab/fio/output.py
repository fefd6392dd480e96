"""fio's JSON and JSON+ (2.0 to 3.x) as a result (docs/reference/formats.md).

The names and units of each version are in fio's stat.c: up to 2.21 `io_bytes` are KiB, `bw` KiB/s
and latencies µs; before 2.2, `iops` are whole numbers and `total_ios` is missing.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blklab.errors import BlklabError
from blklab.fio import latency
from blklab.fio.latency import LatencySummary
from blklab.fio.node import JsonNode
from blklab.outcome import DeviceResult, DirectionResult, MeasuredResult
from blklab.text import printable

WAYS: Final = ("read", "write")

MOST_TRIES: Final = 100
"""Positions in a text at which a document can begin."""

MOST_NOTES: Final = 1000

_NAN: Final = re.compile(r"(?<=:)(\s*)-?(?:nan|inf)\b", re.I)
"""printf's text for 0/0: fio wrote it if nothing was measured."""


def parse_document(text: str) -> dict[str, Any]:
    """Returns the JSON document in fio's output; the lines around it become its `notes`.

    If a run printed several documents (`--status-interval`), the last one is returned. Raises
    BlklabError.
    """
    text = _NAN.sub(r"\1null", text)
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    starts = [match.start() for match in re.finditer(r"^\{", text, re.M)] or [text.find("{")]
    runs: list[dict[str, Any]] = []
    text_around: list[str] = []
    furthest, why = -1, ""
    end = tries = 0
    for start in starts:
        if start < end or start < 0:
            continue
        tries += 1
        if tries > MOST_TRIES:
            break
        try:
            value, stop = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if error.pos > furthest:
                furthest, why = error.pos, _where(text, error)
            continue
        except (ValueError, RecursionError) as error:
            furthest, why = len(text), str(error)
            continue
        if isinstance(value, dict) and ("jobs" in value or "client_stats" in value):
            runs.append(value)
            text_around.append(text[end:start])
            end, tries = stop, 0
    if not runs:
        if furthest >= 0:
            raise BlklabError(f"fio's JSON is invalid: {why}")
        raise BlklabError("no JSON of fio: expected an object with `jobs`")
    if len({_names(run) for run in runs}) > 1:
        raise BlklabError(f"{len(runs)} documents of different fio runs: expected one")
    if re.search(r"^\{\s*\"fio version", text[end:], re.M):
        raise BlklabError(f"fio's JSON is invalid: {why}")
    lines = "\n".join([*text_around, text[end:]]).splitlines()
    notes = [printable(line.strip()) for line in lines if line.strip()]
    return {**runs[-1], "notes": notes[:MOST_NOTES]}


def _where(text: str, error: json.JSONDecodeError) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"it ends in line {error.lineno}"
    return f"line {error.lineno} column {error.colno}: {error.msg}"


def _names(value: Mapping[str, Any]) -> str:
    jobs = value.get("jobs", value.get("client_stats"))
    entries = jobs if isinstance(jobs, list) else []
    named = [job.get("jobname") for job in entries if isinstance(job, dict)]
    return repr(named)[:100_000]


@dataclass(frozen=True)
class FioDirection:
    """The result of one direction of a job."""

    total_ios: int = 0
    io_bytes: int = 0
    iops: float = 0.0
    bw_bytes: float = 0.0
    runtime_ms: int = 0
    clat: LatencySummary = latency.NOTHING

    def as_dict(self) -> DirectionResult:
        """Returns `read` or `write` of a result."""
        return {
            "total_ios": self.total_ios,
            "io_bytes": self.io_bytes,
            "iops": self.iops,
            "bw_bytes": self.bw_bytes,
            "clat_ns": self.clat.as_dict(),
        }


@dataclass(frozen=True)
class FioJobResult:
    """One entry of `jobs`: a job, one of its clones, or several with `group_reporting`."""

    name: str
    group: int
    """Jobs of one group ran at the same time; a stonewall begins the next group."""

    directions: tuple[FioDirection, FioDirection]
    trims: int
    usr_cpu: float
    """Percent of one CPU, like sys_cpu."""

    sys_cpu: float
    ctx: int
    options: Mapping[str, str]
    warnings: Sequence[str]


def jobs(document: Mapping[str, Any]) -> list[FioJobResult]:
    """Returns the jobs of a document. Raises BlklabError, also for a failed job."""
    root = JsonNode(dict(document), "")
    key = "jobs" if root.has("jobs") else "client_stats"
    # The sum over the hosts of a client run is not another job.
    nodes = [node for node in root.parts(key) if node.table.get("jobname") != "All clients"]
    if not nodes:
        raise BlklabError("fio's JSON has no jobs")
    shared = root.words("global options")
    notes = document.get("notes")
    messages = [str(note) for note in notes] if isinstance(notes, list) else []
    return [_job(node, shared, messages) for node in nodes]


def _job(node: JsonNode, shared: Mapping[str, str], messages: Sequence[str]) -> FioJobResult:
    name = node.text("jobname", "job")
    # An errno; some versions write it as a negative number.
    error = node.table.get("error", 0)
    if isinstance(error, bool) or not isinstance(error, int):
        raise node.wrong("error", error, "a number")
    if error:
        words = next((note for note in messages if f"err={abs(error):2}/" in note), None)
        known = os.strerror(abs(error)) if abs(error) < 1 << 16 else f"error {error}"
        raise BlklabError(f"job {name!r} failed: {words or known}")
    mixed = node.part("mixed")
    if mixed is not None and node.part("read") is None and mixed.number("iops", 0):
        raise BlklabError(
            f"job {name!r}: reads and writes are merged (unified_rw_reporting=1): expected"
            " separate figures"
        )
    read, write = (_direction(node.part(direction)) for direction in WAYS)
    trim = node.part("trim")
    warnings = []
    if errors := node.count("total_err", 0):
        warnings.append(f"job {name!r}: {errors} I/Os failed (continue_on_error)")
    return FioJobResult(
        name,
        node.count("groupid", 0),
        (read, write),
        0 if trim is None else _direction(trim).total_ios,
        node.number("usr_cpu", 0),
        node.number("sys_cpu", 0),
        node.count("ctx", 0),
        {**shared, **node.words("job options")},
        warnings,
    )


def _direction(node: JsonNode | None) -> FioDirection:
    if node is None:
        return FioDirection()
    runtime = node.count("runtime", 0)
    bandwidth = node.number("bw_bytes") if node.has("bw_bytes") else node.number("bw", 0) * 1024
    size = node.number("io_bytes", 0)
    if not node.has("io_kbytes") and not node.has("bw_bytes") and not _is_bytes(node, runtime):
        size *= 1024
    iops = node.number("iops", 0)
    total = node.count("total_ios", round(iops * runtime / 1000))
    if runtime and node.has("total_ios"):
        # fio's formula, without the rounding of early versions.
        iops = total * 1000 / runtime
    if runtime and size:
        bandwidth = size * 1000 / runtime
    return FioDirection(
        total, round(size), iops, bandwidth, runtime, latency.parse_latency(node, total)
    )


def _is_bytes(node: JsonNode, runtime: int) -> bool:
    """Returns whether sizes are in bytes or KiB, if fio does not say: bandwidths are always
    KiB/s.
    """
    expected = node.number("bw", 0) * runtime / 1000
    return expected > 0 and node.number("io_bytes", 0) > 32 * expected


def outcomes(document: Mapping[str, Any]) -> list[MeasuredResult]:
    """Returns one outcome for each group: jobs separated by a stonewall did not run together.

    Raises BlklabError for another document, a failed job, and a group without reads and writes.
    """
    return grouped(document, jobs(document))


def grouped(document: Mapping[str, Any], jobs: Sequence[FioJobResult]) -> list[MeasuredResult]:
    """Returns one outcome for each group of jobs, like `outcomes`; the rest is in the document."""
    groups: dict[int, list[FioJobResult]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job)
    merged = [_outcome(document, members) for members in groups.values()]
    if len(merged) > 1 and merged[0]["devices"]:
        for outcome_ in merged:
            outcome_["warnings"].append(f"devices: totals of all {len(merged)} groups")
    return merged


def outcome(document: Mapping[str, Any]) -> MeasuredResult:
    """Returns the outcome of a run whose jobs ran at the same time. Raises BlklabError."""
    all_outcomes = outcomes(document)
    if len(all_outcomes) > 1:
        names = ", ".join(part["groups"][0]["name"] for part in all_outcomes)
        raise BlklabError(
            f"{len(all_outcomes)} groups ran one after another ({names}): expected one"
        )
    return all_outcomes[0]


def _outcome(document: Mapping[str, Any], members: Sequence[FioJobResult]) -> MeasuredResult:
    root = JsonNode(dict(document), "")
    whole = _merged(members)
    names = dict.fromkeys(job.name for job in members)
    if not any(direction.total_ios for direction in whole):
        trims = sum(job.trims for job in members)
        done = f"only {trims:,} trims" if trims else "no I/O"
        raise BlklabError(f"job {next(iter(names))!r} did {done}: expected reads or writes")
    runtime_ns = max(result.runtime_ms for result in whole) * 10**6
    notes = document.get("notes")
    messages = [note for note in notes if _matters(str(note))] if isinstance(notes, list) else []
    return {
        "runtime_ns": runtime_ns,
        "read": whole[0].as_dict(),
        "write": whole[1].as_dict(),
        "groups": [
            {"name": name, "read": read.as_dict(), "write": write.as_dict()}
            for name in names
            for read, write in [_merged([job for job in members if job.name == name])]
        ],
        "devices": _devices(root, runtime_ns),
        "targets": [],
        "fio": {
            "version": root.text("fio version", "unknown"),
            "command": [],
            "usr_cpu": sum(job.usr_cpu for job in members),
            "sys_cpu": sum(job.sys_cpu for job in members),
            "ctx": sum(job.ctx for job in members),
            "options": {job.name: dict(job.options) for job in reversed(members)},
            "disk_util": [node.table for node in root.parts("disk_util")],
        },
        "steady": None,
        "command": None,
        "warnings": list(dict.fromkeys([*messages, *(w for job in members for w in job.warnings)])),
        "forced": [],
    }


def _matters(note: str) -> bool:
    return note.startswith(("note:", "fio: ", "warning", "Warning"))


def _merged(members: Sequence[FioJobResult]) -> tuple[FioDirection, FioDirection]:
    """Returns reads and writes of jobs that ran at the same time: rates are added."""
    read, write = (
        FioDirection(
            sum(direction.total_ios for direction in directions),
            sum(each_direction.io_bytes for each_direction in directions),
            sum(each_direction.iops for each_direction in directions),
            sum(each_direction.bw_bytes for each_direction in directions),
            max(each_direction.runtime_ms for each_direction in directions),
            latency.merge([each_direction.clat for each_direction in directions]),
        )
        for directions in zip(*(job.directions for job in members), strict=True)
    )
    return read, write


_STACKED: Final = {"md": "md", "dm-": "dm", "loop": "loop", "bcache": "bcache"}


def _devices(root: JsonNode, runtime_ns: int) -> list[DeviceResult]:
    """Returns `disk_util`: the target, and the members of an array after it (fio's diskutil.c)."""
    nodes = list(root.parts("disk_util"))
    stacked = [node.text("name", "") for node in nodes if node.has("aggr_util")]
    devices: list[DeviceResult] = []
    for node in nodes:
        name = node.text("name", "")
        kind = next((kind for start, kind in _STACKED.items() if name.startswith(start)), "disk")
        leaf = not node.has("aggr_util")
        sectors = [node.count(f"{direction}_sectors", 0) for direction in WAYS]
        devices.append(
            {
                "name": name,
                "ios": [node.count(f"{direction_}_ios", 0) for direction_ in WAYS],
                "merges": [node.count(f"{direction_}_merges", 0) for direction_ in WAYS],
                # Only fio 3.37 and later report them.
                "sectors": sectors if node.has("read_sectors") else None,
                "ticks_ns": [node.count(f"{direction_}_ticks", 0) * 10**6 for direction_ in WAYS],
                "busy_ns": round(node.number("util", 0) / 100 * runtime_ns),
                "queue_ns": node.count("in_queue", 0) * 10**6,
                "flushes": None,
                "flush_ns": None,
                "discards": None,
                "kind": kind,
                "above": stacked if leaf and len(stacked) == 1 else [],
                "leaf": leaf,
                "id": None,
            }
        )
    return devices
