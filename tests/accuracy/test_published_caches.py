"""Published runs of caches: small ones made here, of the same classes as those in reference/cache_runs.csv."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from accuracy import published_caches
from accuracy.cache_tables import CacheTables, read_published
from accuracy.published_caches import CacheFigures, CacheRow
from blklab.errors import UsageError

REFERENCE = Path(__file__).parents[2] / "reference"
MIB = 1 << 20


def table(tmp_path: Path, *rows: dict[str, str]) -> CacheTables:
    """Writes a table of caches of 256 MiB, full of other data, with as much data as cache."""
    with (REFERENCE / "cache_runs.csv").open() as file:
        columns = next(csv.reader(file))
    usual = {"policy": "dm-cache-smq", "data_bytes": str(256 * MIB), "cache_bytes": str(256 * MIB), "jobs": "2"}
    usual |= {"cache_state": "full", "iodepth": "8", "runtime_s": "180", "job1_iops": "5", "job2_iops": "5"}
    usual |= {"ios_issued": "1000", "fast_device_reads": "900", "slow_device_reads": "150", "kernel": "4.12"}
    alone = [
        {"run": "ssd", "policy": "none-ssd", "job1_iops": "25000", "job2_iops": "25000"},
        {"run": "hdd", "policy": "none-hdd", "job1_iops": "300", "job2_iops": "300"},
    ]
    with (tmp_path / "cache_runs.csv").open("w") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows({**usual, **row} for row in (*alone, *rows))
    shutil.copy(REFERENCE / "targets.toml", tmp_path)
    _, tables, _ = read_published(tmp_path)
    return tables


def test_kernels_are_stuck_bouncing_and_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_caches, "MOST_IOS", 300_000)
    kernels = ["4.11.6-1", "4.12.0-rc1+2ea659a9ef48", "4.12.0-rc1+331da109ec20", "4.12.0+"]
    tables = table(tmp_path, *({"run": kernel, "kernel": kernel} for kernel in kernels))
    rows = [row for row in published_caches.validate(tables) if row.predicted.promotions is not None]
    assert [row.predicted.cache_class for row in rows] == ["stuck", "bouncing", "fixed", "fixed"]
    stuck, bouncing, fixed, same = (row.predicted for row in rows)
    assert (stuck.hit_rate or 1) < (bouncing.hit_rate or 1) < (fixed.hit_rate or 1)
    assert max(stuck.iops, bouncing.iops) < fixed.iops
    assert fixed == same  # one simulation
    assert fixed.promotions == pytest.approx(4096, rel=0.05)
    # What the rest of the run would do follows from the rates at the end of what was simulated.
    assert rows[3].simulated_s < 140
    assert rows[3].interval[0] < 1 < rows[3].interval[1]
    monkeypatch.setattr(published_caches, "MOST_IOS", 1 << 40)
    whole = published_caches.validate(table(tmp_path, {"run": "whole", "kernel": "4.12.0+"}))[-1]
    assert whole.simulated_s == pytest.approx(180, rel=0.01)
    assert fixed.iops == pytest.approx(whole.predicted.iops, rel=0.05)
    assert fixed.hit_rate == pytest.approx(whole.predicted.hit_rate, abs=0.005)
    assert fixed.promotions == pytest.approx(whole.predicted.promotions, rel=0.05)


def test_published_promotions_are_reads_of_the_disk_that_were_no_misses(tmp_path: Path) -> None:
    counted = {"run": "counted", "promotions": "40"}
    runs = table(tmp_path, {"run": "derived"}, counted, {"run": "empty", "cache_state": "empty"}).runs[2:]
    assert [run.promotions for run in runs] == [50, 40, None]
    assert [run.hit_rate for run in runs] == pytest.approx([0.9, 0.89, 0.85])


@pytest.mark.parametrize(
    ("hit_rate", "promotions", "holds"),
    [(0.98, 4300, True), (0.96, 4300, False), (0.98, 4600, False), (0.98, 6000, False), (0.98, 1, False)],
)
def test_both_bounds_and_the_class_count(hit_rate: float, promotions: float, holds: bool, tmp_path: Path) -> None:
    run = table(tmp_path, {"run": "cache"}).runs[-1]
    published, predicted = (
        CacheFigures(10, rate, count, 4096, 1e6) for rate, count in ((0.98, 4096), (hit_rate, promotions))
    )
    assert CacheRow(run, published, predicted, (0.9, 1.1), 1.0).holds == holds


@pytest.mark.parametrize(
    ("iops", "promotions", "holds"),
    [((10, 10, 10, 12), 4096, True), ((10, 10, 12, 12), 4096, False), ((10,), 1, False)],
)
def test_most_iops_are_inside_and_all_classes_are_the_same(
    iops: tuple[float, ...], promotions: float, holds: bool, tmp_path: Path
) -> None:
    run = table(tmp_path, {"run": "cache"}).runs[-1]
    published, predicted = (CacheFigures(10, 0.98, count, 4096, 1e6) for count in (4096, promotions))
    rows = [CacheRow(run, published, replace(predicted, iops=each), (0.9, 1.1), 1.0) for each in (10, *iops)]
    assert published_caches.hold(rows) == holds


def test_every_published_run_becomes_a_cell() -> None:
    _, tables, _ = read_published(REFERENCE)
    documents = [
        published_caches._cell(tables, *beginning).document
        for run in tables.runs
        if run.policy in published_caches.KINDS
        for beginning in published_caches._beginnings(tables, run)
    ]
    assert len(documents) == 79  # 55 rows, of which 24 have two beginnings
    # Kernels with the same rules are one simulation.
    assert len({str(document) for document in documents}) == 46


@pytest.mark.parametrize(
    ("row", "message"),
    [({"jobs": "0"}, "jobs, iodepth, runtime_s or ios_issued is 0"), ({"ios_issued": "x"}, "expected a number")],
)
def test_broken_tables_are_refused(tmp_path: Path, row: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        table(tmp_path, {"run": "cache", **row})


def test_caches_need_rows_of_each_device(tmp_path: Path) -> None:
    tables = table(tmp_path, {"run": "cache"})
    alone = [run for run in tables.runs if run.policy != "none-ssd"]
    with pytest.raises(UsageError, match="no row of policy 'none-ssd'"):
        published_caches.validate(CacheTables(tmp_path, alone))
