"""A campaign that is not alone with its store."""

from collections.abc import Sequence
from typing import Any

import pytest

from blklab.runners.base import Ledger, Runner
from blklab.runners.campaign import carry_out
from blklab.spec.cells import Cell, ExperimentPlan
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
    runner = Fake(lambda: store.remove(planned(store)[:count], whole=False))
    outcome = carry_out(runner, make_plan(), store)
    assert len(outcome.results) == 4 - count
    (line,) = outcome.failed
    assert line.startswith(f"{output} taken by another process or removed, the first is cell 2")


def test_what_another_process_has_done_is_done() -> None:
    store = Store()

    def meanwhile() -> None:
        for run in planned(store):
            store.claim(run, {})
            store.finish(run, FinishedRun(OUTCOME, 1))

    outcome = carry_out(Fake(meanwhile), make_plan(), store)
    assert [result.number for result in outcome.results] == [1, 2, 3, 4]
    assert outcome.failed == []


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
