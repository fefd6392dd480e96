"""The load of one disk in a block trace: its requests, and windows in which the load was stable.

A window is a part of the trace in which the share of writes, the size of requests and, if requests wait for the disk,
their number do not change. If they wait, the rate at which the disk completes them is its limit at this queue depth.
Otherwise the mean time from dispatch to completion (D2C) is what the window shows.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from blklab import _core
from blklab.calibrate.observations import Observation
from blklab.errors import UsageError
from blklab.units import SECTOR

WRITE = 1 << 1
FLUSH = 1 << 2
PASSTHROUGH = 1 << 9
DISCARD = 1 << 13
FUA = 1 << 15
"""Bits of `rwbs`: those of `BLK_TC_*` in include/uapi/linux/blktrace_api.h."""

FEWEST = 200  # Requests of half of a trace that show how a disk behaves
SLICE = 50  # Requests of the shortest part whose load is judged
SLICES = 48  # Parts of half of a trace
SHORTEST = 100  # Requests of a window
LONGEST = 4_000  # Requests of a window that are simulated
TURNS = 2  # How many times its queue a window must have requests, so that its rate is known
MOST = 12  # Windows of half of a trace
BUSY = 0.9  # Share of the time with requests in flight of a disk that is the limit
WAITING = 1.5  # How many times longer a request takes if it waits for others
FEWEST_ALONE = 20  # Requests that met an idle disk from which their typical time is known
PURE = 0.05  # Share of the other direction that does not count
SYNCED = 0.1  # Share of writes with a flush or forced unit access whose window says nothing of plain writes

Column = Any
"""A column of numbers (numpy)."""


@dataclass(frozen=True)
class Requests:
    """Requests in the order of their dispatch; times are ns since the trace began."""

    dispatch: Column
    complete: Column
    sector: Column
    bytes: Column
    write: Column  # Whether it is a write
    synced: Column  # Whether it is a write with a flush or forced unit access

    def part(self, begin: int, end: int) -> "Requests":
        """Returns the requests from number `begin` to the one before `end`."""
        return Requests(*(column[begin:end] for column in vars(self).values()))

    def __len__(self) -> int:
        return len(self.dispatch)

    @property
    def latency(self) -> Column:
        """Times from dispatch to completion, ns."""
        return self.complete - self.dispatch

    @property
    def end_bytes(self) -> int:
        """The end of the last request on the disk."""
        return int((self.sector * SECTOR + self.bytes).max())


@dataclass(frozen=True)
class RecordedDisk:
    """A disk of a trace: one that is below no other device."""

    name: str
    requests: Requests


@dataclass(frozen=True)
class LoadWindow:
    """Requests of a stable load."""

    name: str
    requests: Requests
    depth: float  # Mean number in flight while any is
    is_busy: bool  # Whether requests wait for the disk

    @property
    def seconds(self) -> float:
        """The time from the first dispatch to the last."""
        return float(self.requests.dispatch[-1] - self.requests.dispatch[0]) / 1e9

    @property
    def iodepth(self) -> int:
        """The queue depth with which it is replayed: 1 if requests do not wait."""
        return max(2, round(self.depth)) if self.is_busy else 1


def read_disks(path: str, names: Sequence[str] = ()) -> list[RecordedDisk]:
    """Returns the disks of a trace, by name; `names` selects some. Raises UsageError or BlklabError."""
    import polars

    labels = _disk_names(json.loads(_core.characterise([path], _core.Filter())))
    unknown = [name for name in names if name not in labels.values()]
    if unknown:
        raise UsageError(f"{path}: no disk {unknown[0]!r}: it has {', '.join(sorted(labels.values()))}")
    with TemporaryDirectory() as directory:
        file = Path(directory) / "trace.ios.parquet"
        _core.convert([path], str(file), _core.Filter())
        table = polars.read_parquet(file)
    disks = []
    for number, label in labels.items():
        if names and label not in names:
            continue
        major, minor = map(int, number.split(","))
        ios = table.filter(polars.col("device") == (major << 20 | minor))
        disks.append(RecordedDisk(label, _requests(ios)))
    return sorted(disks, key=lambda disk: disk.name)


def _disk_names(profile: Mapping[str, Any]) -> dict[str, str]:
    """Returns the names of devices with I/O that are above no other device, by number."""
    uppers = set()
    for device in profile["devices"]:
        uppers |= {source["name"] for source in device["load"]["sources"]} - {device["device"]}
    numbers = {device["device"] for device in profile["devices"]}
    names = {}
    for layer in profile["trace"]["stack"]:
        names[layer["name"]] = layer["number"].replace(":", ",")
    for layer in profile["trace"]["stack"]:
        # What is above a disk of the trace is no disk, also if it traces no remaps, as bcache.
        if names[layer["name"]] in numbers and layer["kind"] != "partition":
            uppers |= {names[upper] for upper in layer["above"] if upper in names}
    labels = {}
    for device in profile["devices"]:
        has_ios = any(op["ios"] for op in device["load"]["ops"].values())
        if device["device"] not in uppers and has_ios:
            labels[device["device"]] = device["name"] or device["device"]
    return labels


def _requests(ios: Any) -> Requests:
    """Returns the reads and writes that were completed. I/Os that the block layer merged are one request."""
    import polars

    start = polars.coalesce("t_dispatch", "t_queue")
    is_write = (polars.col("rwbs") & WRITE) > 0
    plain = ios.filter(
        (polars.col("bytes") > 0)
        & ((polars.col("rwbs") & (DISCARD | PASSTHROUGH)) == 0)
        & start.is_not_null()
        & (polars.col("t_complete") > start)
    )
    columns = plain.select(
        start.cast(polars.Int64).alias("start"),
        polars.col("t_complete").cast(polars.Int64).alias("end"),
        polars.col("sector").cast(polars.Int64),
        polars.col("bytes").cast(polars.Int64),
        is_write.alias("write"),
        (is_write & ((polars.col("rwbs") & (FUA | FLUSH)) > 0)).alias("synced"),
    )
    requests = (
        columns.group_by("start", "end", "write")
        .agg(polars.col("sector").min(), polars.col("bytes").sum(), polars.col("synced").any())
        .sort("start", "sector")
    )
    names = ("start", "end", "sector", "bytes", "write", "synced")
    return Requests(*(requests[name].to_numpy() for name in names))


def halves(requests: Requests) -> tuple[Requests, Requests]:
    """Returns the first half of the requests, and the second."""
    middle = len(requests) // 2
    return requests.part(0, middle), requests.part(middle, len(requests))


class _Activity:
    """How many requests are in flight over time."""

    def __init__(self, requests: Requests) -> None:
        import numpy as np

        times = np.concatenate([requests.dispatch, requests.complete])
        changes = np.concatenate([np.ones(len(requests)), -np.ones(len(requests))])
        order = np.lexsort((changes, times))
        in_flight = np.cumsum(changes[order])
        self._times = times[order]
        gaps = np.diff(self._times, append=self._times[-1])
        self._queue = np.concatenate([[0.0], np.cumsum(in_flight * gaps)[:-1]])
        self._busy = np.concatenate([[0.0], np.cumsum((in_flight > 0) * gaps)[:-1]])

    def measure(self, begin: int, end: int) -> tuple[float, float]:
        """Returns the share of a time in which requests are in flight, and their mean number then."""
        import numpy as np

        queue_ns = np.diff(np.interp([begin, end], self._times, self._queue))[0]
        busy_ns = np.diff(np.interp([begin, end], self._times, self._busy))[0]
        return float(busy_ns / max(1, end - begin)), float(queue_ns / max(1.0, busy_ns))


def time_alone(requests: Requests) -> float | None:
    """Returns the median time of requests that met an idle disk, ns; None if there are too few."""
    import numpy as np

    last_end = np.maximum.accumulate(requests.complete)
    is_alone = np.concatenate([[True], requests.dispatch[1:] >= last_end[:-1]])
    if is_alone.sum() < FEWEST_ALONE:
        return None
    return float(np.median(requests.latency[is_alone]))


def find_windows(requests: Requests, alone_ns: float | None) -> list[LoadWindow]:
    """Returns the windows of stable load; `alone_ns` is what a request takes that does not wait."""
    activity = _Activity(requests)
    length = max(SLICE, len(requests) // SLICES)
    runs: list[tuple[tuple[object, ...], int, int]] = []  # The kind of load, with its first request and the one behind
    for begin in range(0, len(requests) - length + 1, length):
        kind = _kind_of_load(requests.part(begin, begin + length), activity, alone_ns)
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1], begin + length)
        else:
            runs.append((kind, begin, begin + length))
    windows: dict[tuple[object, ...], list[LoadWindow]] = {}
    for kind, begin, end in runs:
        if end - begin < SHORTEST:
            continue
        part = requests.part(begin, min(end, begin + LONGEST))
        share, depth = _measure(part, activity)
        window = LoadWindow(f"{part.dispatch[0] / 1e9:.1f} s", part, depth, _waits(part, share, depth, alone_ns))
        if len(part) >= TURNS * window.iodepth:
            windows.setdefault(kind, []).append(window)
    # The longest windows of each kind, in turns.
    for same in windows.values():
        same.sort(key=lambda window: -len(window.requests))
    ranked: list[LoadWindow] = []
    for rank in range(MOST):
        for same in windows.values():
            ranked += same[rank : rank + 1]
    return sorted(ranked[:MOST], key=lambda window: int(window.requests.dispatch[0]))


def _measure(part: Requests, activity: _Activity) -> tuple[float, float]:
    return activity.measure(int(part.dispatch[0]), int(part.dispatch[-1]))


def _waits(part: Requests, share: float, depth: float, alone_ns: float | None) -> bool:
    is_busy = share >= BUSY and depth >= WAITING
    return is_busy and (alone_ns is None or float(part.latency.mean()) >= WAITING * alone_ns)


def _kind_of_load(part: Requests, activity: _Activity, alone_ns: float | None) -> tuple[object, ...]:
    share, depth = _measure(part, activity)
    waits = _waits(part, share, depth, alone_ns)
    depth_class = round(math.log2(depth)) if waits else 0
    return waits, depth_class, _rw(part), round(math.log2(float(part.bytes.mean())))


def _rw(part: Requests) -> str:
    """Returns the load in fio's words."""
    import numpy as np

    ends = part.sector + part.bytes // SECTOR
    is_random = float(np.mean(part.sector[1:] != ends[:-1])) > 0.5
    writes = float(part.write.mean())
    if writes <= PURE:
        word = "read"
    elif writes >= 1 - PURE:
        word = "write"
    else:
        return "randrw" if is_random else "rw"
    return f"rand{word}" if is_random else word


