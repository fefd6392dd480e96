"""Hosts and blklab that disappear: what is kept, and that nothing keeps running."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.runners.fleet.conftest import FleetHost, until
from tests.runners.fleet.test_fleet import ON, disks, experiment, in_directory, named, on_disk, read_ahead
from tests.runners.host.conftest import Loops

__all__ = ["disks"]


def begun(start: Start, path: Path, fleet: list[FleetHost], *more: str) -> "subprocess.Popen[str]":
    """Starts blklab in another process; fio runs on all hosts when this returns."""
    process = start("run", path, *ON, "--no-store", *more)
    # The server, its child for the connection, and the child that does I/O.
    until(lambda: all(len(host.processes("--server")) > 2 for host in fleet), "fio on all hosts")
    return process


def changed(loops: Loops, fleet: list[FleetHost], path: Path, seconds: int) -> Path:
    settings = "read_ahead = 64"
    return experiment(
        path, on_disk(fleet[0]), top=named(loops, "a", "b"), settings=settings, runtime=f"{seconds}s", rw="randwrite"
    )


def clean(host: FleetHost) -> None:
    until(host.is_clean, f"nothing of blklab is left on {host.name}")


def test_killed_blklab_leaves_nothing(
    fleet: list[FleetHost], start: Start, disks: list[str], loops: Loops, tmp_path: Path
) -> None:
    before = [read_ahead(disk) for disk in disks]
    process = begun(start, changed(loops, fleet, tmp_path, 600), fleet)
    assert [read_ahead(disk) for disk in disks] == ["64", "64"]
    process.kill()
    process.communicate()
    for host in fleet:
        clean(host)
    assert [read_ahead(disk) for disk in disks] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_blklab_waits_for_the_clean_up(
    fleet: list[FleetHost], start: Start, disks: list[str], loops: Loops, tmp_path: Path, number: int
) -> None:
    before = [read_ahead(disk) for disk in disks]
    process = begun(start, changed(loops, fleet, tmp_path, 600), fleet)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert all(host.is_clean() for host in fleet)
    assert [read_ahead(disk) for disk in disks] == before


def test_killed_host_fails_alone(fleet: list[FleetHost], start: Start, tmp_path: Path) -> None:
    path = experiment(tmp_path, in_directory(fleet[0]), runtime="8s", top="repeats = 2")
    process = begun(start, path, fleet, "--json")
    fleet[1].kill()
    out, err = process.communicate()
    assert process.returncode == 1
    assert "cell 1: measured without b: the connection was lost" in err
    first, second = json.loads(out)
    for result in (first, second):
        a, b = result["hosts"]
        assert (a.get("failure"), a["read"]["iops"]) == (None, result["read"]["iops"])
        assert b["failure"].startswith("the connection was lost")
        assert "read" not in b
        assert any("the totals are of 1 of 2 hosts" in warning for warning in result["warnings"])
    clean(fleet[0])


def test_killed_program_on_a_host_leaves_nothing(
    fleet: list[FleetHost], start: Start, disks: list[str], loops: Loops, tmp_path: Path
) -> None:
    before = [read_ahead(disk) for disk in disks]
    process = begun(start, changed(loops, fleet, tmp_path, 8), fleet)
    guard, worker = sorted(fleet[1].processes("readline"))[-2:]
    del guard
    os.kill(worker, signal.SIGKILL)
    clean(fleet[1])
    _, err = process.communicate()
    assert "measured without b: the connection was lost" in err
    clean(fleet[0])
    assert [read_ahead(disk) for disk in disks] == before


@pytest.mark.proof
def test_cut_network_leaves_nothing(
    fleet: list[FleetHost], start: Start, disks: list[str], loops: Loops, tmp_path: Path
) -> None:
    before = [read_ahead(disk) for disk in disks]
    process = begun(start, changed(loops, fleet, tmp_path, 40), fleet, "--json")
    fleet[1].cut()
    out, err = process.communicate()
    assert process.returncode == 1
    assert "measured without b: the connection was lost" in err
    (result,) = json.loads(out)
    assert result["hosts"][0]["write"]["total_ios"] == result["write"]["total_ios"] > 0
    for host in fleet:
        clean(host)
    assert [read_ahead(disk) for disk in disks] == before
