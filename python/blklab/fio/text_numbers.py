"""Numbers as fio's num2str (lib/num2str.c) prints them. Every function raises BlklabError."""

import math
import re
from typing import Final

from blklab.errors import BlklabError
from blklab.text import printable

_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{0,9})?) ?([kKMGTP]?)(i?)([Bb]?)")
_SCALES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def scaled(text: str) -> float:
    """Returns a number that may end with k, M or G, powers of 1000."""
    bare = text.rstrip("kKMG")
    return _float(bare) * _SCALES[text[len(bare) :][:1].lower()]


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BlklabError(f"found {text[:20]!r}, a number is expected") from None


def in_bytes(text: str, kilo: int = 1024) -> int:
    """Returns a size in bytes: `4K`, `4096B`, `7078MiB`; `kilo` is what K is without an i."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BlklabError(f"found {printable(text[:20])!r}, a size is expected")
    power = " kmgtp".index(match[2].lower() or " ")
    scale = math.pow(1024 if match[3] else kilo, power)
    return round(float(match[1]) * scale / (8 if match[4] == "b" else 1))


def unit_of(text: str, kilo: int = 1024) -> float:
    """Returns the unit of a printed number, in what it counts: 2^20 of `7078MiB`, 1000 of `30.2k`.

    fio's num2str (lib/num2str.c) loses a carry, so that 11.99 is printed as 11.0: nothing less
    than a unit is a contradiction.
    """
    suffix = text.lstrip("0123456789. ")
    sized = "b" in suffix.lower() or "i" in suffix
    return float(in_bytes("1" + suffix, kilo)) if sized else scaled("1" + suffix)
