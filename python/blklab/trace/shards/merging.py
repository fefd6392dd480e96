"""Merges the partial profiles of shards as a tree: by host, by group, and in total."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from blklab import _core
from blklab.cluster import Parallel
from blklab.documents.profile import LifeProfile, Profile
from blklab.errors import BlklabError
from blklab.trace.shards.listing import Shard
from blklab.trace.shards.task import ShardResult, ShardTask, TraceOptions, read_shards

FAN_IN: Final = 8  # Partial profiles that are merged at a time
MOST_TASKS: Final = 256  # From this number of shards on, tasks have several shards of a host
MOST_SHARDS: Final = 32  # The largest number of shards of a task


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


class BrokenShard(TypedDict):
    """A shard that was skipped."""

    shard: str
    reason: str


class ShardSummary(TypedDict):
    """What `--json` adds to the profile of the total, as `shards`."""

    shards: int
    hosts: list[Figures]
    groups: list[Figures]
    broken: list[BrokenShard]


@dataclass
class ShardProfiles:
    """The profile of all shards, and the figures of hosts and groups."""

    profile: Profile
    summary: ShardSummary


@dataclass
class _Branch:
    """Partial profiles that are merged from time to time, so that few are held."""

    shards: int = 0
    partials: list[bytes] = field(default_factory=list)

    def add(self, partial: bytes, shards: int) -> None:
        self.shards += shards
        self.partials.append(partial)
        if len(self.partials) >= FAN_IN:
            self.merged()

    def merged(self) -> bytes:
        self.partials = [_core.merge_partials(self.partials)]
        return self.partials[0]


class _Tree:
    """Merges shards into hosts, and the sums of complete hosts into groups and the total."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._left = Counter(shard.host for shard in shards)
        self._groups = {shard.host: shard.group for shard in shards}
        self._running: dict[str, _Branch] = defaultdict(_Branch)
        self._by_group: dict[str, _Branch] = defaultdict(_Branch)
        self._total = _Branch()
        self.hosts: list[Figures] = []
        self.broken: list[BrokenShard] = []

    def add(self, shards: Sequence[Shard], result: ShardResult) -> None:
        """Adds what a task returned."""
        host = shards[0].host
        self.broken += [{"shard": name, "reason": reason} for name, reason in result.broken]
        branch = self._running[host]
        if result.partial is not None:
            branch.add(result.partial, len(shards) - len(result.broken))
        self._left[host] -= len(shards)
        if not self._left[host]:
            self._complete(host, self._running.pop(host))

    def _complete(self, host: str, branch: _Branch) -> None:
        if not branch.shards:
            return
        only_host = len(self._left) == 1
        partial = branch.merged()
        total = _core.sum_partial(partial)
        group = self._groups[host]
        self.hosts.append(_figures(host, group, branch.shards, total))
        self._total.add(partial if only_host else total, branch.shards)
        if len(set(self._groups.values())) > 1:
            self._by_group[group].add(total, branch.shards)

    def finish(self) -> ShardProfiles:
        """Returns the profile of everything."""
        profile: Profile = json.loads(_core.finish_partial(self._total.merged()))
        groups = [_figures(name, name, branch.shards, branch.merged()) for name, branch in self._by_group.items()]
        summary: ShardSummary = {
            "shards": self._total.shards,
            "hosts": sorted(self.hosts, key=lambda figures: (figures["group"], figures["name"])),
            "groups": sorted(groups, key=lambda figures: figures["name"]),
            "broken": self.broken,
        }
        return ShardProfiles(profile, summary)


def _figures(name: str, group: str, shards: int, total: bytes) -> Figures:
    profile: Profile = json.loads(_core.finish_partial(total))
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


def characterise_shards(
    shards: Sequence[Shard],
    options: TraceOptions,
    parallel: Parallel,
    *,
    skip_broken: bool = False,
    tick: Callable[[int], object] = lambda _done: None,
) -> ShardProfiles:
    """Characterises shards, which are in the order of their hosts.

    `tick` is called with the number of shards that are done. Raises BlklabError for a broken shard without
    `skip_broken`, or if all are broken.
    """
    tree = _Tree(shards)
    parts = list(_parts(shards))
    tasks = [ShardTask(part, options, skip_broken) for part in parts]
    done = 0
    for number, result in parallel.each(read_shards, tasks):
        if isinstance(result, BlklabError):
            raise result
        if result.broken and not skip_broken:
            name, reason = result.broken[0]
            raise BlklabError(f"{name}: {reason}; --skip-broken leaves such shards out")
        tree.add(parts[number], result)
        done += len(parts[number])
        tick(done)
    if not tree.hosts:
        first = tree.broken[0]
        raise BlklabError(f"no shard can be read; the first: {first['shard']}: {first['reason']}")
    return tree.finish()


def _parts(shards: Sequence[Shard]) -> Iterator[tuple[Shard, ...]]:
    """Divides shards into those of one task: one each, or several of a host if there are many."""
    most = min(MOST_SHARDS, max(1, len(shards) // MOST_TASKS))
    part: list[Shard] = []
    for shard in shards:
        if part and (len(part) == most or part[0].host != shard.host):
            yield tuple(part)
            part = []
        part.append(shard)
    if part:
        yield tuple(part)
