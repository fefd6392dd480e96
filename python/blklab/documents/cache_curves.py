"""The document `cache_curves` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import TypedDict

BlockCurves = TypedDict("BlockCurves", {
    "accesses": int, "block_bytes": int, "curves": "list[PolicyCurve]", "first_touch_ratio": float,
    "footprint_bytes": int, "read_first_touch_ratio": float | None, "write_first_touch_ratio": float | None,
})
CurvePoint = TypedDict("CurvePoint", {
    "cache_bytes": int, "cache_writes": float | None, "high": float, "hit_ratio": float, "low": float,
    "read_hit_ratio": float | None, "sampling_rate": float, "write_hit_ratio": float | None,
})
PolicyCurve = TypedDict("PolicyCurve", {
    "error": float, "knee_bytes": int | None, "memory_bytes": int, "points": "list[CurvePoint]", "policy": str,
})
CacheCurves = TypedDict("CacheCurves", {
    "assumed_rates": list[float], "assumed_volumes": list[int], "blocks": "list[BlockCurves]", "kernel": str,
    "read_bytes": int, "reads": int, "requests": int, "span_ns": int | None, "spread_ns": int | None,
    "useless_times": str | None, "volume_bytes": int | None, "write_bytes": int,
})
