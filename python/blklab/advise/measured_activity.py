"""The load of a machine, from what iostat or sar say about its disks: rates, sizes and the share of reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.advise.question import Load, split_weight
from blklab.advise.rated_loads import DEFAULT_WORKING_SET, rated_jobs, simulated_ios
from blklab.errors import BlklabError, UsageError
from blklab.importers.base import ImportFile
from blklab.importers.iostat import IostatText
from blklab.render import formatting
from blklab.text.printing import printable
from blklab.text.user_file import read_user_file
from blklab.toml_files import problems
from blklab.units import format_rate, format_size

LARGEST = 64 << 20  # Bytes of a file; a report every second of a week for ten disks has about this size
MAX_DEVICES = 4096
MAX_RATE = 1e9  # I/Os per second, and
MAX_BANDWIDTH = 1e13  # bytes per second: more is no figure of a disk
BLOCK = 4096
LARGEST_IO = 1 << 20  # Bytes of an I/O in the simulation, which has no larger ones
DEPTH = 16  # I/Os that a job has in flight at most, if the disks are too slow
JOBS = 8

READS = {"r/s": 1.0}
WRITES = {"w/s": 1.0}
BOTH = {"tps": 1.0}
SECTOR = 512.0
KIB = 1024.0
MIB = 1048576.0
READ_BYTES = {
    "rkB/s": KIB,
    "rMB/s": MIB,
    "rB/s": 1.0,
    "rsec/s": SECTOR,
    "rd_sec/s": SECTOR,
    "kB_read/s": KIB,
    "MB_read/s": MIB,
    "Blk_read/s": SECTOR,
}
WRITE_BYTES = {
    "wkB/s": KIB,
    "wMB/s": MIB,
    "wB/s": 1.0,
    "wsec/s": SECTOR,
    "wr_sec/s": SECTOR,
    "kB_wrtn/s": KIB,
    "MB_wrtn/s": MIB,
    "Blk_wrtn/s": SECTOR,
}
FLUSHES = {"f/s": 1.0}
QUEUE = {"aqu-sz": 1.0, "avgqu-sz": 1.0}
NUMBER = re.compile(r"[0-9]{1,18}(?:[.,][0-9]{1,9})?")
QUOTES = " \t\r>|"  # Around lines in mails and tables
MAX_LINE = 4000
TIME = re.compile(r"[0-9]{1,2}[:h.][0-9]{2}[:m.][0-9]{2}s?")  # In front of each line of sar

DISK = re.compile(r"(?:sd|vd|xvd|hd|dasd)[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+|dev(?:8|259)-[0-9]{1,9}")
ARRAY = re.compile(r"md[0-9_].*|dev9-[0-9]+")
NO_DISK = re.compile(r"(?:loop|ram|zram|sr|fd|nbd)[0-9]+(?:p[0-9]+)?|dev(?:1|2|7|11)-[0-9]+|ALL")
PARTITIONS_OF_DISK = 16  # Minor numbers of each disk with major number 8: dev8-16 is sdb


@dataclass
class Activity:
    """What one report says about one device, for each second."""

    reads: float | None  # None without a column for each direction
    writes: float | None
    both: float | None  # Reads and writes together
    read_bytes: float
    write_bytes: float
    flushes: float | None
    queue: float | None  # I/Os in flight on average

    @property
    def ios(self) -> float:
        return self.both if self.both is not None else (self.reads or 0.0) + (self.writes or 0.0)

    @property
    def is_impossible(self) -> bool:
        """Whether no disk has such figures: a counter was reset, or the text is damaged."""
        rates = (self.ios, self.flushes or 0.0)
        return not (
            all(0 <= rate <= MAX_RATE for rate in rates)
            and all(0 <= rate <= MAX_BANDWIDTH for rate in (self.read_bytes, self.write_bytes))
        )


@dataclass
class Reports:
    """The reports of a file: for each, the devices that it names."""

    program: str
    reports: list[dict[str, Activity]]
    since_boot: bool  # Whether the only report is that of the time since boot


def load_of_activity(text: str, device: str | None, working_set: int | None, number: int) -> Load:
    """Returns the load of the output of `iostat -x` or `sar -d` in a file: its mean rate. Raises UsageError."""
    file, weight = split_weight(text)
    reports = read_reports(Path(file))
    names = _select_devices(file, reports, device)
    total = _mean(reports, names)
    if total.ios <= 0:
        raise UsageError(f"{printable(file)}: {formatting.listing(names)} had no I/O: choose another with --device")
    reads, writes = _split_directions(total)
    rate = reads + writes
    share = round(100 * reads / rate)
    read_size = _io_size(total.read_bytes, reads)
    write_size = _io_size(total.write_bytes, writes)
    workload: dict[str, object] = {"rw": "randrw", "rwmixread": share, "bs": f"{read_size},{write_size}"}
    if share in {0, 100}:
        workload = {"rw": "randread" if share else "randwrite", "bs": workload["bs"]}
    workload |= {"blockalign": "4k", "iodepth": DEPTH}
    if total.flushes and writes:
        workload["fsync_share"] = round(min(1.0, total.flushes / writes), 3)
    span = -(-(working_set or DEFAULT_WORKING_SET) // BLOCK) * BLOCK
    sums = [sum(report[name].ios for name in names if name in report) for report in reports.reports]
    peak = max(sums) / rate if len(sums) > 1 else None
    about = f"{reports.program} in {file}: {formatting.listing(names)}"
    return Load(
        "measured" if number == 1 else f"measured{number}",
        rated_jobs(workload, rate, span, JOBS),
        f"{about}, on {format_size(span)}",
        weight,
        ios=simulated_ios(rate),
        span=span,
        rate=rate,
        peak=peak,
        assumption=_assumption(reports, total, reads, writes, span, is_typed=working_set is not None),
    )


def _assumption(reports: Reports, total: Activity, reads: float, writes: float, span: int, *, is_typed: bool) -> str:
    """Returns what the file says, and what it does not say."""
    count = len(reports.reports)
    of_reports = "since boot" if reports.since_boot else f"the mean of {formatting.plural(count, 'report')}"
    rates = (
        f"{formatting.number(reads)} reads per second with {format_rate(total.read_bytes)} and "
        f"{formatting.number(writes)} writes with {format_rate(total.write_bytes)}, {of_reports}"
    )
    if total.queue is not None:
        rates += f", {formatting.number(total.queue)} in flight"
    if total.reads is None:
        rates += "; reads and writes are not counted apart: their sizes are equal here"
    data = f"{format_size(span)} of data"
    if not is_typed:
        data += " (--working-set)"
    hidden = "whether I/O is sequential and how much data is used is not visible"
    if total.flushes is None:
        hidden = "whether I/O is sequential, how much data is used and flushes are not visible"
    return f"{rates}; {hidden}: random, on {data}"


def _split_directions(total: Activity) -> tuple[float, float]:
    """Returns reads and writes per second; without a column for each, they have equal sizes."""
    if total.reads is not None and total.writes is not None:
        return total.reads, total.writes
    all_bytes = total.read_bytes + total.write_bytes
    share = total.read_bytes / all_bytes if all_bytes else 0.5
    return total.ios * share, total.ios * (1 - share)


def _io_size(bytes_per_second: float, ios: float) -> int:
    """Returns the mean size of I/Os in whole blocks."""
    if ios <= 0:
        return BLOCK
    blocks = round(bytes_per_second / ios / BLOCK)
    return min(LARGEST_IO, max(1, blocks) * BLOCK)


def _mean(reports: Reports, names: Sequence[str]) -> Activity:
    """Returns the sum of devices, as the mean of all reports; iostat leaves out idle devices with -z."""
    activities = [report[name] for report in reports.reports for name in names if name in report]
    count = len(reports.reports)
    separate = all(activity.reads is not None for activity in activities)
    has_flushes = any(activity.flushes is not None for activity in activities)
    has_queue = any(activity.queue is not None for activity in activities)
    return Activity(
        reads=sum(activity.reads or 0.0 for activity in activities) / count if separate else None,
        writes=sum(activity.writes or 0.0 for activity in activities) / count if separate else None,
        both=None if separate else sum(activity.ios for activity in activities) / count,
        read_bytes=sum(activity.read_bytes for activity in activities) / count,
        write_bytes=sum(activity.write_bytes for activity in activities) / count,
        flushes=sum(activity.flushes or 0.0 for activity in activities) / count if has_flushes else None,
        queue=sum(activity.queue or 0.0 for activity in activities) / count if has_queue else None,
    )


def _select_devices(file: str, reports: Reports, device: str | None) -> list[str]:
    """Returns the devices whose sum is the load: arrays, or without any the disks. Raises UsageError."""
    names = list(dict.fromkeys(name for report in reports.reports for name in report))
    if device is not None:
        name = device.removeprefix("/dev/")
        if name not in names:
            raise UsageError(f"{printable(file)}: no device {device!r}; {problems.near(name, names)}")
        return [name]
    for is_chosen in (ARRAY.fullmatch, _is_disk):
        selection = [name for name in names if is_chosen(name)]
        if selection:
            return selection
    others = [name for name in names if not NO_DISK.fullmatch(name)]
    if len(others) != 1:
        listing = printable(problems.listing(names)) or "none"
        raise UsageError(f"{printable(file)}: no disk and no array: choose a device with --device; found {listing}")
    return others


def _is_disk(name: str) -> bool:
    if name.startswith("dev8-"):  # A partition has a minor number of its own
        return int(name.removeprefix("dev8-")) % PARTITIONS_OF_DISK == 0
    return bool(DISK.fullmatch(name))


def read_reports(path: Path) -> Reports:
    """Reads the reports of iostat (sysstat 10 to 12) or sar. Raises UsageError."""
    text = read_user_file(path, LARGEST).decode("utf-8", "replace")
    # Mails quote lines, and tables have borders.
    text = "\n".join(line.strip(QUOTES) for line in text.split("\n"))
    if "r/s" in text and "w/s" in text:
        try:
            extended_text = IostatText(ImportFile(path, text))
        except BlklabError as error:
            raise UsageError(str(error)) from None
        tables = [_activities(report.devices) for report in extended_text.reports]
        return _without_first("iostat", tables, extended_text.skips_boot)
    table = _TpsTable()
    for line in text.split("\n"):
        table.read_line(line[:MAX_LINE].split())
    tables = [_activities(devices) for devices in table.reports if devices]
    if not tables:
        raise UsageError(
            f"{printable(str(path))}: no table with rates of reads and writes: "
            "expected the output of `iostat -x` or `sar -d`"
        )
    return _without_first("sar" if table.is_sar else "iostat", tables, table.is_sar)


def _without_first(program: str, tables: list[dict[str, Activity]], skips_boot: bool) -> Reports:
    """Returns the reports; the first of iostat is about the time since boot, unless it has -y."""
    if skips_boot:
        return Reports(program, tables, since_boot=False)
    return Reports(program, tables[1:] or tables, since_boot=len(tables) == 1)


def _activities(devices: Mapping[str, Mapping[str, float]]) -> dict[str, Activity]:
    """Returns the figures of devices, by name, without impossible ones."""
    activities = {}
    for name, values in devices.items():
        activity = Activity(
            reads=_value(values, READS),
            writes=_value(values, WRITES),
            both=_value(values, BOTH),
            read_bytes=_value(values, READ_BYTES) or 0.0,
            write_bytes=_value(values, WRITE_BYTES) or 0.0,
            flushes=_value(values, FLUSHES),
            queue=_value(values, QUEUE),
        )
        if not activity.is_impossible:
            activities[name] = activity
    return activities


def _value(values: Mapping[str, float], columns: Mapping[str, float]) -> float | None:
    """Returns the figure of the first of some columns, in its unit."""
    for column, scale in columns.items():
        if column in values:
            return values[column] * scale
    return None


class _TpsTable:
    """Tables of `sar -d` and of `iostat -d`, which count reads and writes together: devices of each report."""

    def __init__(self) -> None:
        self.reports: list[dict[str, dict[str, float]]] = []
        self.is_sar = False  # Whether a time is in front of each line
        self._columns: list[str] = []

    def read_line(self, fields: Sequence[str]) -> None:
        if "tps" in fields:
            # The mean of all reports has no time.
            is_mean = self.is_sar and not TIME.fullmatch(fields[0])
            columns = list(fields[fields.index("tps") :])
            has_bytes = READ_BYTES.keys() & {*columns} and WRITE_BYTES.keys() & {*columns}
            self._columns = columns if has_bytes and not is_mean else []
            if self._columns:
                self.is_sar = bool(TIME.fullmatch(fields[0]))
                self.reports.append({})
            return
        count = len(self._columns)
        if not count or len(fields) < count + 1 or (self.is_sar and not TIME.fullmatch(fields[0])):
            return
        name = printable(fields[-count - 1])
        texts = fields[-count:]
        is_row = self.is_sar or len(fields) == count + 1
        if not is_row or NUMBER.fullmatch(name) or not all(NUMBER.fullmatch(text) for text in texts):
            return
        if name in self.reports[-1]:
            self.reports.append({})
        if len(self.reports[-1]) < MAX_DEVICES:
            numbers = [float(text.replace(",", ".")) for text in texts]
            self.reports[-1][name] = dict(zip(self._columns, numbers, strict=True))
