"""Warnings, forced checks and a drift of a set of runs."""

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from blklab.compare.run_conditions import condition_notes, drift_notes, find_drift
from blklab.store.query import StoredRun
from tests.compare.test_compare import run

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def campaign(drift: float, seed: int, *, repeats: int = 5, cells: int = 6) -> list[StoredRun]:
    """Returns runs with 3 % of noise; from the first to the last they change by `drift`."""
    noise = random.Random(seed)
    count = repeats * cells
    stored = []
    for at in range(count):
        repeat, cell = divmod(at, cells)
        log = noise.gauss(0, 0.03) + math.log1p(drift) * at / (count - 1)
        started = (BEGIN + timedelta(minutes=at)).isoformat()
        labels = {"stack": str(cell), "repeat": str(repeat + 1)}
        stored.append(replace(run(1000 * (cell + 1) * math.exp(log)), started=started, labels=labels))
    return stored


@pytest.mark.parametrize("drift", [-0.3, 0.5])
def test_drift_is_found_in_cells_of_different_speed(drift: float) -> None:
    runs = campaign(drift, 1)
    assert find_drift(runs, "iops") == pytest.approx(drift, abs=0.1)
    (note,) = drift_notes("disks@host", random.Random(1).sample(runs, len(runs)), ["iops"])
    verb = "rose" if drift > 0 else "fell"
    assert str(note).startswith(f"iops of disks@host {verb} by ")


def test_no_drift_is_rarely_reported() -> None:
    reported = sum(find_drift(campaign(0.0, seed), "iops") is not None for seed in range(300))
    assert reported <= 9  # 1 % of 300; more than 9 have a probability of 0.1 %


def test_drift_needs_repeats_and_measurements() -> None:
    assert find_drift(campaign(0.5, 1, repeats=1), "iops") is None
    simulated = [replace(each, runner="sim") for each in campaign(0.5, 1)]
    assert find_drift(simulated, "iops") is None
    assert find_drift(campaign(0.5, 1), "sync.p99") is None


def test_warnings_of_one_kind_are_quoted_once() -> None:
    def warned(*warnings: str) -> StoredRun:
        return replace(run(100), outcome=replace(run(100).figures, warnings=warnings))

    busy = [warned(f"CPUs: other programs use {share} % of the CPUs") for share in (31, 45)]
    notes = [str(note) for note in condition_notes("new", [*busy, warned("a", "b", "c"), run(1)])]
    assert notes == [
        "2 runs of new with this warning or like it: CPUs: other programs use 31 % of the CPUs",
        "1 run of new with this warning: a",
        "1 run of new with this warning: b",
        "new has more warnings: blklab runs show",
    ]


def test_imported_runs_drift_only_if_their_times_are_known() -> None:
    runs = [replace(run, cell={"source": "x.json"}) for run in campaign(3.0, 1)]
    assert find_drift(runs, "iops") is None, "the time of the import says nothing"
    timed = [replace(run, cell={"source": "x.json", "measured": run.started}) for run in runs]
    assert find_drift(timed, "iops") == pytest.approx(3.0, rel=0.1)


def test_a_drift_is_not_extended_beyond_the_repeated_cells() -> None:
    runs = campaign(1.0, 1)
    once = [
        replace(run, id=1000 + at, started=f"2999-01-01T00:{at // 60:02}:{at % 60:02}", labels={"cell": f"once{at}"})
        for at, run in enumerate(campaign(0.0, 2) * 10)
    ]
    assert find_drift([*runs, *once], "iops") == find_drift(runs, "iops")
