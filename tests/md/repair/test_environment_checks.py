"""Swap, other arrays and mdadm's monitor."""

import re
from pathlib import Path

import pytest

from blklab.md.repair.environment_checks import find_busy_neighbour, find_re_add_policy, find_spare_monitor, find_swap
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


MONITOR = "/sbin/mdadm\0--monitor\0--scan\0"


@pytest.fixture
def shared(machine: Arrays, node: Path) -> Path:
    """A mirror, another one with a spare, and the monitor as Debian runs it: no spare can move."""
    for name, number in (("sdc", "8:32"), ("sdd", "8:48"), ("sde", "8:64")):
        machine.disk(name, number)
    machine.array("md1", "9:1", {"sdc": {}, "sdd": {}, "sde": {"state": "spare", "slot": "none"}})
    machine.proc("stat", "cpu 1 2 3\nbtime 9000000000")  # after the configuration was written
    monitor(machine, MONITOR)
    return node


def monitor(machine: Arrays, words: str, group: str = "0::/system.slice/mdmonitor.service") -> None:
    machine.proc("77/cmdline", words)
    machine.proc("77/stat", f"77 (mdadm) S {' '.join('0' * 18)} 100 0")
    machine.proc("77/cgroup", group)


def configure(machine: Arrays, content: str, name: str = "mdadm__mdadm.conf") -> None:
    machine.write(machine.root, {f"etc__{name}": content})


MOVING = [
    "ARRAY /dev/md0 spare-group=shelf",
    "ARRAY /dev/md/home UUID=3156a3e6:4a433ea3:f425167f:2e6739fd\n  spare-group=shelf",
    "arr /dev/md7 Spare-Group=shelf",
    "POLICY domain=d1",
    "pol path=pci-* action=include\n  Domain=d1",
    "PART-POLICY domain=d1 action=include",
]


@pytest.mark.parametrize("config", MOVING)
@pytest.mark.parametrize(
    "file", ["mdadm__mdadm.conf", "mdadm.conf", "mdadm__mdadm.conf.d__a.conf", "mdadm.conf.d__a.conf"]
)
def test_monitor_may_move_a_spare(machine: Arrays, shared: Path, config: str, file: str) -> None:
    configure(machine, config, file)
    reason, stop = find_spare_monitor(shared, machine.roots)
    assert reason.startswith("mdadm --monitor (process 77) may move the spare of md1 into it: ")
    assert re.search(" (spare-group=shelf|domain=d1)$", reason, re.I)
    assert stop == "systemctl stop mdmonitor.service"


@pytest.mark.parametrize(
    "config", ["", "ARRAY /dev/md0 name=spare-group", "POLICY action=include", "#POLICY domain=d1"]
)
def test_without_a_domain_no_spare_moves(machine: Arrays, shared: Path, config: str) -> None:
    configure(machine, config)
    assert find_spare_monitor(shared, machine.roots) == ("", "")


@pytest.mark.parametrize(
    ("words", "moves"),
    [
        ("mdadm -Fs", True),
        ("/usr/sbin/mdadm --scan --follow", True),
        ("mdadm --moni /dev/md0 /dev/md1", True),
        ("mdadm --monitor --scan --no-sharing", False),
        ("mdadm --monitor --scan --no-sh", False),
        ("mdadm --detail /dev/md0", False),
        ("vi -F /etc/mdadm.conf", False),
        ("", False),
    ],
)
def test_only_a_monitor_that_shares_spares_moves_them(machine: Arrays, shared: Path, words: str, moves: bool) -> None:
    configure(machine, "POLICY domain=d1")
    monitor(machine, words.replace(" ", "\0") + "\0", "0::/user.slice/session-3.scope")
    reason, stop = find_spare_monitor(shared, machine.roots)
    assert bool(reason) is moves
    assert stop == ""  # the number of the process is in the reason: typed late, it may be that of another one


@pytest.mark.parametrize("option", ["--config=/etc/other.conf", "-c\0/etc/other.conf", "--conf\0x"])
def test_monitor_with_its_own_configuration(machine: Arrays, shared: Path, option: str) -> None:
    monitor(machine, f"{MONITOR}{option}\0")
    assert "it has another configuration file" in find_spare_monitor(shared, machine.roots)[0]


def test_what_the_monitor_may_have_read_is_unknown(machine: Arrays, shared: Path) -> None:
    (machine.root / "etc/mdadm/mdadm.conf").mkdir(parents=True)
    assert "mdadm.conf cannot be read" in find_spare_monitor(shared, machine.roots)[0]
    (machine.root / "etc/mdadm/mdadm.conf").rmdir()
    configure(machine, "# nothing")
    assert find_spare_monitor(shared, machine.roots) == ("", "")
    machine.proc("stat", "btime 1")
    assert "which has changed since it started" in find_spare_monitor(shared, machine.roots)[0]


def test_no_spare_no_move(machine: Arrays, shared: Path) -> None:
    configure(machine, "POLICY domain=d1")
    machine.write(machine.roots.sys / "block/md1/md/dev-sde", {"state": "in_sync", "slot": "2"})
    assert find_spare_monitor(shared, machine.roots) == ("", "")


def test_in_a_container_the_monitor_cannot_be_seen(machine: Arrays, shared: Path) -> None:
    (machine.roots.proc / "self/ns").mkdir()
    link = machine.roots.proc / "self/ns/pid"
    link.symlink_to("pid:[4026531836]")
    assert find_spare_monitor(shared, machine.roots) == ("", "")
    link.unlink()
    link.symlink_to("pid:[4026532201]")
    reason, _ = find_spare_monitor(shared, machine.roots)
    assert "outside of this container" in reason
    assert "--pid=host" in reason


@pytest.mark.parametrize("action", ["re-add", "spare", "spare-same-slot", "force-spare", "include", ""])
def test_a_policy_by_which_udev_re_adds_members(machine: Arrays, node: Path, action: str) -> None:
    assert node.is_dir()
    configure(machine, f"POLICY path=pci-* action={action}" if action else "POLICY domain=d1")
    policy = find_re_add_policy(machine.roots)
    if action in {"include", ""}:
        assert policy is None
    else:
        assert policy == (f"POLICY … action={action}", machine.root / "etc/mdadm/mdadm.conf")
