"""Measures what members of an array do while a slow resync, recovery, check or reshape runs."""

import time
from collections.abc import Callable
from dataclasses import replace

from blklab.errors import BlklabError
from blklab.md.audit.reshape import is_slow
from blklab.md.model import Array, Inventory
from blklab.system import diskstats
from blklab.system.diskstats import DeviceCounters
from blklab.system.roots import Roots

MEASURED_S = 2.0
"""Seconds between two readings of /proc/diskstats."""


def add_sync_activity(
    inventory: Inventory,
    roots: Roots,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Inventory:
    """Returns an inventory whose arrays with a slow pass know how busy their members are.

    Takes `MEASURED_S` if there is such an array, otherwise no time. Nothing is written. Tests bring their own `sleep`
    and `clock`.
    """
    if not any(is_slow(array) for array in inventory.arrays):
        return inventory
    try:
        before, begin = diskstats.read(roots), clock()
        sleep(MEASURED_S)
        after, end = diskstats.read(roots), clock()
    except BlklabError:  # in a format that is not known
        return inventory
    arrays = []
    for array in inventory.arrays:
        if is_slow(array):
            array = replace(array, busy_shares=_measure_members(array, before, after, end - begin))  # noqa: PLW2901
        arrays.append(array)
    return replace(inventory, arrays=tuple(arrays))


def _measure_members(
    array: Array, before: dict[str, DeviceCounters | None], after: dict[str, DeviceCounters | None], seconds: float
) -> tuple[tuple[str, float], ...]:
    """Returns the share of the time in which each member had I/O in flight, in order of slots."""
    shares = []
    for member in array.active:
        first, last = before.get(member.name), after.get(member.name)
        if first is not None and last is not None and seconds > 0:
            busy_ms = (last.busy - first.busy) % diskstats.WRAP
            shares.append((member.name, min(1.0, busy_ms / 1000 / seconds)))
    return tuple(shares)
