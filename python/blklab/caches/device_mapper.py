"""Reads dm-cache and dm-writecache from dmsetup's tables and status.

Formats: Documentation/admin-guide/device-mapper/cache.rst and writecache.rst.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from blklab import dmsetup
from blklab.caches.model import BlockCache
from blklab.system.layers import layers
from blklab.system.roots import Roots, entries, text

SECTOR: Final = 512

CACHE_COUNTS: Final = ("read_hits", "read_misses", "write_hits", "write_misses", "demotions", "promotions")

WRITECACHE_COUNTS: Final = (
    "reads", "read_hits", "writes", "write_hits_uncommitted", "write_hits", "write_misses", "allocated", "blocked",
    "flushes", "discards",
)  # fmt: skip
"""Since 5.15 or so; older kernels have none."""

REDUNDANT: Final = {"raid1", "raid10", "raid4", "raid5", "raid6"}


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
    many = int(next(words, "0"))
    listed = [next(words) for _ in range(many)]
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