def observe(window: LoadWindow) -> list[Observation]:
    """Returns what a window shows: its rate if requests wait, otherwise the mean time of reads and of writes.

    A mean time is written as the rate of one request at a time.
    """
    part = window.requests
    rw = _rw(part)
    size = max(SECTOR, round(float(part.bytes.mean()) / SECTOR) * SECTOR)
    workload: dict[str, object] = {"rw": rw, "bs": str(size), "iodepth": window.iodepth}
    writes = float(part.write.mean())
    synced = float(part.synced.sum()) > SYNCED * max(1.0, float(part.write.sum()))
    if window.is_busy:
        if synced:
            return []
        iops = (len(part) - 1) / window.seconds
        if rw.endswith("rw"):
            workload["rwmixread"] = round(100 * (1 - writes))
            return [Observation(window.name, workload, iops * (1 - writes), iops * writes)]
        if rw.endswith("read"):
            return [Observation(window.name, workload, iops, 0.0)]
        return [Observation(window.name, workload, 0.0, iops)]
    prefix = "rand" if rw.startswith("rand") else ""
    observations = []
    for word, selected in (("read", ~part.write), ("write", part.write)):
        if selected.sum() < SLICE or (word == "write" and synced):
            continue
        rate = 1e9 / float(part.latency[selected].mean())
        rates = (rate, 0.0) if word == "read" else (0.0, rate)
        options = {**workload, "rw": prefix + word}
        observations.append(Observation(f"{window.name} {word}s", options, *rates))
    return observations


def write_replay(window: LoadWindow, path: Path, repeats: int = 1) -> None:
    """Writes the requests of a window as a trace, in the format of MSR Cambridge: they are queued when dispatched.

    `repeats` is how often they are in the file, for a replay that needs no times.
    """
    part = window.requests
    lines = []
    columns = (cast(list[int], column.tolist()) for column in (part.dispatch, part.write, part.sector, part.bytes))
    for time_ns, is_write, sector, size in zip(*columns, strict=True):
        word = "Write" if is_write else "Read"
        lines.append(f"{MSR_EPOCH + time_ns // 100},host,0,{word},{sector * SECTOR},{size},0\n")
    path.write_text("".join(lines) * repeats)


MSR_EPOCH = 128_166_372_000_000_000  # The start of 2007, in 100 ns since 1601
