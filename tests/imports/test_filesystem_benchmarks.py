"""IOzone's and bonnie++'s tables, as articles have them."""

from pathlib import Path

import pytest

from blklab.errors import BlklabError
from tests.imports.conftest import DATA, imported, runs


def test_an_article_of_iozone() -> None:
    batch, notes = imported(DATA / "iozone-sd.md")
    assert notes == []
    by_labels = {(own["heading"].split()[0], own["workload"], own["bs"]): run for own, run in runs(batch)}
    assert len(by_labels) == 2 * 2 * 6
    # 6,748 and 920 KiB/s in records of 4 KiB: 1,687 and 230 IOPS
    assert by_labels["Sandisk", "random-read", "4k"].read.iops == pytest.approx(1687)
    assert by_labels["Sandisk", "random-write", "4k"].write.iops == pytest.approx(230)
    run = by_labels["Transcend", "write", "512k"]
    assert run.write.bw_bytes == pytest.approx(7337 * 1024)
    assert run.write.total_ios == 64  # 32 MiB
    assert run.read.total_ios == 0
    options = batch.plan.cells[0].document["jobs"][0]["options"]
    assert (options["direct"], options["rw"]) == ("1", "write")


def test_blank_columns_of_iozone_are_tests_that_were_left_out() -> None:
    batch, _ = imported(DATA / "iozone-3.492.txt")
    results = {own["workload"]: run for own, run in runs(batch)}
    assert results.keys() == {"write", "rewrite", "random-read", "random-write"}
    assert results["random-read"].read.iops == pytest.approx(290025 / 1024)
    assert batch.plan.cells[0].document["jobs"][0]["options"]["filename"] == "/mnt/sda1/iozone"


def test_other_units_of_iozone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ops.txt"
    text = (DATA / "iozone-3.492.txt").read_text()
    path.write_text(text.replace("in kBytes/sec", "in operations per second"))
    with pytest.raises(BlklabError, match=r"ops\.txt:9: found 'operations.*expected kBytes/sec"):
        imported(path)


def test_tables_of_bonnie() -> None:
    batch, notes = imported(DATA / "bonnie-1.97.txt")
    results = [(own["workload"], own["source"], run) for own, run in runs(batch)]
    assert [name for name, _, _ in results] == ["write", "rewrite", "read", "seeks"] * 2
    assert {source for _, source, _ in results} == {"line 6", "line 19"}
    assert len(notes) == 1
    assert "kept apart by the label source" in notes[0]
    write, rewrite, read, seeks = (run for _, _, run in results[:4])
    assert write.write.bw_bytes == pytest.approx(711234 * 1024)
    assert write.write.clat_ns.max == 104 * 10**6
    assert write.write.total_ios == (64 << 30) // 8192
    assert rewrite.read.iops == rewrite.write.iops == pytest.approx(41019 / 8)
    assert read.read.iops == pytest.approx(60090 / 8)
    assert seeks.read.iops == pytest.approx(2165)
    assert seeks.read.clat_ns.max == 14473 * 1000


def test_the_csv_line_of_bonnie() -> None:
    batch, _ = imported(DATA / "bonnie-2.00a.txt")
    results = {own["workload"]: run for own, run in runs(batch)}
    assert results.keys() == {"write", "rewrite", "seeks"}  # reading was too fast
    assert results["write"].write.iops == pytest.approx(924134 / 64)  # chunks of 64 KiB
    assert results["write"].write.clat_ns.max == 44077 * 1000
    assert results["seeks"].read.bw_bytes == pytest.approx(11254 * 65536)
    options = batch.plan.cells[0].document["jobs"][0]["options"]
    assert (options["hostname"], options["bs"]) == ("testhost", "65536")
