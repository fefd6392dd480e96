"""`iostat -x` of any sysstat version: a run of one device, and a series for each device.

Columns are found by name, in any order; decimals may have commas. I/Os are rates times the interval, summed over the
reports. Latencies are `await`: means, in queue and device. The interval is the distance of timestamps (`-t`), otherwise
the interval of a command line in the text, otherwise a second. The first report covers the time since boot and is
skipped, unless the text shows `iostat -y`, or `--keep-first` is given.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from blklab.errors import BlklabError
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource, device, of_points, outcome
from blklab.imports.iostat_reports import IostatReport, IostatText, parse_reports
from blklab.outcome import DeviceResult, device_kind
from blklab.store.series import JOBS, SeriesPoint

SECOND: Final = 10**9


def matches(file: ImportFile) -> bool:
    """Returns whether there is a table of `iostat -x` in a text."""
    return any(
        "%util" in line and ("r/s" in line or "aqu-sz" in line) and "|" not in line for line in file.text.split("\n")
    )


def read(given: ImportSource) -> ImportResult:
    """Returns one run for each file."""
    runs, notes = [], []
    for file in given.files:
        run, problems = _run(file, parse_reports(file), given)
        runs.append(run)
        notes += problems
    return ImportResult(runs, notes)


def _run(file: ImportFile, text: IostatText, given: ImportSource) -> tuple[ImportedRun, list[str]]:
    reports, notes = list(text.reports), []
    if not (text.skips_boot or given.keep_first):
        if len(reports) == 1:
            raise BlklabError(
                f"{file.where}: only one report, which covers the time since boot:"
                " expected two or more (or --keep-first, for iostat -y)"
            )
        line = reports.pop(0).line
        notes.append(f"{file.where}:{line}: the first report covers the time since boot: skipped")
    widths, problems = _widths(reports, text, given)
    notes += [f"{file.where}: {problem}" for problem in problems]
    names = list(dict.fromkeys(name for report in reports for name in report.devices))
    if not names:
        raise BlklabError(f"{file.where}: no device in the reports after the first")
    points = {name: _points(name, reports, widths) for name in names}
    chosen = _chosen(file, points, given.device)
    runtime = sum(widths)
    devices = [_device(name, names, reports, widths) for name in names]
    own = points[chosen]
    directions = [of_points(own, at, runtime, {}) for at in (0, 1)]
    if not any(direction["total_ios"] for direction in directions):
        raise BlklabError(f"{file.where}: {chosen} did no I/O")
    result = outcome(chosen, runtime, directions, devices, [problem.partition(": ")[2] for problem in notes])
    result["cpu"] = _cpu(reports, widths)
    jobs = [replace(point, source=JOBS) for point in own]
    every = [point for series in points.values() for point in series]
    run = ImportedRun(file.where, "iostat", {}, result, [*jobs, *every], file.text, {"device": chosen})
    return run, notes


def _widths(reports: Sequence[IostatReport], text: IostatText, given: ImportSource) -> tuple[list[int], list[str]]:
    """Returns the interval of each report in ns, and notes."""
    usual = given.interval_ns or (text.interval_s or 0) * SECOND
    notes = []
    gaps = [
        (later.time_s - sooner.time_s) % 86400 if later.time_s is not None and sooner.time_s is not None else 0
        for sooner, later in zip(text.reports, text.reports[1:], strict=False)
    ]
    # The interval of a report is the time before it; the first one has none.
    before = dict(zip([report.line for report in text.reports[1:]], gaps, strict=True))
    known = sorted(gap for gap in gaps if gap)
    if given.interval_ns is None and known:
        usual = known[len(known) // 2] * SECOND
    elif not usual:
        usual = SECOND
        notes.append("no times and no interval: assuming one report per second (--interval)")
    widths = []
    for report in reports:
        gap = before.get(report.line, 0) * SECOND
        widths.append(gap if gap and given.interval_ns is None else usual)
    return widths, notes


def _chosen(file: ImportFile, points: Mapping[str, Sequence[SeriesPoint]], wanted: str | None) -> str:
    """Returns the device of the run: the named one, the only one with I/O, or the only array."""
    if wanted is not None:
        if wanted not in points:
            raise BlklabError(f"{file.where}: no device {wanted!r}; it has {', '.join(points)}")
        return wanted
    busy = [
        name for name, series in points.items() if any(point.read_ios or point.write_ios for point in series)
    ] or list(points)
    for some in (busy, [name for name in busy if _kind(name) == "md"]):
        if len(some) == 1:
            return some[0]
    raise BlklabError(f"{file.where}: {len(busy)} devices: select one with --device: {', '.join(busy[:40])}")


def _kind(name: str, names: Sequence[str] = ()) -> str:
    if any(name != other and _is_part(name, other) for other in names):
        return "partition"
    return device_kind(name)


def _is_part(name: str, whole: str) -> bool:
    rest = name.removeprefix(whole)
    return rest != name and (rest.isdigit() or (rest[:1] == "p" and rest[1:].isdigit()))


class _IostatRow:
    """A device in a report, in blklab's units."""

    def __init__(self, row: Mapping[str, float], width_ns: int) -> None:
        seconds = width_ns / SECOND
        self.ios = [row.get(f"{direction}/s", 0.0) * seconds for direction in "rw"]
        self.bytes = [self._bytes(row, letter) * seconds for letter in "rw"]
        self.merges = [row.get(f"{letter}rqm/s", 0.0) * seconds for letter in "rw"]
        waits = [row.get(f"{letter}_await", row.get("await")) for letter in "rw"]
        self.waits = [
            None if wait is None or not ios else wait * 1e6 for wait, ios in zip(waits, self.ios, strict=True)
        ]
        self.busy = row.get("%util", 0.0) / 100 * width_ns
        queue = row.get("aqu-sz", row.get("avgqu-sz"))
        self.queue = None if queue is None else queue * width_ns
        self.flushes = row["f/s"] * seconds if "f/s" in row else None
        self.flush_ns = (self.flushes or 0) * row.get("f_await", 0.0) * 1e6
        self.discards = row["d/s"] * seconds if "d/s" in row else None

    @staticmethod
    def _bytes(row: Mapping[str, float], direction: str) -> float:
        for unit, scale in (("sec", 512), ("kB", 1024), ("MB", 1 << 20), ("B", 1)):
            if f"{direction}{unit}/s" in row:
                return row[f"{direction}{unit}/s"] * scale
        return 0.0


