"""The summary at the end of blkparse's output: the I/O of a device during a trace.

It has no latencies and no runtime. The runtime is the time between the first and the last event if
events are printed above it, otherwise the bytes over the throughput, which is rounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from blklab.errors import BlklabError
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource, direction_result, outcome
from blklab.outcome import DeviceResult, device_kind
from blklab.text import printable
from blklab.units import SECTOR

_SECTION = re.compile(r"(CPU\d{1,6}|Total) \(([^()]{1,100})\):\s*")
_THROUGHPUT = re.compile(r"Throughput \(R/W\): ([\d,]{1,26})([KMG])iB/s / ([\d,]{1,26})([KMG])iB/s")
_EVENTS = re.compile(r"Events \(([^()]{1,100})\): ([\d,]{1,26}) entries")
_COUNT = r"(\d{1,3}(?:,\d{3}){1,6}|\d{1,18})(?!\d)"
_FIGURE = re.compile(
    r"(Reads?|Writes?|IO|Timer) (Queued|Dispatches|Requeued|Completed|Merges|depth|unplugs):"
    r"\s{0,20}" + _COUNT + r"(?:,\s{1,20}" + _COUNT + r"([KMG])iB)?"
)
_EVENT = re.compile(r"\s{0,9}\d{1,9},\d{1,9}\s+\d{1,6}\s+\d{1,12}\s+(\d{1,9}\.\d{1,9})\s")
_SCALES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def matches(file: ImportFile) -> bool:
    """Returns whether there is a summary of blkparse's in a text."""
    return "Throughput (R/W):" in file.text and "Completed:" in file.text


@dataclass
class _DeviceSummary:
    name: str
    line: int
    figures: dict[str, list[int]] = field(default_factory=dict)  # Counts and bytes of reads and writes, by event
    throughput: tuple[int, int] = (0, 0)
    events: int | None = None
    span_ns: int = 0


def read(given: ImportSource) -> ImportResult:
    """Returns a run for each summary of each device."""
    runs: list[ImportedRun] = []
    notes: list[str] = []
    for file in given.files:
        summaries = [summary for summary in _summaries(file) if given.device is None or summary.name == given.device]
        if not summaries:
            which = "" if given.device is None else f" of {printable(given.device)}"
            raise BlklabError(f"{file.where}: no blkparse summary{which}")
        done = []
        for candidate in summaries:
            try:
                done.append(_run(file, candidate))
            except BlklabError as error:
                notes.append(f"{error}: skipped")
        if not done:
            raise BlklabError(notes[-len(summaries)].removesuffix(": skipped"))
        runs += done
    return ImportResult(runs, notes)


def _summaries(file: ImportFile) -> Iterator[_DeviceSummary]:
    """Yields devices at the end of their summaries, `Events (…)`."""
    now: _DeviceSummary | None = None
    span: tuple[float, float] | None = None
    ended = False
    for at, whole in enumerate(file.text.split("\n"), 1):
        line = whole.rstrip()[:400]
        bare = line.strip()
        if event := _EVENT.match(line):
            stamp = float(event[1])
            first, last = span if span is not None and not ended else (stamp, stamp)
            span, ended = (min(first, stamp), max(last, stamp)), False
        elif section := _SECTION.fullmatch(bare):
            name = printable(section[2])
            if now is None or now.name != name:
                now = _DeviceSummary(name, at)
            if section[1] == "Total":
                now.figures = {}
        elif now is not None and (throughput := _THROUGHPUT.fullmatch(bare)):
            now.throughput = (
                _number(throughput[1]) * _SCALES[throughput[2]],
                _number(throughput[3]) * _SCALES[throughput[4]],
            )
        elif now is not None and (events := _EVENTS.match(bare)):
            now.events = _number(events[2])
            if span is not None:
                now.span_ns = round((span[1] - span[0]) * 1e9)
            yield now
            now, ended = None, True
        elif now is not None:
            for side, what, count, size, unit in _FIGURE.findall(line):
                _add(now, side, what, _number(count), size and _number(size) * _SCALES[unit])
    if now is not None:
        raise BlklabError(
            f"{file.where}:{now.line}: the summary of {now.name} is truncated: expected Throughput (R/W) and Events"
        )


def _number(text: str) -> int:
    digits = text.replace(",", "")
    return int(digits) if digits else 0


def _add(summary: _DeviceSummary, side: str, what: str, count: int, size: int | str) -> None:
    if side in {"IO", "Timer"} or what == "depth":
        return
    at = 0 if side.startswith("Read") else 1
    summary.figures.setdefault(what, [0, 0])[at] += count
    if isinstance(size, int):
        summary.figures.setdefault(f"{what} bytes", [0, 0])[at] += size


def _run(file: ImportFile, summary: _DeviceSummary) -> ImportedRun:
    where = f"{file.where}:{summary.line}"
    completed = summary.figures.get("Completed")
    if completed is None or not any(completed):
        raise BlklabError(f"{where}: {summary.name} has no completed I/O: expected reads or writes")
    size = summary.figures.get("Completed bytes", [0, 0])
    runtime = summary.span_ns or _runtime(size, summary.throughput)
    if not runtime:
        raise BlklabError(
            f"{where}: the length of the trace of {summary.name} is unknown: the"
            " throughput is 0, and there are no events above the summary"
        )
    queued = summary.figures.get("Queued", [0, 0])
    merges = summary.figures.get("Merges", [0, 0])
    sectors = [direction // SECTOR for direction in size]
    disk = DeviceResult(summary.name, completed, merges, sectors, kind=device_kind(summary.name), leaf=True)
    directions = [direction_result(completed[at], size[at], runtime) for at in (0, 1)]
    result = outcome(summary.name, runtime, directions, [disk])
    result.blkparse = {
        "queued": queued,
        "queued_bytes": summary.figures.get("Queued bytes", [0, 0]),
        "dispatched": summary.figures.get("Dispatches", [0, 0]),
        "requeued": summary.figures.get("Requeued", [0, 0]),
        "completed": completed,
        "throughput_bytes": list(summary.throughput),
        "events": summary.events,
    }
    return ImportedRun(where, "trace", {}, result, labels={"device": summary.name})


def _runtime(size: list[int], throughput: tuple[int, int]) -> int:
    """Returns ns, from the direction with the least rounded throughput."""
    at = max((0, 1), key=lambda at: throughput[at])
    return round(size[at] / throughput[at] * 1e9) if throughput[at] else 0
