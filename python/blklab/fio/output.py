"""fio's JSON and JSON+ (2.0 to 3.x) as a result (docs/reference/formats.md).

The names and units of each version are in fio's stat.c: up to 2.21 `io_bytes` are KiB, `bw` KiB/s
and latencies µs; before 2.2, `iops` are whole numbers and `total_ios` is missing.
"""

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from blklab.errors import BlklabError, UsageError
from blklab.fio import latency
from blklab.fio.latency import LatencySummary
from blklab.fio.node import FioDocument, JsonNode
from blklab.grouping import by_key
from blklab.outcome import DeviceResult, DirectionResult, FioFacts, GroupResult, Outcome, SyncResult, device_kind
from blklab.text.printing import printable

WAYS = ("read", "write")
MOST_TRIES = 100  # Positions in a text at which a document can begin
MOST_NOTES = 1000
MOST_JOBS = 20_000  # Jobs of a run: one fio has at most 4,096 (REAL_MAX_JOBS in its fio.h), several servers have more
WORTH = ("note:", "fio: ", "warning", "Warning")  # Beginnings of the notes that a result keeps
START_S = 4  # Seconds by which the start of one run differs between its documents: fio rounds `elapsed`
_OBJECT = re.compile(r'\{\s{0,99}"')
_HEAD = re.compile(r'\{\s{0,99}"fio version')
_JOB_OPTION = re.compile(rb"^[ \t]*(?:rw|readwrite|bs|blocksize|ioengine|size)[ \t]*=[ \t]*[^\"' \t]", re.M)
_SECTION = re.compile(rb"(?:[ \t]*(?:[#;].*)?\n)*[ \t]*\[[^][\n]+\]")
_QUOTED = re.compile(r"^[ \t]{0,8}>[> \t]{0,20}\{", re.M)
"""The first line of a document in a mail or in Markdown."""

_NAN = re.compile(r"(?<=:)(\s*)-?(?:nan|inf)\b", re.I)
"""printf's text for 0/0: fio wrote it if nothing was measured."""


def refuse_job_files(names: Iterable[object]) -> None:
    """Raises UsageError for a file with jobs of fio, where results of fio are expected."""
    for path in filter(is_job_file, map(Path, map(str, names))):
        result = f"fio --output-format=json --output={path.stem}.json {path}"
        raise UsageError(f"{path}: is a job file of fio, expected fio's results: `{result}` makes them")


def is_job_file(path: Path) -> bool:
    """Returns whether a file has jobs of fio, as far as its beginning shows."""
    content = b""
    if path.is_file():
        with suppress(OSError), path.open("rb") as file:
            content = file.read(1 << 16)
    return _SECTION.match(content) is not None and _JOB_OPTION.search(content) is not None


def parse_document(text: str) -> FioDocument:
    """Returns the JSON document of the only fio run in a text, as in `parse_documents`."""
    documents = parse_documents(text)
    if len(documents) > 1:
        raise BlklabError(f"{len(documents)} documents of different fio runs: expected one")
    return documents[0]


def parse_documents(text: str) -> list[FioDocument]:
    """Returns the JSON document of each fio run in a text; the lines before it become its `notes`.

    If a run printed several documents (`--status-interval`), the last one is returned, with the
    others as `earlier`. Raises BlklabError.
    """
    text = _NAN.sub(r"\1null", text)
    if _QUOTED.search(text):
        text = re.sub(r"^[ \t]{0,8}(?:>[ \t]?){1,9}", "", text, flags=re.M)
    document_spans, why = _decode(text)
    if not document_spans:
        if why:
            raise BlklabError(f"fio's JSON is invalid: {why}")
        raise BlklabError("no JSON of fio: expected an object with `jobs`")
    end = 0
    for value, start, stop in document_spans:
        value["notes"] = _notes(text[end:start])
        end = stop
    documents = last_of_each([value for value, _, _ in document_spans])
    cut = _HEAD.search(text, end)
    documents[-1]["notes"] += _notes(text[end : cut.start() if cut else None])
    if cut:
        documents[-1]["notes"].append(f"warning: the last document was ignored: {why}")
    for document in documents:
        del document["notes"][MOST_NOTES:]
        if (count := len(_entries(document))) > MOST_JOBS:
            raise BlklabError(f"found {count:,} jobs, expected at most {MOST_JOBS:,}")
    return documents


