"""`accuracy/run disks`: what the models of the library say of disks that strangers measured."""

import json
import statistics
from pathlib import Path

import pytest

from accuracy import disk_rows, disks
from accuracy.disk_rows import CLASS, NAMED
from tests.conftest import Run

REFERENCE = Path(__file__).parents[2] / "reference"


def test_durable_writes_of_other_sources_are_in_the_interval() -> None:
    rows = disks.predicted([*disk_rows.flushes(REFERENCE), *disk_rows.sync_writes(REFERENCE)])
    single = [row for row in rows if row.load == "durable writes"]
    assert len(single) >= 80
    assert disks.coverage(single) >= 0.88


@pytest.mark.parametrize(("group", "least"), [(NAMED, 0.86), (CLASS, 0.86)])
def test_flash_disks_of_other_sources_are_in_the_interval(group: str, least: float) -> None:
    measured = [*disk_rows.iocost(REFERENCE), *disk_rows.others(REFERENCE), *disk_rows.reviews(REFERENCE)]
    rows = disks.predicted([row for row in measured if row.group == group and "minute" not in row.load])
    assert disks.coverage(rows) >= least
    reads = [row for row in rows if row.load == "random reads" and row.group == NAMED]
    assert not reads or statistics.median(row.ratio for row in reads) <= 5


def test_sata_disks_are_in_the_interval_of_other_hosts() -> None:
    measured = [row for row in disk_rows.plots(REFERENCE) if row.workload["numjobs"] == 1 and row.group == NAMED]
    rows = disks.predicted(measured)
    assert len({row.disk for row in rows}) >= 12
    assert disks.coverage(rows) >= 0.85
    assert statistics.median(max(row.factor, 1 / row.factor) for row in rows) <= 1.3


def test_a_source_is_predicted_without_its_rows() -> None:
    (row,) = (row for row in disk_rows.others(REFERENCE) if "EX920" in row.disk and row.workload["rw"] == "randread")
    known = disk_rows.know_disk(REFERENCE, row.disk)
    assert known.device(row.source)["sustained_read_command_ns"] > known.device("")["sustained_read_command_ns"]


def test_disks_on_a_p420i_wait_for_its_interrupts() -> None:
    measured = [
        row
        for row in disk_rows.plots(REFERENCE)
        if row.device.get("controller") and row.workload["numjobs"] == 1 and row.workload["iodepth"] in {4, 8}
        if row.group == NAMED and "MX200" not in row.disk
    ]
    rows = disks.predicted(measured)
    assert len({row.disk for row in rows}) == 7
    assert all(0.7 < row.factor < 1.4 for row in rows), rows


def test_mistakes_are_one_line_and_status_2(judge: Run, tmp_path: Path) -> None:
    nothing = judge("disks", "--reference", tmp_path)
    assert nothing.status == 2 and nothing.err.count("\n") == 1
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/iocost.csv").write_text("model,size\nx,1\n")
    done = judge("disks", "--reference", tmp_path)
    assert done.status == 2 and "iocost.csv: no column 'rbps'" in done.err


def test_the_command_prints_each_group(judge: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("iocost", "plots", "others", "reviews", "sync_writes"):
        monkeypatch.setattr(disk_rows, name, lambda _directory: [])
    page = tmp_path / "disks.md"
    done = judge("disks", "--reference", REFERENCE, "-o", page, "--json")
    assert {row["load"] for row in json.loads(done.out)} == {"durable writes"}
    assert "| only its class is known | hdd | durable writes | 3 |" in page.read_text()
