"""Compares what a cache counted during a trace with what its policy should have counted."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from blklab import _core
from blklab.caches.status import hit_share
from blklab.errors import BlklabError, UsageError
from blklab.toml_files.files import read_text

HIT_TOLERANCE = 0.02
"""Difference of a share of hits that is not reported: without completions in the trace, the replay assumes latencies,
which decide when smq ticks."""

COUNT_TOLERANCE = 0.1
"""The same for promotions and for the number of accesses, as a share."""


Figure = Annotated[int, Field(ge=0, lt=2**62)]


class CacheStatus(BaseModel):
    """What is used of a cache in the document of `cache status`."""

    model_config = ConfigDict(strict=True, frozen=True)

    kind: Literal["dm-cache", "bcache", "writecache"]
    title: str
    identity: str
    mode: str
    policy: str = ""
    size: Figure | None = None
    used: Figure | None = None
    block: Figure | None = None
    origin_size: Figure | None = None
    counters: dict[str, Figure]
    settings: dict[str, int] = {}


class StatusDocument(BaseModel):
    caches: list[CacheStatus]
    kernel: str = ""


@dataclass(frozen=True)
class CheckedFigure:
    """A figure as it was counted, and the range in which the policy puts it."""

    name: str  # `read_hits` and `write_hits` are shares; `promotions`, `demotions`, `bypassed_bytes`
    counted: float
    low: float
    high: float
    holds: bool


@dataclass(frozen=True)
class CacheCheck:
    cache: CacheStatus
    kernel: str
    empty: bool  # Whether the cache was empty at first; only smq's phase is unknown then
    figures: Sequence[CheckedFigure]

    @property
    def holds(self) -> bool:
        """Whether all figures are as expected."""
        return all(figure.holds for figure in self.figures)


def read_status(path: str, title: str | None) -> tuple[CacheStatus, str]:
    """Returns a cache from a document of `cache status --json`, and the kernel's release. Raises UsageError."""
    try:
        document = StatusDocument.model_validate_json(read_text(Path(path)))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        location = f"{path}: {place}" if place else path
        raise UsageError(f"{location}: expected the output of `blklab cache status --json`") from None
    caches = {cache.title: cache for cache in document.caches}
    if title is None and len(caches) == 1:
        title = next(iter(caches))
    if title not in caches:
        titles = ", ".join(caches) or "none"
        raise UsageError(
            f"{path}: " + (f"no cache {title}; it has: {titles}" if title else f"choose with --cache: {titles}")
        )
    return caches[title], document.kernel


def check(
    before: CacheStatus,
    after: CacheStatus,
    paths: Sequence[str],
    *,
    kernel: str,
    format_name: str | None,
    selection: str | _core.Filter | None,
) -> CacheCheck:
    """Replays the trace, and compares. Raises BlklabError if trace and counters do not belong together."""
    title = after.title
    kind = after.kind
    if kind == "writecache":
        raise UsageError(f"{title}: dm-writecache takes every write while it has room: see `blklab cache status`")
    for key in ("kind", "identity", "size", "block", "mode", "policy"):
        if getattr(before, key) != getattr(after, key):
            old, new = getattr(before, key), getattr(after, key)
            raise BlklabError(f"{title}: its {key} was {old!r} before and is {new!r} after: expected the same cache")
    counts = {key: value - before.counters.get(key, 0) for key, value in after.counters.items()}
    if min(counts.values(), default=0) < 0:
        raise BlklabError(f"{title}: the counters began at 0 again: the device was set up again during the trace")
    required_keys = ["size", "used", "block"]
    if kind == "dm-cache":
        required_keys.append("origin_size")
    for key in required_keys:
        if getattr(before, key) is None:
            raise BlklabError(f"{title}: its {key} is not known: run `blklab cache status` as root")
    version = ".".join(re.findall(r"\d+", kernel)[:2]) if re.match(r"\d+\.\d+\.\d+", kernel) else kernel
    description: dict[str, str | int] = {
        "kind": kind,
        "policy": before.policy,
        "mode": before.mode,
        "size": before.size or 0,
        "used": min(before.used or 0, before.size or 0),
        "block": before.block or 0,
        "kernel": version or "6.1",
        "origin": before.origin_size or 0,
        "sequential_cutoff": max(0, before.settings.get("sequential_cutoff", 4 << 20)),
        "writeback_percent": max(0, before.settings.get("writeback_percent", 10)),
    }
    cases = _core.cache_check(paths, description, format=format_name, selection=selection)
    _check_amount(title, kind, counts, cases[0])
    return CacheCheck(after, str(description["kernel"]), not before.used, list(_figures(kind, counts, cases)))


def _check_amount(title: str, kind: str, counts: Mapping[str, int], case: Mapping[str, int]) -> None:
    """Refuses a trace that has not the I/O that was counted."""
    keys = ["read_hits", "read_misses"]
    if kind == "dm-cache":
        keys += ["write_hits", "write_misses"]
    cache_accesses = sum(counts.get(key, 0) for key in keys)
    trace_accesses = sum(case.get(key, 0) for key in keys)
    if abs(cache_accesses - trace_accesses) > COUNT_TOLERANCE * max(cache_accesses, trace_accesses):
        raise BlklabError(
            f"{title}: it counted {cache_accesses:,} accesses, but the trace has {trace_accesses:,}: "
            "record the cached volume itself, with `cache status --json` directly before and after"
        )


def _figures(kind: str, counts: Mapping[str, int], cases: Sequence[Mapping[str, int]]) -> list[CheckedFigure]:
    figures = []
    for direction in ("read", "write") if kind == "dm-cache" else ("read",):
        share = hit_share(counts, direction)
        expected_hits = [hit_share(case, direction) for case in cases]
        expected_shares = [value for value in expected_hits if value is not None]
        if share is not None and expected_shares:
            low, high = min(expected_shares), max(expected_shares)
            holds = low - HIT_TOLERANCE <= share <= high + HIT_TOLERANCE
            figures.append(CheckedFigure(f"{direction}_hits", share, low, high, holds))
    for name in ("promotions", "demotions") if kind == "dm-cache" else ("bypassed_bytes",):
        low, high = min(case[name] for case in cases), max(case[name] for case in cases)
        value = counts.get(name, 0)
        # Few promotions differ by chance; demotions follow from promotions, and bypasses also from congestion.
        slack = max(COUNT_TOLERANCE * high, 100)
        holds = name != "promotions" or low - slack <= value <= high + slack
        figures.append(CheckedFigure(name, value, low, high, holds))
    return figures
