"""The measurements of flash disks on which the model of rates rests.

`accuracy/run rates` writes both tables from reference/foreign. `products.csv` has the features of each product,
`measured.csv` a rate for each product and source. A source is an author, whose method is his own, or one of his hosts:
its first word is the author. Figures of one source are wrong together.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from blklab.devices.rates.products import Product

DIRECTORY = Path(__file__).parent
GIGABYTE = 10**9
RATED = ("random_read_iops", "random_write_iops", "read_bandwidth", "write_bandwidth")


@dataclass(frozen=True)
class MeasuredRate:
    """A rate of a disk, from one source."""

    quantity: str  # As in `quantities.QUANTITIES`
    way: str  # How it was measured, if there are several ways; they differ a little
    product: Product
    source: str
    rate: float  # I/Os or bytes a second


def read_products(path: Path) -> dict[str, Product]:
    """Returns the products in a table by name."""
    with path.open(encoding="utf-8", newline="") as lines:
        return {row["product"]: _product(row) for row in csv.DictReader(lines)}


def _product(row: Mapping[str, str]) -> Product:
    return Product(
        bus="nvme" if row["bus"] == "nvme" else "sata",
        protected=row["power_loss_protection"] == "yes",
        capacity=int(float(row["capacity_gb"]) * GIGABYTE),
        maker=row["maker"],
        family=row["family"],
        nand=row["nand"],
        dram=row["dram"] == "yes" if row["dram"] else None,
        rated_random_read_iops=_number(row["random_read_iops"]),
        rated_random_write_iops=_number(row["random_write_iops"]),
        rated_read_bandwidth=_number(row["read_bandwidth"]),
        rated_write_bandwidth=_number(row["write_bandwidth"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


@cache
def read_measured() -> tuple[MeasuredRate, ...]:
    """Returns the measurements that blklab has."""
    return tuple(_measured(DIRECTORY))


def _measured(directory: Path) -> Iterator[MeasuredRate]:
    products = read_products(directory / "products.csv")
    with (directory / "measured.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            product = products[row["product"]]
            yield MeasuredRate(row["quantity"], row["way"], product, row["source"], float(row["rate"]))
