"""The rates of a flash disk that was not measured, from those of the disks that were.

The logarithm of a rate is a sum of independent normal variables. There is one for each feature that a disk shares with
others: its protection, cells, memory, maker, family and product. There is one for the author who measured it, with his
method, one for his host, one for the capacity, and one for what the maker states. Two measurements resemble each other
as far as they share terms. What is expected of a disk, and how far a measurement may be away, follows from the measured
disks and from the deviation of each term: a Gaussian process (Rasmussen and Williams 2006, equations 2.25 and 2.26).

A feature that is not known is shared with no disk, so that its deviation widens the interval. Who measures the disk
next is a new author. `components.toml` has the deviations, which `accuracy/run rates` estimates.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from blklab.devices.rates.measured import DIRECTORY, MeasuredRate, read_measured
from blklab.devices.rates.products import Product
from blklab.devices.rates.quantities import QUANTITIES, FlashRate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TYPICAL = 10**12  # Bytes: the capacity at which its term is 0
LEVEL = 2.0
"""The deviation of the mean of all disks of a bus, from the mean of those that were measured: they say it, not this."""

TERMS = ("way", "bus", "protected", "nand", "dram", "maker", "family", "product", "author", "source")
"""Terms that two measurements share or not."""

SLOPES = ("capacity", "rated")
"""Terms that are proportional to a logarithm: of the capacity, and of the rated figure over the typical one."""

NOISE = "noise"  # What the same source measures of the same disk at another time
DEVIATIONS = (*TERMS, *SLOPES, NOISE)


@dataclass(frozen=True)
class ExpectedRate:
    """What is expected of a rate."""

    rate: float  # I/Os or bytes a second: the median
    deviation: float  # Of its natural logarithm, when a new source measures it


@dataclass(frozen=True)
class Components:
    """The deviations of the terms of a quantity."""

    deviations: Mapping[str, float]  # By `DEVIATIONS`
    widening: float
    """Factor of the deviation of a prediction. With it, nine of ten rows are inside the interval of 90 % that is made
    without their source."""


@cache
def read_components() -> Mapping[str, Components]:
    """Returns the deviations by key of the quantity."""
    tables = tomllib.loads((DIRECTORY / "components.toml").read_text(encoding="utf-8"))
    components = {}
    for key, table in tables.items():
        components[key] = Components({name: table[name] for name in DEVIATIONS}, table["widening"])
    return components


def component_key(quantity: FlashRate, bus: str) -> str:
    """Returns the name of the deviations of a quantity for disks of a bus."""
    return f"{quantity.name}-{bus}" if quantity.by_bus else quantity.name


def select_rows(quantity: FlashRate, bus: str, rows: Sequence[MeasuredRate]) -> list[MeasuredRate]:
    """Returns the measurements that say something of a quantity of a disk behind a bus."""
    return [row for row in rows if row.quantity == quantity.name and (row.product.bus == bus or not quantity.by_bus)]


@cache
def estimate(quantity: FlashRate, way: str, product: Product, without: str = "") -> ExpectedRate | None:
    """Returns what is expected of a disk, without the measurements of a source; None if nothing is known of its bus."""
    rows = [row for row in select_rows(quantity, product.bus, read_measured()) if row.source != without]
    components = read_components().get(component_key(quantity, product.bus))
    if not rows or components is None:
        return None
    return predict(quantity, way, product, rows, components)


def predict(
    quantity: FlashRate, way: str, product: Product, rows: Sequence[MeasuredRate], components: Components
) -> ExpectedRate:
    """Returns what measurements say of a rate of a product."""
    import numpy as np

    new = MeasuredRate(quantity.name, way, product, "", 1.0)
    both = covariance(quantity, [*rows, new], components.deviations)
    rates = np.log([row.rate for row in rows])
    weights = np.linalg.solve(both[:-1, :-1], both[:-1, -1])
    mean = rates.mean() + weights @ (rates - rates.mean())
    variance = both[-1, -1] - weights @ both[:-1, -1]
    return ExpectedRate(math.exp(mean), components.widening * math.sqrt(max(0.0, variance)))


def covariance(
    quantity: FlashRate, rows: Sequence[MeasuredRate], deviations: Mapping[str, float]
) -> "NDArray[np.float64]":
    """Returns the covariances of the logarithms of measurements: a square table."""
    import numpy as np

    count = len(rows)
    table = np.full((count, count), LEVEL**2)
    for term in TERMS:
        groups = _groups(term, rows)
        table += deviations[term] ** 2 * (groups[:, None] == groups[None, :])
    capacities = _capacities(rows)
    table += deviations["capacity"] ** 2 * np.outer(capacities, capacities)
    rated, of_unknown = _rated(quantity, rows)
    table += deviations["rated"] ** 2 * (np.outer(rated, rated) + np.diag(of_unknown))
    return table + deviations[NOISE] ** 2 * np.eye(count)


def _groups(term: str, rows: Sequence[MeasuredRate]) -> "NDArray[np.int64]":
    """Returns a number for each measurement: those with the same number share the term."""
    import numpy as np

    numbers: dict[Any, int] = {}
    groups = []
    for index, row in enumerate(rows):
        value = _feature(term, row)
        key = ("unknown", index) if value in {None, ""} else value
        groups.append(numbers.setdefault(key, len(numbers)))
    return np.array(groups)


def _feature(term: str, row: MeasuredRate) -> Any:
    """Returns the value of a feature that a measurement shares with others; None or "" if it is not known."""
    product = row.product
    if term == "way":
        return row.way or "one way"
    if term == "author":
        return row.source.partition(" ")[0]
    if term == "source":
        return row.source
    if term == "family":
        return (product.maker, product.family) if product.family else None
    if term == "product":
        return (product.maker, product.family, _size_class(product.capacity)) if product.family else None
    return getattr(product, term)


def _size_class(capacity: int) -> int:
    """Returns the number of the capacity: 480, 500 and 512 GB are one size, 960 GB is the next one."""
    return round(2 * math.log2(capacity / TYPICAL))


def _capacities(rows: Sequence[MeasuredRate]) -> "NDArray[np.float64]":
    import numpy as np

    return np.log([row.product.capacity / TYPICAL for row in rows])


def _rated(quantity: FlashRate, rows: Sequence[MeasuredRate]) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Returns the logarithms of the rated figures over the typical one of their way, and the variances of unknown ones.

    Where a figure is not known, it is expected to be the typical one, with the variance of those that are known.
    """
    import numpy as np

    values, variances = np.zeros(len(rows)), np.zeros(len(rows))
    for way in {row.way for row in rows}:
        indices = [index for index, row in enumerate(rows) if row.way == way]
        name = quantity.rated.get(way)
        if name is None:
            continue
        figures = {index: getattr(rows[index].product, name) for index in indices}
        known = [math.log(figure) for figure in figures.values() if figure]
        typical = sum(known) / len(known) if known else 0.0
        variance = sum((value - typical) ** 2 for value in known) / max(1, len(known) - 1)
        for index, figure in figures.items():
            if figure:
                values[index] = math.log(figure) - typical
            else:
                variances[index] = variance
    return values, variances


def all_keys() -> list[tuple[str, FlashRate, str]]:
    """Returns the keys of all deviations, each with its quantity and bus."""
    keys = []
    for quantity in QUANTITIES:
        for bus in ("nvme", "sata") if quantity.by_bus else ("nvme",):
            keys.append((component_key(quantity, bus), quantity, bus))
    return keys
