"""I/O sizes as fio's `bssplit` takes them: few exact sizes with whole percents.

fio reads whole percents only and at most 64 sizes (BSSPLIT_MAX in fio's thread_options.h, 3.33).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST_SIZES: Final = 64
SECTOR: Final = 512


@dataclass(frozen=True)
class SizeShare:
    """So many of a hundred I/Os have this size."""

    bytes: int
    percent: int


def split(counts: Sequence[tuple[int, int]], most: int = MOST_SIZES) -> tuple[SizeShare, ...]:
    """Returns sizes with whole percents that sum to 100, ascending, from (bytes, I/Os) pairs.

    The I/Os, ordered by size, are cut into a hundred equal parts, and each part is given the size
    that occurs in it nearest to its mean; so the cumulative distribution is off by at most one
    point anywhere, and rare sizes fold into their neighbours. Sizes are rounded up to sectors, as
    direct I/O needs. Empty for no I/O.
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
    """Folds the smallest share into its nearest neighbour until few enough are left."""
    while len(shares) > most:
        at = min(range(len(shares)), key=lambda i: shares[i].percent)
        beside = [i for i in (at - 1, at + 1) if 0 <= i < len(shares)]
        to = min(beside, key=lambda i: abs(math.log(shares[i].bytes / shares[at].bytes)))
        shares[to] = SizeShare(shares[to].bytes, shares[to].percent + shares[at].percent)
        del shares[at]
    return tuple(shares)


def mean(shares: Sequence[SizeShare]) -> float:
    """Returns the mean size, 0 for none."""
    return sum(share.bytes * share.percent for share in shares) / 100


def alignment(shares: Sequence[SizeShare]) -> int:
    """Returns what offsets are to be multiples of: the power of two in every size, at most 4096."""
    divisor = math.gcd(*(share.bytes for share in shares))
    return min(divisor & -divisor, 4096)
