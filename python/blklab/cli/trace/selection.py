"""Options of all commands that read a trace: the trace and the selection of events."""

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from blklab import _core, units
from blklab.cli.common import DURATION, INPUT, Quantity, cluster_option, parse_with_unit, repeatable, tell
from blklab.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

Clock = Literal["ns", "clock_ns"]  # What a time counts from: the begin of the trace, or 1970 or midnight


def _parse_time(text: str) -> tuple[Clock, int]:
    """Return what a time counts from, and its ns.

    A duration is a time since the trace began. Anything else is a time of day, or a date and time; without a zone in
    UTC, as reports show them. Raises ValueError.
    """
    if not re.search(r"\d[-:]\d", text):
        return "ns", parse_with_unit(text)
    try:
        if "-" not in text[:8]:
            moment = datetime.combine(date(1970, 1, 1), time.fromisoformat(text))
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write 10s, 21:21:30 or 2026-11-22T21:21:30 (UTC)") from None
    since_epoch = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return "clock_ns", since_epoch // timedelta(microseconds=1) * 1000


def _time_of(moment: tuple[Clock, int] | None, clock: Clock) -> int | None:
    """Return the ns of a time, if it is one of this clock."""
    return moment[1] if moment is not None and moment[0] == clock else None


def _range(parse: Callable[[str], int], maximum: int) -> Callable[[str], tuple[int, int]]:
    """Return a parser of `A-B`, or of `A` for one value."""

    def parse_range(text: str) -> tuple[int, int]:
        first, dash, last = text.partition("-")
        low = parse(first)
        high = parse(last) if dash else low
        if not low <= high <= maximum:
            raise ValueError(f"{text!r} is not a range: expected A-B with A ≤ B ≤ {maximum:,}")
        return low, high

    return parse_range


