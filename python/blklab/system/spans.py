"""Ranges of bytes of a device, with their positions on the array."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Bytes of a device that is an array or a volume on it."""

    begin: int
    end: int  # First byte after the span
    array: int  # Position of `begin` on the array

    def within(self, begin: int, end: int) -> "Span | None":
        """Returns the part between two bytes of the device."""
        first, last = max(self.begin, begin), min(self.end, end)
        return Span(first, last, self.array + first - self.begin) if first < last else None


def spans_within(spans: Iterable[Span], begin: int, end: int) -> list[Span]:
    """Returns the parts of spans between two bytes of the device."""
    pieces = []
    for span in spans:
        piece = span.within(begin, end)
        if piece:
            pieces.append(piece)
    return pieces


def spans_without(spans: Iterable[Span], ranges: Iterable[tuple[int, int]]) -> list[Span]:
    """Returns the parts of spans outside of all `ranges`, which are pairs of begin and end."""
    sorted_ranges = sorted(ranges)

    def outside(span: Span) -> Iterator[Span]:
        position = span.begin
        for begin, end in sorted_ranges:
            if piece := span.within(position, begin):
                yield piece
            position = max(position, end)
        if piece := span.within(position, span.end):
            yield piece

    return [piece for span in spans for piece in outside(span)]
