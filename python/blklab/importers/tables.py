"""Tables of results: those whose columns the user names, and outputs of programs with a preset in presets.toml.

A row of a table is a run. Of a program's output, regular expressions find the results; each has one run or more.
"""

import csv
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from blklab.compare.metrics import WAYS
from blklab.errors import BlklabError, UsageError
from blklab.importers.base import (
    MOST_RUNS,
    Column,
    ImportedRun,
    ImportFile,
    ImportFormat,
    ImportResult,
    ImportSource,
    TableColumns,
    outcome,
)
from blklab.importers.columns import (
    DIRECTIONS,
    OPTIONS,
    is_figure,
    parse_columns,
    read_figures,
    read_texts,
    unit_in_header,
)
from blklab.outcome import DirectionResult, LatencyResult, SyncResult
from blklab.package_data import toml_file
from blklab.store.series import pack_output
from blklab.text.printing import printable
from blklab.units import parse_size

_SPACES = re.compile(r"\s+(?!(?:[kKMGT]?i?B(?:/s(?:ec)?)?|[mnuµμ]?s)(?:\s|$))")  # A unit belongs to its number
_LATENCIES = ("mean", "stddev", "min", "max", "p50", "p95", "p99", "p99_9", "p99_99")
_NOUNS = {"read": "reads", "write": "writes", "sync": "fsyncs"}
SECOND = 1e9  # ns
_RULE = re.compile(r"[-+=|:\s_]*")  # Lines below a header
_LONGEST_LINE = 20_000


# --- runs from figures ---------------------------------------------------------------------------


@dataclass
class _Row:
    """What is known about a run: figures by their roles, and text."""

    location: str
    name: str
    figures: dict[str, float]
    texts: dict[str, str]  # Options in fio's words, and `label.KEY`

    @property
    def block_size(self) -> float:
        try:
            return self.figures.get("bs") or parse_size(self.texts.get("bs", ""))
        except ValueError:
            return 0


def _make_run(row: _Row, raw: bytes, notes: list[str]) -> ImportedRun | None:
    """Returns the run of a row; None without figures. Raises BlklabError for figures that do not fit together."""
    _give_directions(row, notes)
    runtime_ns = _runtime(row.figures)
    read, write, sync = (_direction(row, direction, runtime_ns) for direction in DIRECTIONS)
    if not any(direction.total_ios or _has_latencies(direction) for direction in (read, write, sync)):
        return None
    texts = dict(row.texts)
    if "bs" in row.figures:
        texts["bs"] = str(round(row.figures["bs"]))
    labels = {key.removeprefix("label."): value for key, value in texts.items() if key.startswith("label.")}
    options = {key: value for key, value in texts.items() if key in OPTIONS}
    result = outcome(row.name, round(runtime_ns or SECOND), (read, write))
    if sync.total_ios or _has_latencies(sync):
        result.sync = SyncResult(sync.total_ios, sync.iops, sync.clat_ns)
    return ImportedRun(row.location, row.name, options, result, raw=raw, labels=labels)


def _has_latencies(direction: DirectionResult) -> bool:
    return any(getattr(direction.clat_ns, key) for key in _LATENCIES)


def _give_directions(row: _Row, notes: list[str]) -> None:
    """Replaces figures without a direction by those of the only direction with I/Os."""
    figures = row.figures
    roles = [role for role in figures if "." not in role and role not in {"bs", "runtime"}]
    if not roles:
        return
    directions = [way for way in DIRECTIONS if any(v for key, v in figures.items() if key.startswith(f"{way}."))]
    mode = row.texts.get("rw", "")
    if not directions and mode in {"rw", "randrw", "readwrite"}:
        directions = list(WAYS)
    elif not directions:
        directions = [way for way in WAYS if way in mode]
    if not directions:
        directions = ["read"]
        notes.append(f"{row.location}: the direction is unknown: reads are assumed; --label rw=write for writes")
    mixed_roles = []
    for role in roles:
        value = figures.pop(role)
        missing = [way for way in directions if f"{way}.{role}" not in figures]
        if len(directions) == 1:
            figures.setdefault(f"{directions[0]}.{role}", value)
        elif role in {"iops", "bw", "ios", "bytes"} and len(missing) == 1 and len(directions) == 2:
            (other,) = (way for way in directions if way not in missing)
            figures[f"{missing[0]}.{role}"] = max(0.0, value - figures[f"{other}.{role}"])
        elif missing:
            mixed_roles.append(role)
    if mixed_roles:
        names = ", ".join(_NOUNS[direction] for direction in directions)
        notes.append(f"{row.location}: {', '.join(mixed_roles)} of {names} together: left out")


