"""`md fix add`, `replace`, `remove`, `rebuild`, `restart` and `entries` on a real kernel, with hidden errors.

Each test compares all pages of the array with what was written: no byte that a disk held may be lost.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.runners.lab.agent import ProgramExit
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(6)]
SECTORS = (32 << 20) // 512
HIDDEN = 20_000  # The sector of a member that cannot be read
PATTERN = ["fio", "--name=data", "--filename=/dev/md0", "--direct=1", "--bs=64k", "--rw=write", "--verify=crc32c"]


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        booted.run("modprobe", "dm-mod")
        yield booted


@pytest.fixture
def disks(machine: Rig) -> Iterator[list[str]]:
    """Disks without anything on them. The second one is below a dm device, `m0`, which can have errors."""
    result = machine.names(SHAPES)
    machine.run("dmsetup", "create", "m0", "--noudevsync", "--table", f"0 {SECTORS} linear {result[1]} 0")
    mapped = machine.run("dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname", "m0").stdout.strip()
    yield [result[0], f"/dev/{mapped}", *result[2:]]
    machine.run("mdadm", "--stop", "/dev/md0", check=False)
    machine.run("dmsetup", "remove", "m0", check=False)
    for disk in result:
        machine.run("wipefs", "--all", "--force", disk, check=False)
    machine.guest.agent.write("/etc/mdadm/mdadm.conf", "\n")


def set_table(machine: Rig, disk: str, *, error: bool) -> None:
    """Gives m0 a sector that cannot be read, or takes it away: a latent error, a cable."""
    table = f"0 {SECTORS} linear {disk} 0"
    if error:
        rest = SECTORS - HIDDEN - 16
        table = f"0 {HIDDEN} linear {disk} 0\n{HIDDEN} 16 error\n{HIDDEN + 16} {rest} linear {disk} {HIDDEN + 16}"
    machine.guest.agent.write("/run/table", table + "\n")
    for command in (["suspend", "--noflush", "--nolockfs", "m0"], ["load", "m0", "/run/table"], ["resume", "m0"]):
        machine.run("dmsetup", *command)


def write_pattern(machine: Rig) -> None:
    machine.run(*PATTERN, "--do_verify=0")


def check_pattern(machine: Rig) -> None:
    """Whether every page of the array can be read, and is as it was written."""
    machine.run(*PATTERN, "--verify_only=1")


def mark(machine: Rig, member: str, sector: int, count: int = 8) -> None:
    """Has md list sectors of a member, as after a write that failed."""
    node = f"/sys/block/md0/md/dev-{member.removeprefix('/dev/')}"
    offset = int(machine.read(f"{node}/offset"))
    machine.guest.agent.write(f"{node}/bad_blocks", f"{offset + sector} {count}")


def fix(machine: Rig, *words: str) -> ProgramExit:
    return machine.blklab("md", "fix", *words, "--yes")


def read_states(machine: Rig) -> dict[str, str]:
    states = machine.guest.agent.read(["/sys/block/md0/md/dev-*/state"])
    return {path.split("/")[-2].removeprefix("dev-"): (text or "").strip() for path, text in states.items()}


@pytest.mark.guest
def test_a_member_is_not_rebuilt_from_one_that_cannot_read_its_data(machine: Rig, disks: list[str]) -> None:
    """What was printed once (check, fail, remove, zero, add) lost 16 readable pages here."""
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    write_pattern(machine)
    mark(machine, disks[0], 1024)
    set_table(machine, machine.names(SHAPES)[1], error=True)
    assert "the array has no redundancy" in fix(machine, "rebuild", "/dev/md0", "0").stdout
    taken = fix(machine, "remove", "/dev/md0", disks[0])
    assert taken.status == 1
    assert "has 16 sectors" in taken.stderr
    assert "nothing was changed" in taken.stderr
    assert set(read_states(machine).values()) == {"in_sync"}
    replaced = fix(machine, "replace", "/dev/md0", disks[0], disks[3])
    assert replaced.status == 0, replaced.stderr
    assert f"{disks[3].removeprefix('/dev/')} is in sync" in replaced.stdout
    assert not set(read_states(machine)) - {name.removeprefix("/dev/") for name in (disks[1], disks[3])}
    check_pattern(machine)


@pytest.mark.guest
@pytest.mark.parametrize("lists", ["yes", "no"])
def test_what_only_a_missing_disk_has_is_kept(machine: Rig, disks: list[str], lists: str) -> None:
    machine.guest.agent.write("/etc/mdadm/mdadm.conf", f"CREATE bbl={lists}\n")
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    write_pattern(machine)
    set_table(machine, machine.names(SHAPES)[1], error=True)
    machine.run("mdadm", "/dev/md0", "--fail", disks[2])
    for disk in disks[2], disks[3]:
        added = fix(machine, "add", "/dev/md0", disk)
        assert added.status == 1
        assert f"can be read only from {disks[2]}, which is out" in added.stderr
    set_table(machine, machine.names(SHAPES)[1], error=False)
    added = fix(machine, "add", "/dev/md0", disks[2])
    assert added.status == 0, added.stderr
    assert machine.read("/sys/block/md0/md/degraded") == "0"
    check_pattern(machine)


@pytest.mark.guest
def test_a_disk_with_data_is_not_added(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", [disks[0], disks[2]], "--level=1", "--bitmap=none")
    machine.run("mdadm", "/dev/md0", "--fail", disks[2])
    machine.run("mdadm", "/dev/md0", "--remove", disks[2])
    machine.run("mke2fs", "-q", "-t", "ext4", disks[3])
    refused = fix(machine, "add", "/dev/md0", disks[3])
    assert (refused.status, "is not empty: it has ext4" in " ".join(refused.stdout.split())) == (1, True)
    machine.create("/dev/md1", [disks[4], disks[5]], "--level=1")
    refused = fix(machine, "add", "/dev/md0", disks[4])
    assert (refused.status, "is in use" in refused.stdout) == (1, True)
    machine.run("mdadm", "--stop", "/dev/md1")
    refused = fix(machine, "add", "/dev/md0", disks[4])
    assert (refused.status, "linux_raid_member" in refused.stdout) == (1, True)
    # Without a bitmap md refuses a re-add: the former member is written completely.
    added = fix(machine, "add", "/dev/md0", disks[2])
    assert added.status == 0, added.stderr
    assert machine.read("/sys/block/md0/md/degraded") == "0"


@pytest.mark.guest
def test_copied_lists_are_dropped_if_all_copies_agree(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:5], "--level=6", "--chunk=64", "--bitmap=internal")
    write_pattern(machine)
    machine.run("mdadm", "--action=repair", "/dev/md0")
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    for disk in disks[2:5]:
        mark(machine, disk, 1024, 32)
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")
    dropped = fix(machine, "entries", "/dev/md0")
    assert dropped.status == 0, dropped.stderr
    assert "--update=force-no-bbl" in dropped.stdout
    assert machine.lists(disks[:5]) == ["none"] * 5
    check_pattern(machine)


@pytest.mark.guest
def test_copied_lists_stay_if_the_copies_differ(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", [disks[0], disks[2]], "--level=1", "--bitmap=internal")
    write_pattern(machine)
    for disk in disks[0], disks[2]:
        mark(machine, disk, 1024)
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")
    node = f"/sys/block/md0/md/dev-{disks[2].removeprefix('/dev/')}"
    begin = (int(machine.read(f"{node}/offset")) + 1024) * 512
    machine.run("fio", "--name=stale", f"--filename={disks[2]}", "--rw=write", "--bs=4k", "--size=4k",
                f"--offset={begin}", "--direct=1", "--buffer_pattern=0xee")  # fmt: skip
    kept = fix(machine, "entries", "/dev/md0")
    assert kept.status == 1
    assert "the copies of array sector 1024 differ" in " ".join(kept.stdout.split())
    lists = machine.guest.agent.read(["/sys/block/md0/md/dev-*/bad_blocks"])
    assert all((text or "").strip().endswith(" 8") for text in lists.values())


@pytest.mark.guest
def test_a_broken_array_is_started_again(machine: Rig, disks: list[str]) -> None:
    machine.guest.agent.write("/etc/mdadm/mdadm.conf", "CREATE bbl=no\n")
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    write_pattern(machine)
    machine.run("mdadm", "/dev/md0", "--fail", disks[2])
    set_table(machine, machine.names(SHAPES)[1], error=True)
    machine.run("fio", "--name=reads", "--filename=/dev/md0", "--rw=read", "--bs=64k", "--direct=1", check=False)
    assert machine.read("/sys/block/md0/md/array_state") == "broken"
    started = fix(machine, "restart", "/dev/md0")
    assert started.status == 0, started.stderr
    assert machine.guest.agent.read(["/var/lib/blklab/superblocks-*/*"])
    set_table(machine, machine.names(SHAPES)[1], error=False)
    check_pattern(machine)
    added = fix(machine, "add", "/dev/md0", disks[2])
    assert added.status == 0, added.stderr
    check_pattern(machine)


EVERY = os.environ.get("BLKLAB_PROOF") == "every"


@pytest.mark.guest
@pytest.mark.parametrize(("operation", "step"), [("add", 0), ("add-empty", 0), ("replace", 9), ("rebuild", 7)])
def test_killed_and_continued(machine: Rig, operation: str, step: int) -> None:
    if not EVERY and not step:
        pytest.skip("BLKLAB_PROOF=every has it")
    names = machine.names(SHAPES)[:5]
    done = machine.run(
        *payload.command("inside.slots"), operation, "1", str(1 if EVERY else step), *names, timeout=1800
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["ended"] == 0, "it was killed at its last point too"
    assert len(lines) > 1
    for line in lines:
        assert (line["lost"], line["changed"], line["degraded"], line["unfinished_now"]) == (0, 0, "0", 0), line
        assert line["ended"] == 0 or line["again"] == 0, line
