"""randomio's tables, as the program and `blklab runs show --randomio` print them.

A table has only rates and latencies. I/Os are these rates times the seconds of an interval from the
command line (`randomio FILE THREADS WRITES FSYNCS BYTES SECONDS`), otherwise one second. A line
between tables that names threads or sizes applies to all following tables:

    randomio /dev/sdb 16 0.2 0.1 4096 60
    16 threads, 64 KiB    stack=near bs=4k    Threads: 16
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from blklab.errors import BlklabError
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource, number, outcome, times
from blklab.outcome import DirectionResult
from blklab.text import printable
from blklab.units import parse_size

_HEAD = re.compile(r"iops\s+min\s+avg\s+max\s+sdev\s*\|\s*iops\s+min\s+avg\s+max\s+sdev")
_ROW = re.compile(r"\s{0,20}(?:(\S[^|]{0,60}?)\s{1,20})?(-?[\d.,]{1,20})\s{0,9}\|([^|]{1,200})\|(.{0,400})")
_CLOCK = re.compile(r"[\d./-]{0,12}[ T]?\d{1,2}:\d\d(?::\d\d)?")
_COMMAND = re.compile(
    r"\brandomio\s+(\S{1,200})\s+(\d{1,6})\s+([\d.]{1,12})\s+([\d.]{1,12})\s+(\d{1,12})\s+"
    r"(\d{1,9})\b"
)
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w.-]{0,60})=(\S{1,200})")
_THREADS = re.compile(r"\b(?:threads?|jobs)\s{0,3}[:=]\s{0,3}(\d{1,6})\b|\b(\d{1,6})[ -]?(?:threads?\b|jobs\b)", re.I)
_SIZE = re.compile(r"\b(\d{1,12})\s?(bytes\b|[KMG](?:i?B)?\b|B\b)", re.I)
_LABEL = {"threads": "numjobs", "thread": "numjobs", "size": "bs", "iosize": "bs"}


def matches(file: ImportFile) -> bool:
    """Returns whether there is a table of randomio's in a text."""
    return any(_HEAD.search(line[:400]) for line in file.text.split("\n"))


def read(given: ImportSource) -> ImportResult:
    """Returns a run for each line of each table."""
    return ImportResult([run for file in given.files for run in _tables(file)])


def _tables(file: ImportFile) -> Iterator[ImportedRun]:
    header: dict[str, str] = {}
    seconds, inside, fresh = 1, False, True
    in_table, table = False, 0
    leading: list[str] = []
    for at, whole in enumerate(file.text.split("\n"), 1):
        line = whole.rstrip("\r")[:2000]
        if _HEAD.search(line):
            inside, fresh, table = True, True, at
            continue
        if "latency (ms)" in line:
            leading = line.partition("total")[0].split()
        row = _ROW.fullmatch(line) if inside else None
        if row is None:
            if not line.strip() or set(line.strip()) <= set("-+|") or "latency (ms)" in line:
                continue
            if inside and line.lstrip()[:1].isdigit() and line.count("|") > 1:
                raise BlklabError(_wrong(file, at, line))
            named, lasting = _named(line)
            if named:
                # The labels of one of our own tables replace those of the previous one.
                header = named if fresh or _PAIR.match(line) else {**header, **named}
                fresh = False
            seconds = lasting or seconds
            continue
        in_table = True
        reads, writes, rest = _figures(file, at, line, row)
        own = {**header, **_first(row[1] or "", leading), **_named(rest)[0]}
        yield replace(_run(file, at, reads, writes, seconds, own), section=f"{file.where}:{table}")
    if not in_table:
        raise BlklabError(f"{file.where}: no line of a randomio table: expected iops | iops …")


def _first(text: str, names: list[str]) -> dict[str, str]:
    """Returns the labels in the columns before the total; unknown ones become `row`."""
    words = [] if _CLOCK.fullmatch(text) else text.split()
    if len(words) == len(names):
        known = [_LABEL.get(name.lower(), name) for name in names]
        return {printable(key): printable(word) for key, word in zip(known, words, strict=True)}
    if named := _named(text)[0]:
        return named
    if words and words[0].isdigit() and len(words) == 1 and int(words[0][:12]) % 512 == 0:
        return {"bs": words[0]}
    return {"row": printable(" ".join(words))} if words else {}


def _wrong(file: ImportFile, at: int, line: str) -> str:
    return (
        f"{file.where}:{at}: found {printable(line.strip()[:60])!r}, expected total | 5 figures of reads | 5 of writes"
    )


def _figures(file: ImportFile, at: int, line: str, row: "re.Match[str]") -> tuple[list[float], list[float], str]:
    reads = row[3].split()
    writes = row[4].split(None, 5)
    if len(reads) != 5 or len(writes) < 5:
        raise BlklabError(_wrong(file, at, line))
    where = f"{file.where}:{at}"
    return (
        [number(text, where, 1e12) for text in reads],
        [number(text, where, 1e12) for text in writes[:5]],
        writes[5] if len(writes) > 5 else "",
    )


def _named(line: str) -> tuple[dict[str, str], int | None]:
    """Returns the labels of a line, and the seconds of an interval if it has them."""
    if command := _COMMAND.search(line):
        share = float(command[3]) if command[3].count(".") < 2 else 0.0
        mix = {"rwmixread": f"{100 - 100 * share:g}"} if 0 <= share <= 1 else {}
        file = printable(command[1])
        return {"filename": file, "numjobs": command[2], "bs": command[5], **mix}, int(command[6])
    columns = {_LABEL.get(key.lower(), key): value for key, value in _PAIR.findall(line)}
    if not columns:
        if threads := _THREADS.search(line):
            columns["numjobs"] = threads[1] or threads[2]
        if size := _SIZE.search(line):
            unit = size[2].upper()
            columns["bs"] = size[1] + ("" if unit in {"BYTES", "B"} else unit[0].lower())
    return {printable(key): printable(value) for key, value in columns.items()}, None


def _run(
    file: ImportFile, at: int, reads: list[float], writes: list[float], seconds: int, header: dict[str, str]
) -> ImportedRun:
    try:
        size = parse_size(header["bs"]) if "bs" in header else 0
    except ValueError:
        size = 0
    options: dict[str, str] = {key: header[key] for key in _ASKED if key in header and key != "workload"}
    done = "randrw" if reads[0] and writes[0] else "randread" if reads[0] else "randwrite"
    options.setdefault("rw", done)
    name = header.get("workload", "randomio")
    directions = [_direction(figures, seconds, size) for figures in (reads, writes)]
    return ImportedRun(
        f"{file.where}:{at}",
        name,
        options,
        outcome(name, seconds * 10**9, directions),
        labels={key: value for key, value in header.items() if key not in (*_ASKED, "repeat")},
    )


_ASKED: tuple[str, ...] = ("workload", "rw", "bs", "numjobs", "iodepth", "rwmixread", "filename")


def _direction(figures: list[float], seconds: int, size: int) -> DirectionResult:
    iops, low, mean, high, deviation = figures
    # A rate below one per interval still counts one I/O.
    ios = max(1, round(iops * seconds)) if iops else 0
    latency = {"mean": mean * 1e6, "stddev": deviation * 1e6, "min": round(low * 1e6), "max": round(high * 1e6)}
    return DirectionResult(ios, ios * size, iops, iops * size, times(ios, latency))
