"""Stores with campaigns, and reports on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.campaigns.page import ExperimentReport
from blklab.campaigns.view import ExperimentView
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.series import SeriesPoint
from tests.campaigns import made

STACKS = {"raid1": 1.0, "near": 1.2, "far": 0.7}
WORKLOADS = {"seqread": 1.0, "randread": 1.0, "rand75read": 0.75}
SWEEP = """
title = "How deep"
repeats = 2
[devices]
ssd = { model = "sm883", size = "1GiB", count = 2 }
[stacks]
one = { level = 1, members = ["ssd"] }
[workloads.randread]
rw = "randread"
numjobs = 2
[settings]
max_ios = 8_000
[matrix]
bs = ["4k", "16k", "64k"]
iodepth = [1, 4, 16, 64]
"""

Reported = Callable[..., ExperimentReport]


@pytest.fixture
def store() -> Store:
    return Store(None)


def labels() -> list[dict[str, str]]:
    return [
        {"stack": stack, "workload": workload, "repeat": str(repeat)}
        for stack in STACKS
        for workload in WORKLOADS
        for repeat in (1, 2, 3)
    ]


def host(result: made.Labels) -> tuple[dict[str, Any], list[SeriesPoint]]:
    """A run on a host; repeats differ by 1 %."""
    repeat, share = int(result["repeat"]), WORKLOADS[result["workload"]]
    iops = 1e5 * STACKS[result["stack"]] * (1 + 0.01 * repeat)
    outcome = made.measured(result, iops, share=share)
    return outcome, made.series(iops, reads=share, seed=repeat)


def simulated(result: made.Labels) -> tuple[dict[str, Any], list[SeriesPoint]]:
    """The same, predicted 8 % too high except one cell, which is twice as fast."""
    outcome, points = host(result)
    off = 2.0 if (result["stack"], result["workload"]) == ("far", "randread") else 1.08
    for direction in ("read", "write"):
        outcome[direction] = {**outcome[direction], "iops": outcome[direction]["iops"] * off}
        outcome[direction]["bw_bytes"] = outcome[direction]["iops"] * 4096
    interval = {"iops": [0.85, 1.2], "p99": [0.5, 2.0]}
    return {**outcome, "devices": [], "simulated_ios": 1000, "interval": interval}, points


@pytest.fixture
def both(store: Store) -> Store:
    """Campaign 1 was measured, campaign 2 predicted the same."""
    made.add(store, labels(), host)
    made.add(store, labels(), simulated, runner="sim", environment={"blklab": "0.1.0"}, raw="")
    return store


@pytest.fixture
def reported(store: Store) -> Reported:
    """Returns a function that reports on campaigns of the store."""

    def reported(*words: str, **rest: Any) -> ExperimentReport:
        chosen = [query.select_runs(store, item) for item in words]
        view = ExperimentView(chosen, lambda run: query.points(store, run))
        return ExperimentReport(view, lambda run: query.raw(store, run), **rest)

    return reported


@pytest.fixture
def sweep(tmp_path: Path, run: Any) -> Path:
    """A simulated sweep, campaign 1 of an empty store."""
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    assert run("run", path).status == 0
    return path
