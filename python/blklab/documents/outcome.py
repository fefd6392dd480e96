"""The document `outcome` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

BcacheReport = TypedDict("BcacheReport", {
    "bypassed_bytes": int, "cache_bypass_hits": int, "cache_bypass_misses": int, "cache_hits": int,
    "cache_misses": int, "dirty_bytes": int, "journal_writes": int, "name": str, "writeback_bytes": int,
})
DelayReport = TypedDict("DelayReport", {"held": list[int], "name": str})
Direction = TypedDict("Direction", {
    "bw_bytes": float, "clat_ns": "Latency", "io_bytes": int, "iops": float, "total_ios": int,
})
DiskStats = TypedDict("DiskStats", {
    "busy_ns": int, "controller_ns": int, "flush_ns": int, "flushes": int, "ios": list[int], "merges": list[int],
    "name": str, "sectors": list[int], "tag_waits": int, "throttle_waits": int, "ticks_ns": list[int],
    "work": "DiskWork",
})
DiskWork = TypedDict("DiskWork", {
    "bands_cleaned": int, "cache_hits": int, "durable_ns": int, "flash_bytes": int, "interface_ns": int,
    "media_cache_full_ns": int | None, "media_ns": int,
})
Group = TypedDict("Group", {"name": str, "read": "Direction", "write": "Direction"})
Latency = TypedDict("Latency", {
    "bins": NotRequired[list[tuple[int, int]]], "count": int, "max": int | None, "mean": float | None,
    "min": int | None, "p1": int | None, "p10": int | None, "p25": int | None, "p5": int | None, "p50": int | None,
    "p75": int | None, "p90": int | None, "p95": int | None, "p99": int | None, "p99_9": int | None,
    "p99_99": int | None, "relative_error": float, "stddev": float | None,
})
LvmCacheReport = TypedDict("LvmCacheReport", {
    "blocks": int, "demotions": int, "dirty": int, "metadata_writes": int, "name": str, "promotions": int,
    "read_hits": int, "read_misses": int, "used_blocks": int, "waited": int, "write_hits": int, "write_misses": int,
    "writebacks": int,
})
MdReport = TypedDict("MdReport", {"bitmap_writes": int, "name": str, "slots": "list[SlotStats]", "sync_bytes": int})
Point = TypedDict("Point", {
    "bytes": list[int], "clat_ns": list[float | None], "ios": list[int], "time_ns": int, "width_ns": int,
})
SlotStats = TypedDict("SlotStats", {
    "idlest": int, "lowest": int, "nearest": int, "only": int, "sequential": int, "writes": int,
})
Syncs = TypedDict("Syncs", {"iops": float, "lat_ns": "Latency", "total_ios": int})
WritecacheReport = TypedDict("WritecacheReport", {
    "blocks": int, "commits": int, "discards": int, "flushes": int, "free_blocks": int, "metadata_writes": int,
    "name": str, "read_hits": int, "reads": int, "write_hits_committed": int, "write_hits_uncommitted": int,
    "writeback_blocks": int, "writebacks": int, "writes": int, "writes_allocate": int, "writes_around": int,
    "writes_blocked_on_freelist": int,
})
Outcome = TypedDict("Outcome", {
    "devices": "list[DiskStats]", "groups": "list[Group]", "look_ups": NotRequired[list[list[int]]],
    "processor_ns": int, "read": "Direction", "runtime_ns": int, "series": "list[Point]", "simulated_ios": int,
    "sync": "Syncs", "targets": "list[TargetReport]", "watched_ns": int, "write": "Direction",
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
