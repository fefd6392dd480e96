"""What makes a single measured run doubtful: caches, impossible figures, unequal twins.

All of it is about measurements: a simulation has no page cache, and its disks keep their data
sheets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from blklab.analysis.metrics import leaves, way_of
from blklab.analysis.saturation import in_flight
from blklab.diagnostic import Diagnostic
from blklab.outcome import Outcome, measured
from blklab.store.query import StoredRun
from blklab.units import format_duration, format_rate, format_size

ENOUGH: Final = 1000
"""I/Os below which a rate says little."""

ROTATION_NS: Final = 4e6
"""A revolution at 15,000 rpm, the fastest that disks were made."""

SETTLE_NS: Final = 0.5e6
"""A seek to a neighbouring track, at the least (data sheets of 15,000 rpm disks: 0.2 ms and the
settling behind it)."""

DEEPEST: Final = 256
"""I/Os that a disk can choose from: SCSI's queues; SATA's have 32."""

BUSES: Final = {
    "SATA": 600e6,
    "one rotating disk": 600e6,
    "PCIe 5.0 ×4": 15.8e9,
}
"""Bytes a second: SATA 3.x at 6 Gbit/s 8b/10b; two actuators' outermost tracks (data sheets: 550
MB/s); four lanes of 32 GT/s 128b/130b."""

UNSEEN: Final = 0.5
"""Share of the jobs' bytes that has to reach the devices. Mirrors and parity make it more, nothing
but a cache makes it less: merging makes fewer I/Os of the same bytes."""

TWICE: Final = 2
"""Data have to be so much larger than a cache that misses it by half at most."""

ALIKE: Final = 1.2
"""Ratio of twins' I/Os up to which they had the same to do."""

UNEQUAL: Final = 1.5
"""Ratio of twins' times for the same work: temperature, a firmware or a dying head; two samples of
a model differ by less than a tenth."""


def check_run(run: StoredRun) -> Iterator[Diagnostic]:
    """Yields doubts about a measured run."""
    outcome = run.outcome or {}
    checks = (_impossible(run, outcome), _unseen(outcome), _small(run), _twins(run, outcome))
    for diagnostic in chain(*checks):
        yield replace(diagnostic, runs=(run.id,))


def _doubt(code: str, message: str) -> Diagnostic:
    return Diagnostic(code, "warning", "", message)


def words_of(run: StoredRun) -> list[Mapping[str, Any]]:
    """Returns fio's options of each job of a measured run, as far as they are known."""
    jobs = [job["options"] for job in run.cell.get("jobs") or [] if "options" in job]
    return jobs or list(
        (measured(run.outcome or {}).get("fio") or {"options": {}})["options"].values()
    )


def most_random_reads(in_flight: float) -> float:
    """Returns the random reads a second that no disk reaches with so many in its queue.

    Of that many, the one that comes by next can be chosen: it is 1 / (n + 1) of a revolution away
    on average, and a seek at the least. At a depth of 1 that is 400, at 32 it is 1,600; real disks
    reach less than half of it.
    """
    return 1e9 / (SETTLE_NS + ROTATION_NS / (max(1.0, in_flight) + 1))


def hardware(run: StoredRun, name: str) -> Mapping[str, Any]:
    """Returns what the environment knows of a device, or of the disk that it is a partition of."""
    known = {device.get("name"): device for device in run.environment.get("devices") or []}
    details = known.get(name) or {}
    if details.get("kind") == "partition" or not details:
        for other, one in known.items():
            rest = name.removeprefix(str(other))
            if other and rest != name and rest.lstrip("p").isdigit():
                return {**one, "size": details.get("size", one.get("size"))}
    return details


def _impossible(run: StoredRun, outcome: Outcome) -> Iterator[Diagnostic]:
    seconds = (outcome.get("runtime_ns") or 0) / 1e9
    every = [str(words.get("rw", words.get("readwrite", ""))) for words in words_of(run)]
    random = bool(every) and all(rw.startswith("rand") for rw in every)
    for device in leaves(outcome):
        known = hardware(run, device["name"])
        spins = (known.get("queue") or {}).get("rotational") == "1"
        reads = device["ios"][0]
        if not seconds:
            continue
        known_depth = all("iodepth" in words for words in words_of(run))
        depth = min(in_flight(run.cell) or 1, DEEPEST) if known_depth else DEEPEST
        most = most_random_reads(depth)
        if spins and random and reads >= ENOUGH and reads / seconds > most:
            yield _doubt(
                "impossible-rate",
                f"{reads / seconds:,.0f} random reads a second from {device['name']}, which says"
                f" that it rotates: with {depth} in flight, {most:,.0f} are more than any disk"
                " reaches, so that a cache answered, or it is a virtual disk",
            )
        bus = _bus(known, str(device["name"]), spins)
        sectors = device.get("sectors")
        if bus and sectors and sectors[0] * 512 / seconds > BUSES[bus]:
            yield _doubt(
                "impossible-rate",
                f"{format_rate(sectors[0] * 512 / seconds)} read from {device['name']}, more than"
                f" the {format_rate(BUSES[bus])} of {bus}",
            )


