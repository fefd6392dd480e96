"""`accuracy/run rates`: estimate the model of the rates of flash disks, and judge it by other sources."""

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import tomli_w

from accuracy.options import reference_option
from accuracy.rate_tables import TableRate, read_rates
from accuracy.reference import table_rows
from blklab.cli.common import emit, json_option
from blklab.devices.rates import model
from blklab.devices.rates.measured import DIRECTORY, RATED, MeasuredRate, read_products
from blklab.devices.rates.quantities import FlashRate
from blklab.outcome import NOMINAL, NORMAL
from blklab.output import write
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table

EXPECTED: Mapping[str, float] = {
    "way": 0.6,
    "bus": 1.0,
    "protected": 1.0,
    "nand": 0.5,
    "dram": 0.3,
    "maker": 0.3,
    "family": 0.3,
    "product": 0.3,
    "author": 0.3,
    "source": 0.3,
    "capacity": 0.5,
    "rated": 1.0,
    "noise": 0.1,
}
"""How large each deviation may be before any row was seen: few rows cannot tell the terms apart. Of a half-normal
prior, times its root so that no deviation becomes 0."""

SMALL = 0.3  # The power of a deviation in its prior
LEAST: Mapping[str, float] = {"way": 0.3, "author": 0.2, "source": 0.15}
"""The least deviation of terms that few rows show: one disk was measured in two ways, and three by several sources. All
but one of the random reads behind NVMe have the same method."""

MOST = 4.5  # Of a deviation
FEWEST = 3  # Sources, with which a quantity can be judged

FEATURES = ("maker", "family", "bus", "power_loss_protection", "nand", "dram", "capacity_gb", *RATED)


@dataclass(frozen=True)
class JudgedRate:
    """A measured rate, and what the model says of it without its source."""

    key: str  # Of the deviations
    row: MeasuredRate
    product: str
    expected: float  # I/Os or bytes a second
    deviation: float  # Of the natural logarithm, before it is widened

    @property
    def error(self) -> float:
        """The logarithm of measured over expected."""
        return math.log(self.row.rate / self.expected)


@click.command()
@reference_option
@click.option("--write", "to_write", is_flag=True, help="Write the tables and the deviations into the package.")
@json_option
def rates(*, directory: Path, to_write: bool, as_json: bool) -> None:
    """ExpectedRate the deviations of the model of rates, and judge it.

    Each source is predicted without its own rows, with the deviations that all rows show. The
    interval is widened until nine of ten rows are inside it.

    \b
    Examples:
      accuracy/run rates
      accuracy/run rates --write
    """
    table = read_rates(directory)
    products = read_products(directory / "foreign/products.csv")
    rows = [
        MeasuredRate(rate.quantity.name, rate.way, products[rate.product], rate.source, rate.rate) for rate in table
    ]
    names = dict(zip(map(id, rows), (rate.product for rate in table), strict=True))
    components: dict[str, model.Components] = {}
    judged: list[JudgedRate] = []
    for key, quantity, bus in model.all_keys():
        of_key = model.select_rows(quantity, bus, rows)
        if len({row.source for row in of_key}) < FEWEST:
            continue
        deviations = estimate_deviations(quantity, of_key)
        judged_of_key = judge(key, quantity, of_key, deviations, names)
        components[key] = model.Components(deviations, _widening(judged_of_key))
        judged += judged_of_key
    if to_write:
        _write(directory, table, components)
    documents = [_document(rate, components[rate.key]) for rate in judged]
    emit(documents, as_json, lambda console: draw_table(console, _summary(judged, components)))


def estimate_deviations(quantity: FlashRate, rows: Sequence[MeasuredRate]) -> dict[str, float]:
    """Returns the deviations under which the rows are most likely (Rasmussen and Williams 2006, equation 5.8)."""
    import numpy as np
    from scipy.optimize import minimize

    values = np.log([row.rate for row in rows])
    values -= values.mean()

    def cost(logarithms: Sequence[float]) -> float:
        deviations = dict(zip(EXPECTED, np.exp(logarithms), strict=True))
        root = np.linalg.cholesky(model.covariance(quantity, rows, deviations))
        residuals = np.linalg.solve(root, values)
        prior = sum((value / EXPECTED[name]) ** 2 / 2 - SMALL * math.log(value) for name, value in deviations.items())
        return float(residuals @ residuals / 2 + np.log(np.diag(root)).sum() + prior)

    start = [math.log(0.7 * value) for value in EXPECTED.values()]
    limits = [(math.log(LEAST.get(name, 0.02)), math.log(MOST)) for name in EXPECTED]
    best = minimize(cost, start, method="L-BFGS-B", bounds=limits)
    return {name: round(math.exp(value), 3) for name, value in zip(EXPECTED, best.x, strict=True)}


