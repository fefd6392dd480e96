"""The document `outcome` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class DelayReport(TypedDict):
    held: list[int]
    name: str


class Direction(TypedDict):
    bw_bytes: float
    clat_ns: Latency
    io_bytes: int
    iops: float
    total_ios: int


class DiskStats(TypedDict):
    busy_ns: int
    flush_ns: int
    flushes: int
    ios: list[int]
    merges: list[int]
    name: str
    sectors: list[int]
    tag_waits: int
    throttle_waits: int
    ticks_ns: list[int]
    work: DiskWork


class DiskWork(TypedDict):
    cache_hits: int
    interface_ns: int
    media_ns: int


class Group(TypedDict):
    name: str
    read: Direction
    write: Direction


class Latency(TypedDict):
    bins: NotRequired[list[tuple[int, int]]]
    count: int
    max: int | None
    mean: float | None
    min: int | None
    p1: int | None
    p10: int | None
    p25: int | None
    p5: int | None
    p50: int | None
    p75: int | None
    p90: int | None
    p95: int | None
    p99: int | None
    p99_9: int | None
    p99_99: int | None
    relative_error: float
    stddev: float | None


class MdReport(TypedDict):
    bitmap_writes: int
    name: str
    slots: list[SlotStats]
    sync_bytes: int


class Point(TypedDict):
    bytes: list[int]
    clat_ns: list[float | None]
    ios: list[int]
    time_ns: int
    width_ns: int


class SlotStats(TypedDict):
    idlest: int
    lowest: int
    nearest: int
    only: int
    sequential: int
    writes: int


class Syncs(TypedDict):
    iops: float
    lat_ns: Latency
    total_ios: int


class Outcome(TypedDict):
    devices: list[DiskStats]
    groups: list[Group]
    processor_ns: int
    read: Direction
    runtime_ns: int
    series: list[Point]
    simulated_ios: int
    sync: Syncs
    targets: list[TargetReport]
    watched_ns: int
    write: Direction


class MdTargetReport(MdReport):
    kind: Literal["md"]


class DelayTargetReport(DelayReport):
    kind: Literal["delay"]


TargetReport = MdTargetReport | DelayTargetReport