def _parse_sector(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a sector: write a number of 512-byte sectors")
    return int(text)


TIME = Quantity("time", _parse_time)
OPS = click.Choice(["read", "write", "discard", "flush"])
SECTORS = Quantity("sectors", _range(_parse_sector, 2**64 - 1))
SIZES = Quantity("size", _range(units.parse_size, 2**32 - 1))
STDIN = "-"
COLUMNS = "columns:"  # The beginning of a format that names columns, as crates/trace reads it

OPTIONS = (  # The format and the filters, in the order of the help
    click.option(
        "--format", "format_name", metavar="NAME", help="Format of the trace; default: recognised from the content."
    ),
    click.option(
        "--columns", metavar="ROLE=COLUMN,...", help="Read a text table: time=ts,op=rw,sector=lba,size=len ..."
    ),
    repeatable("--device", "devices", metavar="DEV", help="Select this device: md127 or 9,127."),
    repeatable("--process", "processes", metavar="NAME", help="Select this process: name, pattern (kworker*) or pid."),
    repeatable("--op", "ops", type=OPS, help="Select this operation."),
    click.option(
        "--since", type=TIME, metavar="TIME", help="Select from this time on: 10s after the start, or 21:21:30 UTC."
    ),
    click.option("--until", type=TIME, metavar="TIME", help="Select up to this time."),
    click.option("--sector", "sectors", type=SECTORS, metavar="A-B", help="Select I/Os that touch sectors A to B."),
    click.option("--size", "sizes", type=SIZES, metavar="SIZE", help="Select I/Os of this size: 4k, 4k-64k."),
    click.option(
        "--min-latency",
        "min_latency_ns",
        type=DURATION,
        metavar="TIME",
        help="Select completed I/Os that took at least this time.",
    ),
)


@dataclass(frozen=True)
class TraceSource:
    """What a command reads: a trace, and which of its events."""

    paths: tuple[str, ...]
    format_name: str | None
    selection: _core.Filter
    devices: tuple[str, ...] = ()  # Those that the user chose
    filter_devices: Callable[[Sequence[str]], _core.Filter] | None = None  # The same selection, of other devices

    def select_main_device(self) -> "TraceSource":
        """Returns the source with one device: of several, that through which the whole workload passes.

        The device that the user chose stays. A line says which it is. Raises BlklabError if the trace cannot be read.
        """
        if self.devices or self.filter_devices is None or STDIN in self.paths:
            return self
        profile = json.loads(_core.characterise(list(self.paths), self.selection, format=self.format_name))
        number = profile["focus"]
        names = {device["device"]: device["name"] for device in profile["devices"] if device["load"]["end_sector"]}
        if number is None or len(names) < 2:
            return self
        name = names.get(number) or number
        others = ", ".join(str(names[other] or other) for other in names if other != number)
        tell(f"the device is {name}, through which the whole workload passes; --device chooses another: {others}")
        return replace(self, devices=(number,), selection=self.filter_devices([number]))


@dataclass(frozen=True)
class TraceReading:
    """How a trace is read: what is counted, and how it is spread over machines."""

    exact: bool = False
    files: str | None = None
    cluster: str | None = None
    skip_broken: bool = False

    @property
    def is_spread(self) -> bool:
        return self.skip_broken or self.cluster is not None


def reading_options(command: F) -> F:
    """Decorator: add the options of counting, and of traces that do not fit one machine, passed as `reading`."""

    @functools.wraps(command)
    def with_reading(
        *args: Any, exact: bool, files: str | None, cluster: str | None, skip_broken: bool, **kwargs: Any
    ) -> Any:
        reading = TraceReading(exact, files, cluster, skip_broken)
        return command(*args, reading=reading, **kwargs)

    for option in (
        click.option("--skip-broken", is_flag=True, help="Leave out shards that cannot be read, and name them."),
        cluster_option,
        click.option(
            "--files", metavar="PATH", help="Count I/O by file: of this mount point or device with ext4 or XFS."
        ),
        click.option(
            "--exact",
            is_flag=True,
            help="Count hot blocks exactly, as far as memory suffices; default: a sample if many.",
        ),
    ):
        with_reading = option(with_reading)
    return with_reading  # type: ignore[return-value]


def trace_options(command: F) -> F:
    """Decorator: add TRACE…, its format and the filters, passed as one `source`."""

    @functools.wraps(command)
    def with_source(
        *args: Any,
        paths: tuple[str, ...],
        format_name: str | None,
        columns: str | None,
        devices: tuple[str, ...],
        processes: tuple[str, ...],
        ops: tuple[str, ...],
        since: tuple[Clock, int] | None,
        until: tuple[Clock, int] | None,
        sectors: tuple[int, int] | None,
        sizes: tuple[int, int] | None,
        min_latency_ns: int | None,
        **kwargs: Any,
    ) -> Any:
        if format_name and columns:
            raise UsageError("--format and --columns exclude each other")
        for path in paths:
            if Path(path).is_block_device():
                raise UsageError(f"{path}: is a disk, not a trace: `blklab trace record {path} -o NAME` records it")
        if since is not None and until is not None and since[0] == until[0] and since[1] >= until[1]:
            raise UsageError("--since must be earlier than --until")

        def filter_devices(devices: Sequence[str]) -> _core.Filter:
            return _core.Filter(
                devices=devices,
                processes=processes,
                ops=ops,
                since_ns=_time_of(since, "ns"),
                until_ns=_time_of(until, "ns"),
                since_clock_ns=_time_of(since, "clock_ns"),
                until_clock_ns=_time_of(until, "clock_ns"),
                sectors=sectors or (None, None),
                sizes=sizes or (None, None),
                min_latency_ns=min_latency_ns,
            )

        trace_format = f"{COLUMNS}{columns}" if columns else format_name
        source = TraceSource(paths, trace_format, filter_devices(devices), devices, filter_devices)
        return command(*args, source=source, **kwargs)

    for option in reversed(OPTIONS):
        with_source = option(with_source)
    return click.argument("paths", metavar="TRACE...", type=INPUT, nargs=-1, required=True)(with_source)  # type: ignore[return-value]
