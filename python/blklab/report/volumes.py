"""What arrays and caches did in the lab: hits, promotions, what is degraded or listed as bad."""

from collections.abc import Mapping, Sequence
from typing import Any

from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable

Rows = Sequence[tuple[str, Mapping[str, Any]]]
"""Runs or cells: what each is called, and its outcome."""


def caches(rows: Rows) -> TextTable | None:
    """Returns the table of the caches, None if there are none."""
    found = [
        [printable(name), printable(one["name"]), one["kind"], *_counts(one)]
        for name, outcome in rows
        for one in outcome.get("targets") or []
        if one.get("kind") in {"lvmcache", "bcache"}
    ]
    if not found:
        return None
    columns = [text("run"), text("cache"), text("kind")]
    columns += figures("hits", "read hits", "write hits", "promoted", "demoted", "used", "dirty")
    note = (
        "Since the load began. hits: of all I/Os; bcache counts both directions together, and"
        " leaves out what went around it. used: of the cache's blocks or buckets."
    )
    return TextTable("Caches", columns, found, note)


def _counts(one: Mapping[str, Any]) -> list[str]:
    if one["kind"] == "bcache":
        used = one.get("unused_percent")
        return [
            _share(one.get("cache_hits"), one.get("cache_misses")),
            *("–",) * 4,
            "–" if used is None else f"{100 - used} %",
            printable(str(one.get("dirty_data") or "–")),
        ]
    hits = one["read_hits"] + one["write_hits"]
    misses = one["read_misses"] + one["write_misses"]
    blocks = one["blocks"]
    return [
        _share(hits, misses),
        _share(one["read_hits"], one["read_misses"]),
        _share(one["write_hits"], one["write_misses"]),
        f"{one['promotions']:,}",
        f"{one['demotions']:,}",
        formatting.share(one["used_blocks"] / blocks) if blocks else "–",
        f"{one['dirty']:,}",
    ]


def _share(hits: int | None, misses: int | None) -> str:
    total = (hits or 0) + (misses or 0)
    return formatting.share((hits or 0) / total) if total else "–"


def arrays(rows: Rows) -> list[str]:
    """Returns what is not as it should be with arrays after the load, a line each."""
    lines = []
    for name, outcome in rows:
        for one in outcome.get("targets") or []:
            if one.get("kind") == "md" and (said := _said(one)):
                lines.append(printable(f"{name}: array {one['name']}: {', '.join(said)}"))
    return lines


def _said(one: Mapping[str, Any]) -> list[str]:
    said = []
    if one.get("degraded") not in {None, "0"}:
        said.append(f"{one['degraded']} of its members missing")
    if one.get("sync_action") not in {None, "idle"}:
        said.append(f"{one['sync_action']} at {one.get('sync_completed')}")
    if one.get("mismatch_cnt") not in {None, "0"}:
        said.append(f"{one['mismatch_cnt']} sectors mismatch")
    for member in one.get("members") or []:
        if member.get("bad_blocks"):
            many = len(member["bad_blocks"])
            said.append(f"{member['name']} lists {formatting.plural(many, 'bad range')}")
    return said
