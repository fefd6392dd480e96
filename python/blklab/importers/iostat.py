"""`iostat -x` of any sysstat version: a run of one device, and a series for each device.

Columns are found by name, in any order; decimals may have commas. I/Os are rates times the interval, summed over the
reports. Latencies are `await`: means, in queue and device. The interval is the distance of timestamps (`-t`), otherwise
the interval of a command line in the text, otherwise a second. The first report covers the time since boot and is
skipped, unless the text shows `iostat -y`, or `--keep-first` is given.

Lines of one device without any headings, as `grep sda` leaves them, have the columns of sysstat 8 to 11 if the mean
size of their I/Os is that of their bytes.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from blklab.errors import BlklabError
from blklab.importers.base import ImportedRun, ImportFile, ImportResult, ImportSource, number, outcome, sum_points
from blklab.outcome import DeviceResult, device_kind
from blklab.store.series import JOBS, SeriesPoint, pack_output
from blklab.text.printing import printable
from blklab.units import SECTOR

SECOND = 10**9


MOST = 10_000_000  # Maximum rows of a file

COLUMNS = frozenset(  # Columns of iostat -x, of all versions
    {
        "rrqm/s",
        "wrqm/s",
        "drqm/s",
        "%rrqm",
        "%wrqm",
        "%drqm",
        "r/s",
        "w/s",
        "d/s",
        "f/s",
        "rsec/s",
        "wsec/s",
        "rkB/s",
        "wkB/s",
        "dkB/s",
        "rMB/s",
        "wMB/s",
        "dMB/s",
        "avgrq-sz",
        "avgqu-sz",
        "aqu-sz",
        "areq-sz",
        "await",
        "r_await",
        "w_await",
        "d_await",
        "f_await",
        "rareq-sz",
        "wareq-sz",
        "dareq-sz",
        "svctm",
        "%util",
        "dsec/s",
        "kB/s",
        "rB/s",
        "wB/s",
    }
)
CPU = frozenset(  # Columns of its report on processors
    {"%user", "%nice", "%system", "%iowait", "%steal", "%idle"}
)

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|[()][0-9A-B])")
_COMMAND = re.compile(r"(?:^|[\s#$>/])iostat((?:\s+[^\s|>&;]{1,100}){0,40})")
_TIME = re.compile(
    r"(?:Time:\s{0,3})?(?:[\d./年月日-]{6,14}[ T]\s{0,3})?"
    r"(?P<before>[AP]M|午前|午後|上午|下午)?\s{0,3}"
    r"(?P<hours>\d{1,2})[:.h時时点](?P<minutes>\d{2})[:.m分](?P<seconds>\d{2})秒?"
    r"(?:\s{0,3}(?P<after>[AaPp]\.?[Mm]\.?|午前|午後|上午|下午))?"
    r"(?:\s{0,3}(?:[+-]\d{2}:?\d{2}|Z|[A-Z]{2,5}))?"
)
_VALUE = re.compile(r"(\d{1,18}(?:[.,]\d{1,9})?)([kKMGT%]?)")
_SCALES = {"": 1, "%": 1, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


BARE_COLUMNS = {  # Columns by the number of figures of a line: sysstat 8 and 9, then to 11.5 (iostat.c)
    11: "rrqm/s wrqm/s r/s w/s {read} {write} avgrq-sz avgqu-sz await svctm %util",
    13: "rrqm/s wrqm/s r/s w/s {read} {write} avgrq-sz avgqu-sz await r_await w_await svctm %util",
}
BYTE_COLUMNS = {SECTOR: ("rsec/s", "wsec/s"), 1024: ("rkB/s", "wkB/s"), 1 << 20: ("rMB/s", "wMB/s")}
"""Headings of bytes per second in lines without any, by their unit."""

BARE_LINES = 3  # Fewest lines without headings
BARE_SAMPLE = 100  # Lines that are looked at
BARE_ERROR = 0.1  # Most that the bytes of such lines may differ from the sizes of their I/Os: two decimals are printed


def find_missing_headings(text: str) -> list[str]:
    """Returns the headings of a text that has only lines of one device; none if these are not lines of iostat.

    `avgrq-sz` is the mean size in sectors, so it tells the unit of the bytes, and whether the columns are these.
    """
    rows = [line.split() for line in text.split("\n", BARE_SAMPLE)[:BARE_SAMPLE] if line.strip()]
    if len(rows) < BARE_LINES or len({row[0] for row in rows}) > 1 or len({len(row) for row in rows}) > 1:
        return []
    columns = BARE_COLUMNS.get(len(rows[0]) - 1)
    if columns is None or not all(_VALUE.fullmatch(word) for row in rows for word in row[1:]):
        return []
    figures = [[float(word.rstrip("kKMGT%").replace(",", ".")) for word in row[1:9]] for row in rows]
    sized_bytes = sum((reads + writes) * sectors * SECTOR for _, _, reads, writes, _, _, sectors, _ in figures)
    moved = sum(row[4] + row[5] for row in figures)
    for unit, (read, write) in BYTE_COLUMNS.items():
        if sized_bytes and abs(moved * unit / sized_bytes - 1) < BARE_ERROR:
            return ["Device", *columns.format(read=read, write=write).split()]
    return []


@dataclass
class IostatReport:
    line: int
    time_s: int | None = None  # Seconds since midnight
    devices: dict[str, dict[str, float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    """Rows of its tables; a report without rows is an interval without I/O (`-z`)."""


class IostatText:
    """The reports in a text."""

    def __init__(self, file: ImportFile) -> None:
        """Raises BlklabError with file and line."""
        self.reports: list[IostatReport] = []
        self.interval_s: int | None = None  # From a command line in the text
        self.skips_boot = False  # Whether that command line has `-y`
        self._file = file
        self._report: IostatReport | None = None
        self.missing_headings = [] if "%util" in file.text else find_missing_headings(file.text)
        self._columns: list[str] = self.missing_headings
        self._kind = "devices" if self.missing_headings else ""
        self._rows = self._rows_unnamed = 0
        self._headers = file.text.count("%util")
        for line_number, line in enumerate(file.text.split("\n"), 1):
            self._read(line_number, line)
        self.reports = [report for report in self.reports if report.columns]
        if self.reports and not self.reports[-1].devices:
            self.reports.pop()  # interrupted, not idle
        if not any(report.devices for report in self.reports):
            raise BlklabError(f"{file.location}: no table of iostat -x with a device")

    def _read(self, line_number: int, raw_line: str) -> None:
        line = _ANSI.sub("", raw_line.rstrip("\r")) if "\x1b" in raw_line else raw_line.rstrip("\r")
        fields = line[:4000].split()
        if not fields:
            # Rows form a block; a table of avg-cpu ends it.
            self._columns = [] if self._kind == "cpu" else self._columns
            return
        if self._is_header(line_number, fields):
            return
        if self._kind == "cpu" and self._columns and self._is_row(fields, 0):
            before = self._report
            report = self._begin(line_number, bool(before and (before.cpu or before.columns)))
            report.cpu = self._values(line_number, fields)
            self._columns = []
        elif self._kind == "devices" and self._columns and self._is_row(fields, 1):
            self._device(line_number, fields)
        elif self._kind == "devices" and self._is_unnamed(fields):
            self._rows_unnamed += 1
            # Rows of one table are devices; rows below the only header are intervals.
            number = self._rows_unnamed if self._headers > 1 else 1
            name = f"unnamed-{number}"
            name_index = next(index for index, word in enumerate(self._columns) if word not in COLUMNS)
            self._device(line_number, [*fields[:name_index], name, *fields[name_index:]])
        elif (time := _TIME.fullmatch(line.strip())) is not None:
            self._begin(line_number, True).time_s = _seconds(time)
        elif command := _COMMAND.search(line[:4000]):
            self._command(command[1].split())
        elif self._kind == "devices" and len(fields) > len(self._columns) // 2 and _looks_like_row(fields):
            excerpt = printable(line.strip()[:60])
            place = f"{self._file.location}:{line_number}"
            raise BlklabError(f"{place}: found {excerpt!r}, expected a device and {len(self._columns) - 1} figures")

    def _begin(self, line_number: int, new: bool) -> IostatReport:
        if new or self._report is None:
            self._report = IostatReport(line_number)
            self.reports.append(self._report)
        return self._report

    def _is_header(self, line_number: int, fields: Sequence[str]) -> bool:
        known_columns = [word for word in fields if word in COLUMNS]
        if len(known_columns) >= 2 and len(fields) - len(known_columns) <= 1:
            self._columns = list(fields)
            self._kind = "devices"
            self._rows_unnamed = 0
            if len(fields) == len(known_columns):
                # The name of the first column is truncated or empty.
                self._columns = ["Device", *fields]
            # A report has each column once; -h splits them into several tables.
            report = self._begin(line_number, bool(self._report and self._report.columns & set(known_columns)))
            report.columns |= set(known_columns)
            return True
        if sum(word in CPU for word in fields) >= 4:
            self._columns = [word for word in fields if word in CPU]
            self._kind = "cpu"
            return True
        return False

    def _is_unnamed(self, fields: Sequence[str]) -> bool:
        """Returns whether a line has all figures of a device, but no name."""
        return all(_VALUE.fullmatch(word) for word in fields) and len(fields) == len(self._columns) - 1

    def _is_row(self, fields: Sequence[str], names: int) -> bool:
        values = sum(_VALUE.fullmatch(word) is not None for word in fields)
        return len(fields) == len(self._columns) and values >= len(fields) - names

    def _values(self, line_number: int, fields: Sequence[str]) -> dict[str, float]:
        location = f"{self._file.location}:{line_number}"
        values = {}
        for column, word in zip(self._columns, fields, strict=True):
            if (match := _VALUE.fullmatch(word)) is not None and (column in COLUMNS or column in CPU):
                values[column] = number(match[1], location) * _SCALES[match[2]] / _unit(column, match[2])
        return values

    def _device(self, line_number: int, fields: Sequence[str]) -> None:
        self._rows += 1
        if self._rows > MOST:
            raise BlklabError(f"{self._file.location}:{line_number}: more than {MOST:,} rows")
        name_index = next(index for index, word in enumerate(self._columns) if word not in COLUMNS)
        name = printable(fields[name_index].rstrip(":"))
        values = self._values(line_number, fields)
        before = self._report
        earlier_values = before.devices.get(name) if before is not None else None
        # Without headers (grep), the next row of a device begins the next report.
        report = self._begin(line_number, bool(earlier_values and earlier_values.keys() & values.keys()))
        report.columns |= values.keys()
        report.devices.setdefault(name, {}).update(values)

    def _command(self, arguments: Sequence[str]) -> None:
        numbers = [word for word in arguments if word.isascii() and word.isdigit()]
        if numbers and int(numbers[0][:6]) > 0:
            self.interval_s = int(numbers[0][:6])
        flags = [word for word in arguments if word.startswith("-") and not word.startswith("--")]
        self.skips_boot = any("y" in flag for flag in flags)


def _looks_like_row(fields: Sequence[str]) -> bool:
    """Returns whether a line is a row: a name, followed mostly by figures."""
    values = sum(_VALUE.fullmatch(word) is not None for word in fields[1:])
    return values > 3 and values >= len(fields) - 2 and _VALUE.fullmatch(fields[0]) is None


def _unit(column: str, suffix: str) -> float:
    """Returns the factor of a suffix of `-h` within the column's unit: kB/s has k already."""
    if suffix in {"", "%"}:
        return 1.0
    return {"k": 1024.0, "M": float(1 << 20)}.get(column[1:2], 1.0) if "B/s" in column else 1.0


