"""`blklab md fix bbl` as a user runs it, on a real kernel, and what may come between."""

import re
import shlex
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from blklab.runners.lab.agent import GuestFailed, ProgramExit
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(6)]


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        yield booted


@pytest.fixture
def disks(machine: Rig) -> Iterator[list[str]]:
    """Disks without anything on them."""
    result = machine.names(SHAPES)
    yield result
    machine.run("mdadm", "--stop", "/dev/md0", check=False)
    for name in ("m0", "m1", "m2", "m3"):
        machine.run("dmsetup", "remove", name, check=False)
    machine.run("mdadm", "--zero-superblock", *result, check=False)
    machine.run("rm", "-rf", "/var/lib/blklab/md-fix-left", check=False)


def states(machine: Rig) -> list[str]:
    result = machine.guest.agent.read(["/sys/block/md0/md/dev-*/state"])
    return sorted((text or "").strip().split(",")[0] for text in result.values())


def degraded(machine: Rig) -> str:
    return machine.read("/sys/block/md0/md/degraded")


def unfinished(machine: Rig) -> list[str]:
    return list(machine.guest.agent.read(["/var/lib/blklab/md-fix-*.json"]))


@pytest.mark.guest
def test_while_fio_writes_and_verifies(machine: Rig, disks: list[str]) -> None:
    machine.run(
        "mdadm", "--create", "/dev/md0", "--run", "--assume-clean", "--level=10", "--chunk=64",
        "--bitmap=none", "--raid-devices=4", *disks[:4],
    )  # fmt: skip
    planned = machine.blklab("md", "fix", "bbl", "/dev/md0", "--plan")
    assert planned.status == 0
    assert machine.lists(disks[:4]) == ["empty"] * 4
    fio = [
        "fio", "--name=load", "--filename=/dev/md0", "--direct=1", "--ioengine=libaio",
        "--iodepth=4", "--rw=randwrite", "--bs=4k", "--size=8m", "--rate_iops=200",
        "--number_ios=3000", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=32",
    ]  # fmt: skip
    with machine.guest.agent.running(fio) as exits:
        output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 0, output.stderr
    (load,) = exits
    assert "verify" not in load.stderr
    assert machine.lists(disks[:4]) == ["none"] * 4
    assert (states(machine), degraded(machine)) == (["in_sync"] * 4, "0")
    assert machine.read("/sys/block/md0/md/bitmap/location") == "none"
    # The commands of the plan were those that were run.
    for line in output.stdout.splitlines():
        if line.startswith("    mdadm"):
            assert line.strip() in planned.stdout
    again = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert (again.status, "nothing to do" in again.stdout) == (0, True)
    assert not unfinished(machine)