def _runtime(figures: Mapping[str, float]) -> float:
    """Returns ns: those that are known, or what the bytes took at their rate; 0 if that is unknown."""
    if figures.get("runtime"):
        return figures["runtime"]
    rates = {way: figures.get(f"{way}.bw", 0.0) for way in WAYS if figures.get(f"{way}.bytes")}
    fastest = max(rates, key=lambda way: rates[way], default="read")
    rate = rates.get(fastest)
    return max(1.0, figures[f"{fastest}.bytes"] / rate * SECOND) if rate else 0.0


def _direction(row: _Row, direction: str, runtime_ns: float) -> DirectionResult:
    prefix = f"{direction}."
    figures = {role.removeprefix(prefix): value for role, value in row.figures.items() if role.startswith(prefix)}
    bw = figures.pop("bw", 0.0)
    size = figures.pop("bytes", 0.0) if runtime_ns else 0.0
    iops = figures.pop("iops", 0.0)
    ios = figures.pop("ios", 0.0) if runtime_ns else 0.0
    seconds = (runtime_ns or SECOND) / SECOND
    bw = bw or size / seconds
    iops = iops or ios / seconds
    if bw and not iops:
        if not row.block_size:
            raise BlklabError(
                f"{row.location}: found {direction}.bw, expected {direction}.iops as well, or the size of the I/Os: "
                "bs=COLUMN, or --label bs=128k"
            )
        iops = bw / row.block_size
    bw = bw or iops * row.block_size
    count = max(1, round(ios or iops * seconds)) if iops else 0
    # A latency of 0.0 is one that the table is too coarse for.
    latencies = {key: value for key, value in figures.items() if key in _LATENCIES and value}
    return DirectionResult(count, round(size or bw * seconds), iops, bw, LatencyResult(count, **latencies))  # type: ignore[arg-type]


# --- tables whose columns the user names ---------------------------------------------------------


def read_table(source: ImportSource) -> ImportResult:
    """Returns a run for each row of tables whose columns are named."""
    if source.table is None:
        raise UsageError("--format table needs --columns, such as --columns read.iops=2,read.mean=5:ms")
    notes: list[str] = []
    runs = [run for file in source.files for run in _table_runs(file, source.table, source.options, notes)]
    return ImportResult(runs, _first_notes(notes))


def _table_runs(
    file: ImportFile, table: TableColumns, options: Mapping[str, str], notes: list[str]
) -> list[ImportedRun]:
    lines = list(_table_lines(file))
    start, separator, positions, header = _find_columns(file, lines, table)
    columns = list(positions)
    runs = []
    for line_number, line in lines[start:]:
        location = f"{file.location}:{line_number}"
        cells = _split_line(line, separator)
        if cells == header:
            continue
        if len(cells) <= max(positions.values()):
            found = f"found {len(cells)} columns in {printable(line.strip()[:40])!r}"
            raise BlklabError(f"{location}: {found}, expected at least {max(positions.values()) + 1}")
        named_cells = {column.name: cells[position] for column, position in positions.items()}
        texts = {**options, **read_texts(named_cells, columns)}
        row = _Row(location, texts.pop("name", "table"), read_figures(named_cells, columns, location), texts)
        run = _make_run(row, pack_output(line), notes)
        if run is not None:
            runs.append(run)
    if not runs:
        raise BlklabError(f"{file.location}: the rows have no figures above 0: expected some")
    return runs


def _table_lines(file: ImportFile) -> Iterator[tuple[int, str]]:
    """Yields the lines with cells, and their numbers from 1. Raises BlklabError for too many, and for long ones."""
    count = 0
    for line_number, whole_line in enumerate(file.text.split("\n"), 1):
        line = whole_line.replace("\r", " ")
        if len(line) > _LONGEST_LINE:
            raise BlklabError(f"{file.location}:{line_number}: has {len(line):,} characters, expected a row of a table")
        if not _RULE.fullmatch(line) and not line.lstrip().startswith("#"):
            count += 1
            if count > MOST_RUNS + 1000:
                raise BlklabError(f"{file.location}: has more than {MOST_RUNS:,} rows, expected fewer")
            yield line_number, line