def last_of_each(documents: Sequence[FioDocument]) -> list[FioDocument]:
    """Returns the last document of each run, with those before (`--status-interval`) as `earlier`."""
    last_documents: list[FioDocument] = []
    for document in documents:
        if last_documents and _continues(last_documents[-1], document):
            last = last_documents.pop()
            document["earlier"] = [*last.pop("earlier", ()), last]
            document["notes"] = last["notes"] + document["notes"]
        last_documents.append(document)
    return last_documents


def _decode(text: str) -> tuple[list[tuple[FioDocument, int, int]], str]:
    """Returns the documents in a text with their positions, and what is wrong with the rest."""
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    document_spans: list[tuple[FioDocument, int, int]] = []
    furthest = -1
    why = ""
    end = 0
    tries = 0
    for start in [match.start() for match in _OBJECT.finditer(text)] or [text.find("{")]:
        if start < end or start < 0 or tries >= MOST_TRIES:
            continue
        tries += 1
        try:
            value, stop = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if error.pos > furthest:
                furthest = error.pos
                why = _where(text, error)
        except RecursionError:
            furthest = len(text)
            why = "it is nested too deeply"
        except ValueError:  # Python reads no integer of more than 4,300 digits
            furthest = len(text)
            why = "a number has more than 4,300 digits"
        else:
            if isinstance(value, dict) and ("jobs" in value or "client_stats" in value):
                document_spans.append((value, start, stop))
                end = stop
                tries = 0
    return document_spans, why


def _notes(text: str) -> list[str]:
    return [printable(line.strip()) for line in text.splitlines() if line.strip()]


def _continues(before: FioDocument, after: FioDocument) -> bool:
    """Returns whether a document is a later status of the same run.

    Its counters are higher, and the run began at the same time. Without times its runtime is
    longer: a repeat does the same I/O, or takes the same time.
    """
    if _names(before) != _names(after) or _total(before, "io_bytes") > _total(after, "io_bytes"):
        return False
    times = [_number(document, "timestamp") for document in (before, after)]
    if all(times):
        elapsed = [_total(document, "") / len(_entries(document)) for document in (before, after)]
        return abs((times[1] - elapsed[1]) - (times[0] - elapsed[0])) <= START_S
    return is_later(before, after)


def is_later(before: FioDocument, after: FioDocument) -> bool:
    """Returns whether jobs of the same names have more I/O in a longer runtime."""
    has_more_io = _total(after, "io_bytes") > _total(before, "io_bytes")
    is_longer = _total(after, "runtime") > 1.01 * _total(before, "runtime")
    return _names(before) == _names(after) and has_more_io and is_longer


def _entries(document: FioDocument) -> list[FioDocument]:
    entries = document.get("jobs", document.get("client_stats"))
    return [job for job in entries if isinstance(job, dict)] if isinstance(entries, list) else []


def _total(document: FioDocument, key: str) -> float:
    """Returns the sum of a figure over all directions; with an empty key, of elapsed seconds."""
    jobs = _entries(document)
    parts = [job.get(name) for job in jobs for name in (*WAYS, "mixed")]
    if not key:
        return sum(_number(job, "elapsed") for job in jobs)
    return sum(_number(part, key) for part in parts if isinstance(part, dict))


def _number(table: FioDocument, key: str) -> float:
    value = table.get(key)
    return float(value) if isinstance(value, int) and abs(value) < 1 << 64 else 0.0


def parse_time(document: FioDocument) -> str | None:
    """Returns when fio printed a document, ISO 8601; without a zone if only local time is known."""
    milliseconds = _number(document, "timestamp_ms") or _number(document, "timestamp") * 1000
    if 0 < milliseconds < 1e14:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat()
    try:
        local = " ".join(str(document.get("time", "")).split())
        return datetime.strptime(local, "%a %b %d %H:%M:%S %Y").isoformat()
    except ValueError:
        return None


def _where(text: str, error: json.JSONDecodeError) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"it ends in line {error.lineno}"
    return f"line {error.lineno} column {error.colno}: {error.msg}"


def _names(value: FioDocument) -> str:
    return repr([job.get("jobname") for job in _entries(value)])[:100_000]


@dataclass(frozen=True)
class FioDirection:
    """The result of one direction of a job."""

    total_ios: int = 0
    io_bytes: int = 0
    iops: float = 0.0
    bw_bytes: float = 0.0
    runtime_ms: int = 0
    clat: LatencySummary = latency.NOTHING

    def as_result(self) -> DirectionResult:
        """Returns `read` or `write` of a result."""
        return DirectionResult(self.total_ios, self.io_bytes, self.iops, self.bw_bytes, self.clat.as_result())


