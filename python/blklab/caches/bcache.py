"""Reads bcache from sysfs (Documentation/admin-guide/bcache.rst)."""

import re
from pathlib import Path
from typing import Final

from blklab.caches.device_mapper import is_redundant
from blklab.caches.model import BlockCache
from blklab.system.roots import Roots, entries, text

COUNTS: Final = {
    "cache_hits": "read_hits",
    "cache_misses": "read_misses",
    "cache_bypass_hits": "bypass_hits",
    "cache_bypass_misses": "bypass_misses",
    "bypassed": "bypassed_bytes",
}
"""Files of `stats_total`."""

DEVICE_SETTINGS: Final = ("sequential_cutoff", "writeback_percent", "writeback_delay", "writeback_running")
SET_SETTINGS: Final = ("congested_read_threshold_us", "congested_write_threshold_us", "cache_available_percent")


def read_bcaches(roots: Roots) -> list[BlockCache]:
    """Returns the caches. Every user can read them."""
    nodes = [entry / "bcache" for entry in entries(roots.sys / "block") if re.fullmatch(r"bcache\d+", entry.name)]
    return [_read(node, roots) for node in nodes]


def _read(node: Path, roots: Roots) -> BlockCache:
    name, cache_set = node.parent.name, node / "cache"
    caches = [entry for entry in entries(cache_set) if re.fullmatch(r"cache\d+", entry.name)]
    cache = caches[0] if caches else None
    bucket = _figure(cache / "bucket_size") if cache else None
    buckets = _figure(cache / "nbuckets") if cache else None
    shares = dict(re.findall(r"^(\w+):\s+(\d+)%", text(cache / "priority_stats") or "", re.M)) if cache else {}
    size = bucket * buckets if bucket and buckets else None
    counters = {
        key: value for file, key in COUNTS.items() if (value := _figure(node / "stats_total" / file)) is not None
    }
    if cache and (written := _figure(cache / "written")) is not None:
        counters["written_bytes"] = written
    settings = {key: value for key in DEVICE_SETTINGS if (value := _figure(node / key)) is not None}
    settings |= {key: value for key in SET_SETTINGS if (value := _figure(cache_set / key)) is not None}
    errors = _figure(cache / "io_errors") if cache else None
    state = text(node / "state") or ""
    faults = [f"state {state}"] if state in {"no cache", "inconsistent"} else []
    # cacheN leads to the directory `bcache` of the cache device.
    device = text(cache.resolve().parent / "dev") if cache else None
    return BlockCache(
        "bcache",
        name,
        name,
        cache_set.resolve().name if caches else name,
        _chosen(text(node / "cache_mode") or ""),
        _chosen(text(cache / "cache_replacement_policy") or "") if cache else "",
        size=size,
        used=None if size is None or "Unused" not in shares else size * (100 - int(shares["Unused"])) // 100,
        dirty=_figure(node / "dirty_data"),
        block=bucket,
        counters=counters,
        settings=settings,
        faults=(*faults, *([f"{errors} I/O errors"] if errors else [])),
        device=device or "",
        redundant=is_redundant(device, roots) if device else None,
    )


def _chosen(words: str) -> str:
    """Returns the word in brackets: `writethrough [writeback] none`."""
    match = re.search(r"\[(\w+)\]", words)
    return match[1] if match else words


def _figure(path: Path) -> int | None:
    """Returns a number as bcache prints it, such as `12`, `512.0k` and `1.2G`; None if there is none.

    Sizes have powers of 1024 and one decimal (drivers/md/bcache/util.c, `bch_hprint`).
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kMGTPEZY]?)", text(path) or "", re.A)
    return round(float(match[1]) * 1024 ** " kMGTPEZY".index(match[2] or " ")) if match else None
