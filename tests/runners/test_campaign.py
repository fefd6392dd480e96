"""A campaign that is not alone with its store."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.cli.run import until_sure
from blklab.errors import UsageError
from blklab.experiment import cells, host_cell
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.overrides import Override
from blklab.runners.base import Ledger, Runner
from blklab.runners.campaign import carry_out
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.series import FinishedRun
from tests.conftest import Run
from tests.store.conftest import OUTCOME, make_plan


class Fake(Runner):
    """Measures cells in turn; `meanwhile` is called after the first."""

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def check(self, plan: ExperimentPlan) -> None:
        pass

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        for number, cell in enumerate(cells):
            if ledger.begin(cell):
                ledger.end(cell, FinishedRun(OUTCOME, 1))
            if number == 0:
                self.meanwhile()


def planned(store: Store) -> list[int]:
    (campaign,) = query.all_campaigns(store)
    return [run.id for run in query.runs_of(store, campaign.number) if run.state == "planned"]


@pytest.mark.parametrize(("count", "output"), [(1, "1 cell was"), (2, "2 cells were")])
def test_what_was_removed_meanwhile_is_not_done(count: int, output: str) -> None:
    store = Store()
    runner = Fake(lambda: store.remove(planned(store)[:count], whole_campaigns=False))
    outcome = carry_out(runner, make_plan(), store)
    assert len(outcome.results) == 4 - count
    (line,) = outcome.errors
    assert line.startswith(f"{output} taken by another process or removed, the first is cell 2")


def test_what_another_process_has_done_is_done() -> None:
    store = Store()

    def meanwhile() -> None:
        for run in planned(store):
            store.claim(run, {})
            store.finish(run, FinishedRun(OUTCOME, 1))

    outcome = carry_out(Fake(meanwhile), make_plan(), store)
    assert [result.number for result in outcome.results] == [1, 2, 3, 4]
    assert outcome.errors == []


def test_the_command_says_so_with_status_1(run: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        """devices.disk = { model = "sm883", size = "1GiB" }
        stacks.one = { device = "disk" }
        workloads.randread = { rw = "randread", iodepth = 2 }
        settings.max_ios = 500"""
    )
    monkeypatch.setattr(Store, "claim", lambda *_: False)
    outcome = run("run", path, "--json")
    assert outcome.status == 1
    assert "1 cell was taken by another process or removed" in outcome.err
    assert outcome.err.count("\n") == 1


def test_interrupt_within_a_transaction_does_not_block_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.store.database.PATIENCE_MS", 500)
    store = Store()

    class Interrupted(Fake):
        def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
            ledger.begin(cells[0])
            # As SQLAlchemy does when a signal comes before the transaction has its context.
            connection = store.database.engine.connect()
            connection.exec_driver_sql("select 1")  # begins, and locks the file
            raise KeyboardInterrupt(str(connection))

    with pytest.raises(KeyboardInterrupt):
        carry_out(Interrupted(lambda: None), make_plan(), store)
    assert len(planned(store)) == 4


def test_interrupt_just_after_a_claim_plans_the_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, claim = Store(), Store.claim

    def interrupted(*arguments: Any) -> bool:
        assert claim(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        carry_out(Fake(lambda: None), make_plan(), store)
    assert len(planned(store)) == 4


class Measuring(Runner):
    """Measures cells: `fast` has 10 % more IOPS than others, and runs vary by a share."""

    def __init__(self, share: float, stop_at: int = 0) -> None:
        """`stop_at` is the number of the cell at which the user presses Ctrl-C, once."""
        self.share = share
        self.stop_at = stop_at

    def check(self, plan: ExperimentPlan) -> None:
        pass

    def environment(self) -> dict[str, str]:
        return {"host": "srv1"}

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        for cell in cells:
            assert ledger.begin(cell)
            if cell.number == self.stop_at:
                self.stop_at = 0
                raise KeyboardInterrupt
            chance = random.Random(str(sorted(cell.labels.items()))).gauss(0, self.share)
            iops = 1000 * (1.1 if "fast" in cell.labels.values() else 1) * (1 + chance)
            ledger.end(cell, FinishedRun(replace(OUTCOME, read=replace(OUTCOME.read, iops=iops, total_ios=100)), 1))


TWO = """repeats = 2
targets = { slow = { directory = "/srv" }, fast = { directory = "/srv" } }
workloads.randread = { rw = "randread", size = "8MiB" }
settings.runtime = "1s"
"""


def of_host(path: Path, *changes: Override) -> ExperimentPlan:
    return cells.plan(path, changes=changes, form=host_cell.FORM)


@pytest.mark.parametrize(("share", "repeats"), [(0.001, [2]), (0.03, [2, 4, 7, 12]), (0.5, [2, 4, 7, 12, 20, 32])])
def test_repeats_are_measured_until_the_comparison_is_decided(
    tmp_path: Path, share: float, repeats: Sequence[int]
) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    store, runner = Store(), Measuring(share)
    outcome = carry_out(runner, of_host(path), store)

    def planned(more: Sequence[Override] = ()) -> ExperimentPlan:
        return of_host(path, *more)

    plan, sure = until_sure(runner, planned, store, outcome, 0.05)
    (row,) = query.all_campaigns(store)
    assert [*row.former_repeats, row.repeats] == repeats[: len(row.former_repeats) + 1]
    assert len(row.former_repeats) == len(repeats) - 1 or share == 0.03
    assert row.states["done"] == 2 * row.repeats == len(sure.results)
    assert sorted(cell.number for cell in plan.cells) == list(range(1, len(plan.cells) + 1))
    selection = query.select_runs(store, "two")
    assert query.earlier_looks(store, [selection]) == len(row.former_repeats)


def test_an_interrupt_between_two_looks_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    store, runner = Store(), Measuring(0.5, stop_at=12)

    def planned(more: Sequence[Override] = ()) -> ExperimentPlan:
        return of_host(path, *more)

    outcome = carry_out(runner, of_host(path), store)
    with pytest.raises(KeyboardInterrupt, match="repeat the command with --resume"):
        until_sure(runner, planned, store, outcome, 0.05)
    (row,) = query.all_campaigns(store)
    assert row.states["done"] == 12
    resumed = carry_out(runner, of_host(path), store, resume=True)
    _, sure = until_sure(runner, planned, store, resumed, 0.05)
    (row,) = query.all_campaigns(store)
    assert (row.states["done"], [*row.former_repeats, row.repeats]) == (64, [2, 4, 7, 12, 20, 32])
    assert len(sure.results) == 64


def test_an_earlier_campaign_with_fewer_repeats_is_an_earlier_look(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    store, runner = Store(), Measuring(0.03)
    looks = []
    for repeats in (2, 4, 4, 7):
        carry_out(runner, of_host(path, Override("repeats", repeats, "--set repeats")), store)
        looks.append(query.earlier_looks(store, [query.select_runs(store, "two")]))
    assert looks == [0, 1, 1, 2]
    assert len(query.earlier_campaigns(store, [query.select_runs(store, "two~1")])) == 2


def test_interleaved_experiments_take_turns(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("before.toml", "after.toml")]
    for path in paths:
        path.write_text(TWO)
    plan = cells.interleaved([of_host(path) for path in paths])
    assert (plan.name, len(plan.cells), plan.varied[0]) == ("before+after", 8, "experiment")
    order = sorted(plan.cells, key=lambda cell: cell.turn)
    for first, second in zip(order[::2], order[1::2], strict=True):
        assert first.labels["experiment"] != second.labels["experiment"]
        assert {**first.labels, "experiment": ""} == {**second.labels, "experiment": ""}
    for other, message in ((TWO.replace("/srv", "/mnt"), "target"), (f"{TWO}matrix.iodepth = [1, 2]", "same keys")):
        paths[1].write_text(other)
        with pytest.raises(UsageError, match=message):
            cells.interleaved([of_host(path) for path in paths])
    with pytest.raises(UsageError, match="expected experiments of unlike names"):
        cells.interleaved([of_host(paths[0])] * 2)
