"""The simulator as a runner: order, numbers of threads, failures, being stopped."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab import _core
from blklab.errors import BlklabError, UsageError
from blklab.experiment.cells import Cell, plan
from blklab.outcome import Outcome
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import SEEDS, other_run
from blklab.store.series import FinishedRun
from tests.runners.collecting import Collected, collected
from tests.runners.conftest import Simulate

EXPERIMENT = """
[devices]
a = { model = "pm983", size = "1GiB" }
b = { model = "sm883", size = "1GiB" }

[stacks]
one = { device = "a" }
both = { level = 1, members = ["a", "b"] }

[workloads.mixed]
rw = "randrw"
iodepth = 8

[settings]
max_ios = 2_000

[matrix]
bs = ["4k", "16k", "64k"]
"""


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT)
    return list(plan(path).cells)


def endless(cell: Cell) -> dict[str, Any]:
    jobs = [{**job, "io_bytes": 2**62} for job in cell.document["jobs"]]
    return {**cell.document, "jobs": jobs, "max_ios": 2**62, "runtime_ns": 2**62}


def test_results_are_the_same_for_any_number_of_threads(cells: list[Cell]) -> None:
    item, three = (collected(sim.SimRunner(jobs), cells).ended for jobs in (1, 3))
    assert sorted(item) == sorted(three) == [cell.number for cell in cells]
    assert [item[number].outcome for number in item] == [three[number].outcome for number in item]
    assert [item[number].points for number in item] == [three[number].points for number in item]


def test_kernels_without_a_difference_are_simulated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "exp.toml"
    kernels = ["6.1", "6.2", "6.5", "6.3.1"]  # 6.5 has other plugs; the others are equal for a simulation
    path.write_text(EXPERIMENT.replace('bs = ["4k", "16k", "64k"]', f"kernel = {kernels}"))
    cells = plan(path).cells
    alone = []
    for cell in cells:
        runs = [sim.outcome(other_run(cell, number).document) for number in range(SEEDS)]
        alone.append(runs[sim.find_typical_run(runs)])
    simulated, outcome = [], sim.outcome

    def counted(document: Mapping[str, Any], *_more: object) -> Outcome:
        simulated.append(document)
        return outcome(document)

    monkeypatch.setattr(sim, "outcome", counted)
    ended = collected(sim.SimRunner(1), cells).ended
    assert len(simulated) == 4 * SEEDS  # Of two stacks
    for cell, expected in zip(cells, alone, strict=True):
        assert ended[cell.number].outcome.read == expected.read


def test_figures_fit_together(simulate: Simulate) -> None:
    for outcome in simulate(EXPERIMENT).values():
        seconds = outcome.runtime_ns / 1e9
        for direction in ("read", "write"):
            figures = outcome.direction(direction)
            assert figures.iops == pytest.approx(figures.total_ios / seconds)
            assert figures.bw_bytes == pytest.approx(figures.io_bytes / seconds)
            assert figures.clat_ns.count == figures.total_ios
        total = sum(outcome.direction(direction).total_ios for direction in ("read", "write"))
        assert total == 2000
        assert sum(sum(point["ios"]) for point in outcome.series) == total
        assert sum(group.read.total_ios for group in outcome.groups) == outcome.read.total_ios


def test_a_cell_that_fails_does_not_end_the_others(cells: list[Cell]) -> None:
    broken: Mapping[str, Any] = {**cells[1].document, "kernel": "x"}
    ledger = Collected()
    sim.SimRunner(2).run([replace(cells[0], document=broken), cells[1]], ledger)
    assert ledger.failed == {1: 'kernel: "x" is not a kernel version: expected 2.6 or later, such as "4.19"'}
    assert list(ledger.ended) == [2]


def test_a_simulation_is_stopped(cells: list[Cell]) -> None:
    document = endless(cells[0])
    stop = _core.Stop()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(BlklabError, match=r"^the simulation was stopped$"):
        sim.outcome(document, stop)


def test_leaving_early_stops_what_runs(cells: list[Cell]) -> None:
    class Interrupting(Collected):
        def end(self, cell: Cell, finished: FinishedRun) -> None:
            super().end(cell, finished)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sim.SimRunner(2).run([cells[0], replace(cells[1], document=endless(cells[1]))], Interrupting())


def test_other_documents_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^cell: missing field"):
        sim.outcome({})


RAMP = """
[devices.disk]
model = "pm983"
[stacks.one]
device = "disk"
[workloads.mixed]
rw = "randrw"
bs = "8k"
iodepth = 16
rate = "ramp"
p99_below = "{limit}"
[settings]
runtime = "200ms"
"""


@pytest.mark.parametrize(("limit", "reached"), [("100us", False), ("700us", True), ("1s", True)])
def test_load_ramp_finds_the_highest_rate_below_a_limit(simulate: Simulate, limit: str, reached: bool) -> None:
    (outcome,) = simulate(RAMP.format(limit=limit)).values()
    ramp = outcome.load_ramp
    assert ramp is not None and ramp.p99_limit_ns is not None
    *steps, full = ramp.steps
    assert full.offered_iops is None
    assert full.iops == outcome.read.iops + outcome.write.iops
    for step in steps:
        assert step.iops == pytest.approx(step.offered_iops, rel=0.02)
    below = [
        step.iops
        for step in ramp.steps
        if max(latency["p99"] for latency in step.latency_ns.values()) <= ramp.p99_limit_ns
    ]
    assert (ramp.best_iops is not None) == reached == bool(below)
    if limit == "1s":
        assert ramp.best_iops == full.iops
        assert len(steps) == 9
    elif reached:
        assert ramp.best_iops in below


def test_rate_below_the_maximum_does_not_add_latency(simulate: Simulate) -> None:
    """fio reaps everything before it sleeps, so that a slow rate has the latency of the disk."""
    (outcome,) = simulate(RAMP.format(limit="1s")).values()
    assert outcome.load_ramp is not None
    first = outcome.load_ramp.steps[0].latency_ns["read"]
    last = outcome.load_ramp.steps[-1].latency_ns["read"]
    assert first["p50"] < last["p50"]


def test_fsync_latency_is_simulated(simulate: Simulate) -> None:
    text = EXPERIMENT.replace('rw = "randrw"', 'rw = "randwrite"\nfsync = 4').replace("iodepth = 8", "iodepth = 1")
    # These flush a volatile cache.
    text = text.replace("pm983", "wd10eacs").replace("sm883", "st5000lm000")
    for outcome in simulate(text).values():
        sync = outcome.sync
        assert sync is not None
        assert sync.total_ios == pytest.approx(outcome.write.total_ios / 4, abs=1)
        assert sync.lat_ns.count == sync.total_ios
        assert 0 < (sync.lat_ns.p50 or 0) <= (sync.lat_ns.p99 or 0) <= (sync.lat_ns.max or 0)
        assert sync.iops == pytest.approx(sync.total_ios / outcome.runtime_ns * 1e9)


def test_a_virtual_disk_holds_one_request_in_which_nothing_is_merged(simulate: Simulate) -> None:
    """32 reads are in 8 requests in the disk, one that is held, one that grows, and one that is being submitted."""
    (outcome,) = simulate("""
[devices.disk]
kind = "throttled"
iops_total = 300
size = "1GiB"
queue_depth = 8
nr_requests = 64
scheduler = "mq-deadline"
[stacks.alone]
device = "disk"
[workloads.stream]
rw = "read"
iodepth = 32
[settings]
kernel = "6.1"
max_ios = 20_000
""").values()
    (disk,) = outcome.devices
    reads_in_a_request = 1 + disk.merges[0] / disk.ios[0]
    assert 32 / 11 <= reads_in_a_request <= 32 / 9.5
