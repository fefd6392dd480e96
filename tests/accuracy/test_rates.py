"""`accuracy/run rates`: the tables and the deviations of the model of rates."""

import tomllib
from pathlib import Path

from accuracy.rate_tables import read_rates
from blklab.devices.rates.measured import DIRECTORY, read_measured
from tests.conftest import Run

REFERENCE = Path(__file__).parents[2] / "reference"


def test_the_package_has_the_rates_of_the_tables() -> None:
    of_tables = sorted((rate.quantity.name, rate.way, rate.source, round(rate.rate)) for rate in read_rates(REFERENCE))
    of_package = sorted((row.quantity, row.way, row.source, round(row.rate)) for row in read_measured())
    assert of_tables == of_package


def test_every_quantity_is_judged_by_other_sources(judge: Run) -> None:
    done = judge("rates")
    assert done.status == 0, done.err
    lines = [line.split() for line in done.out.splitlines() if "%" in line]
    assert {line[0] for line in lines} == set(tomllib.loads((DIRECTORY / "components.toml").read_text()))
    assert all(int(line[3]) >= 89 for line in lines), lines
