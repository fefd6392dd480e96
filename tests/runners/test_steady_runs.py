"""Simulations that `max_ios` limits: their warm-up is cut off, and they become longer until they are steady."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from blklab.experiment.cells import Cell, plan
from blklab.experiment.load import ExperimentSource
from blklab.outcome import Outcome
from blklab.runners.sim import runner as sim
from blklab.runners.sim.steady_runs import find_cut, find_warm_up, simulate_steadily
from blklab.runners.sim.uncertainty import total_iops
from tests.runners.collecting import collected


def test_what_comes_before_the_steady_rates_is_cut_off() -> None:
    noise = random.Random(1)
    steady = [1000 + noise.uniform(-20, 20) for _ in range(40)]
    assert find_cut(steady) <= 4
    assert find_cut([300, 500, 700, 900, *steady]) in range(4, 7)
    assert find_cut([2000] * 10 + steady) in range(10, 13)


def test_at_most_half_is_cut_off() -> None:
    assert find_cut([float(rate) for rate in range(100, 140)]) == 20


def make_outcome(rates: list[float]) -> Outcome:
    """Returns an outcome with one rate for each second."""
    points = [
        {"time_ns": 10**9 * number, "width_ns": 10**9, "ios": [round(rate), 0]} for number, rate in enumerate(rates)
    ]
    mean = sum(rates) / len(rates)
    directions = [SimpleNamespace(iops=iops) for iops in (mean, 0.0)]
    return cast(Outcome, SimpleNamespace(series=points, read=directions[0], write=directions[1]))


def test_a_warm_up_that_hardly_matters_stays() -> None:
    assert find_warm_up(make_outcome([500.0] * 20 + [1000.0] * 100)) == 20 * 10**9
    assert find_warm_up(make_outcome([970.0] * 20 + [1000.0] * 100)) == 0
    assert find_warm_up(make_outcome([1000.0, 10.0] * 4)) == 0, "too short to tell"


EXPERIMENT: dict[str, Any] = {
    "devices": {"fast": {"model": "pm983"}, "slow": {"model": "sm883"}},
    "stacks": {"near": {"level": 10, "members": ["fast", "slow"]}},
    "workloads": {"streams": {"rw": "read", "bs": "4k", "numjobs": 4, "iodepth": 32, "size": "8g"}},
    "settings": {"kernel": "5.4", "filesystem": "ext4"},
}


def make_cell(**settings: object) -> Cell:
    raw = {**EXPERIMENT, "settings": {**EXPERIMENT["settings"], **settings}}
    return plan(ExperimentSource(Path("streams.toml"), raw)).cells[0]


@pytest.mark.parametrize("kernel", ["4.19", "5.4"])
def test_the_rate_does_not_depend_on_the_length(kernel: str) -> None:
    rates = []
    for max_ios in (50_000, 200_000, 600_000):
        [run] = collected(sim.SimRunner(1), [make_cell(max_ios=max_ios, kernel=kernel)]).ended.values()
        rates.append(total_iops(run.outcome))
    assert max(rates) <= 1.05 * min(rates), rates


def test_a_run_that_is_not_steady_becomes_longer() -> None:
    cell = make_cell(max_ios=20_000, kernel="4.19")
    lengths = []

    def simulate(document: dict[str, Any]) -> Outcome:
        lengths.append((document["max_ios"], document.get("ramp_ns", 0)))
        return sim.outcome(document)

    simulate_steadily(cell, dict(cell.document), simulate)
    assert lengths[0] == (20_000, 0)
    assert lengths[-1][0] > 20_000
    assert max(ios for ios, _ in lengths) <= 16 * 20_000


def test_a_run_of_a_given_time_stays_as_it_is() -> None:
    cell = make_cell(runtime="20ms", kernel="4.19")
    document, outcome = simulate_steadily(cell, dict(cell.document), sim.outcome)
    assert document == cell.document
    assert outcome.runtime_ns <= 21_000_000


def make_two_jobs() -> Cell:
    """Returns a cell with a short and a long job on one disk: the short one ends first."""
    short = {"rw": "randread", "bs": "4k", "iodepth": 16, "size": "16m"}
    long = {"rw": "randread", "bs": "4k", "iodepth": 1, "size": "8g"}
    raw = {
        "devices": {"disk": {"model": "nvme-datacenter"}},
        "stacks": {"alone": {"device": "disk"}},
        "workloads": {"both": {"jobs": {"short": short, "long": long}}},
        "settings": {"kernel": "6.1", "max_ios": 6_000},
    }
    return plan(ExperimentSource(Path("jobs.toml"), raw)).cells[0]


def test_the_time_with_a_short_job_is_no_warm_up() -> None:
    cell = make_two_jobs()
    alone = sim.outcome(cell.document)
    document, outcome = simulate_steadily(cell, dict(cell.document), sim.outcome)
    assert document == cell.document
    assert [group.read.total_ios for group in outcome.groups] == [group.read.total_ios for group in alone.groups]
    assert all(group.read.total_ios > 1_000 for group in outcome.groups)


def test_a_run_does_not_become_so_long_that_jobs_end() -> None:
    raw = {**EXPERIMENT, "workloads": {"streams": {**EXPERIMENT["workloads"]["streams"], "size": "80m"}}}
    raw["settings"] = {**EXPERIMENT["settings"], "kernel": "4.19", "max_ios": 20_000}
    cell = plan(ExperimentSource(Path("short.toml"), raw)).cells[0]
    document, outcome = simulate_steadily(cell, dict(cell.document), sim.outcome)
    assert outcome.read.clat_ns.count == document["max_ios"]
