"""The document `cell` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Bcache = TypedDict("Bcache", {
    "backing": "Node", "block": int, "bucket": int, "cache": "Node", "congested_read_threshold_us": int,
    "congested_write_threshold_us": int, "mode": str, "name": str, "sequential_cutoff": int,
    "state": "NotRequired[InitialState]", "writeback_percent": int,
})
Delay = TypedDict("Delay", {"name": str, "origin": "Node", "read_ns": int, "write_ns": int})
Device = TypedDict("Device", {
    "bytes": int, "model": "Model", "name": str, "queue": "QueueSettings", "start": NotRequired[int],
})
RandomDistribution = TypedDict("RandomDistribution", {"kind": Literal["random"]})
ZipfDistribution = TypedDict("ZipfDistribution", {"kind": Literal["zipf"], "theta": float})
ParetoDistribution = TypedDict("ParetoDistribution", {"h": float, "kind": Literal["pareto"]})
NormalDistribution = TypedDict("NormalDistribution", {"deviation": float, "kind": Literal["normal"]})
ZonedDistribution = TypedDict("ZonedDistribution", {"kind": Literal["zoned"], "zones": list[tuple[float, float]]})
Filesystem = TypedDict("Filesystem", {"commit_ns": int})
FlashUse = TypedDict("FlashUse", {"capacity": int, "fill": float, "over_provisioning": float})
Host = TypedDict("Host", {
    "md_ns": NotRequired[int], "reap_ns": NotRequired[int], "submit_ns": NotRequired[int], "wake_ns": NotRequired[int],
})
Job = TypedDict("Job", {
    "align": int, "batch_complete_min": int, "batch_submit": int, "distribution": "NotRequired[Distribution]",
    "fsync": NotRequired[int], "fsync_share": NotRequired[float], "io_bytes": int, "iodepth": int,
    "iodepth_low": NotRequired[int], "name": str, "numjobs": int, "offset": int, "offset_increment": NotRequired[int],
    "random": bool, "random_map": "NotRequired[RandomMap]", "rate_iops": NotRequired[float], "read_share": float,
    "read_sizes": list[tuple[int, float]], "size": int, "thinktime_blocks": NotRequired[int],
    "thinktime_ns": NotRequired[int], "write_sizes": list[tuple[int, float]],
})
LvmCache = TypedDict("LvmCache", {
    "cache": "Node", "chunk": int, "metadata": NotRequired[int | None], "migration_threshold": NotRequired[int | None],
    "mode": "Mode", "name": str, "origin": "Node", "policy": str, "state": "NotRequired[InitialState]",
})
Md = TypedDict("Md", {
    "bitmap": NotRequired[bool], "bitmap_chunk": NotRequired[int], "chunk": NotRequired[int], "far": NotRequired[int],
    "level": "Level", "members": "list[Member]", "name": str, "near": NotRequired[int], "offset": NotRequired[bool],
    "stripe_cache": NotRequired[int], "sync": "NotRequired[SyncAction]", "sync_speed_max": NotRequired[int],
    "sync_speed_min": NotRequired[int],
})
Member = TypedDict("Member", {
    "node": "NotRequired[Node | None]", "rebuilding": NotRequired[bool], "write_mostly": NotRequired[bool],
})
SsdModel = TypedDict("SsdModel", {
    "buffer_bytes": int, "fold_ns": NotRequired[int], "kind": Literal["ssd"], "page_bytes": int, "page_read_ns": int,
    "program_bytes": int, "program_ns": int, "read_bandwidth": int, "read_command_ns": int, "read_latency_ns": int,
    "slc_bytes": NotRequired[int], "suspend_ns": int, "units": int, "used": "NotRequired[FlashUse | None]",
    "write_bandwidth": int, "write_command_ns": int, "write_latency_ns": int,
})
NvmeModel = TypedDict("NvmeModel", {
    "buffer_bytes": int, "fold_ns": NotRequired[int], "kind": Literal["nvme"], "page_bytes": int, "page_read_ns": int,
    "program_bytes": int, "program_ns": int, "read_bandwidth": int, "read_command_ns": int, "read_latency_ns": int,
    "slc_bytes": NotRequired[int], "suspend_ns": int, "units": int, "used": "NotRequired[FlashUse | None]",
    "write_bandwidth": int, "write_command_ns": int, "write_latency_ns": int,
})
HddModel = TypedDict("HddModel", {
    "bandwidth": int, "cache_bytes": int, "capacity": int, "command_ns": int, "controller_ns": NotRequired[int],
    "destage_ns": int, "flush_ns": int, "heads": int, "inner_track_bytes": int, "kind": Literal["hdd"],
    "order": "NotRequired[CommandOrder]", "outer_track_bytes": int, "read_ahead_bytes": int, "read_streams": int,
    "rpm": int, "seek_average_ns": int, "seek_full_ns": int, "seek_track_ns": int,
    "shingled": "NotRequired[ShingledSpec | None]", "write_cache": bool, "write_cache_requests": int,
})
ThrottledModel = TypedDict("ThrottledModel", {
    "bps_burst": NotRequired[float], "bps_read": NotRequired[float], "bps_total": NotRequired[float],
    "bps_write": NotRequired[float], "burst_seconds": NotRequired[float], "iops_burst": NotRequired[float],
    "iops_read": NotRequired[float], "iops_total": NotRequired[float], "iops_write": NotRequired[float],
    "kind": Literal["throttled"], "latency_ns": NotRequired[int],
})
Node = TypedDict("Node", {
    "device": int, "md": "Md", "delay": "Delay", "lvmcache": "LvmCache", "bcache": "Bcache",
    "writecache": "Writecache",
}, total=False)
QueueSettings = TypedDict("QueueSettings", {
    "max_bytes": int, "nr_requests": int, "queue_depth": int, "rotational": bool, "scheduler": "Scheduler",
    "wbt_lat_ns": int, "write_back": bool,
})
Replay = TypedDict("Replay", {"iodepth": int, "speed": NotRequired[float], "timed": bool})
ShingledSpec = TypedDict("ShingledSpec", {
    "band_bytes": int, "band_clean_ns": int, "media_cache_bytes": int, "media_cache_extents": int,
    "media_cache_fill": float,
})
Writecache = TypedDict("Writecache", {
    "block": int, "cache": "Node", "high_watermark": int, "low_watermark": int, "max_age_ns": NotRequired[int | None],
    "name": str, "origin": "Node",
})
Cell = TypedDict("Cell", {
    "devices": "list[Device]", "filesystem": "NotRequired[Filesystem | None]", "host": "NotRequired[Host]",
    "jobs": "NotRequired[list[Job]]", "kernel": str, "max_ios": NotRequired[int | None], "ramp_ns": NotRequired[int],
    "replay": "NotRequired[Replay | None]", "runtime_ns": NotRequired[int | None], "seed": int,
    "series_ns": NotRequired[int], "stack": "Node",
})
CommandOrder = Literal["rotation", "seek", "arrival"]
Distribution = RandomDistribution | ZipfDistribution | ParetoDistribution | NormalDistribution | ZonedDistribution
InitialState = Literal["empty", "junk", "junk-dirty", "warm", "layout"]
Level = Literal["linear", "raid0", "raid1", "raid10", "raid4", "raid5", "raid6"]
Mode = Literal["writethrough", "writeback", "passthrough"]
Model = SsdModel | NvmeModel | HddModel | ThrottledModel
RandomMap = Literal["off", "repeated", "reshuffled"]
Scheduler = Literal["none", "noop", "mq-deadline", "deadline", "cfq"]
SyncAction = Literal["idle", "resync", "recover", "check"]