@pytest.mark.guest
def test_a_list_with_entries_is_explained_and_not_forced(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    node = disks[1].removeprefix("/dev/")
    machine.guest.agent.write(f"/sys/block/md0/md/dev-{node}/bad_blocks", "10000 8")
    machine.run("fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=4k", "--size=4k")
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")
    before = machine.lists(disks[:2])
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 1
    assert "has bad blocks" in " ".join(output.stdout.split())
    assert "\nblklab md fix entries /dev/md0\n" in output.stdout
    assert "force-no-bbl" not in [
        word for line in output.stdout.splitlines() if line[:1] != "#" for word in line.split("=")
    ]
    assert machine.lists(disks[:2]) == before
    assert (states(machine), before[0]) == (["in_sync"] * 2, "empty")
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--plan")
    assert (output.status, "10000-10007" in output.stdout) == (0, True), output.stdout
    assert machine.lists(disks[:2]) == before
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--yes")
    assert output.status == 0, output.stderr
    assert machine.lists(disks[:2]) == ["empty"] * 2
    assert "no list has entries" in machine.blklab("md", "fix", "entries", "/dev/md0", "--yes").stdout
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 0, output.stderr
    assert machine.lists(disks[:2]) == ["none"] * 2


def listed(machine: Rig, member: str, sectors: str) -> None:
    """Has the kernel list sectors of a member, and md write the list."""
    node = f"/sys/block/md0/md/dev-{member.removeprefix('/dev/')}"
    machine.guest.agent.write(f"{node}/bad_blocks", sectors)
    machine.guest.agent.write(f"{node}/state", "write_error")
    machine.run("fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=4k", "--size=4k")
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")


def failing(machine: Rig, name: str, disk: str, target: str, first: int = 9000, after: int = 13000) -> None:
    """Has sectors of a dm device give errors (`error`), forget writes (`zero`), or work (`linear DISK 9000`)."""
    parts = [
        (0, first, f"linear {disk} 0"),
        (first, after, target),
        (after, (32 << 20) // 512, f"linear {disk} {after}"),
    ]
    table = "".join(f"{begin} {end - begin} {words}\\n" for begin, end, words in parts)
    machine.run("/run/python/bin/dash", "-c", f"printf '{table}' | /usr/sbin/dmsetup load {name}")
    machine.run("dmsetup", "suspend", "--noflush", "--nolockfs", name)
    machine.run("dmsetup", "resume", name)


@pytest.mark.guest
def test_a_bad_range_is_not_written_without_its_good_copy_or_against_the_disk(machine: Rig, disks: list[str]) -> None:
    members = mapped(machine, disks[:2])
    machine.create("/dev/md0", members, "--level=1", "--bitmap=internal")
    listed(machine, members[1], "10000 8")
    rewrite = ("md", "fix", "entries", "/dev/md0", "--yes")
    # The disk with the entry does not store it.
    failing(machine, "m1", disks[1], "error")
    output = machine.blklab(*rewrite)
    assert output.status == 1, output.stdout
    assert f"sector 7,952 of the array was not stored by {members[1]} (in_sync,write_error" in output.stderr
    assert "\n    blklab md fix bbl /dev/md0 --plan\n" in output.stdout
    assert "nothing has to be undone" in output.stderr
    assert not unfinished(machine)
    # It works again, and the good copy cannot be read.
    failing(machine, "m1", disks[1], f"linear {disks[1]} 9000")
    failing(machine, "m0", disks[0], "error")
    output = machine.blklab(*rewrite)
    assert output.status == 1, output.stdout
    assert "/dev/md0: cannot read sector 7,952: Input/output error" in output.stderr
    assert output.stdout.count("write the same data again") == 1, "in the plan only"
    assert not unfinished(machine)


@pytest.mark.guest
@pytest.mark.parametrize(("level", "count", "pretending"), [("1", 2, 1), ("5", 3, 1), ("1", 3, 2)])
def test_sectors_that_a_disk_only_pretends_to_store_are_listed_again(
    machine: Rig, disks: list[str], level: str, count: int, pretending: int
) -> None:
    members = mapped(machine, disks[:count])
    machine.create("/dev/md0", members, f"--level={level}", "--bitmap=internal")
    filled = ["fio", "--name=w", "--filename=/dev/md0", "--bs=4k", "--offset=1m", "--size=8m", "--direct=1"]
    machine.run(*filled, "--rw=write", "--verify=crc32c", "--do_verify=0")
    for at in range(pretending):
        listed(machine, members[at], "10000 8")
        listed(machine, members[at], "10008 16")
        failing(machine, f"m{at}", disks[at], "zero", 10000, 10024)
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--yes")
    assert (output.status, "has other data now" in output.stderr) == (1, True), output.stderr
    assert not unfinished(machine)
    machine.run(*filled, "--rw=read", "--verify=crc32c")
    machine.run("mdadm", "--stop", "/dev/md0")
    for words in machine.lists(members)[:pretending]:
        ranges = [tuple(map(int, at)) for at in re.findall(r"(\d+) for (\d+) sectors", words)]
        assert {sector for first, length in ranges for sector in range(first, first + length)} == {*range(10000, 10024)}


@pytest.mark.guest
def test_a_disk_that_stores_data_again_loses_its_list(machine: Rig, disks: list[str]) -> None:
    members = mapped(machine, disks[:2])
    machine.create("/dev/md0", members, "--level=1", "--bitmap=internal")
    listed(machine, members[1], "10000 8")
    failing(machine, "m1", disks[1], "error")
    assert machine.blklab("md", "fix", "entries", "/dev/md0", "--yes").status == 1
    failing(machine, "m1", disks[1], f"linear {disks[1]} 9000")
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--yes")
    assert output.status == 0, output.stderr
    # md wants the disk to be replaced, after its write error.
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    (line,) = [line for line in output.stdout.splitlines() if "echo -want_replacement > " in line]
    assert output.status == 1
    machine.guest.agent.write(line.partition(" > ")[2].strip(), "-want_replacement")
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 0, output.stdout + output.stderr
    assert machine.lists(members) == ["none", "none"]


@pytest.mark.guest
def test_bad_ranges_of_an_array_in_use_are_not_written(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    listed(machine, disks[1], "10000 8")
    machine.run("mke2fs", "-q", "-t", "ext4", "/dev/md0")
    machine.run("mkdir", "-p", "/mnt/a")
    machine.run("mount", "/dev/md0", "/mnt/a")
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--yes")
    assert output.status == 1
    text = " ".join(output.stdout.split())
    assert "md0 is mounted at /mnt/a: what is written between a read and a write of blklab would be lost" in text
    assert " umount /mnt/a\n" in output.stdout
    assert "write the same data" not in output.stdout
    machine.run("umount", "/mnt/a")
    writer = ["fio", "--name=w", "--filename=/dev/md0", "--rw=randwrite", "--rate_iops=1", "--size=8m", "--time_based"]
    # fio ends with an error when it is interrupted.
    with suppress(GuestFailed), machine.guest.agent.running([*writer, "--runtime=600"]):
        plans = (machine.blklab("md", "fix", "entries", "/dev/md0", "--plan") for _ in range(30))
        seen = (" ".join(plan.stdout.split()) for plan in plans)
        assert any("has it open for writing" in text for text in seen), "fio opens it in the end"
    assert machine.lists(disks[:2])[1] != "empty"


def mapped(machine: Rig, disks: Sequence[str]) -> list[str]:
    """Puts dm devices over disks, which can be made to fail."""
    sectors = (32 << 20) // 512
    for at, disk in enumerate(disks):
        machine.run("dmsetup", "create", f"m{at}", "--table", f"0 {sectors} linear {disk} 0")
    result = machine.guest.agent.read(["/sys/block/dm-*/dm/name"])
    nodes = {(name or "").strip(): path.split("/")[3] for path, name in result.items()}
    return [f"/dev/{nodes[f'm{at}']}" for at in range(len(disks))]


def hurt(machine: Rig, *words: str) -> ProgramExit:
    return machine.run(*payload.command("inside.hurt"), *words, check=False)


@pytest.mark.guest
def test_another_member_fails_for_real_while_one_is_out(machine: Rig, disks: list[str]) -> None:
    members = mapped(machine, disks[:4])
    machine.create("/dev/md0", members, "--level=10", "--chunk=64", "--bitmap=internal")
    # Its list is gone by then: md fails it. Of its pair the other one is still there.
    output = hurt(machine, f"--re-add {members[2]}", "/dev/md0", "error", "m0")
    assert output.status == 1
    assert "is faulty, which blklab did not cause" in output.stderr
    assert states(machine) == ["faulty", "in_sync", "in_sync", "in_sync"]
    assert degraded(machine) == "1"
    assert not unfinished(machine)


@pytest.mark.guest
def test_the_removed_member_dies_and_is_replaced(machine: Rig, disks: list[str]) -> None:
    members = mapped(machine, disks[:3])
    machine.create("/dev/md0", members, "--level=5", "--chunk=64", "--bitmap=none")
    output = hurt(machine, f"--re-add {members[0]}", "/dev/md0", "error", "m0")
    assert output.status == 1, output.stdout
    assert degraded(machine) == "1"
    assert len(unfinished(machine)) == 1
    audit = machine.blklab("md", "audit")
    assert "blklab md fix --resume" in audit.stdout
    # The cable is plugged in again.
    sectors = (32 << 20) // 512
    machine.run("dmsetup", "load", "m0", "--table", f"0 {sectors} linear {disks[0]} 0")
    machine.run("dmsetup", "suspend", "m0")
    machine.run("dmsetup", "resume", "m0")
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, output.stderr
    assert (states(machine), degraded(machine)) == (["in_sync"] * 3, "0")
    assert machine.lists(members) == ["none"] * 3
    assert machine.read("/sys/block/md0/md/bitmap/location") == "none"
    assert not unfinished(machine)


@pytest.mark.guest
def test_the_last_good_member_has_an_error_while_the_other_one_is_out(machine: Rig, disks: list[str]) -> None:
    """Md then refuses every write, and nothing but stopping the array changes that."""
    members = mapped(machine, disks[:2])
    machine.create("/dev/md0", members, "--level=1", "--bitmap=internal")
    write = ["fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=64k", "--size=24m", "--direct=1"]
    machine.run(*write, "--verify=crc32c", "--do_verify=0")
    output = hurt(machine, f"--re-add {members[0]}", "/dev/md0", "error", "m1")
    assert output.status == 1
    now, risk, following = output.stderr.splitlines()[-3:]
    assert now.startswith("blklab: state: /dev/md0 is broken, 1 of 2 members are in sync, ")
    assert risk == "blklab: data at risk: yes: every write fails; do not add, remove or wipe a member"
    assert following == "blklab: next command: blklab md fix restart /dev/md0 (then the other commands above)"
    sectors = (32 << 20) // 512
    machine.run("dmsetup", "load", "m1", "--table", f"0 {sectors} linear {disks[1]} 0")
    machine.run("dmsetup", "suspend", "--noflush", "--nolockfs", "m1")
    machine.run("dmsetup", "resume", "m1")
    audit = machine.blklab("md", "audit", "--severity", "critical")
    assert (audit.status, "every write to it fails" in " ".join(audit.stdout.split())) == (1, True)
    # It changes nothing as long as the array is broken, and prints the same commands again.
    again = machine.blklab("md", "fix", "--resume")
    assert (again.status, again.stderr) == (1, output.stderr)
    commands = [line.strip() for line in again.stdout.splitlines() if line.startswith("    blklab")]
    assert commands == ["blklab md fix restart /dev/md0", "blklab md fix --resume"]
    started = machine.blklab("md", "fix", "restart", "/dev/md0", "--yes")
    assert started.status == 0, started.stderr
    assert f"mdadm --assemble --force --run /dev/md0 {members[1]}\n" in started.stdout
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, output.stderr
    assert (states(machine), degraded(machine)) == (["in_sync"] * 2, "0")
    assert machine.lists(members) == ["none"] * 2
    machine.run(*write, "--verify=crc32c", "--verify_only")
    assert not unfinished(machine)


@pytest.mark.guest
def test_bad_blocks_that_come_up_in_memory_alone(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    output = hurt(machine, f"--fail {disks[0]}", "/dev/md0", "entries", disks[0], "10000 8")
    assert output.status == 1
    # It is as it was, and all of it was written again.
    assert f"mdadm /dev/md0 --re-add {disks[0]}\n" in output.stdout
    assert (states(machine), degraded(machine)) == (["in_sync"] * 2, "0")
    assert machine.lists(disks[:2]) == ["empty"] * 2
    log = machine.run("dmesg").stdout
    assert re.search("recover(y)? of RAID array md0", log)


@pytest.mark.guest
def test_writes_go_on_though_all_of_blklab_is_killed(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    output = hurt(machine, f"--remove {disks[0]}", "/dev/md0", "killed")
    assert output.status == -9
    assert machine.read("/sys/block/md0/md/suspend_hi") != "0"
    audit = machine.blklab("md", "audit").stdout
    assert "writes-suspended" in audit
    assert "echo 0 > /sys/block/md0/md/suspend_hi" in audit
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, output.stderr
    assert machine.read("/sys/block/md0/md/suspend_hi") == "0"
    machine.run("fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=4k", "--size=64k")
    assert (states(machine), degraded(machine)) == (["in_sync"] * 3, "0")
    assert machine.lists(disks[:3]) == ["none"] * 3


@pytest.mark.guest
def test_writes_go_on_though_the_cgroup_of_blklab_is_frozen(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    output = hurt(machine, f"--remove {disks[0]}", "/dev/md0", "frozen")
    assert output.status == 0, output.stderr
    assert re.search(r"frozen with suspend_hi [1-9]\d*\nwrites resumed", output.stdout)
    assert (states(machine), degraded(machine)) == (["in_sync"] * 3, "0")
    assert machine.lists(disks[:3]) == ["none"] * 3


def partitioned(machine: Rig, shapes: Sequence[VirtualDiskShape]) -> None:
    """Puts two partitions on each disk; the last ends where the disk does."""
    half = (16 << 20) // 512
    entries = [(2048, half - 2048), (half, half)]
    table = b"".join(struct.pack("<B3xB3xII", 0, 0xFD, start, sectors) for start, sectors in entries)
    for shape, disk in zip(shapes, machine.names(shapes), strict=True):
        machine.write(shape, 446, table + bytes(32) + b"\x55\xaa")
        machine.run("blockdev", "--rereadpt", disk)


@pytest.mark.guest
def test_arrays_of_partitions_of_the_same_disks(machine: Rig, disks: list[str]) -> None:
    partitioned(machine, SHAPES[:2])
    ones, twos = ([f"{disk}{at}" for disk in disks[:2]] for at in (1, 2))
    machine.create("/dev/md0", ones, "--level=1", "--bitmap=internal")
    machine.create("/dev/md1", twos, "--level=1", "--bitmap=internal", "--metadata=1.0")
    # While md checks the one, it would not rebuild a member of the other.
    machine.guest.agent.write("/sys/block/md1/md/sync_max", "2048")
    machine.guest.agent.write("/sys/block/md1/md/sync_action", "check")
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert (output.status, "on the same disks (md1: check)" in " ".join(output.stdout.split())) == (1, True)
    assert states(machine) == ["in_sync"] * 2
    machine.guest.agent.write("/sys/block/md1/md/sync_action", "idle")
    machine.guest.agent.write("/sys/block/md1/md/sync_max", "max")
    # The superblock at the end is that of the partition, and can be seen on the disk as well.
    assert hurt(machine, f"--re-add {twos[0]}", "/dev/md1", "killed").status == -9
    assert machine.read("/sys/block/md1/md/degraded") == "1"
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, output.stderr
    assert f"mdadm /dev/md1 --re-add {twos[0]} --update=no-bbl" in output.stdout
    assert machine.read("/sys/block/md1/md/degraded") == "0"
    assert machine.lists(twos) == ["none"] * 2
    machine.run("mdadm", "--stop", "/dev/md1")
    machine.run("mdadm", "--stop", "/dev/md0")
    for shape, disk in zip(SHAPES, disks[:2], strict=False):
        machine.write(shape, 446, bytes(66))
        machine.run("blockdev", "--rereadpt", disk)


@pytest.mark.guest
def test_all_arrays_of_the_host_one_after_the_other(machine: Rig, disks: list[str]) -> None:
    partitioned(machine, SHAPES[:2])
    partitions = [[f"{disk}{number}" for disk in disks[:2]] for number in (1, 2)]
    for number, members in enumerate(partitions, 1):
        machine.create(f"/dev/md{number}", members, "--level=1", "--bitmap=internal")
    fio = ["--rw=write", "--bs=64k", "--size=4m", "--direct=1", "--verify=crc32c", "--do_verify=0"]
    arrays = ["/dev/md1", "/dev/md2"]
    for array in arrays:
        machine.run("fio", f"--name=pattern{array[-1]}", f"--filename={array}", *fio)
    machine.guest.agent.write("/sys/block/md1/md/sync_max", "2048")
    machine.guest.agent.write("/sys/block/md1/md/sync_action", "check")
    refused = machine.blklab("md", "fix", "bbl", "--all", "--yes")
    assert (refused.status, "a check is running: wait until it ends" in refused.stdout) == (1, True), refused
    assert machine.lists(partitions[0] + partitions[1]) == ["empty"] * 4
    machine.guest.agent.write("/sys/block/md1/md/sync_speed_max", "2000")
    machine.guest.agent.write("/sys/block/md1/md/sync_max", "max")
    done = machine.blklab("md", "fix", "bbl", "--all", "--yes", "--wait")
    assert done.status == 0, done.stderr
    assert "/dev/md1, /dev/md2: no member has a bad-block list" in done.stdout
    assert machine.lists(partitions[0] + partitions[1]) == ["none"] * 4
    for array in arrays:
        machine.run("fio", f"--name=pattern{array[-1]}", f"--filename={array}", *fio[:-1], "--verify_only")
    machine.run("mdadm", "--stop", "/dev/md1", "/dev/md2")
    machine.run("mdadm", "--zero-superblock", *partitions[0], *partitions[1])
    for shape, disk in zip(SHAPES, disks[:2], strict=False):
        machine.write(shape, 446, bytes(66))
        machine.run("blockdev", "--rereadpt", disk)


@pytest.mark.guest
def test_the_recipes_do_what_they_say(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--metadata=1.0")
    recipe = machine.blklab("md", "fix", "bbl", "/dev/md0", "--recipe", "offline").stdout
    commands = [shlex.split(line) for line in recipe.splitlines() if line.startswith("mdadm")]
    assert len(commands) == 4
    output = [machine.run(*command).stdout for command in commands]
    assert all("No bad-blocks list configured on" in text for text in output[2:])
    assert states(machine) == ["in_sync"] * 2
    installer = machine.blklab("md", "fix", "bbl", "--recipe", "installer").stdout
    line = re.search(r"^echo '(CREATE bbl=no)' >> (/etc/mdadm/mdadm.conf)", installer, re.M)
    assert line
    machine.guest.agent.write(line[2], line[1] + "\n")
    machine.create("/dev/md1", disks[2:4], "--level=1")
    assert machine.lists(disks[2:4]) == ["none"] * 2
    machine.run("mdadm", "--stop", "/dev/md1")
    machine.guest.agent.write(line[2], "\n")
    # The loop makes each array of the partitions of one number.
    (loop,) = [line for line in installer.splitlines() if line.startswith("for n in 1 2 3 5; do mdadm ")]
    command = loop.removeprefix("for n in 1 2 3 5; do ").removesuffix("; done")
    command = command.replace("/dev/sdX$n", disks[2]).replace("/dev/sdY$n", disks[3]).replace("$n", "1")
    machine.guest.agent.write("/tmp/no-lists.conf", "CREATE bbl=no\n")
    machine.run("mdadm", "--zero-superblock", *disks[2:4])
    machine.run(*shlex.split(command), stdin="y\n")  # the guest has no shell
    assert machine.lists(disks[2:4]) == ["none"] * 2
    assert machine.read("/sys/block/md1/md/bitmap/location") != "none"
    machine.run("mdadm", "--stop", "/dev/md1")


@pytest.mark.guest
def test_the_guide_shows_what_is_printed(machine: Rig, disks: list[str]) -> None:
    guide = (Path(__file__).parents[3] / "docs/howto/repair.md").read_text()
    block = re.search("^# blklab md fix bbl /dev/md0 --plan\n…\n(.*?)^…\n", guide, re.M | re.S)
    assert block
    named = block[1].replace("/dev/sda", disks[0]).replace("/dev/sdb", disks[1])
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--plan").stdout
    assert named in re.sub("^ +", "   ", output, flags=re.M)