def _bus(known: Mapping[str, Any], name: str, spins: bool) -> str | None:
    if spins:
        return "one rotating disk"
    if name.startswith("nvme"):
        return "PCIe 5.0 ×4"
    ata = any(str(known_id).startswith("ata-") for known_id in known.get("ids") or [])
    return "SATA" if ata or (known.get("hardware") or {}).get("vendor") == "ATA" else None


def _unseen(outcome: Outcome) -> Iterator[Diagnostic]:
    """A read that no device saw came from memory; so did a write that none saw yet go there."""
    devices = leaves(outcome)
    sectors = [device["sectors"] for device in devices if device.get("sectors") is not None]
    if not devices or len(sectors) < len(devices):
        return
    for direction, name in ((0, "read"), (1, "write")):
        asked = way_of(outcome, name)
        if (asked.get("total_ios") or 0) < ENOUGH or not asked.get("io_bytes"):
            continue
        seen = sum(pair[direction] for pair in sectors if pair is not None) * 512
        if seen < UNSEEN * asked["io_bytes"]:
            asked_for = "read" if name == "read" else "wrote"
            what = "read from" if name == "read" else "written to"
            yield _doubt(
                "page-cache",
                f"of {format_size(asked['io_bytes'])} that the jobs {asked_for},"
                f" {format_size(seen)} were {what} the devices",
            )


def _small(run: StoredRun) -> Iterator[Diagnostic]:
    target = run.cell.get("target") or {}
    memory = run.environment.get("memory_bytes")
    sizes = [str(words.get("size", "")) for words in words_of(run)]
    if not sizes or not all(size.isdigit() for size in sizes):
        return
    data = int(run.cell.get("file_bytes") or sum(map(int, sizes)))
    buffered = any(str(words.get("direct", "0")) == "0" for words in words_of(run))
    if buffered and memory and data < TWICE * memory:
        yield _doubt(
            "small-data",
            f"{format_size(data)} of data, I/O through the page cache (direct=0), and"
            f" {format_size(memory)} of memory: twice as much data as memory is wanted",
        )
    cache = target.get("cache_bytes")
    if cache and data < TWICE * cache:
        yield _doubt(
            "small-data",
            f"{format_size(data)} of data, and a cache of {format_size(cache)} before it: twice as"
            " much is wanted",
        )


def _twins(run: StoredRun, outcome: Outcome) -> Iterator[Diagnostic]:
    """Equal members of one array that took unequal times for the same work."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for device in leaves(outcome):
        known = hardware(run, device["name"])
        model = (known.get("hardware") or {}).get("model")
        above = device.get("above") or []
        if model and above and device.get("ticks_ns"):
            key = (str(model), str(known.get("size")), *map(str, above))
            groups.setdefault(key, []).append(device)
    for twins in groups.values():
        for direction, name in ((0, "reads"), (1, "writes")):
            yield from _unequal(
                [twin for twin in twins if twin["ios"][direction] >= ENOUGH], direction, name
            )


def _unequal(twins: Sequence[Mapping[str, Any]], direction: int, name: str) -> Iterator[Diagnostic]:
    if len(twins) < 2:
        return
    ios = [twin["ios"][direction] for twin in twins]
    slow = max(twins, key=lambda one: one["ticks_ns"][direction] / one["ios"][direction])
    fast = min(twins, key=lambda one: one["ticks_ns"][direction] / one["ios"][direction])
    times = [one["ticks_ns"][direction] / one["ios"][direction] for one in (slow, fast)]
    if max(ios) <= ALIKE * min(ios) and times[0] > UNEQUAL * times[1]:
        yield _doubt(
            "unequal-twins",
            f"{slow['name']} took {format_duration(times[0])} for its {name}, {fast['name']}"
            f" {format_duration(times[1])} for as many: they are the same model",
        )
    most, least = (
        max(twins, key=lambda one: one["ios"][direction]),
        min(twins, key=lambda one: one["ios"][direction]),
    )
    if direction == 1 and max(ios) > ALIKE * min(ios):
        yield _doubt(
            "unequal-twins",
            f"{most['name']} had {max(ios):,} writes, its twin {least['name']} {min(ios):,}",
        )
