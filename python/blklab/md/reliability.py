"""How likely disks and arrays are to lose data: rates of disks (reliability.toml), and what the owner does.

crates/sim/src/loss.rs computes; docs/explanation/loss.md explains.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from statistics import fmean, quantiles, stdev
from typing import Any, NamedTuple

from blklab._core import MdMap, loss_probabilities
from blklab.md.levels import PARITIES, REDUNDANT
from blklab.package_data import toml_file

LIKELY = 0.1  # Above, a probability is printed as a percentage
YEAR = 8766  # Hours
DRAWS = 3000  # Sets of rates; the spread of rates decides how exact the mean is
HISTORIES = 60  # For each of them; more change the standard error of the mean by less than a tenth
OWNER = (0.5, 2.0)  # The owner may need half or twice as long as expected
CHUNK = 8  # Sectors; on which slots the copies of a chunk are does not depend on its size
RAREST = 1e-6  # Below, other causes decide

_RATES = toml_file(__package__, "reliability.toml")


class Disk(NamedTuple):
    model: str  # As in sysfs or in blklab's library; empty if unknown
    kind: str  # `hdd`; flash otherwise
    bytes: float


class RedundantArray(NamedTuple):
    level: str  # As in sysfs, redundant: `raid1`, `raid10`…
    members: Sequence[int]  # Indices of disks, in the order of slots
    rebuild_hours: float
    layout: int = 2  # The word in the superblock; of RAID-10, 0x102 is near 2
    spares: int = 0
    missing: Sequence[tuple[int, float]] = ()
    """Slots without a member, and when it failed: 0, or before 0 if its rebuild began before. If there are any, the
    question is until none is missing."""
    exponential: bool = False  # Whether the time of a rebuild is exponential with this mean
    parallel: bool = False  # Whether members are rebuilt at the same time instead of one after the other


class Care(NamedTuple):
    """What the owner does."""

    replacement_hours: float = 72.0  # Mean time until a failed disk is replaced, if there is no spare
    scrub_days: float | None = 30.44  # From one check to the next; mdcheck_start.timer checks monthly. None: never
    data_age_hours: float = 0.0  # Age of the oldest data, if nothing is checked
    ageing: float = 1.0  # Shape of the Weibull distribution of all disks' lives, 1 or more


CARE = Care()


class Estimate(NamedTuple):
    """A figure over what is not known: rates, and the owner's time."""

    mean: float
    low: float  # 5 % of the sets of rates give less
    high: float  # 95 % give less
    standard_error: float  # Of the mean: what other random numbers would change


class Loss(NamedTuple):
    any: Estimate  # Probability of any loss
    disks: Estimate  # Probability that the first loss is due to failed disks: a whole array, as far as not rebuilt
    sectors: Estimate  # Probability that the first loss is a block of 4 KiB that cannot be read
    bytes: Estimate  # Expected bytes of the first loss


def disk_rate(model: str, kind: str) -> tuple[float, float, float, float]:
    """Returns what is known about a model; if nothing is, about its class (`hdd`, otherwise flash).

    The shape and the rate of a gamma distribution: failures and drive-years. A range: disks that get their first
    unreadable sector, per year.
    """
    class_rates = _RATES["classes"]["hdd" if kind == "hdd" else "ssd"]
    failures = class_rates["failures"]
    years = class_rates["drive_years"]
    for row in _RATES["models"]:
        if any(fnmatch(model, pattern) for pattern in row["names"]):
            failures += row["failures"]
            years += row["drive_days"] / 365.25
    return failures, years, *class_rates["latent_errors"]


def probability(disks: Sequence[Disk], arrays: Sequence[RedundantArray], care: Care = CARE, years: float = 5) -> Loss:
    """Returns how likely data are lost if every array is needed, and every disk that is in no array.

    Disks of one model have the same rates. These are unknown: they are drawn, as is the owner's time.
    """
    rates = {(disk.model, disk.kind): disk_rate(disk.model, disk.kind) for disk in disks}
    positions = {model_and_kind: position for position, model_and_kind in enumerate(rates)}
    rng = random.Random(1)  # noqa: S311

    def log_uniform(low: float, high: float) -> float:
        return low * float((high / low) ** rng.random())

    def draw(failures: float, drive_years: float, low: float, high: float) -> tuple[float, float]:
        return rng.gammavariate(failures, 1 / drive_years) / YEAR, log_uniform(low, high) / YEAR

    draws = []
    for _ in range(DRAWS):
        drawn_rates = [draw(*rate) for rate in rates.values()]
        draws.append((drawn_rates, care.replacement_hours * log_uniform(*OWNER)))
    question = care._asdict() | {
        "hours": years * YEAR,
        "draws": draws,
        "histories": HISTORIES,
        "disks": [(positions[disk.model, disk.kind], disk.bytes) for disk in disks],
        "arrays": [array_question(array, disks) for array in arrays],
    }
    *chances, lost = zip(*loss_probabilities(json.dumps(question)), strict=True)
    probabilities = []
    for weights in chances:
        # The mean weight of a few histories of a likely loss can be above 1.
        probabilities.append([min(1.0, weight) for weight in weights])
    any_loss, of_disks, of_sectors = map(estimate, probabilities)
    return Loss(any_loss, of_disks, of_sectors, estimate(lost))


def array_question(array: RedundantArray, disks: Sequence[Disk]) -> dict[str, Any]:
    """Returns an array as crates/sim/src/loss.rs needs it. Raises ValueError for one that cannot exist."""
    count = len(array.members)
    if array.level not in REDUNDANT:
        raise ValueError(f"{array.level}: expected a redundant level")
    slots = MdMap(array.level, array.layout, CHUNK, [CHUNK * count] * count).slots
    sets = Counter(tuple(sorted(slots(CHUNK * chunk))) for chunk in range(count))  # More chunks repeat the pattern
    width = len(next(iter(sets)))
    max_failures = PARITIES.get(array.level, width - 1)
    return array._asdict() | {
        "members": list(array.members),
        "spares": [-YEAR] * array.spares,
        "sets": [(member_set, chunks / count) for member_set, chunks in sets.items()],
        "tolerated": max_failures,
        "bytes": min(disks[index].bytes for index in array.members) * count * (width - max_failures) / width,
    }


def estimate(values: Sequence[float]) -> Estimate:
    """Returns the mean of a figure over all draws, with its interval."""
    limits = quantiles(values, n=20)
    return Estimate(fmean(values), limits[0], limits[-1], stdev(values) / len(values) ** 0.5)


def in_words(probability: Estimate) -> str:
    """Returns a probability with its interval: `1 in 750 (1 in 200 to 1 in 12,000)`."""
    interval = f" ({one_in(probability.high)} to {one_in(probability.low)})"
    return one_in(probability.mean) + (interval if probability.mean >= RAREST else "")


def one_in(probability: float) -> str:
    """Returns a probability with two digits: `1 in 750`, `31 %`."""
    if probability > LIKELY:
        return f"{100 * probability:.0f} %"
    if probability < RAREST:
        return "less than 1 in a million"
    two_digits = float(f"{1 / probability:.1e}")
    return f"1 in {two_digits:,.0f}"
