"""Merges the partial profiles of shards as a tree: by host, by group, and in total."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from blklab import _core
from blklab.cluster import Parallel
from blklab.documents.profile import Profile
from blklab.errors import BlklabError
from blklab.trace.shards.figures import Figures, read_figures
from blklab.trace.shards.listing import Shard
from blklab.trace.shards.task import ShardResult, ShardTask, TraceOptions, read_shards

FAN_IN: Final = 8  # Partial profiles that are merged at a time
MOST_TASKS: Final = 256  # From this number of shards on, tasks have several shards of a host
MANY_HOSTS: Final = 64  # From this number of hosts on, tasks have as many shards of a host as they may
MOST_SHARDS: Final = 128  # The largest number of shards of a task


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
        self._left[host] -= len(shards)
        if result.figures is not None and result.partial is not None:
            self._add_host(result.figures, result.partial)
            return
        branch = self._running[host]
        if result.partial is not None:
            branch.add(result.partial, len(shards) - len(result.broken))
        if not self._left[host]:
            self._complete(host, self._running.pop(host))

    def _complete(self, host: str, branch: _Branch) -> None:
        if not branch.shards:
            return
        partial = branch.merged()
        total = _core.sum_partial(partial)
        figures = read_figures(host, self._groups[host], branch.shards, total)
        self._add_host(figures, total, partial if len(self._left) == 1 else total)

    def _add_host(self, figures: Figures, total: bytes, shown: bytes | None = None) -> None:
        """Adds the sum of a host; `shown` is what a single host shows instead."""
        self.hosts.append(figures)
        self._total.add(shown or total, figures["shards"])
        if len(set(self._groups.values())) > 1:
            self._by_group[figures["group"]].add(total, figures["shards"])

    def finish(self) -> ShardProfiles:
        """Returns the profile of everything."""
        profile: Profile = json.loads(_core.finish_partial(self._total.merged()))
        groups = [read_figures(name, name, branch.shards, branch.merged()) for name, branch in self._by_group.items()]
        summary: ShardSummary = {
            "shards": self._total.shards,
            "hosts": sorted(self.hosts, key=lambda figures: (figures["group"], figures["name"])),
            "groups": sorted(groups, key=lambda figures: figures["name"]),
            "broken": self.broken,
        }
        return ShardProfiles(profile, summary)


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
    left = Counter(shard.host for shard in shards)
    whole = [len(left) > 1 and len(part) == left[part[0].host] for part in parts]
    tasks = [ShardTask(part, options, skip_broken, all_of) for part, all_of in zip(parts, whole, strict=True)]
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
    """Divides shards into those of a task: one, several of a host if shards are many, all of it if hosts are many."""
    many = len({shard.host for shard in shards}) >= MANY_HOSTS
    most = MOST_SHARDS if many else min(MOST_SHARDS, max(1, len(shards) // MOST_TASKS))
    part: list[Shard] = []
    for shard in shards:
        if part and (len(part) == most or part[0].host != shard.host):
            yield tuple(part)
            part = []
        part.append(shard)
    if part:
        yield tuple(part)
