"""The document `cell` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Bcache = TypedDict("Bcache", {
    "backing": "Node", "block": int, "bucket": int, "cache": "Node", "congested_read_threshold_us": int,
    "congested_write_threshold_us": int, "mode": "BcacheMode", "name": str, "sequential_cutoff": int,
    "state": "NotRequired[InitialState]", "writeback_percent": int,
})
Delay = TypedDict("Delay", {
    "flush_ns": NotRequired[int | None], "name": str, "origin": "Node", "read_ns": int, "write_ns": int,
})
Device = TypedDict("Device", {
    "bytes": int, "controller": NotRequired[str | None], "model": "Model", "name": str, "queue": "QueueSettings",
    "start": NotRequired[int],
})
RandomDistribution = TypedDict("RandomDistribution", {"kind": Literal["random"]})
ZipfDistribution = TypedDict("ZipfDistribution", {"kind": Literal["zipf"], "theta": float})
ParetoDistribution = TypedDict("ParetoDistribution", {"h": float, "kind": Literal["pareto"]})
NormalDistribution = TypedDict("NormalDistribution", {"deviation": float, "kind": Literal["normal"]})
ZonedDistribution = TypedDict("ZonedDistribution", {"kind": Literal["zoned"], "zones": list[tuple[float, float]]})
Filesystem = TypedDict("Filesystem", {"commit_ns": int})
Host = TypedDict("Host", {
    "atomic_ns": NotRequired[int], "copy_ns": NotRequired[int], "cores": NotRequired[int],
    "file_write_ns": NotRequired[int], "lock_ns": NotRequired[int], "md_ns": NotRequired[int],
    "member_ns": NotRequired[int], "page_ns": NotRequired[int], "pass_ns": NotRequired[int],
    "reap_ns": NotRequired[int], "scsi_ns": NotRequired[int], "submit_ns": NotRequired[int],
    "switch_ns": NotRequired[int], "syndrome_rate": NotRequired[int], "wake_ns": NotRequired[int],
    "xor_rate": NotRequired[int],
})
Job = TypedDict("Job", {
    "align": int, "batch_complete_min": int, "batch_submit": int, "buffered": NotRequired[bool],
    "distribution": "NotRequired[Distribution]", "fadvise_sequential": NotRequired[bool], "fsync": NotRequired[int],
    "fsync_share": NotRequired[float], "fua": NotRequired[bool], "io_bytes": int, "io_uring": NotRequired[bool],
    "iodepth": int, "iodepth_low": NotRequired[int], "name": str, "numjobs": int, "offset": int,
    "offset_increment": NotRequired[int], "random": bool, "random_map": "NotRequired[RandomMap]",
    "rate_iops": NotRequired[float], "read_share": float, "read_sizes": list[tuple[int, float]], "size": int,
    "thinktime_blocks": NotRequired[int], "thinktime_ns": NotRequired[int], "write_sizes": list[tuple[int, float]],
})
JournalSpec = TypedDict("JournalSpec", {"device": "NotRequired[Node | None]", "log": "Log"})
LvmCache = TypedDict("LvmCache", {
    "age_ns": NotRequired[int], "cache": "Node", "chunk": int, "metadata": NotRequired[int | None],
    "migration_threshold": NotRequired[int | None], "mode": "CacheMode", "name": str, "origin": "Node", "policy": str,
    "state": "NotRequired[InitialState]",
})
Md = TypedDict("Md", {
    "bitmap": NotRequired[bool], "bitmap_chunk": NotRequired[int], "chunk": NotRequired[int], "far": NotRequired[int],
    "group_thread_cnt": NotRequired[int], "level": "Level", "lockless": NotRequired[bool], "members": "list[Member]",
    "name": str, "near": NotRequired[int], "offset": NotRequired[bool], "rmw_level": NotRequired[int],
    "stripe_cache": NotRequired[int], "sync": "NotRequired[SyncAction]", "sync_speed_max": NotRequired[int],
    "sync_speed_min": NotRequired[int],
})
Member = TypedDict("Member", {
    "node": "NotRequired[Node | None]", "rebuilding": NotRequired[bool], "write_mostly": NotRequired[bool],
})
Node = TypedDict("Node", {
    "device": int, "md": "Md", "delay": "Delay", "lvmcache": "LvmCache", "bcache": "Bcache",
    "writecache": "Writecache",
}, total=False)
QueueSettings = TypedDict("QueueSettings", {
    "max_bytes": int, "nr_requests": int, "queue_depth": int, "rotational": bool, "scheduler": "Scheduler",
    "wbt_lat_ns": int, "write_back": bool,
})
Replay = TypedDict("Replay", {
    "iodepth": int, "speed": NotRequired[float], "timed": bool, "waited_only": NotRequired[bool],
})
Writecache = TypedDict("Writecache", {
    "block": int, "cache": "Node", "high_watermark": int, "low_watermark": int, "max_age_ns": NotRequired[int | None],
    "name": str, "origin": "Node",
})
Cell = TypedDict("Cell", {
    "controllers": "NotRequired[dict[str, ControllerSpec]]", "devices": "list[Device]",
    "dirty_background_bytes": NotRequired[int | None], "dirty_bytes": NotRequired[int | None],
    "filesystem": "NotRequired[Filesystem | None]", "host": "NotRequired[Host]", "jobs": "NotRequired[list[Job]]",
    "journal": "NotRequired[JournalSpec | None]", "kernel": str, "max_ios": NotRequired[int | None],
    "ramp_ns": NotRequired[int], "ran_before": NotRequired[bool], "read_ahead_bytes": NotRequired[int | None],
    "replay": "NotRequired[Replay | None]", "runtime_ns": NotRequired[int | None], "seed": int,
    "series_ns": NotRequired[int], "spread": NotRequired[bool], "stack": "Node",
})
BcacheMode = Literal["writethrough", "writeback", "writearound", "none"]
CacheMode = Literal["writethrough", "writeback", "passthrough"]
Distribution = RandomDistribution | ZipfDistribution | ParetoDistribution | NormalDistribution | ZonedDistribution
InitialState = Literal["empty", "junk", "junk-dirty", "warm", "layout"]
Level = Literal["linear", "raid0", "raid1", "raid10", "raid4", "raid5", "raid6"]
Log = Literal["jbd2", "xfs"]
Model = dict[str, object]
RandomMap = Literal["off", "repeated", "reshuffled"]
Scheduler = Literal["none", "noop", "mq-deadline", "deadline", "cfq"]
SyncAction = Literal["idle", "resync", "recover", "check"]
ControllerSpec = dict[str, object]
