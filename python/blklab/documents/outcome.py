"""The document `outcome` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, TypedDict

BcacheReport = TypedDict("BcacheReport", {
    "bypassed_bytes": int, "cache_bypass_hits": int, "cache_bypass_misses": int, "cache_hits": int,
    "cache_misses": int, "dirty_bytes": int, "journal_writes": int, "locks": "list[LockUse]", "name": str,
    "worker_ns": int, "writeback_bytes": int,
})
DelayReport = TypedDict("DelayReport", {"held": list[int], "name": str})
DiskWork = TypedDict("DiskWork", {
    "bands_cleaned": int, "cache_hits": int, "durable_ns": int, "flash_bytes": int, "interface_ns": int,
    "media_cache_full_ns": int | None, "media_ns": int,
})
LockUse = TypedDict("LockUse", {"contended_ns": int, "held_ns": int, "name": str, "taken": int, "ways": int})
LvmCacheReport = TypedDict("LvmCacheReport", {
    "blocks": int, "demotions": int, "dirty": int, "locks": "list[LockUse]", "metadata_writes": int, "name": str,
    "promotions": int, "read_hits": int, "read_misses": int, "used_blocks": int, "waited": int, "write_hits": int,
    "write_misses": int, "writebacks": int,
})
MdReport = TypedDict("MdReport", {
    "bitmap_writes": int, "locks": "list[LockUse]", "name": str, "short_page_ns": int, "slots": "list[SlotStats]",
    "sync_bytes": int, "thread_ns": int,
})
Point = TypedDict("Point", {
    "bytes": list[int], "clat_ns": list[float | None], "ios": list[int], "time_ns": int, "width_ns": int,
})
SlotStats = TypedDict("SlotStats", {
    "idlest": int, "lowest": int, "nearest": int, "only": int, "sequential": int, "writes": int,
})
WritecacheReport = TypedDict("WritecacheReport", {
    "blocks": int, "commits": int, "discards": int, "flushes": int, "free_blocks": int, "metadata_writes": int,
    "name": str, "read_hits": int, "reads": int, "write_hits_committed": int, "write_hits_uncommitted": int,
    "writeback_blocks": int, "writebacks": int, "writes": int, "writes_allocate": int, "writes_around": int,
    "writes_blocked_on_freelist": int,
})
class MdTargetReport(MdReport):
    kind: Literal["md"]

class DelayTargetReport(DelayReport):
    kind: Literal["delay"]

class LvmcacheTargetReport(LvmCacheReport):
    kind: Literal["lvmcache"]

class BcacheTargetReport(BcacheReport):
    kind: Literal["bcache"]

class WritecacheTargetReport(WritecacheReport):
    kind: Literal["writecache"]

TargetReport = MdTargetReport | DelayTargetReport | LvmcacheTargetReport | BcacheTargetReport | WritecacheTargetReport
