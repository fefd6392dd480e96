"""Format figures for sentences and table cells."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from blklab import units
from blklab.documents.profile import QuantilesSummary, ZipfFit

NONE = "–"  # Text for a missing figure
UNKNOWN = "not known"  # Text for a predicted figure whose interval is so wide that it says nothing
BLOCKS = "▁▂▃▄▅▆▇█"  # Characters of a sparkline, from low to high
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # In every locale


class Sentence(NamedTuple):
    topic: str
    text: str


def share(value: float | None) -> str:
    """Returns a share 0..=1 in percent: `0 %`, `<0.1 %`, `2.4 %`, `37 %`, `>99.9 %`, `100 %`."""
    if value is None:
        return NONE
    percent = 100 * value
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    decimals = 1 if percent < 9.95 or 99 < percent < 100 else 0
    text = f"{percent:.{decimals}f}"
    return (text.removesuffix(".0") if "." in text else text) + " %"


def number(value: float | None) -> str:
    """Returns a figure without a unit, with three significant digits: `1.58`, `22.2`, `2,260`."""
    if value is None:
        return NONE
    for bound, decimals in ((9.995, 2), (99.95, 1)):
        if abs(value) < bound:
            text = f"{value:.{decimals}f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:,.0f}"


def count(value: int | None) -> str:
    """Returns a count with thousands separators."""
    return NONE if value is None else units.format_count(value)


def duration(nanoseconds: float | None) -> str:
    return NONE if nanoseconds is None else units.format_duration(nanoseconds)


def pair(quantiles: QuantilesSummary | None) -> str:
    """Returns the median and the 99th percentile of times."""
    return f"{duration(quantiles.p50)} / {duration(quantiles.p99)}" if quantiles and quantiles.count else NONE


def size(number_of_bytes: float | None) -> str:
    return NONE if number_of_bytes is None else units.format_size(number_of_bytes)


def rate(bytes_per_second: float | None) -> str:
    """Returns a bandwidth with its unit."""
    return NONE if bytes_per_second is None else units.format_rate(bytes_per_second)


def plural(amount: int, word: str, plural_form: str | None = None) -> str:
    """Returns `1 read`, `2 reads`, `0 reads`."""
    noun = word
    if amount != 1:
        noun = plural_form or f"{word}s"
    return f"{units.format_count(amount)} {noun}"


def listing(parts: Sequence[str]) -> str:
    """Returns `a`, `a and b`, `a, b and c`."""
    return "".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def ops(name: str) -> str:
    """Returns the plural of an operation: `flush` is `flushes`."""
    return {"flush": "flushes"}.get(name, name + "s")


def zipf_reason(zipf: ZipfFit) -> str:
    """Returns why popularity is or is not Zipf's, as the end of a sentence."""
    reason = str(zipf.reason).rstrip(".")
    reason = reason.replace("only 1 distinct blocks were", "only 1 distinct block was")
    # The number of distinct blocks can be an estimate that is slightly too high.
    return re.sub(r"\b(0\.\d\d|1\.0[0-4]) times each", "about once each", reason)


def date_time(time: datetime, *, seconds: bool = False) -> str:
    """Returns a time as people write it: `29 Nov 2026, 15:31`; with `seconds`, `29 Nov 2026, 15:31:08`."""
    clock = time.strftime("%H:%M:%S" if seconds else "%H:%M")
    return f"{date(time)}, {clock}"


def date(time: datetime) -> str:
    """Returns a date as people write it: `29 Nov 2026`."""
    return f"{time.day} {MONTHS[time.month - 1]} {time.year}"


def sparkline(values: Sequence[float]) -> str:
    """Returns values as block characters: the largest is the highest block, zero the lowest."""
    maximum = max(values, default=0)
    if maximum <= 0:
        return BLOCKS[0] * len(values)
    return "".join(BLOCKS[min(7, int(8 * value / maximum))] for value in values)


def cells(numbers: Sequence[int]) -> str:
    """Returns `cell 3`, `cells 3, 5` or `cells 1 to 12`; at most six parts."""
    noun = "cell" if len(numbers) == 1 else "cells"
    return f"{noun} {spans_text(numbers)}"


def spans_text(numbers: Sequence[int]) -> str:
    """Returns `3`, `3, 5` or `1 to 12`; at most six parts."""
    spans: list[list[int]] = []
    for cell_number in sorted(numbers):
        if spans and cell_number == spans[-1][-1] + 1:
            spans[-1][1:] = [cell_number]
        else:
            spans.append([cell_number])
    parts = [f"{span[0]} to {span[-1]}" if len(span) > 1 else str(span[0]) for span in spans]
    return ", ".join(parts[:6]) + (" …" if len(parts) > 6 else "")


def interval(factors: tuple[float, float]) -> str:
    """Returns an interval, given as factors, in percent: `±9 %`, or `-22…+28 %` if its sides differ."""
    low, high = (round(100 * (factor - 1)) for factor in factors)
    return f"±{high} %" if abs(high + low) <= 1 else f"{low:+}…{high:+} %"
