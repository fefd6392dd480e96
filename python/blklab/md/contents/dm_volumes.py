"""Follows ranges of an array through partitions and dm volumes (linear and crypt).

Sources: Documentation/admin-guide/device-mapper/linear.rst and dm-crypt.rst, Linux 6.1.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.md.members import parse_number
from blklab.md.probing import Probe
from blklab.md.superblocks import SECTOR
from blklab.system.layers import partitions
from blklab.system.roots import Roots, entries, text
from blklab.system.spans import Span, spans_within, spans_without


@dataclass(frozen=True)
class VolumeSpans:
    """Spans on the uppermost device to which blklab can follow them."""

    node: Path
    spans: tuple[Span, ...]
    divided: bool = False  # The device has partitions or volumes, and these spans are between them
    failure: str = ""  # Why the content is unknown; empty if it is known


def follow_spans(node: Path, spans: Sequence[Span], roots: Roots, reader: Probe) -> Iterator[VolumeSpans]:
    """Yields the positions of a device's spans, on it or on its partitions and volumes."""
    if not spans:
        return
    taken: list[tuple[int, int]] = []
    divided = False
    for part in partitions(node):
        start = (parse_number(text(part / "start")) or 0) * SECTOR
        end = start + (parse_number(text(part / "size")) or 0) * SECTOR
        divided = True
        taken.append((start, end))
        moved = [_moved(span, -start) for span in spans_within(spans, start, end)]
        yield from follow_spans(part, moved, roots, reader)
    for holder in entries(node / "holders"):
        upper = holder.resolve()
        if not (upper / "dm").is_dir():
            yield VolumeSpans(upper, tuple(spans), failure="it is not a dm device, so blklab cannot follow it")
            return
        mapping, failure = reader.read_mapping(text(upper / "dev") or "")
        if failure:
            yield VolumeSpans(upper, tuple(spans), failure=failure)
            return
        divided = True
        for begin, length, kind, lower in parse_table(mapping, text(node / "dev") or ""):
            pieces = spans_within(spans, lower, lower + length)
            taken.append((lower, lower + length))
            moved = [_moved(piece, begin - lower) for piece in pieces]
            if kind in {"linear", "crypt"}:
                yield from follow_spans(upper, moved, roots, reader)
            elif moved:
                yield VolumeSpans(upper, tuple(pieces), failure=f"it is dm-{kind}, expected linear or crypt")
    others = spans_without(spans, taken)
    if others:
        yield VolumeSpans(node, tuple(others), divided)


def parse_table(mapping: str, number: str) -> Iterator[tuple[int, int, str, int]]:
    """Yields the lines of a dm table that use a device: begin, length, kind, begin on that device.

    In bytes. For other kinds than linear and crypt, whose offsets are known, it assumes all of the lower device.
    """
    for line in mapping.splitlines():
        words = line.split()
        if len(words) < 4 or not (words[0].isdecimal() and words[1].isdecimal()):
            continue
        begin, length, kind = int(words[0]) * SECTOR, int(words[1]) * SECTOR, words[2]
        # linear DEVICE OFFSET; crypt CIPHER KEY IV_OFFSET DEVICE OFFSET …
        at = {"linear": 3, "crypt": 6}.get(kind)
        if at is not None and len(words) > at + 1 and re.fullmatch(r"\d{1,18}", words[at + 1]):
            if words[at] == number:
                yield begin, length, kind, int(words[at + 1]) * SECTOR
        elif number in words[3:]:
            yield begin, 1 << 63, kind, 0


def _moved(span: Span, by: int) -> Span:
    return Span(span.begin + by, span.end + by, span.array)
