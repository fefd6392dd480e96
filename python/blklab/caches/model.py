"""The state of a block cache."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True)
class BlockCache:
    """A cache at one moment. Sizes are bytes; None if unknown."""

    kind: Literal["dm-cache", "bcache", "writecache"]
    name: str  # The kernel's name: `dm-3`, `bcache0`
    title: str  # The name that users know: `vg0-data`
    identity: str  # The same after a boot
    mode: str
    policy: str = ""
    size: int | None = None
    used: int | None = None
    dirty: int | None = None
    origin_size: int | None = None  # Of dm-cache and dm-writecache
    block: int | None = None  # A chunk of dm-cache, a bucket of bcache
    metadata_used: float | None = None  # A share
    counters: Mapping[str, int] = field(default_factory=dict)
    """`read_hits`, `read_misses`, `write_hits`, `write_misses`, `promotions`, `demotions`; of bcache `read_hits`,
    `read_misses`, `bypass_hits`, `bypass_misses`, `bypassed_bytes`, `written_bytes`; of writecache its own. They begin
    at 0 when the device is set up."""

    settings: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()  # What the kernel says is broken, in its words
    device: str = ""  # The cache device, `major:minor`
    redundant: bool | None = None  # Whether a lost disk loses no cached block


@dataclass(frozen=True)
class EarlierCall:
    """The counters at an earlier call, of the same boot."""

    seconds: float  # How long ago
    counters: Mapping[str, int]


@dataclass(frozen=True)
class CacheInventory:
    caches: tuple[BlockCache, ...]
    unseen: tuple[str, ...]  # What could not be read, and why
    earlier: Mapping[str, EarlierCall] = field(default_factory=dict)  # By `identity`

    def only(self, caches: tuple[BlockCache, ...]) -> "CacheInventory":
        return replace(self, caches=caches)


def hit_share(counters: Mapping[str, int], direction: str) -> float | None:
    """Returns the share of hits of `read` or `write`; None without I/O."""
    hits, misses = counters.get(f"{direction}_hits", 0), counters.get(f"{direction}_misses", 0)
    return hits / (hits + misses) if hits + misses else None