def _seconds(time: "re.Match[str]") -> int:
    hours, minutes, seconds = (int(time[key] or 0) for key in ("hours", "minutes", "seconds"))
    half = (time["after"] or time["before"] or "").upper().replace(".", "")
    if half in {"PM", "午後", "下午"}:
        hours = hours % 12 + 12
    elif half in {"AM", "午前", "上午"}:
        hours %= 12
    return (hours * 60 + minutes) * 60 + seconds


def matches(file: ImportFile) -> bool:
    """Returns whether there is a table of `iostat -x` in a text, or lines of one without its headings."""
    if "%util" not in file.text:
        return bool(find_missing_headings(file.text))
    lines = file.text.split("\n")
    return any("%util" in line and ("r/s" in line or "aqu-sz" in line) and "|" not in line for line in lines)


def read(source: ImportSource) -> ImportResult:
    """Returns one run for each file."""
    parts = [_run(file, IostatText(file), source) for file in source.files]
    return ImportResult([run for run, _ in parts], [note for _, notes in parts for note in notes])


def _run(file: ImportFile, text: IostatText, source: ImportSource) -> tuple[ImportedRun, list[str]]:
    reports = list(text.reports)
    notes = []
    if text.missing_headings:
        notes.append(f"{file.location}: no headings: taken for {' '.join(text.missing_headings[1:])}")
    if not (text.skips_boot or source.keep_first):
        if len(reports) == 1:
            raise BlklabError(
                f"{file.location}: only one report, which covers the time since boot: "
                "expected two or more (or --keep-first, for iostat -y)"
            )
        line = reports.pop(0).line
        notes.append(f"{file.location}:{line}: the first report covers the time since boot: skipped")
    widths, problems = _widths(reports, text, source)
    notes += [f"{file.location}: {problem}" for problem in problems]
    names = list(dict.fromkeys(name for report in reports for name in report.devices))
    if not names:
        raise BlklabError(f"{file.location}: no device in the reports after the first")
    points = {name: _points(name, reports, widths) for name in names}
    device = _select_device(file, points, source.device)
    runtime = sum(widths)
    devices = [_device(name, names, reports, widths) for name in names]
    device_points = points[device]
    directions = [sum_points(device_points, index, runtime, {}) for index in (0, 1)]
    if not any(direction.total_ios for direction in directions):
        raise BlklabError(f"{file.location}: {device} did no I/O")
    result = outcome(device, runtime, directions, devices, [problem.partition(": ")[2] for problem in notes])
    result.cpu = _cpu(reports, widths)
    jobs = [replace(point, source=JOBS) for point in device_points]
    all_points = [point for series in points.values() for point in series]
    run = ImportedRun(
        file.location, "iostat", {}, result, [*jobs, *all_points], pack_output(file.text), {"device": device}
    )
    return run, notes


