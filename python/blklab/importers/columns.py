"""Columns of tables: which figure is in which one (`--columns read.iops=2,read.mean=5:ms`), and what their cells say.

A column is named by its header, or numbered from 1. A unit is in the cell, behind the column's name, or in the header.
"""

import re
from collections.abc import Iterable, Mapping

from blklab.compare.metrics import LATENCIES, METRICS, WAYS, metric_name
from blklab.errors import BlklabError, UsageError
from blklab.importers.base import Column, number
from blklab.importers.run_labels import DISTINGUISHING, TOLD
from blklab.text.printing import printable
from blklab.toml_files.problems import near
from blklab.units import NANOSECONDS

DIRECTIONS = (*WAYS, "sync")
_KINDS = {  # What figures without a direction are
    "iops": "rate",
    "bw": "bandwidth",
    "ios": "count",
    "bytes": "size",
    **dict.fromkeys((*LATENCIES, "min", "stddev"), "time"),
}
OPTIONS = frozenset({*TOLD, *DISTINGUISHING, "filename", "hostname"})  # In fio's words
ROLES = {  # What a column can hold, and its kind; `label.KEY` is text as well
    **dict.fromkeys(("name", *OPTIONS), "text"),
    "runtime": "time",
    "bs": "size",
    **_KINDS,
    **{f"{direction}.{key}": kind for direction in DIRECTIONS for key, kind in _KINDS.items()},
}
_SHOWN = (
    *(name for name in METRICS if name in ROLES),
    *LATENCIES,
    "bs",
    "rw",
    "iodepth",
    "runtime",
    "label.KEY",
    "name",
)
"""The roles in messages."""

_PREFIXES = ("", "k", "m", "g", "t")
_SIZES = {  # MB are 10^6 bytes, MiB and M are 2^20
    "b": 1.0,
    **{f"{letter}b": 1000.0**power for power, letter in enumerate(_PREFIXES) if letter},
    **{f"{letter}ib": 1024.0**power for power, letter in enumerate(_PREFIXES) if letter},
    **{letter: 1024.0**power for power, letter in enumerate(_PREFIXES) if letter},
    "bytes": 1.0,
    "kbytes": 1000.0,
}
_TIMES = {**NANOSECONDS, "usec": 10**3, "msec": 10**6, "sec": 10**9, "secs": 10**9, "seconds": 10**9}
UNITS: Mapping[str, Mapping[str, float]] = {  # Factors, by the kind of a figure
    "time": _TIMES,
    "bandwidth": _SIZES,
    "size": _SIZES,
    "rate": {letter: 1000.0**power for power, letter in enumerate(_PREFIXES)},
    "count": {"": 1.0},
    "text": {},
}
_NEEDS_UNIT = {"time": "ms", "bandwidth": "MiB/s"}  # Kinds without a usual unit, and an example
MISSING = re.compile(r"[-–—+*?.]*|n/?a|-?nan|-?inf|none|null", re.I)  # Cells without a figure
_CELL = re.compile(r"(?P<number>\d[\d.,'\u00a0\u202f]{0,40}(?:e[-+]?\d{1,3})?)\s*(?P<unit>[a-zµμ/]{0,12})", re.I)


def parse_columns(text: str) -> list[Column]:
    """Returns the columns of `iops=2,read.mean=5:ms,label.threads=threads`. Raises UsageError."""
    columns: list[Column] = []
    for part in text.split(","):
        role, equals, name = (word.strip() for word in part.partition("="))
        if not equals or not role or not name:
            raise UsageError(f"--columns: found {printable(part)!r}, expected ROLE=COLUMN, such as read.iops=2")
        role = _parse_role(role)
        header, _, unit = (word.strip() for word in name.rpartition(":"))
        kind = ROLES.get(role, "text")
        if header and _factor(kind, unit) is not None:
            columns.append(Column(role, kind, header, unit))
        else:
            columns.append(Column(role, kind, name))
    roles = [column.role for column in columns]
    for role in roles:
        if roles.count(role) > 1:
            raise UsageError(f"--columns: {role} has two columns, expected one")
    return columns


def _parse_role(text: str) -> str:
    if text in ROLES or re.fullmatch(r"label\.[^,:@~=\s]{1,60}", text):
        return text
    try:
        role = metric_name(text)
    except UsageError:
        role = ""
    if role not in ROLES:
        raise UsageError(f"--columns: no figure {printable(text)!r}; {near(text, _SHOWN)}")
    return role


def _factor(kind: str, unit: str) -> float | None:
    """Returns what a unit is in ns, bytes or a second; None for other words."""
    word = unit.lower().replace("μ", "µ")
    if kind in {"rate", "bandwidth"}:
        word = re.sub(r"(?<=.)(?:/s|/sec|ps)$|^/s(?:ec)?$", "", word)
        if kind == "rate":
            word = re.sub(r"(?:iops|ios?)$", "", word)
    return UNITS[kind].get(word)


def unit_in_header(header: str, kind: str) -> str | None:
    """Returns the unit at the end of a header: `LAT(ms)`, `latency_us`, `read MB/s`."""
    word = re.split(r"[\s_(\[,]+", header.rstrip(")] "))[-1]
    return word if word and word != header and _factor(kind, word) is not None else None


def is_figure(cell: str) -> bool:
    """Returns whether a cell is a number, or says that it is missing."""
    return bool(MISSING.fullmatch(cell) or _CELL.fullmatch(cell))


def parse_cell(cell: str, column: Column, location: str) -> float | None:
    """Returns a figure in ns, bytes or per second; None if the cell says that it is missing. Raises BlklabError."""
    text = cell.strip()
    if MISSING.fullmatch(text):
        return None
    match = _CELL.fullmatch(text)
    unit = (match["unit"] if match else "") or column.unit or ""
    factor = _factor(column.kind, unit)
    if factor is None and not unit and column.kind == "size":
        factor = 1.0
    if match is None or (factor is None and unit):
        raise BlklabError(f"{location}: found {printable(text[:40])!r}, expected a number for {column.role}")
    if factor is None:
        example = _NEEDS_UNIT[column.kind]
        raise BlklabError(
            f"{location}: found {printable(text[:40])!r} without a unit, "
            f"expected one in --columns, such as {column.role}={column.name}:{example}"
        )
    return number(_plain(match["number"]), location) * factor


def _plain(text: str) -> str:
    """Returns a number without separators of thousands: `1,234.5` and `1.234,5`."""
    digits = re.sub(r"['\u00a0\u202f]", "", text)
    if re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?", digits):
        return digits.replace(",", "")
    if re.fullmatch(r"[1-9]\d{0,2}((\.\d{3})+,\d*|(\.\d{3}){2,})", digits):
        return digits.replace(".", "")
    return digits


def read_figures(cells: Mapping[str, str], columns: Iterable[Column], location: str) -> dict[str, float]:
    """Returns the figures of a row by their roles."""
    figures = {}
    for column in columns:
        if column.kind != "text":
            value = parse_cell(cells.get(column.name, ""), column, location)
            if value is not None:
                figures[column.role] = value
    return figures


def read_texts(cells: Mapping[str, str], columns: Iterable[Column]) -> dict[str, str]:
    """Returns the name, labels and options of a row."""
    texts = {}
    for column in columns:
        cell = printable(cells.get(column.name, "").strip()[:200])
        if column.kind == "text" and cell:
            texts[column.role] = cell
    return texts
