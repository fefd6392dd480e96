"""Reads all caches of this machine, and remembers the counters for the next call."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from blklab import output
from blklab.caches.bcache import read_bcaches
from blklab.caches.device_mapper import read_dm_caches
from blklab.caches.model import BlockCache, CacheInventory, EarlierCall
from blklab.errors import BlklabError
from blklab.system import state_directory
from blklab.system.process import boot_id
from blklab.system.roots import Roots

FILE: Final = "caches.json"
"""In the state directory: the counters of the last call."""


def read_caches(roots: Roots, *, remember: bool = False) -> CacheInventory:
    """Returns all caches with their counters at the last call that was remembered."""
    dm_caches, unseen = read_dm_caches(roots)
    caches = (*dm_caches, *read_bcaches(roots))
    now, boot = time.time(), boot_id(roots)
    last = _load(roots) if remember else {}
    earlier = {}
    if last.get("boot_id") == boot:
        for cache in caches:
            counters = last.get("counters", {}).get(cache.identity)
            # Lower counters began at 0 again: the device was set up again meanwhile.
            if counters and all(cache.counters.get(key, -1) >= value for key, value in counters.items()):
                earlier[cache.identity] = EarlierCall(max(0.001, now - last["at"]), counters)
    if remember and caches:
        _save(roots, caches, {"boot_id": boot, "at": now})
    return CacheInventory(caches, tuple(unseen), earlier)


def _load(roots: Roots) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        read = json.loads((roots.state / FILE).read_bytes())
        if isinstance(read, dict) and isinstance(read.get("at"), int | float):
            return read
    return {}


def _save(roots: Roots, caches: Sequence[BlockCache], head: Mapping[str, object]) -> None:
    counters = {cache.identity: dict(cache.counters) for cache in caches}
    # A machine on which nothing can be stored still shows its caches.
    with suppress(BlklabError, OSError):
        path = state_directory.prepare(roots) / FILE
        output.write(path, json.dumps({**head, "counters": counters}).encode())
