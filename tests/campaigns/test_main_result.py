"""What a campaign found, in a phrase."""

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from blklab.campaigns.main_result import MainResults, describe_result
from blklab.outcome import CommandRepeat, CommandResult, Outcome
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRange, CampaignRow
from blklab.store.series import SeriesPoint
from tests.campaigns import made

STATES = {"planned": 0, "running": 0, "done": 3, "failed": 0}
ROW = CampaignRow(1, "one", "", "host", "one.toml", "0.2.0", "2026-11-29T15:31:00+00:00", STATES, {})


def test_repeats_are_one_cell(tmp_path: Path) -> None:
    labels = [{"stack": stack, "repeat": repeat} for stack, repeat in (("a", "1"), ("a", "2"), ("b", "1"))]
    iops = {("a", "1"): 1000.0, ("a", "2"): 3000.0, ("b", "1"): 50.0}
    store = Store(str(tmp_path / "store.db"))
    made.add(store, labels, lambda cell: (made.measured(cell, iops[cell["stack"], cell["repeat"]]), []))
    assert MainResults(store).read(query.all_campaigns(store)) == {1: "2 cells, 50 to 2,000 IOPS"}


def test_one_cell_has_no_range() -> None:
    assert describe_result(ROW, CampaignRange(1, 1, 1, 2000.0, 2000.0)) == "2,000 IOPS"


def test_failed_and_interrupted_runs_are_counted() -> None:
    row = replace(ROW, states={**STATES, "failed": 1, "interrupted": 1})
    figures = CampaignRange(1, 1, 1, 10.0, 10.0)
    assert describe_result(row, figures) == "10 IOPS; 1 of 5 runs failed; 1 of 5 runs interrupted"


def test_commands_have_times_and_others_have_none_yet() -> None:
    assert describe_result(ROW, CampaignRange(2, commands=2, least_ns=2e9, most_ns=4e9)) == "2 cells, 2 s to 4 s"
    assert describe_result(replace(ROW, states={**STATES, "running": 1}), CampaignRange()) == "no result yet"
    assert describe_result(ROW, CampaignRange()) == "no result"


def test_times_of_commands_are_read_from_the_store(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store.db"))

    def run_command(labels: Mapping[str, str]) -> tuple[dict[str, object], list[SeriesPoint]]:
        repeats = [CommandRepeat(int(labels["bs"]) * 10**9, 0, 0, 0)]
        return Outcome(command=CommandResult(["sync"], repeats)).as_document(), []

    made.add(store, [{"bs": "2"}, {"bs": "4"}], run_command)
    assert query.campaign_ranges(store, [1]) == {1: CampaignRange(2, commands=2, least_ns=2e9, most_ns=4e9)}


def test_the_store_reads_the_rates_once_for_each_state(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(str(path))
    labels = [{"stack": stack, "repeat": repeat} for stack in ("near", "far") for repeat in ("1", "2")]
    made.add(store, labels, lambda cell: (made.measured(cell, 1e5 if cell["stack"] == "near" else 2e5), []))
    results = MainResults(store)
    rows = query.all_campaigns(store)
    assert results.read(rows) == {1: "2 cells, 100,000 to 200,000 IOPS"}
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM figures")
    assert results.read(rows) == {1: "2 cells, 100,000 to 200,000 IOPS"}
    other_state = [replace(rows[0], states={**rows[0].states, "failed": 1})]
    assert results.read(other_state) == {1: "no result; 1 of 5 runs failed"}
