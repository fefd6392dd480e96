"""I/O sizes for fio's `bssplit`: few exact sizes with whole percents.

fio reads only whole percents and at most 64 sizes (BSSPLIT_MAX in fio's thread_options.h, 3.33).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST_SIZES: Final = 64
SECTOR: Final = 512


@dataclass(frozen=True)
class SizeShare:
    """A size and its share of the I/Os in percent."""

    bytes: int
    percent: int


def split(counts: Sequence[tuple[int, int]], most: int = MOST_SIZES) -> tuple[SizeShare, ...]:
    """Returns sizes with whole percents that sum to 100, ascending, from (bytes, I/Os) pairs.

    The I/Os, ordered by size, are cut into a hundred equal parts. Each part gets the size in it that is nearest to its
    mean. So the cumulative distribution differs by at most one point, and rare sizes merge with their neighbours. Sizes
    are rounded up to sectors for direct I/O. Empty for no I/O.
    """
    by_size: dict[int, int] = {}
    for size, count in counts:
        if size > 0 and count > 0:
            rounded = -(-size // SECTOR) * SECTOR
            by_size[rounded] = by_size.get(rounded, 0) + count
    ordered = sorted(by_size.items())
    total = sum(by_size.values())
    if not total:
        return ()
    percents: dict[int, int] = {}
    for part in _hundredths(ordered, total):
        mean = sum(size * share for size, share in part) / sum(share for _, share in part)
        nearest = min(part, key=lambda piece: (abs(piece[0] - mean), -piece[1]))[0]
        percents[nearest] = percents.get(nearest, 0) + 1
    return _fold([SizeShare(size, percent) for size, percent in sorted(percents.items())], most)


def _hundredths(ordered: Sequence[tuple[int, int]], total: int) -> list[list[tuple[int, int]]]:
    """Cuts the I/Os into a hundred equal parts of (size, hundredths of an I/O)."""
    parts: list[list[tuple[int, int]]] = [[]]
    room = total
    for size, count in ordered:
        left = count * 100
        while left:
            if not room:
                parts.append([])
                room = total
            taken = min(left, room)
            parts[-1].append((size, taken))
            left -= taken
            room -= taken
    return parts


def _fold(shares: list[SizeShare], most: int) -> tuple[SizeShare, ...]:
    """Merges the smallest share with its nearest neighbour until there are few enough sizes."""
    while len(shares) > most:
        at = min(range(len(shares)), key=lambda i: shares[i].percent)
        adjacent = [i for i in (at - 1, at + 1) if 0 <= i < len(shares)]
        to = min(adjacent, key=lambda i: abs(math.log(shares[i].bytes / shares[at].bytes)))
        shares[to] = SizeShare(shares[to].bytes, shares[to].percent + shares[at].percent)
        del shares[at]
    return tuple(shares)


def mean(shares: Sequence[SizeShare]) -> float:
    """Returns the mean size; 0 for no sizes."""
    return sum(share.bytes * share.percent for share in shares) / 100


def alignment(shares: Sequence[SizeShare]) -> int:
    """Returns the alignment of offsets: the largest power of two that divides all sizes, at most 4096."""
    divisor = math.gcd(*(share.bytes for share in shares))
    return min(divisor & -divisor, 4096)
