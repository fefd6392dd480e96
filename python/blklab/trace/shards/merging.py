"""Merges the partial profiles of shards as a tree: by host, by group, and in total."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypedDict

from blklab import _core
from blklab.cluster import Parallel
from blklab.documents.profile import Profile
from blklab.errors import BlklabError
from blklab.trace.profile import PROFILES
from blklab.trace.shards.listing import Shard
from blklab.trace.shards.task import Figures, ShardResult, ShardTask, TraceOptions, read_figures, read_shards

MOST_TASKS = 256  # From this number of shards on, tasks have several shards of a host
MANY_HOSTS = 64  # From this number of hosts on, tasks have as many shards of a host as they may
MOST_SHARDS = 128  # The largest number of shards of a task


class BrokenShard(TypedDict):
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
    partial: _core.PartialProfile
    shards: int

    def add(self, other: "_Branch") -> None:
        self.partial.merge(other.partial)
        self.shards += other.shards


def _add(branches: dict[str, _Branch], name: str, branch: _Branch) -> None:
    if name in branches:
        branches[name].add(branch)
    else:
        branches[name] = branch


class _Tree:
    """Merges shards into hosts, the sums of complete hosts into groups, and these at the end."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._left = Counter(shard.host for shard in shards)
        self._group_of = {shard.host: shard.group for shard in shards}
        self._hosts: dict[str, _Branch] = {}  # Those that are not complete
        self._groups: dict[str, _Branch] = {}
        self.figures: list[Figures] = []
        self.broken: list[BrokenShard] = []

    def add(self, shards: Sequence[Shard], result: ShardResult) -> None:
        host = shards[0].host
        self.broken += [{"shard": name, "reason": reason} for name, reason in result.broken]
        self._left[host] -= len(shards)
        branch = _Branch(result.partial, len(shards) - len(result.broken)) if result.partial else None
        if branch and result.figures:
            self._complete(result.figures, branch)
            return
        if branch:
            _add(self._hosts, host, branch)
        if not self._left[host] and host in self._hosts:
            branch = self._hosts.pop(host)
            shown = copy(branch.partial) if len(self._left) == 1 else None
            total = branch.partial.sum()
            figures = read_figures(host, self._group_of[host], branch.shards, total)
            self._complete(figures, _Branch(shown or total, branch.shards))

    def _complete(self, figures: Figures, branch: _Branch) -> None:
        """Adds the sum of a host, or what a single host shows."""
        self.figures.append(figures)
        _add(self._groups, figures["group"], branch)

    def finish(self) -> ShardProfiles:
        groups: list[Figures] = []
        if len(set(self._group_of.values())) > 1:
            groups = [read_figures(name, name, branch.shards, branch.partial) for name, branch in self._groups.items()]
        total, *other_branches = self._groups.values()
        for other in other_branches:
            total.add(other)
        profile = PROFILES.decode(total.partial.profile())
        summary: ShardSummary = {
            "shards": total.shards,
            "hosts": sorted(self.figures, key=lambda figures: (figures["group"], figures["name"])),
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
    shard_counts = Counter(shard.host for shard in shards)
    whole_hosts = [len(shard_counts) > 1 and len(part) == shard_counts[part[0].host] for part in parts]
    tasks = [ShardTask(part, options, skip_broken, all_of) for part, all_of in zip(parts, whole_hosts, strict=True)]
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
    if not tree.figures:
        first = tree.broken[0]
        raise BlklabError(f"no shard can be read; the first: {first['shard']}: {first['reason']}")
    return tree.finish()


def _parts(shards: Sequence[Shard]) -> Iterator[tuple[Shard, ...]]:
    """Divides shards into those of a task: one, several of a host if shards are many, all of it if hosts are many."""
    many = len({shard.host for shard in shards}) >= MANY_HOSTS
    max_shards = MOST_SHARDS if many else min(MOST_SHARDS, max(1, len(shards) // MOST_TASKS))
    part: list[Shard] = []
    for shard in shards:
        if part and (len(part) == max_shards or part[0].host != shard.host):
            yield tuple(part)
            part = []
        part.append(shard)
    if part:
        yield tuple(part)
