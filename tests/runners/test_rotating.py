"""Rotating disks without their write cache, with a media log, and away from the outer edge."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.runners import changed_device

WRITES = 'rw = "randwrite"\nbs = "4k"\n'


def simulate(run: Run, directory: Path, device: str, workload: str = WRITES, runtime: str = "60s") -> Any:
    return changed_device.simulate(run, directory, device, workload, runtime)


def test_without_the_cache_each_write_pays_seek_and_rotation(run: Run, tmp_path: Path) -> None:
    # Figures of disks with the cache off: 70 to 90 per second one by one, 150 to 250 if the disk sorts 32.
    off = 'model = "hdd-7200", volatile_cache = false'
    assert 70 < simulate(run, tmp_path, off)["write"]["iops"] < 90
    assert 150 < simulate(run, tmp_path, off, f"{WRITES}iodepth = 32")["write"]["iops"] < 250


def test_without_the_cache_a_flush_costs_nothing(run: Run, tmp_path: Path) -> None:
    off = 'model = "hdd-7200", volatile_cache = false, flush_ns = "100ms"'
    plain, synced = (simulate(run, tmp_path, off, f"{WRITES}fsync = {every}") for every in (0, 1))
    assert synced["write"]["iops"] == pytest.approx(plain["write"]["iops"], rel=0.01)
    assert synced["devices"][0]["flush_ns"] == 0
    told = simulate(run, tmp_path, off + ', write_cache = "write back"', f"{WRITES}fsync = 1", "10s")
    assert told["devices"][0]["flush_ns"] > 0


def test_the_head_settles_longer_before_it_writes(run: Run, tmp_path: Path) -> None:
    alone = 'model = "hdd-7200", volatile_cache = false, write_settle_ns = '
    quick, slow = (simulate(run, tmp_path, f'{alone}"{settle}"') for settle in ("0", "1ms"))
    added_ns = slow["write"]["clat_ns"]["mean"] - quick["write"]["clat_ns"]["mean"]
    assert added_ns == pytest.approx(1_000_000, rel=0.3)
    # A write that continues the one before needs no seek.
    stream = 'rw = "write"\nbs = "64k"\niodepth = 8'
    quick, slow = (
        simulate(run, tmp_path, f'model = "hdd-7200", write_settle_ns = "{settle}"', stream) for settle in ("0", "1ms")
    )
    assert slow["write"]["iops"] == pytest.approx(quick["write"]["iops"], rel=0.02)


def test_a_media_log_makes_writes_faster_with_the_cache_off(run: Run, tmp_path: Path) -> None:
    # An HGST 7K6000: 264 writes per second with the cache off, 96 with the cache and a flush after each. HGST states
    # one time for seeks, of reads and writes.
    log = 'model = "hdd-7200-media-log", write_settle_ns = 0'
    assert simulate(run, tmp_path, log)["write"]["iops"] == pytest.approx(264, rel=0.15)
    cached = simulate(run, tmp_path, f"{log}, volatile_cache = true", f"{WRITES}fsync = 1")
    assert cached["write"]["iops"] == pytest.approx(96, rel=0.2)


def test_a_full_media_log_is_emptied_when_the_disk_is_idle(run: Run, tmp_path: Path) -> None:
    log = 'model = "hdd-7200-media-log", media_log_writes = 1_000'
    full = simulate(run, tmp_path, log, runtime="100s")
    (sentence,) = [line for line in full["explanation"] if "media log" in line]
    assert "was full after 4." in sentence
    # 1,000 writes of half a revolution; the others need a seek as well.
    assert full["write"]["total_ios"] == pytest.approx(1_000 + (100 - 4.3) * 74.8, rel=0.03)
    # A write is moved to its place in 5 ms.
    idle = simulate(run, tmp_path, log, f'{WRITES}thinktime = "6ms"', "100s")
    assert idle["write"]["clat_ns"]["mean"] < 5_000_000
    assert not any("media log" in line for line in idle["explanation"])


def test_the_middle_of_a_disk_is_slower_than_its_outer_edge(run: Run, tmp_path: Path) -> None:
    # At the share x of the capacity, with q = inner / outer track: √(1 − x (1 − q²)), which is 0.79 here.
    disk = 'model = "hdd-7200", capacity = "4TiB", outer_track_bytes = 2_000_000, inner_track_bytes = 1_000_000'
    outer, middle = (
        simulate(run, tmp_path, f'{disk}, start = "{start}"', 'rw = "read"\nbs = "1m"\niodepth = 8', "10s")
        for start in ("0", "2TiB")
    )
    assert middle["read"]["bw_bytes"] / outer["read"]["bw_bytes"] == pytest.approx(0.79, abs=0.01)


def test_a_part_behind_the_end_of_a_disk_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        '[devices]\nd = { model = "hdd-7200", start = "8TiB" }\n[stacks.s]\ndevice = "d"\n[workloads.w]\nrw = "read"\n'
    )
    done = run("run", path, "--dry-run")
    assert done.status == 2
    assert "devices.d.size: no space is left on the device" in done.err


def test_a_disk_has_a_media_log_or_a_media_cache(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        '[devices]\nd = { model = "st5000lm000", media_log_writes = 10 }\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "read"\n'
    )
    done = run("run", path, "--dry-run")
    assert done.status == 2
    assert "media_log_writes needs a disk without media_cache_bytes" in done.err
