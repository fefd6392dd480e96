"""`accuracy/run disks`: what the models of the library say of disks that strangers measured."""

import json
import statistics
from pathlib import Path

import pytest

from accuracy import disks, sata
from blklab.devices import stock_models
from tests.conftest import Run

REFERENCE = Path(__file__).parents[2] / "reference"


def test_flushes_of_strangers_are_in_the_interval() -> None:
    rows = disks.predicted([row for row in disks.flushes(REFERENCE) if row.group == "flushes"])
    assert len(rows) == 39
    assert sum(row.inside for row in rows) >= 32
    # The library's flush of a 990 PRO comes from another table than these two figures.
    named = {row.load.split()[-1]: row for row in rows if row.model == "990-pro"}
    assert named["fdatasync=1"].predicted == pytest.approx(609, rel=0.5)
    assert named["sync=1"].predicted == pytest.approx(250, rel=0.5)


def test_random_writes_of_named_disks_are_in_the_interval() -> None:
    groups = ("data sheet and class", "family", "class")
    measured = [row for row in (*disks.iocost(REFERENCE), *disks.others(REFERENCE)) if row.group in groups]
    rows = disks.predicted([row for row in measured if row.workload["rw"] != "read"])
    assert {row.disk for row in rows} >= {"Samsung SSD 980 PRO 1TB", "Samsung SSD 970 EVO Plus 500GB"}
    assert all(row.inside for row in rows), [row for row in rows if not row.inside]


def test_disks_are_in_the_interval_of_a_class_without_their_family() -> None:
    rows = disks.predicted([row for row in disks.iocost(REFERENCE) if row.group == disks.CLASS_GROUP])
    assert len(rows) == 78
    assert sum(row.inside for row in rows) >= 0.85 * len(rows)


def test_sata_disks_are_in_the_interval_of_other_disks_and_of_other_hosts() -> None:
    measured = [row for row in disks.plots(REFERENCE) if row.workload["numjobs"] == 1]
    for group, most in ((disks.CLASS_GROUP, 1.25), (disks.HOST_GROUP, 1.25)):
        rows = disks.predicted([row for row in measured if row.group == group])
        assert len({row.disk for row in rows}) >= 12
        assert sum(row.inside for row in rows) >= 0.85 * len(rows)
        assert statistics.median(max(row.factor, 1 / row.factor) for row in rows) <= most


def test_the_classes_are_the_means_of_their_disks() -> None:
    assert disks.class_model(list(disks.members(REFERENCE).values())) == stock_models.stock(disks.CLASS)
    on_sata = sata.read_sets(REFERENCE)
    for name, of_class in sata.CLASSES.items():
        assert sata.of_class(name, on_sata) == stock_models.stock(name)
        for disk in of_class:
            made = sata.of_disk(disk, on_sata)
            assert made == {**stock_models.stock(disk), "source": made["source"]}, disk


def test_disks_on_a_p420i_wait_for_its_interrupts() -> None:
    measured = [
        row
        for row in disks.plots(REFERENCE)
        if row.device.get("controller") and row.workload["numjobs"] == 1 and row.workload["iodepth"] in {4, 8}
        if row.group == disks.CLASS_GROUP and "MX200" not in row.disk
    ]
    rows = disks.predicted(measured)
    assert len({row.disk for row in rows}) == 7
    assert all(0.75 < row.factor < 1.35 for row in rows), rows


def test_mistakes_are_one_line_and_status_2(judge: Run, tmp_path: Path) -> None:
    nothing = judge("disks", "--reference", tmp_path)
    assert nothing.status == 2 and "no tables; expected iocost.csv" in nothing.err
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/iocost.csv").write_text("model,size\nx,1\n")
    done = judge("disks", "--reference", tmp_path)
    assert done.status == 2 and "iocost.csv: no column 'rbps'" in done.err


def test_the_command_prints_each_group(judge: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("iocost", "plots", "others"):
        monkeypatch.setattr(disks, name, lambda _directory: [])
    page = tmp_path / "disks.md"
    done = judge("disks", "--reference", REFERENCE, "-o", page, "--json")
    assert done.status == 0, done.err
    assert {row["group"] for row in json.loads(done.out)} == {"flushes", "flushes that were used"}
    assert "| nvme | flushes | 25 |" in page.read_text()
