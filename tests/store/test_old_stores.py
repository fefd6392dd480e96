"""Stores that earlier versions wrote are read: tests/data/store/REVISION.sql is a dump of each.

`0002.sql` was written by blklab 0.1.0: one cell on the three runners.
"""

import json
import sqlite3
from pathlib import Path

import pytest

from blklab.outcome import ChangedSetting
from blklab.store import query
from blklab.store.campaigns import Store
from tests.conftest import Run

DUMPS = sorted((Path(__file__).parents[1] / "data/store").glob("*.sql"))


@pytest.fixture(params=DUMPS, ids=lambda path: path.stem)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript(request.param.read_text())
    connection.close()
    return path


def test_results_of_every_runner_are_read(store: Path) -> None:
    kept = Store(str(store), reading=True)
    runs = [run for row in query.all_campaigns(kept) for run in query.runs_of(kept, row.number)]
    assert [run.runner for run in runs] == ["sim", "host", "lab"]
    figures = [run.figures.read.total_ios for run in runs]
    assert figures == [401, 38805, 442]


def test_they_are_compared_and_reported(store: Path, run: Run, tmp_path: Path) -> None:
    compared = run("compare", "exp@lab", "exp@sim", "--store", store, "--json")
    (first, *_) = json.loads(compared.out)["rows"]
    assert [round(side["mean"]) for side in first["values"]] == [412, 409]
    page = tmp_path / "page.html"
    assert run("report", "exp@sim", "exp@lab", "--store", store, "-o", page).status == 0
    assert "simulated and measured in the lab" in page.read_text()


def test_a_changed_setting_has_its_original_value(store: Path) -> None:
    """0.1.0 called the original value `found`."""
    settings = [{"where": "sda", "key": "scheduler", "found": "mq-deadline", "set": "none"}]
    with sqlite3.connect(store) as connection:
        connection.execute(
            "update runs set outcome = json_set(outcome, '$.settings', json(?))", (json.dumps(settings),)
        )
    kept = Store(str(store), reading=True)
    (run, *_) = query.runs_of(kept, query.all_campaigns(kept)[0].number)
    assert run.figures.settings == [ChangedSetting("sda", "scheduler", original="mq-deadline", set="none")]


def test_lists_show_what_older_versions_measured(store: Path) -> None:
    """Version 0006 added the figures that lists read."""
    kept = Store(str(store), reading=True)
    runs = [run for row in query.all_campaigns(kept) for run in query.runs_of(kept, row.number)]
    ranges = query.campaign_ranges(kept, [run.campaign for run in runs])
    assert [ranges[run.campaign].most_iops for run in runs] == [
        run.figures.read.iops + run.figures.write.iops for run in runs
    ]