@dataclass(frozen=True)
class FioJobResult:
    """One entry of `jobs`: a job, one of its clones, or several with `group_reporting`."""

    name: str
    group: int  # Jobs of one group ran at the same time; a stonewall begins the next group
    directions: tuple[FioDirection, FioDirection]
    sync: LatencySummary
    trims: int
    usr_cpu: float  # Percent of one CPU, of all clones together, like sys_cpu
    sys_cpu: float
    ctx: int
    options: Mapping[str, str]
    warnings: Sequence[str]


def jobs(document: FioDocument) -> list[FioJobResult]:
    """Returns the jobs of a document. Raises BlklabError, also for a failed job."""
    root = JsonNode(dict(document), "")
    key = "jobs" if root.has("jobs") else "client_stats"
    # The sum over the hosts of a client run is not another job.
    nodes = [node for node in root.parts(key) if node.table.get("jobname") != "All clients"]
    if not nodes:
        raise BlklabError("fio's JSON has no jobs")
    global_options = root.words("global options")
    notes = document.get("notes")
    messages = [str(note) for note in notes] if isinstance(notes, list) else []
    return [_job(node, global_options, messages) for node in nodes]


def _job(node: JsonNode, global_options: Mapping[str, str], messages: Sequence[str]) -> FioJobResult:
    name = node.text("jobname", "job")
    # An errno; some versions write it as a negative number.
    error = node.table.get("error", 0)
    if isinstance(error, bool) or not isinstance(error, int):
        raise node.wrong("error", error, "a number")
    if error:
        message = next((note for note in messages if f"err={abs(error):2}/" in note), None)
        error_text = os.strerror(abs(error)) if abs(error) < 1 << 16 else f"error {error}"
        raise BlklabError(f"job {name!r} failed: {message or error_text}")
    warnings = _unwrap(node, name)
    options = {**global_options, **node.words("job options")}
    read, write = (_direction(node.part(direction)) for direction in WAYS)
    mixed_node = node.part("mixed")
    if mixed_node is not None and node.part("read") is None:
        (read, write), doubt = divide(_direction(mixed_node), options, name)
        warnings += doubt
    trim = node.part("trim")
    # With group_reporting, percentages are of the sum of the clones' runtimes (stat.c, `add_ddir_status_json`).
    numjobs = options.get("numjobs", "")
    runtime = max(read.runtime_ms, write.runtime_ms)
    clones = float(numjobs) if "group_reporting" in options and numjobs.isdecimal() else 1.0
    if runtime and node.has("job_runtime"):
        clones = node.number("job_runtime") / runtime
    if errors := node.count("total_err", 0):
        warnings.append(f"job {name!r}: {errors} I/Os failed (continue_on_error)")
    return FioJobResult(
        name,
        node.count("groupid", 0),
        (read, write),
        _sync(node.part("sync")),
        0 if trim is None else _direction(trim).total_ios,
        clones * node.number("usr_cpu", 0),
        clones * node.number("sys_cpu", 0),
        node.count("ctx", 0),
        options,
        warnings,
    )


def divide(
    mixed_direction: FioDirection, options: Mapping[str, str], name: str
) -> tuple[tuple[FioDirection, FioDirection], list[str]]:
    """Returns reads and writes of merged figures (`unified_rw_reporting=mixed`), and a warning.

    A job that only reads or writes has all figures. A mix is divided as it was requested, without
    latencies. Raises BlklabError if `rw` is unknown.
    """
    rw = options.get("rw", options.get("readwrite", "")).partition(":")[0]
    if rw in {"read", "randread"}:
        return (mixed_direction, FioDirection()), []
    if rw in {"write", "randwrite"}:
        return (FioDirection(), mixed_direction), []
    if rw not in {"rw", "readwrite", "randrw"}:
        raise BlklabError(
            f"job {name!r}: reads and writes are merged (unified_rw_reporting), "
            "and their shares are unknown: expected separate figures, or fio's JSON"
        )
    of_reads = options.get("rwmixread", "")
    of_writes = options.get("rwmixwrite", "")
    share = 50
    if of_reads.isdigit():
        share = int(of_reads)
    elif of_writes.isdigit():
        share = 100 - int(of_writes)
    parts = []
    for part in (share / 100, 1 - share / 100):
        ios = round(mixed_direction.total_ios * part)
        size = round(mixed_direction.io_bytes * part)
        parts.append(
            FioDirection(
                ios, size, mixed_direction.iops * part, mixed_direction.bw_bytes * part, mixed_direction.runtime_ms
            )
        )
    return (parts[0], parts[1]), [
        f"job {name!r}: fio merged reads and writes (unified_rw_reporting): they are divided"
        f" {share}:{100 - share} as requested, and their latencies are unknown"
    ]


