"""Tables of what was asked for: operations, sizes, and who asked."""

from collections.abc import Mapping
from typing import Final, cast

from blklab.documents.profile import QuantilesSummary
from blklab.report import words
from blklab.report.tables.base import BAR, Table, figures, pruned, text
from blklab.report.view import Device

MOST_GROUPS: Final = 10
"""Processes, sources and CPUs listed one by one."""

MOST_SIZES: Final = 5
"""Sizes listed for each operation."""

KINDS: Final = {"sources": "Source", "processes": "Process", "cpus": "CPU"}


def operations(device: Device) -> Table:
    """Counts, bytes, mean sizes and flags by operation."""
    flags = {"sync": "sync", "meta": "meta", "ahead": "ahead", "fua": "FUA", "preflush": "preflush"}
    headings = ["I/Os", "share", "IOPS", "bytes", "rate", "mean size", *flags.values(), "merged"]
    rows = []
    seconds = device.span_ns / 1e9
    for op in device.ops:
        asked = device.op(op)
        per_second = (asked["ios"] / seconds, asked["bytes"] / seconds) if seconds else (None, None)
        rows.append(
            [
                op,
                words.count(asked["ios"]),
                words.share(asked["share_of_ios"]),
                words.number(per_second[0]),
                words.size(asked["bytes"]),
                words.rate(per_second[1]) if asked["bytes"] else words.NONE,
                words.size(asked["sizes"]["mean_bytes"]),
                *(_part(cast(Mapping[str, int], asked)[flag], asked["ios"]) for flag in flags),
                _part(device.life(op)["merged"], asked["ios"]),
            ]
        )
    spare = ("meta", "ahead", "rate", "mean size", "preflush", "sync", "merged", "IOPS")
    return pruned(Table("Operations", [text(""), *figures(*headings)], rows, spare=spare))


def _part(part: int, whole: int) -> str:
    return words.share(part / whole) if whole else words.NONE


def sizes(device: Device) -> Table:
    """The most frequent request sizes of each operation."""
    rows = []
    for op in ("read", "write", "discard"):
        found = device.op(op)["sizes"]
        top = sorted(found["exact"], key=lambda entry: -entry["count"])[:MOST_SIZES]
        for at, entry in enumerate(top):
            share = entry["count"] / found["count"]
            cells = [words.size(entry["bytes"]), words.count(entry["count"]), words.share(share)]
            rows.append([op if at == 0 else "", *cells, str(share)])
        if rest := len(found["exact"]) - len(top):
            counted = found["count"] - sum(entry["count"] for entry in top)
            share = counted / found["count"]
            rest_cells = [f"{rest} others", words.count(counted), words.share(share)]
            rows.append(["", *rest_cells, str(share)])
    columns = [text(""), *figures("size", "I/Os", "share"), BAR]
    return Table("Request sizes", columns, rows)


def groups(device: Device, kind: str, most: int = MOST_GROUPS) -> Table:
    """I/Os by `processes`, `sources` or `cpus`, with their response times."""
    found = device.groups(kind)
    rows = [
        [
            group.label,
            words.count(group.total),
            words.share(group.total / device.ios if device.ios else None),
            str(group.total / device.ios if device.ios else 0.0),
            words.share(group.ios["read"] / group.total if group.total else None),
            words.size(group.bytes),
            _pair(group.read_ns),
            _pair(group.write_ns),
            words.count(group.errors),
        ]
        for group in found[:most]
    ]
    headings = figures("reads", "bytes", "read p50 / p99", "write p50 / p99", "errors")
    columns = [text(KINDS[kind]), *figures("I/Os", "share"), BAR, *headings]
    rest = found[most:]
    note = ""
    if rest:
        share = sum(group.total for group in rest) / device.ios if device.ios else 0.0
        note = f"and {len(rest):,} more with {words.share(share)} of the I/Os"
    titles = {"sources": "Sources", "processes": "Processes", "cpus": "CPUs"}
    return pruned(Table(titles[kind], columns, rows, note, spare=("", "reads", "bytes")))


def _pair(quantiles: QuantilesSummary) -> str:
    if not quantiles["count"]:
        return words.NONE
    return f"{words.duration(quantiles['p50'])} / {words.duration(quantiles['p99'])}"
