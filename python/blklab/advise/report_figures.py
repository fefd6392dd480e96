"""Figures of simulated arrangements as text and as JSON: for advice on arrays and on caches."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from blklab.advise.samples import Sample
from blklab.render import formatting
from blklab.units import format_duration

SMALL = 0.02  # Changes of latency that a sentence does not list
HOW_TO_RUN = "save this as a file, complete the names of the disks, run it with sh. It stops if a disk is not empty."


def latency(sample: Sample, nanoseconds: float) -> str:
    """Returns a latency of a sample; `not known` if its interval is too wide."""
    return formatting.duration(nanoseconds) if sample.is_known else formatting.UNKNOWN


def mean_interval(sample: Sample) -> str:
    """Returns the interval of the mean with two digits: `1.0–2.3 ms`."""
    low, high = (_two_digits(bound) for bound in sample.mean_bounds)
    return f"{low[0]}–{high[0]} {high[1]}" if low[1] == high[1] else f"{' '.join(low)} – {' '.join(high)}"


def _two_digits(nanoseconds: float) -> tuple[str, str]:
    """Returns the number and the unit of a duration."""
    number, _, unit = format_duration(float(f"{nanoseconds:.1e}")).partition(" ")
    if not number.replace(".", "").isdigit():  # minutes and more
        return number, unit
    return f"{float(number):.1f}" if float(number) < 10 else f"{float(number):.0f}", unit


def compare_choices(changes: Mapping[str, float]) -> str:
    """Says what single choices contribute to the mean latency, as ratios."""
    large = [f"{_compare_times(ratio)} with {name}" for name, ratio in changes.items() if abs(ratio - 1) >= SMALL]
    small = [name for name, ratio in changes.items() if abs(ratio - 1) < SMALL]
    sentences = []
    if large:
        sentences.append(f"If you change one thing, an I/O takes: {'; '.join(large)}.")
    if small:
        sentences.append(f"Nearly no difference: {'; '.join(small)}.")
    return " ".join(sentences)


def _compare_times(ratio: float) -> str:
    """Returns how much longer something takes."""
    if ratio >= 2:
        return f"{formatting.number(ratio)} times as long"
    direction = "longer" if ratio > 1 else "less time"
    return f"{abs(100 * (ratio - 1)):.0f} % {direction}"


def rated_years(years: float | None) -> str:
    """Returns the years until a flash disk was written as often as it is rated for."""
    if years is None:
        return formatting.NONE
    if years >= 100:
        return ">100 years"
    if years < 1:
        return f"{years * 365:.0f} days"
    two_digits = float(f"{years:.1e}")
    return f"{two_digits:g} years"


def samples_as_dicts(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Returns the figures of each load for the JSON document."""
    dicts = []
    for sample in samples:
        fields = asdict(sample)
        del fields["batches"]
        fields["known"] = sample.is_known
        dicts.append(fields)
    return dicts
