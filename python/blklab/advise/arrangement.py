"""An arrangement: a stack of disks, its redundancy, and its words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from blklab.advise.question import Question, Table
from blklab.experiment import load
from blklab.experiment.stack import MISSING


@dataclass(frozen=True)
class Arrangement:
    """A stack that might be built."""

    name: str
    words: str  # For people: `RAID-10 near 2, chunk 512K, of 4 × hdd-7200`
    stacks: Mapping[str, Table]  # As in an experiment file; the last is the outermost
    disks: Sequence[str]  # Those that hold data
    failures: int  # Disks that can fail, whichever they are, without data loss
    spares: Sequence[str] = ()  # Hot spares
    sizes: Mapping[str, int] = field(default_factory=dict)  # Bytes of disks of which only a part is used
    settings: Table = field(default_factory=dict)  # Of its queues, as in an experiment file
    kinds: frozenset[str] = frozenset()  # Its levels and kinds, as `Constraints.excluded` names them
    capacity: int = field(default=0, compare=False)  # Bytes

    @property
    def top(self) -> str:
        """The name of the outermost stack."""
        return list(self.stacks)[-1]

    @property
    def top_table(self) -> Table:
        """The outermost stack."""
        return self.stacks[self.top]

    @property
    def level(self) -> str:
        """What people compare: the levels of its arrays, or the kind and mode of its cache; empty for a single disk."""
        cache = (self.top_table.get("kind"), self.top_table.get("mode"))
        return "-".join(str(word) for word in (cache if cache[0] else sorted(self.kinds)) if word)

    def is_called(self, keywords: Sequence[str]) -> bool:
        """Whether it is what words name: its levels, without a cache all of them; kinds, layouts, chunks and keys."""
        levels = {keyword for keyword in keywords if keyword.isdigit()}
        own_keywords = set(self.kinds)
        for table in self.stacks.values():
            own_keywords |= {str(table[key]).lower() for key in ("layout", "chunk") if key in table}
            if table.get("write_mostly"):
                own_keywords.add("write-mostly")
        is_cache = "kind" in self.top_table and any(
            keyword in self.kinds for keyword in keywords if not keyword.isdigit()
        )
        return bool(keywords) and own_keywords.issuperset(keywords) and (is_cache or self.kinds == levels or not levels)

    def arrays(self) -> dict[str, Table]:
        """Returns the md arrays by name."""
        return {name: table for name, table in self.stacks.items() if "level" in table}

    def change_stack(self, stack: str, **keys: object) -> "Arrangement":
        """Returns the arrangement with other keys in a stack."""
        return self.change_stacks([stack], **keys)

    def change_stacks(self, stacks: Sequence[str], **keys: object) -> "Arrangement":
        """Returns the arrangement with other keys in several stacks."""
        new_tables = {name: {**self.stacks[name], **keys} for name in stacks}
        return replace(self, stacks={**self.stacks, **new_tables})

    def below(self, stack: str) -> "Arrangement":
        """Returns the arrangement that ends with an inner stack, or with a disk."""
        if stack not in self.stacks:
            return replace(self, stacks={f"single-{stack}": {"device": stack}}, disks=[stack])
        names_below = {stack}
        for name in reversed([*self.stacks]):  # A stack comes after those that it is made of
            if name in names_below:
                for value in self.stacks[name].values():
                    names_below.update(value if isinstance(value, list) else [str(value)])
        stacks = {name: table for name, table in self.stacks.items() if name in names_below}
        return replace(self, stacks=stacks, disks=[disk for disk in self.disks if disk in names_below])

    def rename(self, name: str) -> "Arrangement":
        """Returns the arrangement with another name, also of its outermost stack."""
        stacks = {name if key == self.top else key: table for key, table in self.stacks.items()}
        return replace(self, name=name, stacks=stacks)

    def essential_stacks(self) -> dict[str, Table]:
        """Returns the stacks without which data are lost: not those of a cache that only has copies."""
        if self.top_table.get("mode") != "writethrough":
            return dict(self.stacks)
        copies = self.below(str(self.top_table["cache"])).stacks
        top = {key: value for key, value in self.top_table.items() if key != "cache"}
        return {name: table for name, table in {**self.stacks, self.top: top}.items() if name not in copies}

    def redundant_array(self, question: Question) -> str | None:
        """Returns the array whose disk fails in the figures: that of the largest disks with redundancy."""
        pools = question.disks
        candidates = []
        for name, table in self.arrays().items():
            members = members_of(table)
            if table["level"] not in {0, "linear"} and members[0] in pools:
                candidates.append((sum(pools[member].bytes for member in members if member in pools), name))
        return max(candidates)[1] if candidates else None

    def degrade(self, stack: str) -> "Arrangement":
        """Returns the arrangement without the first member of an array."""
        _, *other_members = members_of(self.stacks[stack])
        return self._without_write_mostly(stack, other_members).change_stack(stack, members=[MISSING, *other_members])

    def rebuild(self, stack: str) -> "Arrangement":
        """Returns the arrangement while the first member of an array is rebuilt."""
        first, *other_members = members_of(self.stacks[stack])
        return self._without_write_mostly(stack, other_members).change_stack(stack, rebuilding=[first])

    def _without_write_mostly(self, stack: str, other_members: Sequence[str]) -> "Arrangement":
        """Keeps those of the write-mostly members that remain in sync, unless no other is left."""
        write_mostly = set(names_in(self.stacks[stack], "write_mostly"))
        in_sync = sorted(write_mostly & set(other_members)) if set(other_members) - write_mostly else []
        return self.change_stack(stack, write_mostly=in_sync) if write_mostly else self

    def devices(self, question: Question) -> dict[str, Table]:
        """Returns the tables of its disks by name."""
        return {
            name: {**pool.table, "size": str(self.sizes.get(name, pool.bytes))}
            for name, pool in question.disks.items()
            if name in self.disks or name in self.spares
        }

    def warm(self) -> dict[str, Table]:
        """Returns the stacks with caches that hold what jobs use; those of a trace must begin empty."""
        return {
            name: {**table, "state": "warm"} if table.get("kind") in {"lvmcache", "bcache"} else table
            for name, table in self.stacks.items()
        }

    def experiment(
        self, question: Question, workloads: Mapping[str, Table], *, is_cold: bool = False
    ) -> load.ExperimentSource:
        """Returns the experiment that runs loads on it. Caches hold what jobs use, unless their data are cold."""
        is_warm = not is_cold and all("replay" not in table for table in workloads.values())
        raw = {
            "seed": question.seed,
            "devices": self.devices(question),
            "stacks": self.warm() if is_warm else self.stacks,
            "workloads": workloads,
            "settings": {**question.settings, **self.settings},
            "cells": [{"stack": self.top, "workload": list(workloads)}],
        }
        return load.ExperimentSource(question.directory / "advice.toml", raw)


def members_of(table: Table) -> list[str]:
    return names_in(table, "members")


def names_in(table: Table, key: str) -> list[str]:
    """Returns the names that a key of a stack has; none without the key."""
    names = table.get(key)
    return [*names] if isinstance(names, list) else []
