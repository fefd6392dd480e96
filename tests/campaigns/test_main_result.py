"""What a campaign found, in a phrase."""

import sqlite3
from dataclasses import replace
from pathlib import Path

from blklab.campaigns.main_result import MainResults, describe_result
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, RunRate
from tests.campaigns import made

STATES = {"planned": 0, "running": 0, "done": 3, "failed": 0}
ROW = CampaignRow(1, "one", "", "host", "one.toml", "0.2.0", "2026-11-29T15:31:00+00:00", STATES, {})


def rate(iops: float, *, wall_ns: float | None = None, **labels: str) -> RunRate:
    return RunRate(1, labels, iops, wall_ns)


def test_repeats_are_one_cell() -> None:
    rates = [rate(1000, stack="a", repeat="1"), rate(3000, stack="a", repeat="2"), rate(50, stack="b", repeat="1")]
    assert describe_result(ROW, rates) == "2 cells, 50 to 2,000 IOPS"
    assert describe_result(ROW, rates[:2]) == "2,000 IOPS"


def test_failed_and_interrupted_runs_are_counted() -> None:
    row = replace(ROW, states={**STATES, "failed": 1, "interrupted": 1})
    assert describe_result(row, [rate(10)]) == "10 IOPS; 1 of 5 runs failed; 1 of 5 runs interrupted"


def test_commands_have_times_and_others_have_none_yet() -> None:
    assert describe_result(ROW, [rate(0, wall_ns=2e9, bs="4k"), rate(0, wall_ns=4e9, bs="8k")]) == "2 cells, 2 s to 4 s"
    assert describe_result(replace(ROW, states={**STATES, "running": 1}), []) == "no result yet"
    assert describe_result(ROW, []) == "no result"


def test_the_store_reads_the_rates_once_for_each_state(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(str(path))
    labels = [{"stack": stack, "repeat": repeat} for stack in ("near", "far") for repeat in ("1", "2")]
    made.add(store, labels, lambda cell: (made.measured(cell, 1e5 if cell["stack"] == "near" else 2e5), []))
    results = MainResults(store)
    rows = query.all_campaigns(store)
    assert results.read(rows) == {1: "2 cells, 100,000 to 200,000 IOPS"}
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET outcome = NULL")
    assert results.read(rows) == {1: "2 cells, 100,000 to 200,000 IOPS"}
    other_state = [replace(rows[0], states={**rows[0].states, "failed": 1})]
    assert results.read(other_state) == {1: "no result; 1 of 5 runs failed"}