_COUNTERS = re.compile(r"total_ios|io_bytes|io_kbytes|ctx|in_queue|N|(?:read|write)_(?:ios|merges|ticks|sectors)")


def _unwrap(node: JsonNode, name: str) -> list[str]:
    """Corrects counters of 32 bits that fio printed as negative numbers; returns warnings."""
    warnings = []
    for table in [node.table, *(part for part in node.table.values() if isinstance(part, dict))]:
        for key, value in table.items():
            if type(value) is int and -(1 << 31) <= value < 0 and _COUNTERS.fullmatch(key):
                # Bytes can overflow several times.
                byte_count = _number(table, "bw") * _number(table, "runtime") * 1.024
                table[key] = round(byte_count) if key == "io_bytes" and byte_count else value + (1 << 32)
                warnings.append(f"{name!r}: {key} is {value}: the counter overflowed")
    return warnings


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
    return FioDirection(total, round(size), iops, bandwidth, runtime, latency.parse_latency(node, total))


def _sync(node: JsonNode | None) -> LatencySummary:
    """Returns the latencies of fsync and fdatasync; fio 3.5 and later report them.

    `total_ios` is not used: it is 0 in fio 3.33.
    """
    table = None if node is None else node.part("lat_ns")
    if node is None or table is None:
        return latency.NOTHING
    return latency.parse_latency(node, table.count("N", 0), "lat_ns")


def _is_bytes(node: JsonNode, runtime: int) -> bool:
    """Returns whether sizes are in bytes or KiB, if fio does not say: bandwidths are always KiB/s."""
    expected_kib = node.number("bw", 0) * runtime / 1000
    return expected_kib > 0 and node.number("io_bytes", 0) > 32 * expected_kib


def outcomes(document: FioDocument) -> list[Outcome]:
    """Returns one outcome for each group: jobs separated by a stonewall did not run together.

    Raises BlklabError for another document, a failed job, and a group without reads and writes.
    """
    return group_outcomes(document, jobs(document))


def _options(members: Sequence[FioJobResult]) -> dict[str, dict[str, str]]:
    """Returns the options of each job by its name; a job like no other of its name gets a number."""
    options: dict[str, dict[str, str]] = {}
    for job in members:
        job_options = dict(job.options)
        names = itertools.chain([job.name], (f"{job.name}-{number}" for number in itertools.count(2)))
        options.setdefault(next(name for name in names if options.get(name, job_options) == job_options), job_options)
    return options


def group_outcomes(document: FioDocument, jobs: Sequence[FioJobResult]) -> list[Outcome]:
    """Returns one outcome for each group of jobs, like `outcomes`; the rest is in the document."""
    jobs_by_group = by_key((job.group, job) for job in jobs)
    outcomes = [_outcome(document, members) for members in jobs_by_group.values()]
    if len(outcomes) > 1 and outcomes[0].devices:
        for outcome in outcomes:
            outcome.warnings = [*outcome.warnings, f"devices: totals of all {len(outcomes)} groups"]
    return outcomes


def outcome(document: FioDocument) -> Outcome:
    """Returns the outcome of a run whose jobs ran at the same time. Raises BlklabError."""
    all_outcomes = outcomes(document)
    if len(all_outcomes) > 1:
        names = ", ".join(part.groups[0].name for part in all_outcomes)
        raise BlklabError(f"{len(all_outcomes)} groups ran one after another ({names}): expected one")
    return all_outcomes[0]