def _points(name: str, reports: Sequence[IostatReport], widths: Sequence[int]) -> list[SeriesPoint]:
    points, time = [], 0
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
        for at in (0, 1):
            sums["ios"][at] += row.ios[at]
            sums["merges"][at] += row.merges[at]
            sums["sectors"][at] += row.bytes[at] / 512
            sums["ticks_ns"][at] += row.ios[at] * (row.waits[at] or 0.0)
        single["busy_ns"] = (single["busy_ns"] or 0.0) + row.busy
        for key, value in (
            ("queue_ns", row.queue),
            ("flushes", row.flushes),
            ("flush_ns", row.flush_ns if row.flushes is not None else None),
            ("discards", row.discards),
        ):
            single[key] = None if value is None else (single[key] or 0.0) + value
    kind = _kind(name, names)
    rounded = {key: [round(amount) for amount in pair] for key, pair in sums.items()}
    return device(
        name,
        rounded.pop("ios"),
        **rounded,
        **{key: None if value is None else round(value) for key, value in single.items()},
        kind=kind,
        leaf=kind in {"disk", "loop"},
    )


def _cpu(reports: Sequence[IostatReport], widths: Sequence[int]) -> dict[str, float] | None:
    """Returns shares of all CPUs, the mean over the reports; None without `avg-cpu`."""
    facts = [(report.cpu, width) for report, width in zip(reports, widths, strict=True) if report.cpu]
    whole = sum(width for _, width in facts)
    if not whole:
        return None

    def share(*columns: str) -> float:
        return sum(sum(cpu.get(column, 0.0) for column in columns) * width for cpu, width in facts) / (100 * whole)

    return {
        "user": share("%user", "%nice"),
        "system": share("%system"),
        "iowait": share("%iowait"),
        # iostat counts interrupts as system time.
        "irq": 0.0,
        "idle": share("%idle"),
    }
