"""`blklab devices`, end to end."""

import io
import json
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from blklab.devices import tables as device_models
from blklab.devices.identified_disks import identify_disks, refuse_host_managed
from blklab.errors import UsageError
from blklab.system.identity import of_number
from tests.conftest import Run
from tests.system.machine import Machine


def test_the_list_can_be_searched(run: Run) -> None:
    done = run("devices", "list", "nvme", "samsung", "--json")
    names = [model["name"] for model in json.loads(done.out)]
    assert {"pm983", "970-evo-plus"} <= set(names)
    assert "870-evo" not in names


def test_a_model_is_shown_with_its_data_sheet_and_simulation(run: Run) -> None:
    done = run("devices", "show", "pm983", "--json")
    model = json.loads(done.out)
    assert (model["class"], model["certainty"]) == ("nvme-datacenter", "measured")
    assert model["rated"]["random_read_iops"] == 540_000
    assert model["simulated"]["random_read_iops"] == pytest.approx(540_000, rel=0.1)
    assert "random reads/s, 4 KiB" in run("devices", "show", "pm983").out


def test_an_unknown_model_is_refused(run: Run) -> None:
    done = run("devices", "show", "pm984")
    assert done.status == 2
    assert done.err.startswith("blklab: error: NAME 'pm984': no such disk is known; did you mean 'pm983'? Or write its")


def test_users_models_belong_to_the_library(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "blklab" / "devices"
    own.mkdir(parents=True)
    (own / "slow.toml").write_text(
        '[device]\nkind = "throttled"\niops_total = 10\n[library]\nmatch = ["ACME Slow*"]\nname = "ACME Slow"\n'
    )
    (disk,) = json.loads(run("devices", "identify", "ACME Slow 2000", "--json").out)
    assert disk["model"] == "slow"
    experiment = tmp_path / "e.toml"
    experiment.write_text(
        '[devices]\nd = { model = "slow", size = "1GiB" }\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "randread"\ntime_based = true\n[settings]\nkernel = "6.1"\nruntime = "20s"\n'
    )
    done = run("run", experiment, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)[0]["read"]["iops"] == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(
    "content",
    [
        "library = 3\n",
        '[library]\nmatch = "foo*"\n',
        "[library.rated]\nrandom_read_iops = 0\n",
        "[library.rated]\nread_bandwidth = inf\n",
        "[library]\nspread = nan\n",
        "[library.rated]\nx = 'a'\n",
    ],
)
def test_a_broken_model_of_the_user_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "blklab" / "devices"
    own.mkdir(parents=True)
    (own / "bad.toml").write_text(f"kind = 'nvme'\n{content}")
    done = run("devices", "list")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"{own}/bad.toml" in done.err


def test_disks_of_this_host_get_a_model_or_the_reason(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.device("sda", "8:0", device__vendor="ATA", device__model="Samsung SSD 870 EVO 1TB", queue__rotational="0")
    machine.device("sdb", "8:16", device__vendor="ATA", device__model="ACME 9", queue__rotational="1")
    machine.device("sdc", "8:32", device__model="ACME 10", queue__rotational="1", queue__zoned="host-managed")
    machine.device(
        "nvme0n1", "259:0", device__model="ACME N", queue__rotational="0", queue__write_cache="write through"
    )
    machine.device("vda", "253:0")
    machine.device("loop0", "7:0")
    machine.roots.udev.mkdir(parents=True)
    (machine.roots.udev / "b8:16").write_text("E:ID_ATA_ROTATION_RATE_RPM=10500\n")
    disks = {disk.name: disk for disk in identify_disks(machine.roots)}
    named = {name: disk.model.name for name, disk in disks.items() if disk.model}
    assert named == {"sda": "870-evo", "sdb": "hdd-10000", "nvme0n1": "nvme-datacenter"}
    assert (disks["sda"].guess, disks["sdb"].guess) == ("", "it rotates at 10500 rpm")
    assert disks["sdc"].obstacle.startswith("host-managed shingled disk")
    assert disks["vda"].obstacle.startswith("virtual disk")
    assert "loop0" not in disks


def test_calibration_of_a_host_managed_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    machine.device("sdc", "8:32", device__model="ACME 10", queue__zoned="host-managed")
    machine.device("sdc1", "8:33", parent="sdc")
    machine.device("sdd", "8:48", device__model="ACME 10", queue__zoned="none")
    monkeypatch.setattr(
        "blklab.devices.identified_disks.resolve", lambda number, roots: of_number(number, roots, f"/dev/{number}")
    )
    for number in ("8:32", "8:33"):
        with pytest.raises(UsageError, match=f"^/dev/{number}: found a host-managed shingled disk: the host must"):
            refuse_host_managed(number, machine.roots)
    refuse_host_managed("8:48", machine.roots)


def test_predictions_with_a_typical_device_say_how_far_others_are(run: Run, tmp_path: Path) -> None:
    experiment = tmp_path / "e.toml"
    experiment.write_text(
        '[devices]\nd = { model = "hdd-7200" }\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "randread"\ntime_based = true\n[settings]\nkernel = "6.1"\nruntime = "1s"\n'
    )
    done = run("run", experiment)
    assert "hdd-7200 is a typical device of its class: others differ by about 25 %, and so do figures" in done.err


def test_a_host_without_disks_is_described() -> None:
    console = Console(file=io.StringIO(), width=80)
    device_models.draw_disks(console, [])
    assert cast(io.StringIO, console.file).getvalue() == "No disk found.\n"


def test_a_model_unlike_any_other_leads_to_the_list(run: Run) -> None:
    assert "`blklab devices list` has all of them" in run("devices", "show", "zzzzzz").err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pm984", "did you mean 'pm983'?"),
        ("xg7plus", "`blklab devices list` has all of them; typical disks are hdd-7200, ssd-consumer, nvme-consumer"),
    ],
)
def test_a_word_leads_to_models(run: Run, name: str, hint: str) -> None:
    assert f"NAME {name!r}: no such disk is known; {hint}" in run("devices", "show", name).err


def test_a_name_of_several_models_lists_them(run: Run) -> None:
    assert {"990-pro", "pm983"} <= {
        model["name"] for model in json.loads(run("devices", "show", "samsung", "--json").out)
    }
    assert json.loads(run("devices", "show", "990", "PRO", "--json").out)["name"] == "990-pro"
