"""The document `profile` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, TypedDict

Warning = TypedDict("Warning", {"message": str, "path": str})
Amount = TypedDict("Amount", {"bytes": int, "count": int})
ArrivalsSummary = TypedDict("ArrivalsSummary", {
    "backwards": int, "coefficient_of_variation": float | None, "count": int, "dispersion": "list[Dispersion]",
    "inter_arrival_ns": "QuantilesSummary", "mean_iops": float | None, "pattern": "ArrivalPattern | None",
    "peak_iops": int, "peak_to_mean": float | None,
})
Capabilities = TypedDict("Capabilities", {
    "clock_ns": int | None, "completions": bool, "directions": bool, "layers": bool, "processes": bool,
})
DensityRow = TypedDict("DensityRow", {
    "end": int, "low": int, "read_levels": str, "reads": int, "write_levels": str, "writes": int,
})
DepthOverTime = TypedDict("DepthOverTime", {"slices": "list[DepthSlice]", "width_ns": int})
DepthSlice = TypedDict("DepthSlice", {"area_ns": int, "busy_ns": int, "max": int})
DeviceProfile = TypedDict("DeviceProfile", {
    "depth_over_time": "DepthOverTime", "device": str, "dispatched": "LevelSummary", "events": dict[str, int],
    "files": "FilesProfile | None", "first_ns": int, "given_up": int, "hotness": "HotnessSummary",
    "in_flight": "LevelSummary", "last_ns": int, "life": "dict[str, LifeProfile]", "load": "LoadProfile",
    "name": str | None, "observed_ns": int, "offsets": "OffsetsProfile", "over_time": "OverTimeProfile",
    "pattern": "PatternProfile", "processes_over_time": "ProcessesOverTime", "slow": "SlowProfile",
    "start": "StartAction", "unmatched_completions": int,
})
Dispersion = TypedDict("Dispersion", {
    "index": float | None, "max_ios": int, "mean_ios": float | None, "window_ns": int, "windows": int,
})
FileProfile = TypedDict("FileProfile", {
    "is_file": bool, "name": str, "read_bytes": int, "reads": int, "write_bytes": int, "writes": int,
})
FilesProfile = TypedDict("FilesProfile", {"files": "list[FileProfile]", "further": int, "mount": str})
Filter = TypedDict("Filter", {
    "devices": list[str], "first_sector": int | None, "last_sector": int | None, "max_bytes": int | None,
    "min_bytes": int | None, "min_latency_ns": int | None, "ops": list[str], "processes": list[str],
    "since_ns": int | None, "until_ns": int | None,
})
GroupProfile = TypedDict("GroupProfile", {
    "bytes": dict[str, int], "errors": int, "ios": dict[str, int], "name": str, "read_q2c_ns": "QuantilesSummary",
    "write_q2c_ns": "QuantilesSummary",
})
HotBlock = TypedDict("HotBlock", {"block": int, "reads": int, "writes": int})
HotShare = TypedDict("HotShare", {"fraction": float, "io_share": float})
HotnessSummary = TypedDict("HotnessSummary", {
    "accesses": int, "accesses_per_block": float | None, "first_touch_share": float | None,
    "hottest": "list[HotShare]", "rank_curve": "list[HotShare]", "relative_error": float, "sample_rate": float,
    "sampled": bool, "top": "list[HotBlock]", "truncated_ios": int, "unique_blocks": int, "unique_bytes": int,
    "unique_read_blocks": int, "unique_written_blocks": int, "zipf": "ZipfFit",
})
Input = TypedDict("Input", {"files": list[str], "name": str})
LevelSummary = TypedDict("LevelSummary", {
    "backwards": int, "below_zero": int, "histogram": "list[LevelTime]", "idle_share": float | None, "max": int,
    "mean": float | None, "mean_when_busy": float | None, "p50": int | None, "p95": int | None, "p99": int | None,
    "time_ns": int,
})
LevelTime = TypedDict("LevelTime", {"high": int, "low": int, "time_ns": int})
LifeProfile = TypedDict("LifeProfile", {
    "completed": int, "completed_bytes": int, "errors": dict[str, int], "histogram": list[tuple[int, int, int]],
    "latency_ns": "dict[str, QuantilesSummary]", "merged": int, "never_completed": int, "requeued": int,
    "without_queue": int,
})
LoadProfile = TypedDict("LoadProfile", {
    "cpus": "list[GroupProfile]", "end_sector": int | None, "first_sector": int | None,
    "ops": "dict[str, OpLoadProfile]", "processes": "list[GroupProfile]", "sources": "list[GroupProfile]",
})
LongTimeProfile = TypedDict("LongTimeProfile", {
    "bytes": int, "depth": int, "in_flight": dict[str, int], "length_ns": int, "op": str, "process": str,
    "sector": int, "stage": str, "stage_ns": int, "start_ns": int,
})
OffsetsProfile = TypedDict("OffsetsProfile", {"rows": "list[DensityRow]", "width_ns": int})
OpLoadProfile = TypedDict("OpLoadProfile", {
    "ahead": int, "bytes": int, "fua": int, "ios": int, "meta": int, "preflush": int, "share_of_bytes": float,
    "share_of_ios": float, "sizes": "SizeSummary", "sync": int,
})
OverTimeProfile = TypedDict("OverTimeProfile", {
    "latencies": "list[DensityRow]", "slices": "list[SliceProfile]", "width_ns": int,
})
PatternProfile = TypedDict("PatternProfile", {
    "arrivals": "ArrivalsSummary", "read_streams": "StreamsSummary", "seeks": "SeeksSummary",
    "write_streams": "StreamsSummary",
})
ProcessesOverTime = TypedDict("ProcessesOverTime", {"ios": dict[str, list[int]], "width_ns": int})
QuantilesSummary = TypedDict("QuantilesSummary", {
    "count": int, "max": int | None, "mean": float | None, "min": int | None, "p1": int | None, "p10": int | None,
    "p25": int | None, "p5": int | None, "p50": int | None, "p75": int | None, "p90": int | None, "p95": int | None,
    "p99": int | None, "p99_9": int | None, "p99_99": int | None, "relative_error": float, "stddev": float | None,
})
RunLengths = TypedDict("RunLengths", {"max": int | None, "mean": float | None, "p50": int | None, "p95": int | None})
SeekRange = TypedDict("SeekRange", {"count": int, "high_sectors": int, "low_sectors": int})
SeeksSummary = TypedDict("SeeksSummary", {
    "backward": int, "count": int, "forward": int, "histogram": "list[SeekRange]",
    "mean_distance_sectors": float | None, "median_distance_sectors": int | None, "p95_distance_sectors": int | None,
    "zero": int,
})
SizeBin = TypedDict("SizeBin", {"center_kib": int, "count": int})
SizeCount = TypedDict("SizeCount", {"bytes": int, "count": int})
SizeSummary = TypedDict("SizeSummary", {
    "bins_4k": "list[SizeBin]", "count": int, "exact": "list[SizeCount]", "folded_ios": int, "is_exact": bool,
    "max_bytes": int | None, "mean_bytes": float | None, "median_bytes": int | None, "min_bytes": int | None,
    "mode_bytes": int | None, "p25_bytes": int | None, "p5_bytes": int | None, "p75_bytes": int | None,
    "p95_bytes": int | None, "p99_bytes": int | None, "total_bytes": int,
})
SliceProfile = TypedDict("SliceProfile", {
    "others": int, "read_bytes": int, "read_p50_ns": int | None, "read_p99_ns": int | None, "reads": int,
    "start_ns": int, "unique_blocks": int, "unique_blocks_so_far": int, "write_bytes": int, "write_p50_ns": int | None,
    "write_p99_ns": int | None, "writes": int,
})
SlowProfile = TypedDict("SlowProfile", {
    "slowest": "list[LongTimeProfile]", "stall_least_ns": int | None, "stalls": "list[LongTimeProfile]",
})
StreamsSummary = TypedDict("StreamsSummary", {
    "backward_sequential_ios": int, "ios": int, "peak_concurrent_streams": int, "run_bytes": "RunLengths",
    "run_ios": "RunLengths", "runs": int, "sequential_ios": int, "sequential_share": float | None,
    "strictly_sequential_ios": int,
})
SummaryProfile = TypedDict("SummaryProfile", {
    "cpus": "dict[str, Tally]", "events": int, "first_ns": int, "last_ns": int, "max_depth": list[int], "name": str,
    "skips": list[int], "total": "Tally",
})
Tally = TypedDict("Tally", {
    "completed": "list[Amount]", "dispatched": "list[Amount]", "events": int, "merged": "list[Amount]",
    "passthrough_completed": "list[Amount]", "passthrough_dispatched": "list[Amount]",
    "passthrough_queued": "list[Amount]", "passthrough_requeued": "list[Amount]", "queued": "list[Amount]",
    "requeued": "list[Amount]", "timer_unplugs": int, "unplugs": int,
})
TraceInfo = TypedDict("TraceInfo", {
    "bytes_read": int, "capabilities": "Capabilities", "device_names": list[tuple[int, str]], "dropped": int | None,
    "format": str, "inputs": "list[Input]", "messages": int, "out_of_order": int, "sequence_gaps": int,
    "start_unix_ns": int | None, "warnings": "list[Warning]",
})
ZipfFit = TypedDict("ZipfFit", {
    "exponent": float | None, "fitted_blocks": int, "fitted_from_accesses": int,
    "gain_over_uniform_nats": float | None, "ks_distance": float | None, "reason": str, "verdict": "ZipfVerdict",
})
Profile = TypedDict("Profile", {
    "device_names": dict[str, str], "devices": "list[DeviceProfile]", "events": int, "events_left_out": int,
    "filter": "Filter", "first_ns": int, "focus": str | None, "format_version": int, "last_ns": int,
    "process_names": list[str], "summary": "list[SummaryProfile]", "trace": "TraceInfo",
})
ArrivalPattern = Literal["steady", "random", "bursty"]
StartAction = Literal["Q", "D", "C"]
ZipfVerdict = Literal["zipf", "uniform", "not zipf"]