def judge(
    key: str,
    quantity: FlashRate,
    rows: Sequence[MeasuredRate],
    deviations: Mapping[str, float],
    names: Mapping[int, str],
) -> list[JudgedRate]:
    """Returns what the other sources say of each row."""
    judged = []
    for row in rows:
        others = [other for other in rows if other.source != row.source]
        estimate = model.predict(quantity, row.way, row.product, others, model.Components(deviations, 1.0))
        judged.append(JudgedRate(key, row, names[id(row)], estimate.rate, estimate.deviation))
    return judged


def _widening(judged: Sequence[JudgedRate]) -> float:
    """Returns the factor of the deviations with which the interval holds nine of ten rows; at least 1."""
    scores = sorted(abs(rate.error) / rate.deviation for rate in judged)
    return math.ceil(1000 * max(1.0, scores[math.ceil(NOMINAL * len(scores)) - 1] / NORMAL)) / 1000


def _write(directory: Path, table: Sequence[TableRate], components: Mapping[str, model.Components]) -> None:
    """Writes products.csv, measured.csv and components.toml into the package."""
    measured = {rate.product for rate in table}
    lines = []
    for _, row in table_rows(directory / "foreign/products.csv", ("product", *FEATURES)):
        if row["product"] in measured:
            lines.append([row["product"], *(row[feature] for feature in FEATURES)])
    write(DIRECTORY / "products.csv", _csv(("product", *FEATURES), lines))
    lines = [[rate.quantity.name, rate.way, rate.product, rate.source, f"{rate.rate:.0f}"] for rate in table]
    write(DIRECTORY / "measured.csv", _csv(("quantity", "way", "product", "source", "rate"), lines))
    tables = {key: {**of_key.deviations, "widening": of_key.widening} for key, of_key in components.items()}
    comment = (
        "# Deviations of natural logarithms, by quantity and bus. `accuracy/run rates --write` writes this file.\n\n"
    )
    write(DIRECTORY / "components.toml", (comment + tomli_w.dumps(tables)).encode())


def _csv(header: Sequence[str], lines: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *lines])
    return text.getvalue().encode()


def _document(rate: JudgedRate, components: model.Components) -> dict[str, Any]:
    factor = math.exp(NORMAL * components.widening * rate.deviation)
    return {
        "key": rate.key,
        "way": rate.row.way,
        "product": rate.product,
        "source": rate.row.source,
        "measured": rate.row.rate,
        "expected": round(rate.expected),
        "low": round(rate.expected / factor),
        "high": round(rate.expected * factor),
        "inside": abs(rate.error) <= math.log(factor),
    }


def _summary(judged: Sequence[JudgedRate], components: Mapping[str, model.Components]) -> TextTable:
    """Returns a line for each quantity."""
    lines = []
    for key, of_key in components.items():
        rows = [rate for rate in judged if rate.key == key]
        sources = len({rate.row.source for rate in rows})
        inside = sum(abs(rate.error) <= NORMAL * of_key.widening * rate.deviation for rate in rows)
        factor = math.exp(statistics.median(abs(rate.error) for rate in rows))
        ratio = math.exp(2 * NORMAL * of_key.widening * statistics.median(rate.deviation for rate in rows))
        counts = [str(len(rows)), str(sources), f"{100 * inside / len(rows):.0f} %"]
        lines.append([key, *counts, f"×{factor:.2f}", f"{ratio:.1f}", f"{of_key.widening:.2f}"])
    columns = number_columns("rows", "sources", "coverage", "median error", "ratio", "widening")
    return TextTable("Each source predicted without its rows", [text_column("rate"), *columns], lines)
