"""`blklab md fix metadata` and `md fix entries --from` as a user runs them, on a real kernel."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(4)]
FILL = ["fio", "--name=w", "--filename=/dev/md0", "--bs=4k", "--size=8m", "--direct=1"]
SAVED = "/var/lib/blklab/saved"


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
    machine.run("mdadm", "--zero-superblock", *result, check=False)
    machine.run("rm", "-rf", SAVED, "/var/lib/blklab/sectors", "/var/lib/blklab/more", check=False)


def fill(machine: Rig) -> None:
    machine.run(*FILL, "--rw=write", "--verify=crc32c", "--do_verify=0")


def verify(machine: Rig) -> None:
    machine.run(*FILL, "--rw=read", "--verify=crc32c")


@pytest.mark.guest
def test_a_wrong_create_is_undone(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    fill(machine)
    machine.run("mdadm", "--stop", "/dev/md0")
    output = machine.blklab("md", "rescue", "--save-metadata", SAVED)
    assert "every range was read twice and compared" in output.stderr, output.stderr
    machine.create("/dev/md0", [disks[2], disks[0], disks[1]], "--level=5", "--chunk=512", "--bitmap=none")
    output = machine.blklab("md", "fix", "metadata", SAVED, "--yes")
    assert output.status == 1, output.stdout
    assert "it is in use" in output.stdout
    machine.run("mdadm", "--stop", "/dev/md0")
    output = machine.blklab("md", "fix", "metadata", SAVED, "--yes")
    assert output.status == 0, output.stdout + output.stderr
    assert output.stdout.count("written, read again and compared") == 3
    machine.run("mdadm", "--assemble", "/dev/md0", *disks[:3])
    assert machine.read("/sys/block/md0/md/degraded") == "0"
    verify(machine)
    # The array was written to since: the copy is older, and stays where it is.
    fill(machine)
    machine.run("mdadm", "--stop", "/dev/md0")
    output = machine.blklab("md", "fix", "metadata", SAVED, "--yes")
    assert output.status == 1, output.stdout
    assert "the array was written to since" in " ".join(output.stdout.split())


@pytest.mark.guest
@pytest.mark.parametrize(("level", "count"), [("1", 2), ("10", 4)])
def test_sectors_that_only_a_member_that_is_out_has_are_written(
    machine: Rig, disks: list[str], level: str, count: int
) -> None:
    members = disks[:count]
    machine.create("/dev/md0", members, f"--level={level}", "--bitmap=internal", "--bitmap-chunk=64")
    fill(machine)
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")
    machine.run("mdadm", "/dev/md0", "--fail", members[1])
    machine.run("mdadm", "/dev/md0", "--remove", members[1])
    node = f"/sys/block/md0/md/dev-{members[0].removeprefix('/dev/')}"
    machine.guest.agent.write(f"{node}/bad_blocks", "10000 8")
    machine.guest.agent.write(f"{node}/state", "write_error")
    machine.run("fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=4k", "--offset=24m", "--size=4k")
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")
    output = machine.blklab("md", "audit")
    (first, last) = re.findall(r"[Aa]rray (?:sectors )?(\d+)-(\d+)", output.stdout)[0]
    failed = machine.run(*FILL, "--rw=read", "--verify=crc32c", check=False)
    assert failed.status != 0
    output = machine.blklab("md", "rescue", "--save", f"{first}-{last}", "--from", members[0], "/var/lib/blklab/more")
    assert (output.status, "uses it: expected a member that is out" in output.stderr) == (2, True), output.stderr
    file = "/var/lib/blklab/sectors"
    output = machine.blklab("md", "rescue", "--save", f"{first}-{last}", "--from", members[1], file)
    assert output.status == 0, output.stderr
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--from", file, "--plan")
    assert (output.status, "write 4 KiB" in output.stdout) == (0, True), output.stdout + output.stderr
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--from", file, "--yes")
    assert output.status == 0, output.stdout + output.stderr
    verify(machine)
    assert machine.lists(members[:1]) == ["empty"]
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--from", file, "--yes")
    assert (output.status, "nothing to do" in output.stdout) == (0, True), output.stdout
    # Sectors that were written since the member left are not taken from it.
    machine.guest.agent.write(f"{node}/bad_blocks", "10000 8")
    output = machine.blklab("md", "fix", "entries", "/dev/md0", "--from", file, "--yes")
    assert output.status == 1, output.stdout
    assert "something was written near array" in " ".join(output.stdout.split())