def _outcome(document: FioDocument, members: Sequence[FioJobResult]) -> Outcome:
    root = JsonNode(dict(document), "")
    directions = _merge_directions(members)
    if not any(direction.total_ios for direction in directions):
        trims = sum(job.trims for job in members)
        done = f"only {trims:,} trims" if trims else "no I/O"
        raise BlklabError(f"job {members[0].name!r} did {done}: expected reads or writes")
    runtime_ns = max(result.runtime_ms for result in directions) * 10**6
    sync = latency.merge([job.sync for job in members])
    notes = document.get("notes")
    messages = [note for note in notes if str(note).startswith(WORTH)] if isinstance(notes, list) else []
    groups = []
    for name, same_name in by_key((job.name, job) for job in members).items():
        read, write = _merge_directions(same_name)
        clones = [] if root.has("client_stats") else _clones(same_name)
        percentiles = _clone_percentiles(same_name) if clones else []
        groups.append(GroupResult(name, read.as_result(), write.as_result(), clones, percentiles))
    return Outcome(
        runtime_ns,
        directions[0].as_result(),
        directions[1].as_result(),
        SyncResult(sync.count, sync.count * 1e9 / runtime_ns if runtime_ns else 0.0, sync.as_result()),
        groups=groups,
        devices=_devices(root, runtime_ns),
        warnings=list(dict.fromkeys([*messages, *(warning for job in members for warning in job.warnings)])),
        fio=FioFacts(
            version=root.text("fio version", "unknown"),
            command=_command(document),
            usr_cpu=sum(job.usr_cpu for job in members),
            sys_cpu=sum(job.sys_cpu for job in members),
            ctx=sum(job.ctx for job in members),
            options=_options(members),
            disk_util=[node.table for node in root.parts("disk_util")],
        ),
    )


def _command(document: FioDocument) -> list[str]:
    """Returns the command of fio, if a text has it above the output."""
    words = document.get("command")
    return [str(word) for word in words] if isinstance(words, list) else []


def _clones(jobs: Sequence[FioJobResult]) -> list[float]:
    """Returns the IOPS of the clones of a job; none if it has only one, or the jobs only share a name."""
    if len(jobs) == 1 or any(job.options != jobs[0].options for job in jobs):
        return []
    iops = []
    for job in jobs:
        iops.append(sum(direction.iops for direction in job.directions))
    return iops


def _clone_percentiles(jobs: Sequence[FioJobResult]) -> list[float]:
    """Returns the 99th percentile of each clone, ns: that of its slower direction; none if one is unknown."""
    percentiles: list[float] = []
    for job in jobs:
        known = [direction.clat.as_result().p99 for direction in job.directions if direction.total_ios]
        if not known or None in known:
            return []
        percentiles.append(max(float(value or 0) for value in known))
    return percentiles


def _merge_directions(members: Sequence[FioJobResult]) -> tuple[FioDirection, FioDirection]:
    """Returns reads and writes of jobs that ran at the same time: rates are added."""
    reads, writes = zip(*(job.directions for job in members), strict=True)
    return _sum_directions(reads), _sum_directions(writes)


def _sum_directions(directions: Sequence[FioDirection]) -> FioDirection:
    return FioDirection(
        sum(direction.total_ios for direction in directions),
        sum(direction.io_bytes for direction in directions),
        sum(direction.iops for direction in directions),
        sum(direction.bw_bytes for direction in directions),
        max(direction.runtime_ms for direction in directions),
        latency.merge([direction.clat for direction in directions]),
    )


def _devices(root: JsonNode, runtime_ns: int) -> list[DeviceResult]:
    """Returns `disk_util`: the target, and the members of an array after it (fio's diskutil.c)."""
    nodes = list(root.parts("disk_util"))
    for node in nodes:
        _unwrap(node, "disk_util")
    stacked_names = [node.text("name", "") for node in nodes if node.has("aggr_util")]
    devices: list[DeviceResult] = []
    for node in nodes:
        name = node.text("name", "")
        leaf = not node.has("aggr_util")
        sectors = [node.count(f"{direction}_sectors", 0) for direction in WAYS]
        devices.append(
            DeviceResult(
                name=name,
                ios=[node.count(f"{way}_ios", 0) for way in WAYS],
                merges=[node.count(f"{way}_merges", 0) for way in WAYS],
                # Only fio 3.37 and later report them.
                sectors=sectors if node.has("read_sectors") else (),
                ticks_ns=[node.count(f"{way}_ticks", 0) * 10**6 for way in WAYS],
                busy_ns=round(node.number("util", 0) / 100 * runtime_ns),
                queue_ns=node.count("in_queue", 0) * 10**6,
                kind=device_kind(name),
                above=stacked_names if leaf and len(stacked_names) == 1 else [],
                leaf=leaf,
            )
        )
    return devices
