"""The runner `fleet`, from the command line, on two hosts."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.runners.fleet.shared_disks import refuse_shared
from tests.conftest import Run
from tests.runners.fleet.conftest import FleetHost
from tests.runners.host.conftest import Loops

EXPERIMENT = """
title = "Two servers"
{top}
[fleet]
hosts = {hosts}
[targets.disk]
{target}
[workloads.load]
rw = "{rw}"
bs = "4k"
time_based = true
[settings]
runtime = "{runtime}"
{settings}
"""

# Both hosts are this machine, so each measures the I/O of the other.
ON = ("--on", "fleet", "--force", "device-busy", "--force", "cpu-busy", "--force", "small-data")


def experiment(
    path: Path,
    target: str,
    *,
    rw: str = "randrw",
    top: str = "",
    settings: str = "",
    runtime: str = "1s",
    hosts: tuple[str, ...] = ("a", "b"),
) -> Path:
    file = path / "fleet.toml"
    text = EXPERIMENT.format(hosts=json.dumps(hosts), target=target, rw=rw, top=top, settings=settings, runtime=runtime)
    file.write_text(text)
    return file


def in_directory(host: FleetHost) -> str:
    return f'directory = "{host.place}"\nsize = "8MiB"'


def test_totals_are_sums_and_percentiles_are_of_all_ios(fleet: list[FleetHost], run: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, in_directory(fleet[0]), top="repeats = 2")
    printed = run("run", path, *ON, "--json")
    assert printed.status == 0, printed.err
    first, second = json.loads(printed.out)
    assert [first["labels"]["repeat"], second["labels"]["repeat"]] == ["1", "2"]
    for result in (first, second):
        hosts = result["hosts"]
        assert [host["name"] for host in hosts] == ["a", "b"]
        assert [host.get("failure") for host in hosts] == [None, None]
        assert all(abs(host["clock"]["offset_ns"]) <= host["clock"]["error_ns"] for host in hosts)
        for direction in ("read", "write"):
            parts = [host[direction] for host in hosts]
            for figure in ("total_ios", "io_bytes"):
                assert result[direction][figure] == sum(part[figure] for part in parts)
            assert result[direction]["iops"] == pytest.approx(sum(part["iops"] for part in parts))
            bins: Counter[int] = Counter()
            for part in parts:
                bins.update(dict(part["clat_ns"]["bins"]))
            assert dict(result[direction]["clat_ns"]["bins"]) == bins
        assert {device["name"].partition(":")[0] for device in result["devices"]} == {"a", "b"}
        assert result["outliers"] == []
        jobs = sum(sum(point["ios"]) for point in result["series"])
        assert jobs == result["read"]["total_ios"] + result["write"]["total_ios"]
    assert all(host.is_clean() for host in fleet)


def test_a_table_names_the_hosts(fleet: list[FleetHost], run: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, in_directory(fleet[0]), rw="randread")
    dry = run("run", path, *ON, "--dry-run")
    assert "on each of 2 hosts, at the same time: a, b" in dry.out
    printed = run("run", path, *ON)
    assert printed.status == 0, printed.err
    assert "stack=disk workload=load: hosts" in printed.out
    assert "fleet" in run("runs", "list").out
    (shown,) = json.loads(run("runs", "show", "1", "--json").out)
    assert shown["environment"]["hosts"].keys() == {"a", "b"}
    page = tmp_path / "page.html"
    assert run("report", "1", "--output", page).status == 0


def test_hosts_of_an_inventory_are_measured(fleet: list[FleetHost], run: Run, tmp_path: Path) -> None:
    variables = {"first": {"ansible_host": "a"}, "second": {"ansible_host": "b", "ansible_user": "root"}}
    inventory = {"_meta": {"hostvars": variables}, "web": {"hosts": ["first", "second"]}, "db": {"hosts": ["x"]}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    path = experiment(tmp_path, in_directory(fleet[0]), hosts=("@hosts.json:web",), rw="randread")
    printed = run("run", path, *ON, "--json")
    assert printed.status == 0, printed.err
    (result,) = json.loads(printed.out)
    assert [host["name"] for host in result["hosts"]] == ["first", "second"]


@pytest.fixture
def disks(fleet: list[FleetHost], loops: Loops) -> list[str]:
    """The loop device of each host, which both see as `disk` in their own directory."""
    devices = []
    for host in fleet:
        device = loops.attach(loops.file(f"disk-{host.name}", 16 << 20))
        (host.own / "data/disk").symlink_to(device)
        devices.append(device)
    return devices


def on_disk(host: FleetHost) -> str:
    return f'device = "{host.place}/disk"'


def named(loops: Loops, *hosts: str) -> str:
    return f"destroy = {json.dumps([f'{host}:file:{loops.directory}/disk-{host}' for host in hosts])}"


def read_ahead(disk: str) -> str:
    return Path(f"/sys/class/block/{Path(disk).name}/queue/read_ahead_kb").read_text().strip()


def test_devices_are_written_where_destroy_names_them(
    fleet: list[FleetHost], disks: list[str], loops: Loops, run: Run, tmp_path: Path
) -> None:
    before = [read_ahead(disk) for disk in disks]
    path = experiment(tmp_path, on_disk(fleet[0]), top=named(loops, "a", "b"), settings="read_ahead = 64")
    printed = run("run", path, *ON, "--json")
    assert printed.status == 0, printed.err
    (result,) = json.loads(printed.out)
    assert result["write"]["total_ios"] > 0
    names = [f"{host.name}:{Path(disk).name}" for host, disk in zip(fleet, disks, strict=True)]
    assert [(change["where"], change["set"]) for change in result["settings"]] == [(name, "64") for name in names]
    assert [read_ahead(disk) for disk in disks] == before
    assert all(host.is_clean() for host in fleet)


def test_a_device_that_destroy_does_not_name_is_refused(
    fleet: list[FleetHost], disks: list[str], loops: Loops, run: Run, tmp_path: Path
) -> None:
    del disks
    refused = run("run", experiment(tmp_path, on_disk(fleet[0]), top=named(loops, "a")), *ON)
    assert refused.status == 2
    assert refused.err.startswith(f"blklab: error: b: {fleet[0].place}/disk: the run would overwrite it, but `destroy`")
    assert refused.err.count("\n") == 1
    assert all(host.is_clean() for host in fleet)


def test_a_signature_and_a_mount_are_refused_on_each_host(
    fleet: list[FleetHost], disks: list[str], loops: Loops, run: Run, tmp_path: Path
) -> None:
    subprocess.run(["mkfs.ext4", "-q", disks[1]], check=True)
    path = experiment(tmp_path, on_disk(fleet[0]), top=named(loops, "a", "b"))
    refused = run("run", path, *ON)
    assert refused.status == 1
    assert "b: " in refused.err
    assert "expected a blank device" in refused.err
    allowed = run("run", path, *ON, "--yes-destroy", f"b:file:{loops.directory}/disk-b", "--json")
    assert allowed.status == 0, allowed.err
    subprocess.run(["mkswap", disks[0]], check=True, capture_output=True)
    both = run("run", path, *ON, "--yes-destroy", "c:x")
    assert (both.status, both.err.count("\n")) == (2, 1)
    assert "expected HOST:ID with a host of [fleet]" in both.err


def test_two_hosts_cannot_write_to_one_device(
    fleet: list[FleetHost], disks: list[str], loops: Loops, run: Run, tmp_path: Path
) -> None:
    for host in fleet:
        (host.own / "data/disk").unlink()
        (host.own / "data/disk").symlink_to(disks[0])
    ids = [f"{name}:file:{loops.directory}/disk-a" for name in ("a", "b")]
    refused = run("run", experiment(tmp_path, on_disk(fleet[0]), top=f"destroy = {json.dumps(ids)}"), *ON)
    assert refused.status == 1
    assert "in use, so blklab does not write to it" in refused.err
    read = run("run", experiment(tmp_path, on_disk(fleet[0]), rw="randread"), *ON)
    assert read.status == 0, read.err


def test_the_same_disk_on_two_hosts_is_found_by_its_ids() -> None:
    here = {"x": ["ata-ONE", "wwn-0x5000C500A1B2C3D4"]}
    with pytest.raises(BlklabError, match="a and b: target x: found wwn-0x5000C500A1B2C3D4 on both, expected one"):
        refuse_shared({"a": here, "b": {"x": ["0x5000c500a1b2c3d4"]}})
    refuse_shared({"a": here, "c": {"x": ["ata-TWO"]}, "d": {}})


@pytest.mark.proof
@pytest.mark.parametrize("fleet", [("web1", "web2", "web3", "web4")], indirect=True)
def test_a_slow_host_is_named(fleet: list[FleetHost], run: Run, tmp_path: Path) -> None:
    device = (fleet[0].own / "data").stat().st_dev
    fleet[2].throttle(f"{os.major(device)}:{os.minor(device)}", 500)
    names = tuple(host.name for host in fleet)
    path = experiment(tmp_path, in_directory(fleet[0]), rw="randread", hosts=names, top="repeats = 3", runtime="3s")
    printed = run("run", path, *ON)
    assert printed.status == 0, printed.err
    assert "note: web3 is slower than the other hosts: I/Os a second: 0.0" in " ".join(printed.out.split())


def test_several_hosts_that_cannot_be_measured_have_a_line_each(
    fleet: list[FleetHost], run: Run, tmp_path: Path
) -> None:
    for host in fleet:
        (host.own / "bin/fio").write_text("#!/bin/sh\necho fio-3.1\n")
        (host.own / "bin/fio").chmod(0o755)
    refused = run("run", experiment(tmp_path, in_directory(fleet[0])), *ON)
    assert refused.status == 3
    lines = refused.err.splitlines()
    assert "a: " in lines[0]
    assert "b: " in lines[1]
    assert all("is fio-3.1, too old" in line for line in lines[:2])
    assert "2 of 2 hosts cannot be measured" in lines[2]


@pytest.mark.parametrize(
    ("host", "python", "status", "message"),
    [
        ("nowhere.invalid", "python3", 3, "nowhere.invalid: ssh: Could not resolve hostname"),
        ("b", "python9", 3, "install Python there, or name it in python of [fleet]"),
    ],
)
def test_a_host_that_cannot_be_used_is_named(
    fleet: list[FleetHost], run: Run, tmp_path: Path, host: str, python: str, status: int, message: str
) -> None:
    path = experiment(tmp_path, in_directory(fleet[0]), hosts=(host,))
    refused = run("run", path, *ON, "--set", f"fleet.python={python}")
    assert refused.status == status
    assert message in refused.err
    assert refused.err.count("\n") == 1


def test_another_fio_is_refused(fleet: list[FleetHost], run: Run, tmp_path: Path) -> None:
    (fleet[1].own / "bin/fio").write_text("#!/bin/sh\necho fio-3.99\n")
    (fleet[1].own / "bin/fio").chmod(0o755)
    refused = run("run", experiment(tmp_path, in_directory(fleet[0])), *ON)
    assert refused.status == 3
    assert "b: found fio 3.99, expected fio-" in refused.err


def test_a_host_is_measured_by_one_blklab_at_a_time(fleet: list[FleetHost], run: Run, tmp_path: Path) -> None:
    import fcntl

    with (fleet[1].own / "locks/blklab-host.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = run("run", experiment(tmp_path, in_directory(fleet[0])), *ON)
    assert refused.status == 1
    assert "b: another blklab is measuring on this host" in refused.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('hosts = ["a", "b"]', "hosts = []", "fleet.hosts: is missing"),
        ('hosts = ["a", "b"]', 'hosts = ["a", "a"]', "found 'a' twice"),
        ('hosts = ["a", "b"]', 'hosts = ["-oProxyCommand=x"]', "expected HOST, USER@HOST, ssh://"),
        ('directory = "/srv"', 'directory = "srv"', "expected an absolute path: it is on other hosts"),
        ("[fleet]", 'destroy = ["wwn-0x1"]\n[fleet]', "destroy[0]: found 'wwn-0x1', expected HOST:ID"),
        ("[fleet]", "host.steady = true\n[fleet]", "host.steady: hosts would not run at the same time"),
        ('bs = "4k"', 'bs = "4k"\nrate = "ramp"', "hosts would not run at the same time"),
        ("[fleet]", '[fleet]\npython = "a b"', "expected the name or the path of Python"),
    ],
)
def test_bad_experiments_are_refused(run: Run, tmp_path: Path, old: str, new: str, message: str) -> None:
    path = experiment(tmp_path, 'directory = "/srv"\nsize = "8MiB"')
    path.write_text(path.read_text().replace(old, new))
    refused = run("run", path, "--on", "fleet")
    assert refused.status == 2
    assert message in refused.err
    assert refused.err.count("\n") == 1
