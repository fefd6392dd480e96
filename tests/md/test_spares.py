"""Spares of other arrays, and members that must stay as they are until a degraded array is complete."""

from dataclasses import replace

import pytest

from blklab.md.audit.redundancy import check_degraded
from blklab.md.mdadm_conf import parse_listed_arrays
from blklab.md.model import OtherSpare, Software
from tests.md.conftest import Arrays
from tests.md.crafted import make_superblock
from tests.md.test_good_copies import array_of

GROUPS = "ARRAY /dev/md0 spare-group=shelf\nARRAY /dev/md1 spare-group=shelf\n"
INITIAL = "pid:[4026531836]"


@pytest.fixture
def degraded(machine: Arrays) -> Arrays:
    """md0 lacks a member and has no spare; md1 is complete and has one, sde."""
    for name, number in (("sda", "8:0"), ("sdc", "8:32"), ("sdd", "8:48"), ("sde", "8:64")):
        machine.disk(name, number)
    machine.array("md0", "9:0", {"sda": {}}, raid_disks="2", degraded="1")
    machine.array("md1", "9:1", {"sdc": {}, "sdd": {}, "sde": {"state": "spare", "slot": "none"}}, raid_disks="2")
    return machine


def message_of(machine: Arrays) -> str:
    return machine.findings_by_code()["degraded"].message


def configure(machine: Arrays, content: str) -> None:
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": content})


def test_the_spare_group_of_a_line() -> None:
    (line,) = parse_listed_arrays("ARRAY /dev/md0 UUID=3156a3e6:4a433ea3:f425167f:2e6739fd\n  Spare-Group=shelf")
    assert line.spare_group == "shelf"
    (line,) = parse_listed_arrays("ARRAY /dev/md0 name=spare-group")
    assert line.spare_group == ""


def test_a_spare_of_another_array_is_named(degraded: Arrays) -> None:
    text = "it has no spare; other arrays have (sde of md1), but not in the same spare group; the next failure loses"
    assert text in message_of(degraded)
    configure(degraded, "ARRAY /dev/md0 spare-group=shelf\nARRAY /dev/md1 spare-group=rack\n")
    assert text in message_of(degraded)
    configure(degraded, "ARRAY /dev/md0\nARRAY /dev/md1\n")
    assert text in message_of(degraded)
    assert degraded.findings_by_code()["degraded"].remedy[-1] == f"blklab md fix add {degraded.roots.dev}/md0 DISK"


def test_a_shared_spare_comes_only_if_mdadm_monitors(degraded: Arrays) -> None:
    configure(degraded, GROUPS)
    text = "it has no spare, but its spare group has (sde of md1): {}; the next failure loses data"
    assert text.format("the monitor of mdadm moves it here if it runs") in message_of(degraded)
    namespace = degraded.roots.proc / "self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to(INITIAL)
    assert text.format("nothing moves it here, because the monitor of mdadm does not run") in message_of(degraded)
    degraded.proc("77/cmdline", "/sbin/mdadm\0--monitor\0--scan\0")
    assert text.format("the monitor of mdadm runs, and moves it here") in message_of(degraded)
    degraded.proc("77/cmdline", "/sbin/mdadm\0--monitor\0--scan\0--no-sharing\0")
    assert text.format("nothing moves it here, because the monitor of mdadm does not run") in message_of(degraded)


@pytest.mark.parametrize(
    "files",
    [
        {"block__md1__md__degraded": "1"},
        {"block__md1__md__sync_action": "recover"},
        {"class__block__sde__size": "1000"},
        {"block__md1__md__dev-sde__slot": "1"},
    ],
)
def test_spares_that_cannot_come_are_not_named(degraded: Arrays, files: dict[str, str]) -> None:
    configure(degraded, GROUPS)
    degraded.write(degraded.roots.sys, files)
    assert "and there is no spare; the next failure" in message_of(degraded)


def test_the_own_spare_comes_first(degraded: Arrays) -> None:
    degraded.disk("sdf", "8:80")
    node = degraded.roots.sys / "block/md0/md/dev-sdf"
    degraded.write(node, {"slot": "none", "state": "spare", "bad_blocks": ""})
    assert "md does not use the spare sdf" in message_of(degraded)


def test_members_that_are_out_are_kept_until_the_array_is_complete(degraded: Arrays) -> None:
    assert "Keep" not in message_of(degraded)
    degraded.disk("sdb", "8:16")
    node = degraded.roots.sys / "block/md0/md/dev-sdb"
    degraded.write(node, {"slot": "none", "state": "faulty", "bad_blocks": ""})
    assert (
        "Keep sdb (do not wipe or reuse it) until the array is complete: "
        "it may have the only copy of what cannot be read from the other members"
    ) in message_of(degraded)


def test_a_removed_member_on_the_host_is_kept() -> None:
    array = array_of("raid5", 2, 3, {}, (1,))
    members = [replace(member, superblock=make_superblock(slot=member.slot)) for member in array.members]
    array = replace(array, members=tuple(members))
    removed = replace(array.members[0], name="sdx", path="/dev/sdx", slot=None, states=(),
                      superblock=make_superblock(slot=1, events=7))  # fmt: skip
    (finding,) = check_degraded(replace(array, outside=(removed,)), None)
    assert "Keep sdx (do not wipe or reuse it)" in finding.message
    half = replace(removed, superblock=make_superblock(slot=1, events=7, recovery_offset=64))
    (finding,) = check_degraded(replace(array, outside=(half,)), None)
    assert "Keep" not in finding.message


def test_shared_and_other_spares() -> None:
    array = replace(array_of("raid1", 0, 2, {}, (1,)), other_spares=(OtherSpare("md1", "sde", True),
                    OtherSpare("md2", "sdf", False)))  # fmt: skip
    (finding,) = check_degraded(array, Software(shares_spares=True))
    assert "its spare group has (sde of md1): the monitor of mdadm runs" in finding.message
