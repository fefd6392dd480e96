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
