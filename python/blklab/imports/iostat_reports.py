"""The reports in iostat's text: devices and CPUs by interval."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from blklab.errors import BlklabError
from blklab.imports.base import ImportFile, number
from blklab.text import printable

MOST: Final = 10_000_000  # Maximum rows of a file

COLUMNS: Final = frozenset(
    (
        *("rrqm/s", "wrqm/s", "drqm/s", "%rrqm", "%wrqm", "%drqm"),
        *("r/s", "w/s", "d/s", "f/s", "rsec/s", "wsec/s", "rkB/s", "wkB/s", "dkB/s"),
        *("rMB/s", "wMB/s", "dMB/s", "avgrq-sz", "avgqu-sz", "aqu-sz", "areq-sz"),
        *("await", "r_await", "w_await", "d_await", "f_await"),
        *("rareq-sz", "wareq-sz", "dareq-sz", "svctm", "%util"),
        *("dsec/s", "kB/s", "rB/s", "wB/s"),
    )
)
CPU: Final = frozenset({"%user", "%nice", "%system", "%iowait", "%steal", "%idle"})

_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|[()][0-9A-B])")
_COMMAND: Final = re.compile(r"(?:^|[\s#$>/])iostat((?:\s+[^\s|>&;]{1,100}){0,40})")
_TIME: Final = re.compile(
    r"(?:Time:\s{0,3})?(?:[\d./年月日-]{6,14}[ T]\s{0,3})?"
    r"(?P<before>[AP]M|午前|午後|上午|下午)?\s{0,3}"
    r"(?P<hours>\d{1,2})[:.h時时点](?P<minutes>\d{2})[:.m分](?P<seconds>\d{2})秒?"
    r"(?:\s{0,3}(?P<after>[AaPp]\.?[Mm]\.?|午前|午後|上午|下午))?"
    r"(?:\s{0,3}(?:[+-]\d{2}:?\d{2}|Z|[A-Z]{2,5}))?"
)
_VALUE: Final = re.compile(r"(\d{1,18}(?:[.,]\d{1,9})?)([kKMGT%]?)")
_SCALES: Final = {"": 1, "%": 1, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass
class IostatReport:
    """One report of iostat."""

    line: int
    time_s: int | None = None  # Seconds since midnight
    devices: dict[str, dict[str, float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    """Rows of its tables; a report without rows is an interval without I/O (`-z`)."""


@dataclass(frozen=True)
class IostatText:
    """A text with reports of iostat."""

    reports: Sequence[IostatReport]
    interval_s: int | None  # From a command line in the text
    skips_boot: bool  # Whether that command line has `-y`


def parse_reports(file: ImportFile) -> IostatText:
    """Returns the reports in a text. Raises BlklabError with file and line."""
    reader = _ReportReader(file)
    for at, line in enumerate(file.text.split("\n"), 1):
        reader.read(at, line)
    reports = [report for report in reader.reports if report.columns]
    if reports and not reports[-1].devices:
        reports.pop()  # interrupted, not idle
    if not any(report.devices for report in reports):
        raise BlklabError(f"{file.where}: no table of iostat -x with a device")
    return IostatText(reports, reader.interval_s, reader.skips_boot)


class _ReportReader:
    def __init__(self, file: ImportFile) -> None:
        self.reports: list[IostatReport] = []
        self.interval_s: int | None = None
        self.skips_boot = False
        self._file = file
        self._report: IostatReport | None = None
        self._columns: list[str] = []
        self._kind = ""
        self._rows = self._rows_unnamed = 0
        self._headers = file.text.count("%util")

    def read(self, at: int, whole: str) -> None:
        line = _ANSI.sub("", whole.rstrip("\r")) if "\x1b" in whole else whole.rstrip("\r")
        words = line[:4000].split()
        if not words:
            # Rows form a block; a table of avg-cpu ends it.
            self._columns = [] if self._kind == "cpu" else self._columns
            return
        if self._is_header(at, words):
            return
        if self._kind == "cpu" and self._columns and self._is_row(words, 0):
            before = self._report
            report = self._begin(at, bool(before and (before.cpu or before.columns)))
            report.cpu = self._values(at, words)
            self._columns = []
        elif self._kind == "devices" and self._columns and self._is_row(words, 1):
            self._device(at, words)
        elif self._kind == "devices" and self._is_unnamed(words):
            self._rows_unnamed += 1
            # Rows of one table are devices; rows below the only header are intervals.
            name = f"unnamed-{self._rows_unnamed if self._headers > 1 else 1}"
            place = next(at for at, word in enumerate(self._columns) if word not in COLUMNS)
            self._device(at, [*words[:place], name, *words[place:]])
        elif (time := _TIME.fullmatch(line.strip())) is not None:
            self._begin(at, True).time_s = _seconds(time)
        elif command := _COMMAND.search(line[:4000]):
            self._command(command[1].split())
        elif self._kind == "devices" and len(words) > len(self._columns) // 2 and _odd(words):
            raise BlklabError(
                f"{self._file.where}:{at}: found {printable(line.strip()[:60])!r},"
                f" expected a device and {len(self._columns) - 1} figures"
            )

    def _begin(self, at: int, new: bool) -> IostatReport:
        if new or self._report is None:
            self._report = IostatReport(at)
            self.reports.append(self._report)
        return self._report

    def _is_header(self, at: int, words: Sequence[str]) -> bool:
        known = [word for word in words if word in COLUMNS]
        if len(known) >= 2 and len(words) - len(known) <= 1:
            self._columns, self._kind = list(words), "devices"
            self._rows_unnamed = 0
            if len(words) == len(known):
                # The name of the first column is truncated or empty.
                self._columns = ["Device", *words]
            # A report has each column once; -h splits them into several tables.
            report = self._begin(at, bool(self._report and self._report.columns & set(known)))
            report.columns |= set(known)
            return True
        if sum(word in CPU for word in words) >= 4:
            self._columns, self._kind = [word for word in words if word in CPU], "cpu"
            return True
        return False

    def _is_unnamed(self, words: Sequence[str]) -> bool:
        """Returns whether a line has all figures of a device, but no name."""
        figures = all(_VALUE.fullmatch(word) for word in words)
        return figures and len(words) == len(self._columns) - 1

    def _is_row(self, words: Sequence[str], names: int) -> bool:
        values = sum(_VALUE.fullmatch(word) is not None for word in words)
        return len(words) == len(self._columns) and values >= len(words) - names

    def _values(self, at: int, words: Sequence[str]) -> dict[str, float]:
        where = f"{self._file.where}:{at}"
        values = {}
        for column, word in zip(self._columns, words, strict=True):
            match = _VALUE.fullmatch(word)
            if match is not None and (column in COLUMNS or column in CPU):
                values[column] = number(match[1], where) * _SCALES[match[2]] / _unit(column, match[2])
        return values

    def _device(self, at: int, words: Sequence[str]) -> None:
        self._rows += 1
        if self._rows > MOST:
            raise BlklabError(f"{self._file.where}:{at}: more than {MOST:,} rows")
        place = next(at for at, word in enumerate(self._columns) if word not in COLUMNS)
        name = printable(words[place].rstrip(":"))
        values = self._values(at, words)
        before = self._report
        known = before.devices.get(name) if before is not None else None
        # Without headers (grep), the next row of a device begins the next report.
        report = self._begin(at, bool(known and known.keys() & values.keys()))
        report.columns |= values.keys()
        report.devices.setdefault(name, {}).update(values)

    def _command(self, words: Sequence[str]) -> None:
        numbers = [word for word in words if word.isascii() and word.isdigit()]
        if numbers and int(numbers[0][:6]) > 0:
            self.interval_s = int(numbers[0][:6])
        flags = [word for word in words if word.startswith("-") and not word.startswith("--")]
        self.skips_boot = any("y" in flag for flag in flags)


def _odd(words: Sequence[str]) -> bool:
    """Returns whether a line is a row: a name, followed mostly by figures."""
    values = sum(_VALUE.fullmatch(word) is not None for word in words[1:])
    return values > 3 and values >= len(words) - 2 and _VALUE.fullmatch(words[0]) is None


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
