"""The figures of a host or a group."""

import json
from typing import TypedDict

from blklab import _core
from blklab.documents.profile import LifeProfile, Profile


class Figures(TypedDict):
    """The figures of a host or a group, summed up over its devices."""

    name: str
    group: str
    shards: int
    ios: int
    bytes: int
    observed_ns: int  # The time that its traces cover
    iops: float | None
    read_p50_ns: int | None  # Q2C, or D2C if queueing was not recorded
    read_p99_ns: int | None
    write_p50_ns: int | None
    write_p99_ns: int | None


def read_figures(name: str, group: str, shards: int, total: _core.PartialProfile) -> Figures:
    """Returns the figures of a sum."""
    profile: Profile = json.loads(total.profile())
    ops = [op for device in profile["devices"] for op in device["load"]["ops"].values()]
    ios, observed = sum(op["ios"] for op in ops), sum(device["observed_ns"] for device in profile["devices"])
    lives = profile["devices"][0]["life"] if profile["devices"] else {}
    read_p50, read_p99 = _latency(lives.get("read"))
    write_p50, write_p99 = _latency(lives.get("write"))
    return {
        "name": name,
        "group": group,
        "shards": shards,
        "ios": ios,
        "bytes": sum(op["bytes"] for op in ops),
        "observed_ns": observed,
        "iops": ios / observed * 1e9 if observed else None,
        "read_p50_ns": read_p50,
        "read_p99_ns": read_p99,
        "write_p50_ns": write_p50,
        "write_p99_ns": write_p99,
    }


def _latency(life: LifeProfile | None) -> tuple[int | None, int | None]:
    latencies = life["latency_ns"] if life else {}
    shown = next((latencies[stage] for stage in ("q2c", "d2c") if latencies and latencies[stage]["count"]), None)
    return (shown["p50"], shown["p99"]) if shown else (None, None)
