"""Flushes, forced unit access, and the states of a flash disk, as users see them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.runners import changed_device

LOG = 'rw = "write"\nbs = "4k"\nsize = "1GiB"\n'


def simulate(run: Run, directory: Path, device: str, workload: str, runtime: str = "2s") -> Any:
    return changed_device.simulate(run, directory, device, workload, runtime)


def test_flushes_that_wait_share_the_next_one(run: Run, tmp_path: Path) -> None:
    device = 'model = "pm9a3", write_back = true, flush_ns = "1ms"'
    alone = simulate(run, tmp_path, device, f"{LOG}fsync = 1")
    group = simulate(run, tmp_path, device, f"{LOG}fsync = 1\nnumjobs = 16")
    assert alone["write"]["iops"] == pytest.approx(1000, rel=0.05)
    # With N jobs and a flush of F: N / 2F to N / (F + w), where w is the time of a write.
    assert 8_000 < group["write"]["iops"] < 15_700
    assert group["devices"][0]["flushes"] < group["write"]["total_ios"] / 7
    (sentence,) = [line for line in alone["explanation"] if "flushes" in line and "each" in line]
    assert "1.01 ms each" in sentence and "no power-loss protection" in sentence


def test_a_disk_without_a_volatile_cache_gets_no_flush(run: Run, tmp_path: Path) -> None:
    plain, synced = (simulate(run, tmp_path, 'model = "pm9a3"', f"{LOG}fsync = {every}") for every in (0, 1))
    assert synced["write"]["iops"] > plain["write"]["iops"] / 2
    assert synced["devices"][0]["flush_ns"] == 0


def test_forced_unit_access_is_a_flush_on_sata(run: Run, tmp_path: Path) -> None:
    synced = f"{LOG}options.sync = 1"
    sata = simulate(run, tmp_path, 'model = "mx500", flush_ns = "2ms"', synced)
    assert sata["write"]["iops"] == pytest.approx(490, rel=0.05)
    assert sata["devices"][0]["flushes"] == pytest.approx(sata["write"]["total_ios"], abs=2)
    nvme = simulate(run, tmp_path, 'model = "990-pro", fua_ns = "5ms"', synced)
    assert nvme["write"]["iops"] == pytest.approx(199, rel=0.05)
    assert nvme["devices"][0]["flushes"] == 0
    assert any("forced unit access" in line for line in nvme["explanation"])


def test_the_interval_of_a_load_that_waits_for_flushes_is_that_of_flushes(run: Run, tmp_path: Path) -> None:
    device = 'model = "990-pro", uncertainty = { write = 0.1, sync = 0.5 }'
    plain, synced = (simulate(run, tmp_path, device, f"{LOG}fsync = {every}")["interval"]["iops"] for every in (0, 1))
    # Of what is left, the host's processors are the larger part if no I/O waits for a flush.
    assert 1.22 < plain[1] < 1.4
    assert synced[1] == pytest.approx(2.28, rel=0.02)


def test_reads_of_blocks_that_were_never_written_do_not_touch_flash(run: Run, tmp_path: Path) -> None:
    read = 'rw = "randread"\nbs = "4k"'
    used, unwritten = (
        simulate(run, tmp_path, f'model = "990-pro", state = "{state}"', read) for state in ("used", "unwritten")
    )
    assert used["read"]["clat_ns"]["mean"] > 60_000
    assert unwritten["read"]["clat_ns"]["mean"] < 30_000
    assert unwritten["devices"][0]["work"]["media_ns"] == 0


def test_a_worn_disk_writes_slower_and_less_certainly(run: Run, tmp_path: Path) -> None:
    writes = 'rw = "randwrite"\nbs = "4k"\niodepth = 32'
    used, worn = (simulate(run, tmp_path, f'model = "mx500", state = "{state}"', writes) for state in ("used", "worn"))
    assert worn["write"]["iops"] == pytest.approx(used["write"]["iops"] / 3.2, rel=0.1)
    assert worn["interval"]["iops"][1] > 2 * used["interval"]["iops"][1]


def test_the_default_is_a_disk_in_use(run: Run, tmp_path: Path) -> None:
    writes = 'rw = "randwrite"\nbs = "4k"\niodepth = 32\nnumjobs = 4'
    default, used, fresh = (
        simulate(run, tmp_path, f'model = "nvme-consumer"{state}', writes)
        for state in ("", ', state = "used"', ', state = "fresh"')
    )
    assert default["write"] == used["write"]
    assert fresh["write"]["iops"] > 3 * used["write"]["iops"]
    full = simulate(run, tmp_path, 'model = "nvme-consumer", slc_fill = "100%"', writes)
    assert used["write"]["iops"] > 5 * full["write"]["iops"], "its cache of single-bit cells took the writes"


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_a_flush_of_many_members_takes_longer(run: Run, tmp_path: Path, kernel: str) -> None:
    """Published: 108,000 flushes a second of an array with one RAM disk, 34,700 with 64."""
    text = f"""
[devices]
few = {{ kind = "throttled", size = "1GiB", rotational = false, count = 2 }}
many = {{ kind = "throttled", size = "1GiB", rotational = false, count = 64 }}
[stacks]
of-few = {{ level = 0, members = ["few"] }}
of-many = {{ level = 0, members = ["many"] }}
[workloads]
flushes = {{ rw = "randwrite", bs = "4k", fsync = 1, time_based = true }}
[settings]
kernel = "{kernel}"
runtime = "100ms"
"""
    path = tmp_path / "flushes.toml"
    path.write_text(text)
    few, many = json.loads(run("run", path, "--no-store", "--json").out)
    assert 60_000 < few["write"]["iops"] < 160_000
    assert many["write"]["iops"] == pytest.approx(34_700, rel=0.3)
