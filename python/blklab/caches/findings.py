"""Problems and risks of caches, one function for each kind of cache."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from blklab.caches.model import BlockCache
from blklab.diagnostic import Diagnostic
from blklab.units import SECTOR, format_size

FINDINGS = tomllib.loads(Path(__file__).with_name("findings.toml").read_text(encoding="utf-8"))

LARGE_CHUNK = 1 << 20
"""Bytes of a chunk from which a promotion copies much more than was read."""

FEWEST_CHUNKS = 8
"""Chunks that migration_threshold must cover, as LVM sets it since 2.03.02 (January 2019)."""

FULL_METADATA = 0.9


def find_problems(caches: tuple[BlockCache, ...]) -> list[Diagnostic]:
    """Returns what is wrong or risky, the worst first."""
    findings = [finding for cache in caches for finding in (*_any(cache), *_RULES[cache.kind](cache))]
    return sorted(findings, key=lambda finding: finding.rank)


def _finding(cache: BlockCache, name: str, /, **words: object) -> Diagnostic:
    """Returns a finding of findings.toml, with the words of its message and remedy filled in."""
    table = FINDINGS[name]
    remedy = (table["remedy"].format(**words),) if "remedy" in table else ()
    return Diagnostic(table.get("code", name), table["severity"], cache.title, table["message"].format(**words), remedy)


def _any(cache: BlockCache) -> Iterator[Diagnostic]:
    if cache.faults:
        yield _finding(cache, "cache-broken", faults=", ".join(cache.faults))
    if cache.mode == "writeback" and cache.redundant is False:
        dirty = "" if not cache.dirty else f" ({format_size(cache.dirty)} now)"
        yield _finding(cache, "cache-not-redundant", dirty=dirty)


def _dm_cache(cache: BlockCache) -> Iterator[Diagnostic]:
    if cache.policy == "cleaner":
        yield _finding(cache, "cache-cleaner")
    threshold = cache.settings.get("migration_threshold")
    if threshold is not None and cache.block and threshold * SECTOR < FEWEST_CHUNKS * cache.block:
        never = threshold * SECTOR < cache.block
        yield _finding(
            cache,
            "cache-migration-threshold-too-small" if never else "cache-migration-threshold",
            threshold=threshold,
            chunks=FEWEST_CHUNKS,
            chunk=format_size(cache.block),
            sectors=FEWEST_CHUNKS * cache.block // SECTOR,
        )
    if cache.block and cache.block >= LARGE_CHUNK:
        yield _finding(cache, "cache-chunk-large", chunk=format_size(cache.block))
    if cache.metadata_used is not None and cache.metadata_used > FULL_METADATA:
        yield _finding(cache, "cache-metadata-full", percent=100 * cache.metadata_used)
    if cache.mode == "passthrough":
        yield _finding(cache, "cache-passthrough")


def _bcache(cache: BlockCache) -> Iterator[Diagnostic]:
    for key, kind in (("congested_read_threshold_us", "read"), ("congested_write_threshold_us", "write")):
        if value := cache.settings.get(key):
            yield _finding(cache, "cache-congestion-bypass", key=key, value=value, kind=kind, identity=cache.identity)
    if cutoff := cache.settings.get("sequential_cutoff"):
        yield _finding(cache, "cache-sequential-bypass", cutoff=format_size(cutoff), name=cache.name)
    available = cache.settings.get("cache_available_percent")
    if available is not None and available < 5:
        yield _finding(cache, "cache-full", available=available)
    if cache.mode == "writeback" and cache.settings.get("writeback_running") == 0:
        yield _finding(cache, "cache-writeback-stopped", name=cache.name)
    if cache.mode == "none":
        yield _finding(cache, "cache-off")


def _writecache(cache: BlockCache) -> Iterator[Diagnostic]:
    blocked, writes = cache.counters.get("blocked", 0), cache.counters.get("writes", 0)
    if writes and blocked > writes / 100:
        yield _finding(cache, "cache-blocked", percent=100 * blocked / writes)


_RULES = {"dm-cache": _dm_cache, "bcache": _bcache, "writecache": _writecache}
