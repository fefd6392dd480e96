"""Reads all caches of this machine, and remembers the counters for the next call.

bcache is read here, from sysfs (Documentation/admin-guide/bcache.rst).
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from blklab import dmsetup, output
from blklab.caches.model import BlockCache, CacheInventory, EarlierCall
from blklab.errors import BlklabError
from blklab.system import state_directory
from blklab.system.layers import layers
from blklab.system.process import boot_id
from blklab.system.roots import Roots, entries, text
from blklab.units import SECTOR

BCACHE_COUNTS = {
    "cache_hits": "read_hits",
    "cache_misses": "read_misses",
    "cache_bypass_hits": "bypass_hits",
    "cache_bypass_misses": "bypass_misses",
    "bypassed": "bypassed_bytes",
}
"""Files of `stats_total`."""

DEVICE_SETTINGS = ("sequential_cutoff", "writeback_percent", "writeback_delay", "writeback_running")
SET_SETTINGS = ("congested_read_threshold_us", "congested_write_threshold_us", "cache_available_percent")


CACHE_COUNTS = ("read_hits", "read_misses", "write_hits", "write_misses", "demotions", "promotions")

WRITECACHE_COUNTS = (
    "reads", "read_hits", "writes", "write_hits_uncommitted", "write_hits", "write_misses", "allocated", "blocked",
    "flushes", "discards",
)  # fmt: skip
"""Since 5.15 or so; older kernels have none."""

REDUNDANT = {"raid1", "raid10", "raid4", "raid5", "raid6"}


def read_dm_caches(roots: Roots) -> tuple[list[BlockCache], list[str]]:
    """Returns the caches, and what could not be read."""
    names = {text(entry / "dm/name"): entry.name for entry in entries(roots.sys / "block") if (entry / "dm").is_dir()}
    if not names:
        return [], []
    tables, failure = dmsetup.read_all("table")
    if failure:
        return [], [f"dm devices ({len(names)}): not seen: {failure}"]
    status, failure = dmsetup.read_all("status")
    caches, unseen = [], [failure] if failure else []
    for title, table in tables.items():
        kernel_name = names.get(title)
        kind = table[2] if len(table) > 2 else ""
        if kernel_name is None or kind not in {"cache", "writecache"}:
            continue
        words = status.get(title, [])
        try:
            identity = text(roots.sys / "block" / kernel_name / "dm/uuid") or title
            read = _cache if kind == "cache" else _writecache
            cache = read(kernel_name, title, identity, table[3:], words[3:])
            caches.append(replace(cache, origin_size=int(table[1]) * SECTOR))
        except (ValueError, IndexError):
            unseen.append(f"{title}: not seen: unknown status {' '.join(words[2:])[:200]!r}")
    targets = {kernel_name: tables[title][2] for title, kernel_name in names.items() if title in tables}
    return [replace(cache, redundant=is_redundant(cache.device, roots, targets)) for cache in caches], unseen


def _cache(name: str, title: str, identity: str, table: Sequence[str], status: Sequence[str]) -> BlockCache:
    """Table: metadata, cache and origin devices, block size, features. Status: see cache.rst."""
    if status[0] in {"Fail", "Error"}:
        return BlockCache(
            "dm-cache", name, title, identity, "", block=int(table[3]) * SECTOR, faults=(status[0],), device=table[1]
        )
    metadata_used, metadata_size = map(int, status[1].split("/"))
    block = int(status[2]) * SECTOR
    used, size = map(int, status[3].split("/"))
    rest: Iterator[str] = iter(status[11:])
    features = [next(rest) for _ in range(int(next(rest)))]
    settings = _pairs(rest)
    policy = next(rest)
    settings |= _pairs(rest)
    state = list(rest)
    modes = [feature for feature in features if feature in {"writethrough", "writeback", "passthrough"}]
    return BlockCache(
        "dm-cache",
        name,
        title,
        identity,
        modes[0] if modes else "writeback",
        policy,
        size=size * block,
        used=used * block,
        dirty=int(status[10]) * block,
        block=block,
        metadata_used=metadata_used / metadata_size if metadata_size else None,
        counters=dict(zip(CACHE_COUNTS, map(int, status[4:10]), strict=True)),
        settings=settings,
        faults=tuple(word for word in state if word in {"ro", "needs_check"}),
        device=table[1],
    )


def _pairs(words: Iterator[str]) -> dict[str, int]:
    listed = [next(words) for _ in range(int(next(words, "0")))]
    return {key: int(value) for key, value in zip(listed[::2], listed[1::2], strict=False) if value.isdigit()}


def _writecache(name: str, title: str, identity: str, table: Sequence[str], status: Sequence[str]) -> BlockCache:
    """Table: type, origin, cache device, block size. Status: error, blocks, free, under writeback, counts."""
    error, blocks, free, _ = map(int, status[:4])
    block = int(table[3])
    counts = dict(zip(WRITECACHE_COUNTS, map(int, status[4:]), strict=False))
    return BlockCache(
        "writecache",
        name,
        title,
        identity,
        "writeback",
        size=blocks * block,
        used=(blocks - free) * block,
        dirty=(blocks - free) * block,
        block=block,
        counters=counts,
        faults=(f"error {error}",) if error else (),
        device=table[2],
    )


def is_redundant(device: str, roots: Roots, targets: Mapping[str, str] | None = None) -> bool:
    """Whether a mirror or parity is at or below a device `major:minor`; `targets` are those of dm devices by name."""
    return any(
        (layer.node is not None and text(layer.node / "md/level") in REDUNDANT)
        or (targets or {}).get(layer.name) in {"raid", "mirror"}
        for layer in layers([device], roots)
    )


def read_bcaches(roots: Roots) -> list[BlockCache]:
    """Returns the caches. Every user can read them."""
    nodes = [entry / "bcache" for entry in entries(roots.sys / "block") if re.fullmatch(r"bcache\d+", entry.name)]
    return [_bcache(node, roots) for node in nodes]


def _bcache(node: Path, roots: Roots) -> BlockCache:
    name, cache_set = node.parent.name, node / "cache"
    caches = [entry for entry in entries(cache_set) if re.fullmatch(r"cache\d+", entry.name)]
    cache = caches[0] if caches else None
    bucket = _bcache_figure(cache / "bucket_size") if cache else None
    buckets = _bcache_figure(cache / "nbuckets") if cache else None
    shares = dict(re.findall(r"^(\w+):\s+(\d+)%", text(cache / "priority_stats") or "", re.M)) if cache else {}
    size = bucket * buckets if bucket and buckets else None
    counters = {
        key: value
        for file, key in BCACHE_COUNTS.items()
        if (value := _bcache_figure(node / "stats_total" / file)) is not None
    }
    if cache and (written := _bcache_figure(cache / "written")) is not None:
        counters["written_bytes"] = written
    settings = {key: value for key in DEVICE_SETTINGS if (value := _bcache_figure(node / key)) is not None}
    settings |= {key: value for key in SET_SETTINGS if (value := _bcache_figure(cache_set / key)) is not None}
    errors = _bcache_figure(cache / "io_errors") if cache else None
    state = text(node / "state") or ""
    faults = [f"state {state}"] if state in {"no cache", "inconsistent"} else []
    # cacheN leads to the directory `bcache` of the cache device.
    device = text(cache.resolve().parent / "dev") if cache else None
    return BlockCache(
        "bcache",
        name,
        name,
        cache_set.resolve().name if caches else name,
        _chosen_option(text(node / "cache_mode") or ""),
        _chosen_option(text(cache / "cache_replacement_policy") or "") if cache else "",
        size=size,
        used=None if size is None or "Unused" not in shares else size * (100 - int(shares["Unused"])) // 100,
        dirty=_bcache_figure(node / "dirty_data"),
        block=bucket,
        counters=counters,
        settings=settings,
        faults=(*faults, *([f"{errors} I/O errors"] if errors else [])),
        device=device or "",
        redundant=is_redundant(device, roots) if device else None,
    )


def _chosen_option(words: str) -> str:
    """Returns the word in brackets: `writethrough [writeback] none`."""
    match = re.search(r"\[(\w+)\]", words)
    return match[1] if match else words


def _bcache_figure(path: Path) -> int | None:
    """Returns a number as bcache prints it, such as `12`, `512.0k` and `1.2G`; None if there is none.

    Sizes have powers of 1024 and one decimal (drivers/md/bcache/util.c, `bch_hprint`).
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kMGTPEZY]?)", text(path) or "", re.A)
    return round(float(match[1]) * 1024 ** " kMGTPEZY".index(match[2] or " ")) if match else None


FILE = "caches.json"
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
