"""Sizes, durations and counts: parsing of what people type, and formatting.

Sizes are in powers of 1024 and durations in whole nanoseconds, as everywhere in blklab.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

_SIZE_PREFIXES = "KMGTPE"
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<prefix>[kmgtpe]?)(?P<unit>i?b)?", re.I | re.A)

SECTOR = 512  # Bytes; every size and offset of a block device is a multiple of it

NANOSECONDS = {  # Every suffix a duration may have, and its length
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1_000),  # With U+00B5, the micro sign, or U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    **dict.fromkeys(("m", "min"), 60 * 1_000_000_000),
    "h": 3_600 * 1_000_000_000,
    "d": 86_400 * 1_000_000_000,
}

LONGEST = 2**64 - 1  # ns of the longest duration: the native core counts 64 bits of them
_DURATION_PART = re.compile(r" ?(\d+(?:\.\d+)?) ?([a-zµμ]*)", re.A)


@lru_cache
def parse_size(text: str) -> int:
    """Returns the bytes of a size: `512`, `4k`, `4KiB`, `1.5g`, `10 GiB`.

    Like fio and mdadm, `k`, `m`, `g`, `t`, `p` and `e` are powers of 1024. `10GB` is refused,
    because a disk's label and fio disagree on it. Raises ValueError.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write bytes (512) or 4k, 1.5M, 10GiB")
    prefix = match["prefix"].upper()
    unit = (match["unit"] or "").lower()
    if prefix and unit == "b":
        raise ValueError(
            f"{text!r} could mean powers of 1000 or of 1024: write {match['number']}{prefix}iB "
            f"(or {match['number']}{prefix.lower()}) for 1024, or plain bytes"
        )
    if unit == "ib" and not prefix:
        raise ValueError(f"{text!r} is not a size: write bytes (512) or 4k, 1.5M, 10GiB")
    factor = 1024 ** (_SIZE_PREFIXES.index(prefix) + 1) if prefix else 1
    size = Fraction(match["number"]) * factor
    if size.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return size.numerator


def parse_number(text: str) -> float:
    """Returns a number; NaN, which is in no range, for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


@lru_cache
def parse_duration(text: str) -> int:
    """Returns the nanoseconds of a duration: `1.5s`, `200ms`, `1h 30m`, `2` (seconds).

    Refuses fractions of a nanosecond, and more than 64 bits hold. Raises ValueError.
    """
    duration_text = text.strip()
    parts = list(_DURATION_PART.finditer(duration_text))
    total = Fraction(0)
    end = 0
    for part in parts:
        number, unit = part.groups()
        bare = not unit and len(parts) == 1
        if part.start() != end or not (bare or unit in NANOSECONDS):
            break
        total += Fraction(number) * NANOSECONDS["s" if bare else unit]
        end = part.end()
    if not duration_text or end != len(duration_text):
        raise ValueError(f"{text!r} is not a duration: write 1.5s, 200ms, 10us, 1h30m or seconds")
    if total.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of nanoseconds")
    if total > LONGEST:
        raise ValueError(f"{text!r} is too long: expected at most 584 years (213503d)")
    return total.numerator


def numeric(text: str) -> float | None:
    """Returns a label's value as a number: `32`, `4k`, `1.5`, `10GiB`, `60s` (ns); None for a name."""
    for parse in (float, parse_size, parse_duration):
        with suppress(ValueError):
            number = float(parse(text))
            return number if math.isfinite(number) else None
    return None


NAMES = frozenset({"stack", "workload", "kernel"})  # Labels whose values are names: 4.19 is more than 4.2


def in_order(label: str, values: Iterable[str]) -> list[str]:
    """Returns the values of a label, each once: names in the order of the data, then numbers in ascending order."""
    numbers = {value: -math.inf if label in NAMES else numeric(value) for value in values}
    return sorted(numbers, key=lambda value: -math.inf if (number := numbers[value]) is None else number)


def row_order(labels: Sequence[str], rows: Iterable[Sequence[str]]) -> Callable[[Sequence[str]], list[int]]:
    """Returns the key that sorts rows of labels' values, in the order of each label's values."""
    columns = zip(labels, zip(*rows, strict=True), strict=False)
    ranks = []
    for label, column in columns:
        ranks.append({value: rank for rank, value in enumerate(in_order(label, column))})
    return lambda row: [rank[value] for rank, value in zip(ranks, row, strict=True)]


def numbers_in(text: str) -> list[tuple[str, int]]:
    """Returns the key that sorts names by the numbers in them: `run-2` is before `run-10`."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d{0,18})", text)]


def format_size(size: float) -> str:
    """Returns bytes as `512 B`, `4 KiB`, `1.46 MiB`: three digits, without `.00` if exact."""
    return _format_scaled(size, 1024, ["B", *(f"{prefix}iB" for prefix in _SIZE_PREFIXES)])


def fio_size(size: int, units: str = "tgmk") -> str:
    """Returns bytes as typed for fio, in these units: `4k`, `8g`, `1000`."""
    for letter in units:
        if size and size % (factor := 1 << 10 * ("kmgt".index(letter) + 1)) == 0:
            return f"{size // factor}{letter}"
    return str(size)


def format_rate(bytes_per_second: float) -> str:
    """Returns a bandwidth as `12.3 MiB/s`."""
    return format_size(bytes_per_second) + "/s"


def format_duration(nanoseconds: float) -> str:
    """Returns a duration as `850 ns`, `12.3 µs`, `4.56 ms`, `2m 05s`, `1h 02m`, `3d 04h`."""
    if nanoseconds < 0:
        return "-" + format_duration(-nanoseconds)
    seconds = round(nanoseconds / NANOSECONDS["s"])
    if nanoseconds < 59.95 * NANOSECONDS["s"]:
        return _format_scaled(nanoseconds, 1000, ["ns", "µs", "ms", "s"])
    if seconds < 3_600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    minutes = round(seconds / 60)
    if minutes < 1_440:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    hours = round(seconds / 3_600)
    return f"{hours // 24}d {hours % 24:02d}h"


def format_count(count: int) -> str:
    """Returns a count with separators: `1,234,567`."""
    return f"{count:,}"


def _format_scaled(value: float, base: int, units: list[str]) -> str:
    """Returns `value` in the largest unit that leaves at least 1 of it, with three digits."""
    if value < 0:
        return "-" + _format_scaled(-value, base, units)
    exponent = 0
    quotient = float(value)
    # What would print as 1000 (or 1024) of a unit is 1 of the next.
    while exponent + 1 < len(units) and float(_three_digits(quotient)) >= base:
        quotient /= base
        exponent += 1
    return f"{_three_digits(quotient)} {units[exponent]}"


def _three_digits(value: float) -> str:
    if value == int(value):
        return f"{value:.0f}"
    for bound, decimals in ((9.995, 2), (99.95, 1)):
        if value < bound:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"
