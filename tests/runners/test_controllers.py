"""Controllers that disks share."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

FOUR = """
[controllers.hba]
{controller}
[devices.d]
kind = "throttled"
iops_total = 100_000
size = "4GiB"
count = 4
controller = "hba"
[stacks.all]
members = ["d"]
level = 0
[workloads.reads]
rw = "randread"
bs = "4k"
iodepth = 256
numjobs = 4
time_based = true
[settings]
runtime = "1s"
"""


def simulate(run: Run, directory: Path, controller: str) -> Any:
    path = directory / "e.toml"
    path.write_text(FOUR.format(controller=controller))
    done = run("run", path, "--json", "--explain", "--no-store")
    assert done.status == 0, done.err
    (result,) = json.loads(done.out)
    return result


def test_disks_share_what_their_controller_serves(run: Run, tmp_path: Path) -> None:
    # Four disks of 100,000 I/Os per second behind a SAS2008, which serves 350,000.
    limited = simulate(run, tmp_path, "iops = 350_000")
    assert limited["read"]["iops"] == pytest.approx(350_000, rel=0.01)
    assert [device["ios"][0] / 350_000 for device in limited["devices"]] == pytest.approx([0.25] * 4, rel=0.02)
    assert any("controller hba" in line for line in limited["explanation"])
    unlimited = simulate(run, tmp_path, "")
    assert unlimited["read"]["iops"] == pytest.approx(400_000, rel=0.15)
    assert not any("controller" in line for line in unlimited["explanation"])


def test_a_controller_limits_bytes_and_adds_latency(run: Run, tmp_path: Path) -> None:
    narrow = simulate(run, tmp_path, "bandwidth = 409_600_000")
    assert narrow["read"]["iops"] == pytest.approx(100_000, rel=0.01)
    plain, slow = (simulate(run, tmp_path, f"latency_ns = {latency}") for latency in (0, "'20ms'"))
    assert slow["read"]["clat_ns"]["min"] >= plain["read"]["clat_ns"]["min"] + 19_000_000


def test_a_controller_that_is_not_there(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(FOUR.format(controller="iops = 1").replace('controller = "hba"', 'controller = "hbb"'))
    done = run("run", path, "--dry-run")
    assert done.status == 2
    assert "devices.d.controller: there is no 'hbb'; did you mean 'hba'?" in done.err


def test_the_lab_has_no_controllers(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(FOUR.format(controller="iops = 1"))
    done = run("run", path, "--on", "lab", "--dry-run")
    assert done.status == 2
    assert "controllers: only the simulator has controllers: use --on sim" in done.err


BEHIND = """
[controllers.raid]
{controller}
[devices]
d = {{ {device}, controller = "raid" }}
[stacks.s]
device = "d"
[workloads.w]
{workload}
bs = "4k"
time_based = true
[settings]
kernel = "5.4"
runtime = "{runtime}"
"""


def behind(run: Run, directory: Path, controller: str, device: str, workload: str, runtime: str = "1s") -> Any:
    path = directory / "e.toml"
    path.write_text(BEHIND.format(controller=controller, device=device, workload=workload, runtime=runtime))
    done = run("run", path, "--json", "--explain", "--no-store")
    assert done.status == 0, done.err
    (result,) = json.loads(done.out)
    return result


@pytest.mark.parametrize(("depth", "measured_us"), [(1, 64.1), (2, 64.3), (4, 171.4), (8, 144.5), (16, 239.9)])
def test_a_p420i_coalesces_interrupts_from_three_commands_on(
    run: Run, tmp_path: Path, depth: int, measured_us: float
) -> None:
    # Reads of a new PM883 on a P420i (reference/foreign/fio_plot.csv). Another disk set the delay.
    device, reads = 'model = "pm883", state = "unwritten"', f'rw = "randread"\niodepth = {depth}'
    result = behind(run, tmp_path, 'coalesce_ns = "100us"', device, reads)
    assert result["read"]["clat_ns"]["mean"] / 1000 == pytest.approx(measured_us, rel=0.25)
    assert any("Controller raid coalesces interrupts" in line for line in result["explanation"]) == (depth > 2)


def test_a_protected_cache_takes_writes_until_it_is_full(run: Run, tmp_path: Path) -> None:
    device, writes = 'model = "hdd-7200", volatile_cache = false', 'rw = "randwrite"\niodepth = 32'
    cache = 'latency_ns = "50us"\nwrite_cache_bytes = "{}"'
    alone = behind(run, tmp_path, "", device, writes, "60s")
    empty = behind(run, tmp_path, cache.format("64GiB"), device, writes)
    assert empty["write"]["clat_ns"]["max"] < 1_000_000
    full = behind(run, tmp_path, cache.format("1MiB"), device, writes, "60s")
    # Two WD disks did 598 writes and 546 reads per second with a full cache; as many reads as writes without one.
    assert 1 < full["write"]["iops"] / alone["write"]["iops"] < 2
    assert any("write cache of controller raid was full" in line for line in full["explanation"])


def test_flushes_do_not_wait_for_a_protected_cache(run: Run, tmp_path: Path) -> None:
    device, synced = 'model = "hdd-7200"', 'rw = "randwrite"\nfsync = 1'
    plain = behind(run, tmp_path, "", device, synced, "5s")
    protected = behind(run, tmp_path, 'latency_ns = "50us"\nwrite_cache_bytes = "1GiB"', device, synced, "5s")
    assert plain["write"]["iops"] < 100
    assert protected["write"]["iops"] > 5_000


def test_sequential_writes_reach_the_disk_together(run: Run, tmp_path: Path) -> None:
    # Its rate is that of its outer tracks, as much as the bare disk cannot reach with its cache off.
    device = 'model = "hdd-7200", volatile_cache = false, size = "64GiB"'
    cached = behind(run, tmp_path, 'write_cache_bytes = "64MiB"', device, 'rw = "write"', "5s")
    assert cached["write"]["bw_bytes"] == pytest.approx(240e6, rel=0.15)


def test_disks_share_a_write_cache(run: Run, tmp_path: Path) -> None:
    text = FOUR.format(controller='write_cache_bytes = "64KiB"').replace("randread", "randwrite")
    path = tmp_path / "e.toml"
    path.write_text(text.replace("iops_total = 100_000", 'iops_total = 1_000\nlatency_ns = "1ms"'))
    done = run("run", path, "--json", "--no-store")
    assert done.status == 0, done.err
    (result,) = json.loads(done.out)
    assert result["write"]["iops"] == pytest.approx(4_000, rel=0.2)
    assert all(device["cache_waits"] > 0 for device in result["devices"])
