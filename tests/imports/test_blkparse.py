"""blkparse's summary: what the device did, without latencies."""

from pathlib import Path

import pytest

from blklab.errors import BlklabError
from tests.imports.conftest import DATA, ROOT, imported, outcome, runs


def test_a_summary_below_events() -> None:
    batch, _ = imported(DATA / "form-blkparse.txt")
    ((labels, run),) = runs(batch)
    assert (labels["device"], batch.plan.runner) == ("sde", "blkparse")
    assert run.runtime_ns == 2 * 10**9  # between the first and the last event
    assert run.read.total_ios == 2000
    assert (run.read.iops, run.read.io_bytes) == (1000, 8000 << 10)
    assert (run.write.total_ios, run.write.io_bytes) == (6450, 5948 << 20)
    assert run.read.clat_ns.mean is None
    (disk,) = run.devices
    assert (disk.ios, disk.merges) == ([2000, 6450], [0, 1])
    assert run.blkparse is not None
    assert run.blkparse["queued"] == [2000, 2505]
    assert run.blkparse["queued_bytes"] == [8000 << 10, 5981 << 20]
    assert run.blkparse["requeued"] == [0, 3]
    assert run.blkparse["throughput_bytes"] == [4000 << 10, 3_045_376 << 10]


def test_a_summary_alone_lasts_as_long_as_its_throughput_says(tmp_path: Path) -> None:
    content = (DATA / "form-blkparse.txt").read_text()
    path = tmp_path / "summary.txt"
    path.write_text(content[content.index("CPU0") :])
    # Of the larger of the two: 5948 MiB at 3,045,376 KiB/s.
    assert outcome(path).runtime_ns == round(5948 * 1024 / 3_045_376 * 10**9)


def test_a_summary_of_one_cpu_has_no_total(tmp_path: Path) -> None:
    content = (DATA / "form-blkparse.txt").read_text()
    start, end = content.index("Total"), content.index("Throughput")
    path = tmp_path / "summary.txt"
    path.write_text(content[:start] + content[end:])
    assert outcome(path).write.total_ios == 6450


def test_a_recorded_summary_of_five_devices() -> None:
    path = ROOT / "tests/data/traces/pgbench-raid1/expected/ALL.summary.txt"
    batch, notes = imported(path)
    by_device = {labels["device"]: run for labels, run in runs(batch)}
    assert (by_device["vdd"].read.total_ios, by_device["vdd"].write.total_ios) == ((7545, 2043))
    assert by_device["vdd"].devices[0].merges == [25, 281]
    assert all("left out" in note for note in notes)
    assert outcome(path, device="vdd") == by_device["vdd"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    content = (DATA / "form-blkparse.txt").read_text()
    path = tmp_path / "summary.txt"
    path.write_text(content[content.index("Total") : content.index("Events")])
    with pytest.raises(BlklabError, match=r"summary\.txt:1: the summary of sde is truncated"):
        imported(path)
    with pytest.raises(BlklabError, match="no blkparse summary of sdz"):
        imported(DATA / "form-blkparse.txt", device="sdz")