def _find_columns(
    file: ImportFile, lines: Sequence[tuple[int, str]], table: TableColumns
) -> tuple[int, str, dict[Column, int], list[str]]:
    """Returns the index of the first row, the separator, the position of each column, and the header."""
    by_number = all(column.name.isdecimal() for column in table.columns)
    header: list[str] = []
    for index, (_, line) in enumerate(lines):
        separator = table.separator or _detect_separator(line)
        cells = _split_line(line, separator)
        positions = {column: _position(column, cells) for column in table.columns}
        if None not in positions.values():
            found = {column: position for column, position in positions.items() if position is not None}
            if not by_number:
                return index + 1, separator, _with_units(found, cells), cells
            # Without names, the first row is the first line with numbers in all columns.
            if all(column.kind == "text" or is_figure(cells[position]) for column, position in found.items()):
                return index, separator, _with_units(found, header), header
        header = cells
    names = ", ".join(column.name for column in table.columns)
    if not lines:
        raise BlklabError(f"{file.location}: has no rows, expected a table")
    line_number, line = lines[0]
    seen = ", ".join(_split_line(line, table.separator or _detect_separator(line))[:20])
    problem = "no line has numbers in the columns" if by_number else "no line has the columns"
    raise BlklabError(f"{file.location}:{line_number}: {problem} {names}; this one has {printable(seen[:200])}")


def _position(column: Column, cells: Sequence[str]) -> int | None:
    if column.name.isdecimal():
        position = int(column.name[:9]) - 1
        return position if 0 <= position < len(cells) else None
    lower = [cell.lower() for cell in cells]
    return lower.index(column.name.lower()) if column.name.lower() in lower else None


def _with_units(positions: Mapping[Column, int], header: Sequence[str]) -> dict[Column, int]:
    """Returns the columns with the units of their headers where the user named none."""
    columns = {}
    for column, position in positions.items():
        in_header = unit_in_header(header[position], column.kind) if position < len(header) else None
        columns[replace(column, unit=column.unit or in_header)] = position
    return columns


def _detect_separator(line: str) -> str:
    for separator in "\t;|":
        if separator in line:
            return separator
    # The commas in `1,234 5.6` are no separators.
    if "," in line and (re.search(r",(?!\d{3}(?!\d))", line) or not re.search(r"\s", line.strip())):
        return ","
    return " "


def _split_line(line: str, separator: str) -> list[str]:
    """Returns the cells of a line. Cells in double quotes can contain the separator."""
    if separator == " ":
        return _SPACES.split(line.strip())
    if separator == "|":
        line = line.strip().removeprefix("|").removesuffix("|")
    return [word.strip() for word in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


def _first_notes(notes: Sequence[str]) -> list[str]:
    """Returns the first note, and how many more rows it is true for."""
    if len(notes) < 2:
        return list(notes)
    return [f"{notes[0]} (and {len(notes) - 1} more rows)"]


# --- programs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ContextPattern:
    """What is said between results."""

    pattern: re.Pattern[str]
    texts: Mapping[str, str]
    forget: bool  # Whether all that was said before is about something else


@dataclass(frozen=True)
class _ProgramRun:
    """A run in each result."""

    name: str
    texts: Mapping[str, str]
    columns: Sequence[Column]


class _Program:
    """A preset: how to find a program's results, and what they contain."""

    def __init__(self, name: str, preset: Mapping[str, Any]) -> None:
        self.name = name
        self.expected = preset["expected"]
        self.signs = _compile(preset["signs"])
        self.start = _compile(preset["start"])
        self.rows = [_compile(row) for row in preset["rows"]]
        self.texts = preset.get("set", {})
        self.contexts = []
        for context in preset.get("context", ()):
            texts = context.get("set", {})
            self.contexts.append(_ContextPattern(_compile(context["pattern"]), texts, context.get("forget", False)))
        self.runs = []
        for run in preset["runs"]:
            texts = {"rw": run["rw"]} if "rw" in run else {}
            run_name = run.get("name", preset["runner"])
            self.runs.append(_ProgramRun(run_name, texts, parse_columns(run["columns"])))


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE | re.VERBOSE)


