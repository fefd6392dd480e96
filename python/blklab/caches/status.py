"""The block caches of this machine: reads all, remembers the counters for the next call, and finds problems and risks.

bcache is read here, from sysfs (Documentation/admin-guide/bcache.rst).
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from blklab import output
from blklab.diagnostic import Diagnostic, Severity
from blklab.errors import BlklabError
from blklab.system import dmsetup, state_directory
from blklab.system.layers import layers
from blklab.system.process import boot_id
from blklab.system.roots import Roots, entries, read_text
from blklab.units import SECTOR, format_size


@dataclass(frozen=True)
class BlockCache:
    """A cache at one moment. Sizes are bytes; None if unknown."""

    kind: Literal["dm-cache", "bcache", "writecache"]
    name: str  # The kernel's name: `dm-3`, `bcache0`
    title: str  # The name that users know: `vg0-data`
    identity: str  # The same after a boot
    mode: str
    policy: str = ""
    size: int | None = None
    used: int | None = None
    dirty: int | None = None
    origin_size: int | None = None  # Of dm-cache and dm-writecache
    block: int | None = None  # A chunk of dm-cache, a bucket of bcache
    metadata_used: float | None = None  # A share
    counters: Mapping[str, int] = field(default_factory=dict)
    """`read_hits`, `read_misses`, `write_hits`, `write_misses`, `promotions`, `demotions`; of bcache `read_hits`,
    `read_misses`, `bypass_hits`, `bypass_misses`, `bypassed_bytes`, `written_bytes`; of writecache its own. They begin
    at 0 when the device is set up."""

    settings: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()  # What the kernel says is broken, in its words
    device: str = ""  # The cache device, `major:minor`
    redundant: bool | None = None  # Whether a lost disk loses no cached block


@dataclass(frozen=True)
class EarlierCall:
    """The counters at an earlier call, of the same boot."""

    seconds: float  # How long ago
    counters: Mapping[str, int]


@dataclass(frozen=True)
class CacheInventory:
    caches: tuple[BlockCache, ...]
    unseen: tuple[str, ...]  # What could not be read, and why
    earlier: Mapping[str, EarlierCall] = field(default_factory=dict)  # By `identity`

    def only(self, caches: tuple[BlockCache, ...]) -> "CacheInventory":
        return replace(self, caches=caches)


def hit_share(counters: Mapping[str, int], direction: str) -> float | None:
    """Returns the share of hits of `read` or `write`; None without I/O."""
    hits, misses = counters.get(f"{direction}_hits", 0), counters.get(f"{direction}_misses", 0)
    return hits / (hits + misses) if hits + misses else None


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
    names = {
        read_text(entry / "dm/name"): entry.name for entry in entries(roots.sys / "block") if (entry / "dm").is_dir()
    }
    if not names:
        return [], []
    tables, failure = dmsetup.read_all("table")
    if failure:
        return [], [f"dm devices ({len(names)}): not seen: {failure}"]
    status, failure = dmsetup.read_all("status")
    caches = []
    unseen = [failure] if failure else []
    for title, table in tables.items():
        kernel_name = names.get(title)
        kind = table[2] if len(table) > 2 else ""
        if kernel_name is None or kind not in {"cache", "writecache"}:
            continue
        status_words = status.get(title, [])
        try:
            identity = read_text(roots.sys / "block" / kernel_name / "dm/uuid") or title
            read = _cache if kind == "cache" else _writecache
            cache = read(kernel_name, title, identity, table[3:], status_words[3:])
            caches.append(replace(cache, origin_size=int(table[1]) * SECTOR))
        except (ValueError, IndexError):
            unseen.append(f"{title}: not seen: unknown status {' '.join(status_words[2:])[:200]!r}")
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
    used_blocks, size = map(int, status[3].split("/"))
    arguments: Iterator[str] = iter(status[11:])
    features = [next(arguments) for _ in range(int(next(arguments)))]
    settings = _pairs(arguments)
    policy = next(arguments)
    settings |= _pairs(arguments)
    state = list(arguments)
    modes = [feature for feature in features if feature in {"writethrough", "writeback", "passthrough"}]
    return BlockCache(
        "dm-cache",
        name,
        title,
        identity,
        modes[0] if modes else "writeback",
        policy,
        size=size * block,
        used=used_blocks * block,
        dirty=int(status[10]) * block,
        block=block,
        metadata_used=metadata_used / metadata_size if metadata_size else None,
        counters=dict(zip(CACHE_COUNTS, map(int, status[4:10]), strict=True)),
        settings=settings,
        faults=tuple(word for word in state if word in {"ro", "needs_check"}),
        device=table[1],
    )


def _pairs(arguments: Iterator[str]) -> dict[str, int]:
    pairs = [next(arguments) for _ in range(int(next(arguments, "0")))]
    return {key: int(value) for key, value in zip(pairs[::2], pairs[1::2], strict=False) if value.isdigit()}


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
        (layer.node is not None and read_text(layer.node / "md/level") in REDUNDANT)
        or (targets or {}).get(layer.name) in {"raid", "mirror"}
        for layer in layers([device], roots)
    )


def read_bcaches(roots: Roots) -> list[BlockCache]:
    """Returns the caches. Every user can read them."""
    nodes = [entry / "bcache" for entry in entries(roots.sys / "block") if re.fullmatch(r"bcache\d+", entry.name)]
    return [_bcache(node, roots) for node in nodes]


def _bcache(node: Path, roots: Roots) -> BlockCache:
    name = node.parent.name
    cache_set = node / "cache"
    caches = [entry for entry in entries(cache_set) if re.fullmatch(r"cache\d+", entry.name)]
    cache = caches[0] if caches else None
    bucket = _bcache_figure(cache / "bucket_size") if cache else None
    buckets = _bcache_figure(cache / "nbuckets") if cache else None
    shares = dict(re.findall(r"^(\w+):\s+(\d+)%", read_text(cache / "priority_stats") or "", re.M)) if cache else {}
    size = bucket * buckets if bucket and buckets else None
    counters = {}
    for file, key in BCACHE_COUNTS.items():
        value = _bcache_figure(node / "stats_total" / file)
        if value is not None:
            counters[key] = value
    if cache and (written := _bcache_figure(cache / "written")) is not None:
        counters["written_bytes"] = written
    settings = _bcache_figures(node, DEVICE_SETTINGS) | _bcache_figures(cache_set, SET_SETTINGS)
    errors = _bcache_figure(cache / "io_errors") if cache else None
    state = read_text(node / "state") or ""
    faults = [f"state {state}"] if state in {"no cache", "inconsistent"} else []
    if errors:
        faults.append(f"{errors} I/O errors")
    # cacheN leads to the directory `bcache` of the cache device.
    device = read_text(cache.resolve().parent / "dev") if cache else None
    return BlockCache(
        "bcache",
        name,
        name,
        cache_set.resolve().name if caches else name,
        _parse_choice(read_text(node / "cache_mode") or ""),
        _parse_choice(read_text(cache / "cache_replacement_policy") or "") if cache else "",
        size=size,
        used=None if size is None or "Unused" not in shares else size * (100 - int(shares["Unused"])) // 100,
        dirty=_bcache_figure(node / "dirty_data"),
        block=bucket,
        counters=counters,
        settings=settings,
        faults=tuple(faults),
        device=device or "",
        redundant=is_redundant(device, roots) if device else None,
    )


def _parse_choice(text: str) -> str:
    """Returns the word in brackets: `writethrough [writeback] none`."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else text


