"""Problems and risks of caches, one function for each kind of cache."""

from collections.abc import Iterator

from blklab.caches.model import BlockCache
from blklab.diagnostic import Diagnostic
from blklab.units import SECTOR, format_size

LARGE_CHUNK = 1 << 20
"""Bytes of a chunk from which a promotion copies much more than was read."""

FEWEST_CHUNKS = 8
"""Chunks that migration_threshold must cover, as LVM sets it since 2.03.02 (January 2019)."""

FULL_METADATA = 0.9


def find_problems(caches: tuple[BlockCache, ...]) -> list[Diagnostic]:
    """Returns what is wrong or risky, the worst first."""
    findings = [finding for cache in caches for finding in (*_any(cache), *_RULES[cache.kind](cache))]
    return sorted(findings, key=lambda finding: finding.rank)


def _any(cache: BlockCache) -> Iterator[Diagnostic]:
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
            f"the cache device has no redundancy, and writes are only there until they are written back{dirty}: if it"
            " fails, they are lost",
            ("put the cache on a RAID-1, or use the mode writethrough",),
        )


def _dm_cache(cache: BlockCache) -> Iterator[Diagnostic]:
    volume = cache.title
    if cache.policy == "cleaner":
        yield Diagnostic(
            "cache-cleaner",
            "warning",
            volume,
            "the policy is cleaner: it only writes dirty blocks back, and promotes nothing",
            ("set another one: lvchange --cachepolicy smq VG/LV",),
        )
    threshold = cache.settings.get("migration_threshold")
    if threshold is not None and cache.block and threshold * SECTOR < FEWEST_CHUNKS * cache.block:
        never = threshold * SECTOR < cache.block
        yield Diagnostic(
            "cache-migration-threshold",
            "warning" if never else "note",
            volume,
            f"migration_threshold is {threshold} sectors, less than {FEWEST_CHUNKS} chunks of"
            f" {format_size(cache.block)}: dirty blocks are {'never' if never else 'slowly'} written back",
            (f"lvchange --cachesettings migration_threshold={FEWEST_CHUNKS * cache.block // SECTOR} VG/LV",),
        )
    if cache.block and cache.block >= LARGE_CHUNK:
        yield Diagnostic(
            "cache-chunk-large",
            "note",
            volume,
            f"a chunk is {format_size(cache.block)}: each promotion copies all of it, for a read of a few KiB as well",
            ("create the cache again with --chunksize 64k, and compare with `blklab cache curve`",),
        )
    if cache.metadata_used is not None and cache.metadata_used > FULL_METADATA:
        yield Diagnostic(
            "cache-metadata-full", "warning", volume, f"{100 * cache.metadata_used:.0f} % of the metadata is in use"
        )
    if cache.mode == "passthrough":
        yield Diagnostic(
            "cache-passthrough", "note", volume, "the mode is passthrough: all I/O goes to the origin, hits as well"
        )


def _bcache(cache: BlockCache) -> Iterator[Diagnostic]:
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
            f"sequential_cutoff is {format_size(cutoff)}: a task that read or wrote this much in sequence bypasses the"
            " cache, with its random I/O as well for a while",
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


def _writecache(cache: BlockCache) -> Iterator[Diagnostic]:
    blocked, writes = cache.counters.get("blocked", 0), cache.counters.get("writes", 0)
    if writes and blocked > writes / 100:
        yield Diagnostic(
            "cache-blocked",
            "note",
            cache.title,
            f"{100 * blocked / writes:.0f} % of the writes waited for a free block: the cache is too small",
        )


_RULES = {"dm-cache": _dm_cache, "bcache": _bcache, "writecache": _writecache}
