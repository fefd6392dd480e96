"""Runs of bytes of a device, and where on the array they are."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Bytes of a device above an array; both are counted from their beginnings."""

    begin: int
    end: int
    """The byte behind it."""
    array: int
    """Where `begin` is on the array."""

    def within(self, begin: int, end: int) -> "Span | None":
        """Returns what of it lies between two bytes of the device."""
        first, last = max(self.begin, begin), min(self.end, end)
        return Span(first, last, self.array + first - self.begin) if first < last else None


def within(spans: Iterable[Span], begin: int, end: int) -> list[Span]:
    """Returns what of spans lies between two bytes of the device."""
    return [piece for span in spans if (piece := span.within(begin, end))]


def without(spans: Iterable[Span], taken: Iterable[tuple[int, int]]) -> list[Span]:
    """Returns what of spans lies in none of `taken`, which are beginnings and ends."""
    gaps = sorted(taken)

    def left(span_: Span) -> Iterator[Span]:
        at = span_.begin
        for begin, end in gaps:
            if piece := span_.within(at, begin):
                yield piece
            at = max(at, end)
        if piece := span_.within(at, span_.end):
            yield piece

    return [piece for span in spans for piece in left(span)]
