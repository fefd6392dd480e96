"""Tables of arrays and caches in the lab: hits, promotions, degraded members, bad blocks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blklab.outcome import LEAST_SHOWN, Outcome, looked_up
from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable

Rows = Sequence[tuple[str, Outcome]]  # Names of runs or cells with their outcomes


def caches(rows: Rows) -> TextTable:
    """Returns the table of caches."""
    cache_rows = [
        [printable(name), printable(target["name"]), target["kind"], _hits(target, outcome), *_counts(target)]
        for name, outcome in rows
        for target in outcome.targets
        if target.get("kind") in {"lvmcache", "bcache", "writecache"}
    ]
    columns = [text("run"), text("cache"), text("kind")]
    columns += figures("hits", "read hits", "write hits", "promoted", "demoted", "used", "dirty")
    note = (
        "Since the load began. hits: share of all I/Os, and in brackets that of nine of ten runs; bcache counts reads,"
        " without I/Os that bypassed it. used: share of the cache's blocks or buckets."
    )
    return TextTable("Caches", columns, cache_rows, note)


def _hits(target: Mapping[str, Any], outcome: Outcome) -> str:
    hits, misses = looked_up(target)
    low, high = ((outcome.interval and outcome.interval.hits) or {}).get(target["name"], (0, 0))
    if high - low < LEAST_SHOWN:
        return _share(hits, misses)
    return f"{100 * hits / (hits + misses):.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _counts(target: Mapping[str, Any]) -> list[str]:
    if target["kind"] == "bcache":
        used, dirty = target.get("unused_percent"), target.get("dirty_data")
        if dirty is None and "dirty_bytes" in target:
            dirty = formatting.size(target["dirty_bytes"])
        return [*("–",) * 4, "–" if used is None else f"{100 - used} %", printable(str(dirty or "–"))]
    if target["kind"] == "writecache":
        reads, hits, writes, passed = (target.get(key, 0) for key in ("reads", "read_hits", "writes", "writes_around"))
        used = target["blocks"] - target["free_blocks"]
        return [
            _share(hits, reads - hits),
            _share(writes - passed, passed),
            *("–",) * 2,
            formatting.share(used / target["blocks"]),
            f"{used:,}",
        ]
    blocks = target["blocks"]
    return [
        *(_share(target[f"{way}_hits"], target[f"{way}_misses"]) for way in ("read", "write")),
        *(f"{target[key]:,}" for key in ("promotions", "demotions")),
        formatting.share(target["used_blocks"] / blocks) if blocks else "–",
        f"{target['dirty']:,}",
    ]


def _share(hits: int, misses: int) -> str:
    return formatting.share(hits / (hits + misses)) if hits + misses else "–"


def arrays(rows: Rows) -> list[str]:
    """Returns the problems of arrays after the load, one line each."""
    return [
        printable(f"{name}: array {target['name']}: {', '.join(text)}")
        for name, outcome in rows
        for target in outcome.targets
        if target.get("kind") == "md" and (text := list(_array_state(target)))
    ]


def _array_state(target: Mapping[str, Any]) -> Iterator[str]:
    if target.get("degraded") not in {None, "0"}:
        yield f"{target['degraded']} members missing"
    if target.get("sync_action") not in {None, "idle"}:
        yield f"{target['sync_action']} at {target.get('sync_completed')}"
    if target.get("mismatch_cnt") not in {None, "0"}:
        yield f"{target['mismatch_cnt']} sectors mismatch"
    for member in target.get("members") or []:
        if member.get("bad_blocks"):
            many = len(member["bad_blocks"])
            yield f"{member['name']} lists {formatting.plural(many, 'bad range')}"
