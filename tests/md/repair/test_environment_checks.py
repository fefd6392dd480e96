"""Swap, other arrays and mdadm's monitor."""

from pathlib import Path

import pytest

from blklab.md.repair.environment_checks import find_busy_neighbour, find_spare_group, find_swap
from tests.md.conftest import Arrays


@pytest.fixture
def node(machine: Arrays) -> Path:
    machine.mirror()
    return (machine.roots.sys / "block/md0").resolve()


def swaps(machine: Arrays, path: str) -> None:
    machine.proc("swaps", f"Filename\tType\tSize\tUsed\tPriority\n{path} partition 9 0 -2")


def test_swap_on_the_array_and_above_it(machine: Arrays, node: Path) -> None:
    assert find_swap(node, machine.roots) == ""
    swaps(machine, "/dev/md0")
    assert find_swap(node, machine.roots) == "/dev/md0"
    machine.device("dm-0", "253:0", slaves="md0")
    swaps(machine, "/dev/dm-0")
    assert find_swap(node, machine.roots) == "/dev/dm-0"


def test_swap_elsewhere(machine: Arrays, node: Path) -> None:
    machine.disk("sdz", "65:144")
    swaps(machine, "/dev/sdz")
    assert find_swap(node, machine.roots) == ""


def other(machine: Arrays, action: str, disks: dict[str, str]) -> None:
    """Makes md1 of partitions; `disks` are those of each."""
    for at, (partition, disk) in enumerate(disks.items()):
        machine.disk(disk, f"66:{at * 16}") if not (machine.roots.dev / disk).exists() else None
        machine.device(partition, f"66:{at * 16 + 1}", parent=disk)
    machine.array("md1", "9:1", {partition: {} for partition in disks}, sync_action=action)


@pytest.mark.parametrize("action", ["check", "resync", "recover"])
def test_a_neighbour_at_work(machine: Arrays, node: Path, action: str) -> None:
    other(machine, action, {"sdb2": "sdb", "sdc2": "sdc"})
    assert find_busy_neighbour(node, machine.roots) == f"md1: {action}"


def test_one_that_is_idle(machine: Arrays, node: Path) -> None:
    other(machine, "idle", {"sdb2": "sdb", "sdc2": "sdc"})
    assert find_busy_neighbour(node, machine.roots) == ""


def test_one_on_other_disks(machine: Arrays, node: Path) -> None:
    other(machine, "check", {"sdc2": "sdc", "sdd2": "sdd"})
    assert find_busy_neighbour(node, machine.roots) == ""


CONFIGS = [
    "ARRAY /dev/md0 spare-group=shelf",
    "ARRAY /dev/md/home UUID=3156a3e6:4a433ea3:f425167f:2e6739fd\n  spare-group=shelf",
    "arr /dev/md/home uuid=3156A3E6:4a433ea3:f425167f:2e6739fd spare-group=shelf",
]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_spare_group_matters_while_the_monitor_runs(machine: Arrays, node: Path, config: str) -> None:
    assert node.is_dir()
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": config})
    (array,) = machine.seen().arrays
    assert find_spare_group("/dev/md0", array.uuid, machine.roots) == ""
    machine.proc("77/cmdline", "/sbin/mdadm\0--monitor\0--scan\0")
    assert find_spare_group("/dev/md0", array.uuid, machine.roots) == "shelf"


def test_one_of_another_array(machine: Arrays, node: Path) -> None:
    assert node.is_dir()
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": "ARRAY /dev/md7 spare-group=shelf"})
    machine.proc("77/cmdline", "/sbin/mdadm\0--monitor\0--scan\0")
    assert find_spare_group("/dev/md0", "1:2:3:4", machine.roots) == ""