PRESETS: Mapping[str, Mapping[str, Any]] = toml_file("blklab.importers", "presets.toml")


@cache
def _program(name: str) -> _Program:
    return _Program(name, PRESETS[name])


def _matches(name: str, file: ImportFile) -> bool:
    return _program(name).signs.search(file.text) is not None


def _read_program(name: str, source: ImportSource) -> ImportResult:
    program = _program(name)
    notes: list[str] = []
    runs = [run for file in source.files for run in _program_runs(program, file, source.options, notes)]
    return ImportResult(runs, _first_notes(notes))


@dataclass(frozen=True)
class _Result:
    """A result in a program's output."""

    location: str  # Where it begins
    table: str  # The place of the last sign: results of one table have the same
    text: str
    cells: Mapping[str, str]
    context: Mapping[str, str]  # What was said before


def _program_runs(
    program: _Program, file: ImportFile, options: Mapping[str, str], notes: list[str]
) -> list[ImportedRun]:
    runs: list[ImportedRun] = []
    for result in _results(program, file):
        runs += _runs_of_result(program, result, options, notes)
        if len(runs) > MOST_RUNS:
            raise BlklabError(f"{file.location}: has more than {MOST_RUNS:,} runs, expected fewer")
    if not runs:
        raise BlklabError(f"{file.location}: no results of {program.name}, expected {program.expected}")
    return runs


def _results(program: _Program, file: ImportFile) -> Iterator[_Result]:
    """Yields the results in a text. Raises BlklabError for one that is incomplete."""
    text = file.text
    signs = [sign.start() for sign in program.signs.finditer(text)]
    said: dict[str, str] = {}
    line = 1
    counted = 0
    end = 0
    for start, context, match in _events(program, text):
        line += text.count("\n", counted, start)
        counted = start
        if context is not None:
            if context.forget:
                said = {}
            said |= context.texts
            said |= {key: printable(value) for key, value in match.groupdict().items() if value}
            continue
        sign = bisect_right(signs, start)
        if not sign or start < end:
            continue
        row = _match_row(program, text, start)
        if row is None:
            found = printable(text[start : start + 200].strip().partition("\n")[0][:60])
            raise BlklabError(f"{file.location}:{line}: found {found!r}, expected {program.expected}")
        end = row.end()
        table_line = line - text.count("\n", signs[sign - 1], start)
        cells = {key: value or "" for key, value in row.groupdict().items()}
        yield _Result(f"{file.location}:{line}", f"{file.location}:{table_line}", row[0], cells, dict(said))


def _events(program: _Program, text: str) -> list[tuple[int, _ContextPattern | None, re.Match[str]]]:
    """Returns the contexts and the beginnings of results in the order of the text."""
    events: list[tuple[int, _ContextPattern | None, re.Match[str]]] = []
    for context in program.contexts:
        events += [(match.start(), context, match) for match in context.pattern.finditer(text)]
    events += [(match.start(), None, match) for match in program.start.finditer(text)]
    return sorted(events, key=lambda event: event[0])


def _match_row(program: _Program, text: str, place: int) -> re.Match[str] | None:
    for pattern in program.rows:
        match = pattern.match(text, place)
        if match is not None:
            return match
    return None


def _runs_of_result(
    program: _Program, result: _Result, options: Mapping[str, str], notes: list[str]
) -> Iterator[ImportedRun]:
    context = {**program.texts, **options, **result.context}
    seconds = context.pop("runtime", "")
    common = {key if key in OPTIONS else f"label.{key}": value for key, value in context.items()}
    for run in program.runs:
        figures = read_figures(result.cells, run.columns, result.location)
        if seconds.isdecimal():
            figures.setdefault("runtime", float(seconds) * SECOND)
        texts = {**common, **run.texts, **read_texts(result.cells, run.columns)}
        imported = _make_run(_Row(result.table, run.name, figures, texts), pack_output(result.text), notes)
        if imported is not None and any(imported.outcome.direction(way).total_ios for way in WAYS):
            yield imported


FORMATS = (
    *(
        ImportFormat(
            name, preset["runner"], preset["description"], partial(_matches, name), partial(_read_program, name)
        )
        for name, preset in PRESETS.items()
    ),
    ImportFormat("table", "table", "a table with --columns", lambda _file: False, read_table),
)
