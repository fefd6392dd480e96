"""Caches of this host, in the terminal and as JSON."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from blklab.caches.status import BlockCache, CacheInventory, hit_share
from blklab.diagnostic import Diagnostic
from blklab.render import diagnostics, formatting
from blklab.render.console import Console
from blklab.render.table import TextTable, drop_empty_columns, number_columns, text_column
from blklab.render.terminal import draw_table
from blklab.text.printing import printable

if TYPE_CHECKING:
    from blklab.caches.expected import CacheCheck

DAY = 86_400

FORMAT_VERSION = 1


def show(console: Console, inventory: CacheInventory, findings: Sequence[Diagnostic]) -> None:
    """Prints caches, their rates, and the findings."""
    if not inventory.caches:
        console.print("No block cache found.")
    draw_table(console, state_table(inventory), rates_table(inventory))
    diagnostics.print_diagnostics(console, findings, "Findings")
    for line in inventory.unseen:
        console.print(f"• {printable(line)}")


def state_table(inventory: CacheInventory) -> TextTable:
    rows = []
    for cache in inventory.caches:
        redundant = formatting.NONE
        if cache.redundant is not None:
            redundant = "yes" if cache.redundant else "no"
        row = [
            printable(cache.title),
            cache.kind,
            printable(cache.mode) or formatting.NONE,
            printable(cache.policy) or formatting.NONE,
            formatting.size(cache.size),
            formatting.share(cache.used / cache.size if cache.size and cache.used is not None else None),
            formatting.size(cache.dirty),
            formatting.size(cache.block),
            redundant,
        ]
        rows.append(row)
    columns = [
        text_column("cache"),
        text_column("kind"),
        text_column("mode"),
        text_column("policy"),
        *number_columns("size", "used", "dirty", "block"),
    ]
    return TextTable("Caches", [*columns, text_column("redundant")], rows, spare=("block", "policy"))


def rates_table(inventory: CacheInventory) -> TextTable:
    """Returns hit rates since the devices were set up, and since the last call."""
    rows = []
    for cache in inventory.caches:
        for since, rates in activity(cache, inventory).items():
            period = since
            if rates["seconds"] is not None:
                period += f" ({formatting.duration(1e9 * rates['seconds'])})"
            row = [
                printable(cache.title),
                period,
                formatting.share(rates["read_hits"]),
                formatting.share(rates["write_hits"]),
                formatting.count(rates["promotions"]),
                formatting.count(rates["demotions"]),
                formatting.size(rates["bypassed_bytes"]),
                formatting.number(rates["drive_writes_a_day"]),
            ]
            rows.append(row)
    names = ("read hits", "write hits", "promoted", "demoted", "bypassed", "drive writes/day")
    note = "Shares of reads and of writes. drive writes/day: what was copied to the cache in a day, by its size."
    return drop_empty_columns(
        TextTable("Activity", [text_column("cache"), text_column("since"), *number_columns(*names)], rows, note)
    )


def activity(cache: BlockCache, inventory: CacheInventory) -> dict[str, dict[str, Any]]:
    """Returns the rates of a cache since it was set up, and since the last call if there was one."""
    earlier = inventory.earlier.get(cache.identity)
    periods = {"set-up": _rates(cache, cache.counters, None)}
    if earlier:
        grown = {key: value - earlier.counters.get(key, 0) for key, value in cache.counters.items()}
        periods["last call"] = _rates(cache, grown, earlier.seconds)
    return periods


def _rates(cache: BlockCache, counters: Mapping[str, int], seconds: float | None) -> dict[str, Any]:
    promotions = counters.get("promotions")
    copied_bytes = counters.get("written_bytes")
    if promotions is not None and cache.block:
        copied_bytes = promotions * cache.block
    return {
        "seconds": seconds,
        "read_hits": hit_share(counters, "read"),
        "write_hits": hit_share(counters, "write"),
        "promotions": promotions,
        "demotions": counters.get("demotions"),
        "bypassed_bytes": counters.get("bypassed_bytes"),
        "copied_bytes": copied_bytes,
        "drive_writes_a_day": None
        if copied_bytes is None or not cache.size or not seconds
        else copied_bytes / cache.size * DAY / seconds,
    }


def as_dict(inventory: CacheInventory, findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, "cache status"."""
    return {
        "format_version": FORMAT_VERSION,
        "kernel": platform.release(),
        "caches": [{**asdict(cache), "activity": activity(cache, inventory)} for cache in inventory.caches],
        "findings": [diagnostics.as_dict(finding) for finding in findings],
        "unseen": list(inventory.unseen),
    }


def show_check(console: Console, check: "CacheCheck") -> None:
    """Prints what was counted next to what the policy should have done."""
    shown = {"read_hits": "read hits", "write_hits": "write hits", "bypassed_bytes": "bypassed"}
    rows = []
    for figure in check.figures:
        draw: Callable[[Any], str] = formatting.share if figure.name.endswith("_hits") else formatting.count
        draw = formatting.size if figure.name == "bypassed_bytes" else draw
        low = draw(figure.low)
        high = draw(figure.high)
        expected_text = low if low == high else f"{low} – {high}"
        holds = "yes" if figure.holds else "NO"
        rows.append([shown.get(figure.name, figure.name), draw(figure.counted), expected_text, holds])
    columns = [text_column("figure"), *number_columns("counted", "expected"), text_column("as expected")]
    contents = "was empty" if check.empty else "was in use: it may have held other data, or the data of this trace"
    cache = check.cache
    policy = f"{cache.policy} of Linux {check.kernel}" if cache.kind == "dm-cache" else "bcache"
    title = printable(f"{cache.title}: {formatting.size(cache.size)}, {cache.mode}, {policy}")
    draw_table(console, TextTable(title, columns, rows, f"When the trace began, the cache {contents}."))
    verdict = "as its policy should" if check.holds else "NOT as its policy should"
    console.print(f"The cache works {verdict}.")


def check_as_dict(check: "CacheCheck") -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, "cache check"."""
    return {
        "format_version": FORMAT_VERSION,
        "cache": check.cache.title,
        "kernel": check.kernel,
        "empty_at_first": check.empty,
        "figures": [asdict(figure) for figure in check.figures],
        "as_expected": check.holds,
    }
