"""Which members an array is started again from."""

from dataclasses import replace
from pathlib import Path

import pytest

from blklab.md.model import Array, ArrayMember
from blklab.md.repair import restart
from blklab.md.repair.restart import RestartPlan, choose_members
from tests.md.conftest import Arrays
from tests.md.crafted import make_superblock
from tests.md.repair.model_of_slots import array_of

Case = tuple[str, int, dict[str, object]]  # State, events, and values of the superblock


def array(level: str, disks: int, members: dict[int, Case], state: str = "broken", layout: int = 2) -> Array:
    made = []
    for at, (states, events, values) in members.items():
        superblock = make_superblock(events=events, raid_disks=disks, **{"slot": at, **values})
        made.append(
            ArrayMember(
                f"sd{at}", f"/dev/sd{at}", at if states == "in_sync" else None, tuple(states.split()),
                superblock=superblock, data_offset=2048,
            )
        )  # fmt: skip
    missing = disks - sum("in_sync" in member.states for member in made)
    return Array(
        "md0", "/dev/md0", "a:b:c:d", level, layout, 65536, disks, "1.2", True, tuple(made), 384, state=state,
        degraded=missing,
    )  # fmt: skip


def names(members: list[ArrayMember]) -> str:
    return " ".join(member.name for member in members)


def chosen(of: Array) -> tuple[str, str, str]:
    current, forced, out = choose_members(of)
    return names(current), names(forced), names(out)


IN, FAULTY, SPARE = "in_sync", "faulty", "spare"


def test_the_fresher_of_two_failed_members() -> None:
    broken = array("raid5", 3, {0: (IN, 120, {}), 1: (FAULTY, 100, {}), 2: (FAULTY, 110, {})})
    assert chosen(broken) == ("sd0", "sd2", "sd1")


def test_a_half_rebuilt_member_is_not_forced() -> None:
    """It has the newest events: with it, the array did not start, although it could with another one."""
    half: Case = (SPARE, 120, {"slot": 2, "recovery_offset": 64})
    broken = array("raid5", 3, {0: (IN, 120, {}), 1: (FAULTY, 110, {}), 2: half})
    assert chosen(broken) == ("sd0", "sd1", "sd2")
    replacement: Case = (SPARE, 120, {"slot": 2, "replacement": True})
    assert chosen(array("raid5", 3, {0: (IN, 120, {}), 1: (FAULTY, 110, {}), 2: replacement}))[1] == "sd1"


def test_one_member_for_each_slot() -> None:
    broken = array("raid5", 3, {0: (IN, 120, {}), 1: (FAULTY, 90, {"slot": 2}), 2: (FAULTY, 110, {})})
    assert chosen(broken) == ("sd0", "sd2", "sd1")


def test_kernels_that_do_not_say_broken() -> None:
    """Before Linux 5.19, an audit said that it is broken, and `fix restart` that it runs."""
    past = array("raid5", 3, {0: (IN, 120, {}), 1: (FAULTY, 100, {}), 2: (FAULTY, 110, {})}, "clean")
    assert chosen(past) == ("sd0", "sd2", "sd1")
    plan = RestartPlan(past, past.members, (), (), ())
    assert not plan.nothing_to_do
    whole = array("raid5", 3, {0: (IN, 120, {}), 1: (IN, 120, {}), 2: (FAULTY, 110, {})}, "clean")
    assert chosen(whole) == ("sd0 sd1", "", "sd2")
    assert RestartPlan(whole, whole.members, (), (), ()).nothing_to_do


def test_a_broken_mirror_keeps_its_last_copy() -> None:
    broken = array("raid1", 2, {0: (IN, 120, {}), 1: (FAULTY, 119, {})}, layout=0)
    assert chosen(broken) == ("sd0", "", "sd1")


def test_an_inactive_array_is_not_forced() -> None:
    stale = array("raid5", 3, {0: ("", 120, {}), 1: ("", 120, {}), 2: ("", 90, {})}, "inactive")
    members = tuple(replace(member, slot=at) for at, member in enumerate(stale.members))
    assert chosen(replace(stale, members=members)) == ("sd0 sd1", "", "sd2")
    few = replace(stale, members=(members[0], members[2]))
    assert chosen(few) == ("sd0", "", "sd2")


def test_warnings() -> None:
    dirty = array("raid5", 3, {0: ("", 120, {"resync_offset": 64}), 1: ("", 120, {})}, "inactive")
    plan = RestartPlan(dirty, dirty.members, (), (), ())
    assert "was not stopped cleanly, and a member is missing" in plan.warnings[0]
    broken = array("raid5", 3, {0: (IN, 120, {}), 1: (FAULTY, 110, {})})
    spare = ArrayMember("sdx", "/dev/sdx", None, ("spare",))
    plan = RestartPlan(replace(broken, members=(*broken.members, spare)), broken.members, broken.members[1:], (), ())
    first, second = plan.warnings
    assert "sd1 was failed by md" in first
    assert "/dev/sdx is a spare and stays out" in second


@pytest.mark.parametrize("recorded", ["raid1-12-bitmap", "raid1-10", "raid1-090", "raid1-11"])
def test_superblocks_are_copied_with_what_is_around_them(
    machine: Arrays, monkeypatch: pytest.MonkeyPatch, recorded: str
) -> None:
    monkeypatch.setattr(restart, "device_number", lambda _: 0)
    machine.mirror(recorded)
    found = array_of("md0", machine.roots)
    plan = RestartPlan(found, found.members, (), (), ())
    directory = restart._copy_superblocks(plan, machine.roots)
    for member in found.members:
        assert member.superblock
        (copy,) = directory.glob(f"{member.name}-at-byte-*")
        begin = int(copy.name.rpartition("-")[2])
        content = Path(member.path).read_bytes()
        assert copy.read_bytes() == content[begin : begin + copy.stat().st_size]
        assert begin <= member.superblock.offset < begin + copy.stat().st_size
        if recorded == "raid1-10":  # its bitmap and list are before it
            assert begin < member.superblock.offset - (64 << 10)


def test_what_is_left_out_need_not_be_readable(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "device_number", lambda _: 0)
    machine.mirror()
    found = array_of("md0", machine.roots)
    (machine.roots.dev / "sdb").unlink()
    directory = restart._copy_superblocks(RestartPlan(found, found.members[:1], (), (), ()), machine.roots)
    assert [path.name.partition("-")[0] for path in directory.iterdir()] == ["sda"]


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"level": "raid0"}, "level"),
    ({"level": "linear"}, "level"),
    ({"metadata_version": "external:imsm"}, "level"),
    ({"array_state": "readonly"}, "state"),
    ({"array_state": "broken", "reshape_position": "64"}, "reshape"),
]


@pytest.mark.parametrize(("md", "code"), REFUSED)
def test_arrays_that_are_not_started_again(
    machine: Arrays, monkeypatch: pytest.MonkeyPatch, md: dict[str, str], code: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    machine.mirror(**md)
    plan = restart._plan(array_of("md0", machine.roots), machine.roots)
    assert code in [item.code for item in plan.refused]


def test_a_broken_mirror_is_planned(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    machine.mirror(array_state="broken")
    plan = restart._plan(array_of("md0", machine.roots), machine.roots)
    assert [item.sentence for item in plan.refused] == []
    assert [member.name for member in plan.members] == ["sda", "sdb"]
    machine.mount("9:0", Path("/srv"), "ext4", "/dev/md0")
    plan = restart._plan(array_of("md0", machine.roots), machine.roots)
    assert [item.remedy for item in plan.refused] == [("umount /srv",)]
