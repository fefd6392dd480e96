"""What is above an array: partitions and the device mapper's plain mappings, and where they lie.

Sources: Documentation/admin-guide/device-mapper/linear.rst and dm-crypt.rst, Linux 6.1.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.md.contents.spans import Span, within, without
from blklab.md.members import number
from blklab.md.probing import Probe
from blklab.md.superblocks import SECTOR
from blklab.system.layers import partitions
from blklab.system.roots import Roots, entries, text


@dataclass(frozen=True)
class VolumeSpans:
    """Spans of the uppermost device on which they can be followed."""

    node: Path
    spans: tuple[Span, ...]
    divided: bool = False
    """It holds partitions or volumes, and these spans are between them."""
    failure: str = ""
    """Why it cannot be told what is there; empty if it can."""


def places(node: Path, spans: Sequence[Span], roots: Roots, reader: Probe) -> Iterator[VolumeSpans]:
    """Yields where spans of a device are, on it or on what is made of it."""
    if not spans:
        return
    taken: list[tuple[int, int]] = []
    divided = False
    for part in partitions(node):
        start = (number(text(part / "start")) or 0) * SECTOR
        end = start + (number(text(part / "size")) or 0) * SECTOR
        divided = True
        taken.append((start, end))
        moved = [_moved(span, -start) for span in within(spans, start, end)]
        yield from places(part, moved, roots, reader)
    for holder in entries(node / "holders"):
        upper = holder.resolve()
        if not (upper / "dm").is_dir():
            yield VolumeSpans(upper, tuple(spans), failure="only the device mapper is followed")
            return
        mapping, failure = reader.mapping(text(upper / "dev") or "")
        if failure:
            yield VolumeSpans(upper, tuple(spans), failure=failure)
            return
        divided = True
        for begin, length, kind, here in lines(mapping, text(node / "dev") or ""):
            pieces = within(spans, here, here + length)
            taken.append((here, here + length))
            moved = [_moved(one, begin - here) for one in pieces]
            if kind in {"linear", "crypt"}:
                yield from places(upper, moved, roots, reader)
            elif moved:
                yield VolumeSpans(
                    upper, tuple(pieces), failure=f"it is {kind}, not linear or crypt"
                )
    left = without(spans, taken)
    if left:
        yield VolumeSpans(node, tuple(left), divided)


def lines(mapping: str, number: str) -> Iterator[tuple[int, int, str, int]]:
    """Yields of a device's table where it has another: bytes above, length, kind, bytes beneath.

    Of kinds other than linear and crypt, which have the offset in places of their own, all of the
    device beneath is theirs.
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