def _bcache_figure(path: Path) -> int | None:
    """Returns a number as bcache prints it, such as `12`, `512.0k` and `1.2G`; None if there is none.

    Sizes have powers of 1024 and one decimal (drivers/md/bcache/util.c, `bch_hprint`).
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kMGTPEZY]?)", read_text(path) or "", re.A)
    return round(float(match[1]) * 1024 ** " kMGTPEZY".index(match[2] or " ")) if match else None


def _bcache_figures(directory: Path, names: Iterable[str]) -> dict[str, int]:
    """Returns the numbers in files of a directory, without those that have none."""
    figures = {}
    for name in names:
        value = _bcache_figure(directory / name)
        if value is not None:
            figures[name] = value
    return figures


FILE = "caches.json"
"""In the state directory: the counters of the last call."""


def read_caches(roots: Roots, *, remember: bool = False) -> CacheInventory:
    """Returns all caches with their counters at the last call that was remembered."""
    dm_caches, unseen = read_dm_caches(roots)
    caches = (*dm_caches, *read_bcaches(roots))
    now = time.time()
    boot = boot_id(roots)
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


LARGE_CHUNK = 1 << 20
"""Bytes of a chunk from which a promotion copies much more than was read."""

FEWEST_CHUNKS = 8
"""Chunks that migration_threshold must cover, as LVM sets it since 2.03.02 (January 2019)."""

FULL_METADATA = 0.9


def find_problems(caches: tuple[BlockCache, ...]) -> list[Diagnostic]:
    """Returns what is wrong or risky, the worst first."""
    findings: list[Diagnostic] = []
    for cache in caches:
        findings += _problems_of_any(cache)
        findings += _RULES[cache.kind](cache)
    return sorted(findings, key=lambda finding: finding.rank)


def _problems_of_any(cache: BlockCache) -> Iterator[Diagnostic]:
    if cache.faults:
        yield Diagnostic(
            "cache-broken",
            "critical",
            cache.title,
            f"the kernel reports {', '.join(cache.faults)}: data may exist only on the cache device",
            ("look at the kernel's log (dmesg) before you remove or detach anything",),
        )
    if cache.mode == "writeback" and cache.redundant is False:
        dirty = "" if not cache.dirty else f" ({format_size(cache.dirty)} now)"
        yield Diagnostic(
            "cache-not-redundant",
            "warning",
            cache.title,
            "the cache device has no redundancy, and writes are only there until they are written "
            f"back{dirty}: if it fails, they are lost",
            ("put the cache on a RAID-1, or use the mode writethrough",),
        )


def _dm_cache_problems(cache: BlockCache) -> Iterator[Diagnostic]:
    if cache.policy == "cleaner":
        yield Diagnostic(
            "cache-cleaner",
            "warning",
            cache.title,
            "the policy is cleaner: it only writes dirty blocks back, and promotes nothing",
            ("set another one: lvchange --cachepolicy smq VG/LV",),
        )
    threshold = cache.settings.get("migration_threshold")
    if threshold is not None and cache.block and threshold * SECTOR < FEWEST_CHUNKS * cache.block:
        severity: Severity = "note"
        effect = "dirty blocks are slowly written back"
        if threshold * SECTOR < cache.block:
            severity = "warning"
            effect = "dirty blocks are never written back"
        sectors = FEWEST_CHUNKS * cache.block // SECTOR
        yield Diagnostic(
            "cache-migration-threshold",
            severity,
            cache.title,
            f"migration_threshold is {threshold} sectors, "
            f"less than {FEWEST_CHUNKS} chunks of {format_size(cache.block)}: {effect}",
            (f"lvchange --cachesettings migration_threshold={sectors} VG/LV",),
        )
    if cache.block and cache.block >= LARGE_CHUNK:
        yield Diagnostic(
            "cache-chunk-large",
            "note",
            cache.title,
            f"a chunk is {format_size(cache.block)}: each promotion copies all of it, for a read of a few KiB as well",
            ("create the cache again with --chunksize 64k, and compare with `blklab cache curve`",),
        )
    if cache.metadata_used is not None and cache.metadata_used > FULL_METADATA:
        yield Diagnostic(
            "cache-metadata-full",
            "warning",
            cache.title,
            f"{100 * cache.metadata_used:.0f} % of the metadata is in use",
        )
    if cache.mode == "passthrough":
        yield Diagnostic(
            "cache-passthrough",
            "note",
            cache.title,
            "the mode is passthrough: all I/O goes to the origin, hits as well",
        )


def _bcache_problems(cache: BlockCache) -> Iterator[Diagnostic]:
    for key, kind in (("congested_read_threshold_us", "read"), ("congested_write_threshold_us", "write")):
        if value := cache.settings.get(key):
            yield Diagnostic(
                "cache-congestion-bypass",
                "note",
                cache.title,
                f"{key} is {value}: I/O bypasses the cache after a {kind} on it took longer than that",
                (f"to cache it all the same: echo 0 > /sys/fs/bcache/{cache.identity}/{key}",),
            )
    if cutoff := cache.settings.get("sequential_cutoff"):
        yield Diagnostic(
            "cache-sequential-bypass",
            "note",
            cache.title,
            f"sequential_cutoff is {format_size(cutoff)}: "
            "a task that read or wrote this much in sequence bypasses the cache, "
            "with its random I/O as well for a while",
            (f"to cache it all the same: echo 0 > /sys/block/{cache.name}/bcache/sequential_cutoff",),
        )
    available = cache.settings.get("cache_available_percent")
    if available is not None and available < 5:
        yield Diagnostic(
            "cache-full", "warning", cache.title, f"{available} % of the cache can be used: new data bypass it"
        )
    if cache.mode == "writeback" and cache.settings.get("writeback_running") == 0:
        yield Diagnostic(
            "cache-writeback-stopped",
            "warning",
            cache.title,
            "writeback_running is 0: dirty data are not written back",
            (f"echo 1 > /sys/block/{cache.name}/bcache/writeback_running",),
        )
    if cache.mode == "none":
        yield Diagnostic("cache-off", "note", cache.title, "cache_mode is none: nothing new is cached")


def _writecache_problems(cache: BlockCache) -> Iterator[Diagnostic]:
    blocked_writes, writes = cache.counters.get("blocked", 0), cache.counters.get("writes", 0)
    if writes and blocked_writes > writes / 100:
        yield Diagnostic(
            "cache-blocked",
            "note",
            cache.title,
            f"{100 * blocked_writes / writes:.0f} % of the writes waited for a free block: the cache is too small",
        )


_RULES = {"dm-cache": _dm_cache_problems, "bcache": _bcache_problems, "writecache": _writecache_problems}
