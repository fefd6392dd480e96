"""What a worker does: it downloads a shard, characterises it, removes it, and takes the next one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from blklab import _core
from blklab.documents.profile import LifeProfile
from blklab.errors import BlklabError, EnvironmentLacks
from blklab.trace.profile import PROFILES
from blklab.trace.shards import remote
from blklab.trace.shards.listing import Shard


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
    profile = PROFILES.decode(total.profile())
    ops = [op for device in profile.devices for op in device.load.ops.values()]
    ios = sum(op.ios for op in ops)
    observed_ns = sum(device.observed_ns for device in profile.devices)
    lives = profile.devices[0].life if profile.devices else {}
    read_p50, read_p99 = _latency(lives.get("read"))
    write_p50, write_p99 = _latency(lives.get("write"))
    return {
        "name": name,
        "group": group,
        "shards": shards,
        "ios": ios,
        "bytes": sum(op.bytes for op in ops),
        "observed_ns": observed_ns,
        "iops": ios / observed_ns * 1e9 if observed_ns else None,
        "read_p50_ns": read_p50,
        "read_p99_ns": read_p99,
        "write_p50_ns": write_p50,
        "write_p99_ns": write_p99,
    }


def _latency(life: LifeProfile | None) -> tuple[int | None, int | None]:
    latencies = life.latency_ns if life else {}
    shown = next((latencies[stage] for stage in ("q2c", "d2c") if latencies and latencies[stage].count), None)
    return (shown.p50, shown.p99) if shown else (None, None)


INCOMPLETE = ("cut off", "damaged", "compressed data is damaged")
"""How readers' warnings begin about a shard of which a part is missing: its figures would pass for those of all."""


@dataclass(frozen=True)
class TraceOptions:
    selection: _core.Filter
    format_name: str | None = None


@dataclass(frozen=True)
class ShardTask:
    """Shards of one host, one after the other."""

    shards: tuple[Shard, ...]
    options: TraceOptions
    skip_broken: bool
    whole_host: bool = False  # Whether the host has no other shards


@dataclass(frozen=True)
class ShardResult:
    """The merged partial profile of the shards that could be read, and why others could not."""

    partial: _core.PartialProfile | None  # Of a whole host: the sum of its devices
    broken: tuple[tuple[str, str], ...] = ()  # Name and reason
    figures: Figures | None = None  # Of a whole host


def read_shards(task: ShardTask, /, *, stop: _core.Stop | None = None) -> ShardResult:
    """Characterises shards; a worker has one at a time. Stops at the first broken one without `skip_broken`."""
    merged_profile: _core.PartialProfile | None = None
    broken = []
    for shard in task.shards:
        try:
            partial = _read_shard(shard, task.options, stop)
        except EnvironmentLacks:
            raise
        except BlklabError as error:
            directory = shard.files[0].rpartition("/")[0]
            broken.append((shard.name, str(error).removeprefix(f"{shard.name}: ").removeprefix(f"{directory}/")))
            if not task.skip_broken:
                break
        else:
            if merged_profile is None:
                merged_profile = partial
            else:
                merged_profile.merge(partial)
    if merged_profile is None or not task.whole_host:
        return ShardResult(merged_profile, tuple(broken))
    first = task.shards[0]
    total = merged_profile.sum()
    count = len(task.shards) - len(broken)
    return ShardResult(total, tuple(broken), read_figures(first.host, first.group, count, total))


def _read_shard(shard: Shard, options: TraceOptions, stop: _core.Stop | None) -> _core.PartialProfile:
    if "://" not in shard.files[0]:
        return _read(shard, shard.files, None, options, stop)
    with TemporaryDirectory(prefix="blklab-shard-") as directory:
        shown = (f"{directory}/", shard.files[0].rpartition("/")[0] + "/")
        try:
            return _read(shard, remote.download(shard.files, Path(directory)), shown, options, stop)
        except BlklabError as error:
            error.args = (str(error).replace(*shown),)
            raise


def _read(
    shard: Shard, paths: Sequence[str], shown: tuple[str, str] | None, options: TraceOptions, stop: _core.Stop | None
) -> _core.PartialProfile:
    def tick(_bytes: int) -> None:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt

    partial, warnings = _core.characterise_partial(
        paths, options.selection, format=options.format_name, host=shard.host, shown_as=shown, tick=tick
    )
    for path, message in warnings:
        if message.startswith(INCOMPLETE):
            raise BlklabError(f"{path}: {message.removesuffix('; read up to there')}")
    return partial
