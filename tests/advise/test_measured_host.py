"""Disks of this host that are measured before advice."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from blklab.advise import race
from blklab.advise.measured_host import MeasuredHost, measure_this_host
from blklab.advise.this_host import pools_of_this_host
from blklab.calibrate.fit import READS
from blklab.calibrate.observations import Observation
from blklab.devices import stock_models
from blklab.errors import BlklabError, UsageError
from blklab.experiment.load import ExperimentSource
from tests.calibrate.test_disk_and_host import measure
from tests.conftest import Run
from tests.system.machine import Machine

SSD = {"device__vendor": "ATA", "device__model": "Samsung SSD 870 EVO 1TB", "queue__rotational": "0"}
FAST = {"kind": "throttled", "iops_read": 8_000, "latency_ns": 300_000, "size": "1GiB"}


@pytest.fixture(autouse=True)
def _short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("blklab.calibrate.fit.ENOUGH_IOS", 5_000)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two SSDs of a model, and three virtual disks."""
    machine = Machine(tmp_path / "machine")
    for number, name in enumerate(("sda", "sdb")):
        machine.device(name, f"8:{16 * number}", **SSD, wwid=f"naa.500{number}")
    for number, name in enumerate(("vda", "vdb", "vdc")):
        machine.device(name, f"253:{16 * number}")
    return machine


class Disks:
    """Measures the disks of a machine in the simulator."""

    def __init__(self, disks: Mapping[str, Mapping[str, Any]]) -> None:
        self.disks = disks
        self.order: list[tuple[str, float]] = []

    def measure(self, path: str, seconds: float) -> Sequence[Observation]:
        self.order.append((path, seconds))
        source = ExperimentSource(
            Path("calibrate"), {"workloads": {k: {**v, "time_based": True} for k, v in READS.items()}}
        )
        if path not in self.disks:
            raise BlklabError(f"{path}: is busy")
        return measure(source, self.disks[path], 0)


def disks_of(machine: Machine) -> tuple[Disks, MeasuredHost, list[str]]:
    evo = stock_models.stock("870-evo")
    slow = {**evo, "read_latency_ns": evo["read_latency_ns"] + 200_000, "size": "1GiB"}
    virtual = {"/dev/vda": FAST, "/dev/vdb": FAST, "/dev/vdc": {**FAST, "iops_read": 2_000}}
    disks = Disks({"/dev/sda": slow, **virtual})
    notes: list[str] = []
    return disks, measure_this_host(machine.roots, 60, "6.1", disks.measure, notes.append), notes


def test_disks_are_measured_one_after_another_and_their_models_are_used(machine: Machine) -> None:
    disks, measured, notes = disks_of(machine)
    assert disks.order == [(f"/dev/{name}", 12.0) for name in ("sda", "sdb", "vda", "vdb", "vdc")]
    assert "sdb: is not measured: /dev/sdb: is busy" in notes
    assert measured.disks.keys() == {"sda", "vda", "vdb", "vdc"}
    assert measured.host == {"submit_ns": 3_300, "reap_ns": 1_800}
    pools, _, _ = pools_of_this_host(machine.roots, {}, "used", notes.append, measured.disks)
    assert [(pool.name, pool.count, pool.kind) for pool in pools] == [
        ("870-evo", 1, "ssd"), ("870-evo-2", 1, "ssd"), ("virtual", 2, "throttled"), ("virtual-2", 1, "throttled"),
    ]  # fmt: skip
    assert int(str(pools[0].table["read_latency_ns"])) > 150_000
    assert pools[0].table["model"] == "870-evo"
    assert pools[1].table == {"model": "870-evo", "size": str(1 << 30), "state": "used", "slc_fill": "100%"}
    fast, slow = (float(str(pool.table["iops_read"])) for pool in pools[2:])
    assert fast > 2 * slow


def test_a_time_that_is_too_short_and_disks_that_cannot_be_read_are_refused(machine: Machine) -> None:
    disks = Disks({})
    with pytest.raises(UsageError, match="--time: this host has 5 disks, one after another: expected 25s or more"):
        measure_this_host(machine.roots, 20, "6.1", disks.measure, lambda _: None)
    assert disks.order == []
    with pytest.raises(BlklabError, match="/dev/sda: is busy"):
        measure_this_host(machine.roots, 60, "6.1", disks.measure, lambda _: None)


def test_advice_uses_the_measured_disks_and_host(machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "LONGEST", 1_024)
    monkeypatch.setattr("blklab.cli.advise.Roots", lambda: machine.roots)
    monkeypatch.setattr("blklab.devices.identified_disks.refuse_host_managed", lambda *_: None)
    destroyed: list[object] = []
    disks, _, _ = disks_of(machine)

    def device_experiment(device: str, *, destroy: Sequence[str], seconds: float) -> ExperimentSource:
        destroyed.extend(destroy)
        return ExperimentSource(Path(device), {"seconds": seconds})

    def measure_points(source: ExperimentSource, *_arguments: object) -> Sequence[Observation]:
        return disks.measure(str(source.path), source.raw["seconds"])

    monkeypatch.setattr("blklab.calibrate.fit.device_experiment", device_experiment)
    monkeypatch.setattr("blklab.cli.calibrate.measure_points", measure_points)
    words = ("advise", "--load", "database", "--working-set", "256m", "--this-host", "--calibrate", "--time", "50s")
    done = run(*words, "--failures", "1", "--exclude", "bcache,dm-cache,dm-writecache", "--json", "-o", "advice.toml")
    assert done.status == 0, done.err
    assert destroyed == []
    assert "vda: is measured for 10 s, and only read" in done.err
    document = json.loads(done.out)
    assert document["arrangements"]
    planned = run("run", "advice.toml", "--dry-run", "--json")
    assert planned.status == 0, planned.err
    assert json.loads(planned.out)["cells"][0]["cell"]["host"].items() >= {"submit_ns": 3_300, "reap_ns": 1_800}.items()


def test_a_measurement_is_of_this_host(run: Run) -> None:
    done = run("advise", "--load", "backup", "--devices", "2xpm983", "--calibrate")
    assert (done.status, done.out) == (2, "")
    assert "--calibrate: measures the disks of this host: give --this-host" in done.err
