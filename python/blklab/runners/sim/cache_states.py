"""The two states of a flash disk's writes: while its cache of single-bit cells takes them, and afterwards.

A simulation is shorter than what users run, so that it shows one of them. Another one, with a full cache, shows the
other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from blklab.experiment.cells import Cell
from blklab.grouping import by_key
from blklab.outcome import MOST_NAMES, NOT_KNOWN, DeviceResult, Outcome
from blklab.render import formatting
from blklab.runners.load_ramp import without_ramp
from blklab.runners.sim.uncertainty import interval
from blklab.text.printing import printable
from blklab.units import SECTOR

SECOND = 10**9  # ns
OF_FREE, OF_FULL = 0.9, 0.005
"""Shares of the free space and of the capacity that the cache takes: those of crates/sim/src/device/flash.rs."""

LEAST_FILLED = 0.01  # Share of the writes that stays in the cache, below which it does not become full
SAME = 1.25  # Rates that differ by a smaller factor are one state


def with_full_caches(cell: Cell) -> Cell | None:
    """Returns the cell as it is when its caches of single-bit cells are full; None if it has none, or no writes."""
    devices = [cast(dict[str, Any], device) for device in cell.document["devices"]]
    writes = any(job["read_share"] < 1 for job in cell.document["jobs"])
    if not writes or cell.replay is not None or not any(_begins_with_space(device["model"]) for device in devices):
        return None
    full = [
        {**device, "model": {**device["model"], "slc_fill": 1.0}} if device["model"].get("slc_bytes") else device
        for device in devices
    ]
    return replace(cell, document=cast(Any, {**without_ramp(cell.document), "devices": full}))


def _begins_with_space(model: Mapping[str, Any]) -> bool:
    """Returns whether a disk has a cache of single-bit cells that does not begin full."""
    if not model.get("slc_bytes"):
        return False
    begins_full = model.get("condition") == "worn" or bool(model.get("used"))
    return bool(model.get("slc_fill", 1.0 if begins_full else 0.0) < 1)


def describe_states(cell: Cell, run: Outcome, full_run: Outcome) -> Iterator[str]:
    """Yields a sentence for all disks of a size whose caches took the writes, and will be full in a longer run."""
    low, high = interval(cell, full_run).iops
    iops, full_iops = (outcome.read.iops + outcome.write.iops for outcome in (run, full_run))
    if iops < SAME * full_iops:
        return
    if high / low > NOT_KNOWN:
        after = f"{_round(full_iops * low)} to {_round(full_iops * high)} IOPS"
    else:
        after = f"about {_round(full_iops)} IOPS"
    for size, disks in by_key(_filling_disks(cell, run)).items():
        names = [name for name, _ in disks]
        first_ns = min(fill_ns for _, fill_ns in disks)
        what = f"cache of single-bit cells of {names[0]} takes the first {size} of writes"
        if len(names) > 1:
            what = f"cache of single-bit cells of each of {_join(names)} takes its first {size} of writes"
        yield (
            f"two states: the {what} ({formatting.duration(first_ns)} here); afterwards the load has {after}, "
            "until the disk has been idle for a while"
        )


def _filling_disks(cell: Cell, run: Outcome) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yields the size of the cache of each disk that a load fills, with the disk's name and the ns until it is full."""
    for device, of_cell in zip(run.devices, cell.document["devices"], strict=True):
        model = cast(Mapping[str, Any], of_cell["model"])
        fill_ns = time_to_fill(device, model, run.observed_ns)
        if fill_ns is not None:
            yield formatting.size(cache_bytes(model)), (printable(device.name), fill_ns)


def _join(names: Sequence[str]) -> str:
    """Returns names for a sentence: the first and the last of many."""
    if len(names) > MOST_NAMES:
        return f"{len(names)} disks, {names[0]} to {names[-1]},"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _round(iops: float) -> str:
    """Returns a rate with the two digits that are known."""
    two_digits = f"{iops:.2g}"
    return f"{float(two_digits):,.0f}"


def time_to_fill(device: DeviceResult, model: Mapping[str, Any], observed_ns: int) -> float | None:
    """Returns the ns in which a load fills a disk's cache.

    None if the disk has none, its cache was full, or never is: it takes no writes, or moves them as fast as they come.
    """
    written = SECTOR * device.sectors[1] if len(device.sectors) > 1 else 0
    was_full = (device.work or {}).get("media_cache_full_ns") is not None
    if not written or was_full or not _begins_with_space(model):
        return None
    moved = 0
    if not model.get("used"):  # Otherwise, flash also has what garbage collection copied
        moved = max(0, (device.work or {}).get("flash_bytes", 0) - written)
    filled = written - moved
    if filled <= LEAST_FILLED * written:
        return None
    return float(cache_bytes(model) * (1 - (model.get("slc_fill") or 0.0)) * observed_ns / filled)


def cache_bytes(model: Mapping[str, Any]) -> float:
    """Returns the bytes of the cache of single-bit cells with the data that the disk has."""
    if not model.get("filled_bytes"):
        return float(model["slc_bytes"])
    free = max(0, model["capacity"] - model["filled_bytes"])
    of_free = max(OF_FREE * free / (model.get("cell_bits") or 3), OF_FULL * model["capacity"])
    return float(min(model["slc_bytes"], of_free))