def _widths(reports: Sequence[IostatReport], text: IostatText, source: ImportSource) -> tuple[list[int], list[str]]:
    """Returns the interval of each report in ns, and notes."""
    usual = source.interval_ns or (text.interval_s or 0) * SECOND
    notes = []
    gaps = [
        (later.time_s - sooner.time_s) % 86400 if later.time_s is not None and sooner.time_s is not None else 0
        for sooner, later in zip(text.reports, text.reports[1:], strict=False)
    ]
    # The interval of a report is the time before it; the first one has none.
    before = dict(zip([report.line for report in text.reports[1:]], gaps, strict=True))
    sorted_gaps = sorted(gap for gap in gaps if gap)
    if source.interval_ns is None and sorted_gaps:
        usual = sorted_gaps[len(sorted_gaps) // 2] * SECOND
    elif not usual:
        usual = SECOND
        notes.append("no times and no interval: assuming one report per second (--interval)")
    gaps_ns = (before.get(report.line, 0) * SECOND for report in reports)
    return [gap if gap and source.interval_ns is None else usual for gap in gaps_ns], notes


def _select_device(file: ImportFile, points: Mapping[str, Sequence[SeriesPoint]], device: str | None) -> str:
    """Returns the device of the run: the named one, the only one with I/O, or the only array."""
    if device is not None:
        if device not in points:
            raise BlklabError(f"{file.location}: no device {device!r}; it has {', '.join(points)}")
        return device
    busy = []
    for name, series in points.items():
        if any(point.read_ios or point.write_ios for point in series):
            busy.append(name)
    busy = busy or list(points)
    arrays = [name for name in busy if _kind(name) == "md"]
    for candidates in (busy, arrays):
        if len(candidates) == 1:
            return candidates[0]
    raise BlklabError(f"{file.location}: {len(busy)} devices: select one with --device: {', '.join(busy[:40])}")


def _kind(name: str, names: Sequence[str] = ()) -> str:
    parts = (name.removeprefix(parent) for parent in names if name.startswith(parent))
    return "partition" if any(part.removeprefix("p").isdigit() for part in parts) else device_kind(name)


class _IostatRow:
    """A device in a report, in blklab's units."""

    def __init__(self, row: Mapping[str, float], width_ns: int) -> None:
        seconds = width_ns / SECOND
        self.ios = [row.get(f"{direction}/s", 0.0) * seconds for direction in "rw"]
        self.bytes = [self._bytes(row, letter) * seconds for letter in "rw"]
        self.merges = [row.get(f"{letter}rqm/s", 0.0) * seconds for letter in "rw"]
        waits = [row.get(f"{letter}_await", row.get("await")) for letter in "rw"]
        pairs = zip(waits, self.ios, strict=True)
        self.waits = [None if wait is None or not ios else wait * 1e6 for wait, ios in pairs]
        self.busy = row.get("%util", 0.0) / 100 * width_ns
        queue = row.get("aqu-sz", row.get("avgqu-sz"))
        self.queue = None if queue is None else queue * width_ns
        self.flushes = row["f/s"] * seconds if "f/s" in row else None
        self.flush_ns = (self.flushes or 0) * row.get("f_await", 0.0) * 1e6
        self.discards = row["d/s"] * seconds if "d/s" in row else None

    @staticmethod
    def _bytes(row: Mapping[str, float], direction: str) -> float:
        for unit, scale in (("sec", SECTOR), ("kB", 1024), ("MB", 1 << 20), ("B", 1)):
            if f"{direction}{unit}/s" in row:
                return row[f"{direction}{unit}/s"] * scale
        return 0.0


def _points(name: str, reports: Sequence[IostatReport], widths: Sequence[int]) -> list[SeriesPoint]:
    points = []
    time = 0
    for report, width in zip(reports, widths, strict=True):
        row = _IostatRow(report.devices.get(name, {}), width)
        points.append(SeriesPoint(name, time, width, *map(round, row.ios), *map(round, row.bytes), *row.waits))
        time += width
    return points


def _device(name: str, names: Sequence[str], reports: Sequence[IostatReport], widths: Sequence[int]) -> DeviceResult:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    single: dict[str, float | None] = defaultdict(float)
    for report, width in zip(reports, widths, strict=True):
        if name not in report.devices:
            continue
        row = _IostatRow(report.devices[name], width)
        for direction in (0, 1):
            sums["ios"][direction] += row.ios[direction]
            sums["merges"][direction] += row.merges[direction]
            sums["sectors"][direction] += row.bytes[direction] / SECTOR
            sums["ticks_ns"][direction] += row.ios[direction] * (row.waits[direction] or 0.0)
        single["busy_ns"] = (single["busy_ns"] or 0.0) + row.busy
        for key, value in (
            ("queue_ns", row.queue),
            ("flushes", row.flushes),
            ("flush_ns", row.flush_ns if row.flushes is not None else None),
            ("discards", row.discards),
        ):
            single[key] = None if value is None else (single[key] or 0.0) + value
    kind = _kind(name, names)
    figures: dict[str, Any] = {}
    for key, pair in sums.items():
        figures[key] = [round(amount) for amount in pair]
    figures |= {key: None if value is None else round(value) for key, value in single.items()}
    return DeviceResult(name, **figures, kind=kind, leaf=kind in {"disk", "loop"})


def _cpu(reports: Sequence[IostatReport], widths: Sequence[int]) -> dict[str, float] | None:
    """Returns shares of all CPUs, the mean over the reports; None without `avg-cpu`."""
    facts = [(report.cpu, width) for report, width in zip(reports, widths, strict=True) if report.cpu]
    total_width = sum(width for _, width in facts)
    if not total_width:
        return None

    def share(*columns: str) -> float:
        shares = []
        for cpu, width in facts:
            percentage = sum(cpu.get(column, 0.0) for column in columns)
            shares.append(percentage * width)
        return sum(shares) / (100 * total_width)

    return {
        "user": share("%user", "%nice"),
        "system": share("%system"),
        "iowait": share("%iowait"),
        # iostat counts interrupts as system time.
        "irq": 0.0,
        "idle": share("%idle"),
    }
