"""`md overlays` next to udev and systemd, which assemble arrays as soon as members appear."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import debian
from tests.md.guest.rig import SystemRig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(4)]
STORE = VirtualDiskShape("store", 512 << 20)
TRY = "/mnt/try"
RULE = "/run/udev/rules.d/64-md-raid-assembly.rules"


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[SystemRig]:
    try:
        debian.make(guest_image)
    except EnvironmentLacks as error:
        pytest.skip(f"Debian's packages cannot be downloaded: {error}")
    with SystemRig(guest_image, python, [*SHAPES, STORE], memory=1 << 30) as booted:
        yield booted


def list_arrays(machine: SystemRig) -> list[str]:
    states = machine.guest.agent.read(["/sys/block/md*/md/array_state"])
    return sorted(f"{path.split('/')[3]} {(state or '').strip()}" for path, state in states.items())


@pytest.mark.guest
def test_udev_assembles_nothing_while_there_are_overlays(machine: SystemRig) -> None:
    """Two members of a RAID-5 lack the last events; udev has assembled an inactive array of what is left."""
    *members, store = machine.names([*SHAPES, STORE])
    machine.run("mke2fs", "-q", "-F", "-t", "ext4", store)
    machine.run("mount", store, "/mnt")
    machine.create("/dev/md0", members, "--level=5", "--chunk=64")
    machine.run("mke2fs", "-q", "-F", "-t", "ext4", "/dev/md0")
    machine.settle()
    uuid = machine.run("mdadm", "--detail", "--export", "/dev/md0").stdout.partition("MD_UUID=")[2].split()[0]
    machine.run("mdadm", "--stop", "/dev/md0")
    machine.settle()
    for number in (1, 2):
        machine.run("dd", f"if={members[number]}", f"of=/mnt/head{number}", "bs=4k", "count=2")
    for _ in range(2):
        machine.run("mdadm", "--assemble", "/dev/md0", *members)
        machine.run("dd", "if=/dev/md0", "of=/dev/md0", "bs=4k", "count=1", "oflag=direct")
        machine.run("mdadm", "--stop", "/dev/md0")
        machine.settle()
    for number in (1, 2):
        machine.run("dd", f"if=/mnt/head{number}", f"of={members[number]}", "bs=4k", "count=2", "conv=fsync")
    machine.settle()
    machine.run("mdadm", "--stop", "--scan", check=False)
    machine.settle()
    for member in members:
        machine.run("mdadm", "--incremental", member, check=False)
    before = machine.run("sha256sum", *members).stdout
    started = machine.blklab("md", "overlays", "start", uuid, TRY, "--yes", timeout=600)
    machine.settle()
    assert started.status == 0, started.stdout + started.stderr
    assert "The array runs on the overlays, and nothing is wrong with what was checked." in started.stdout
    assert machine.run("readlink", RULE).stdout.strip() == "/dev/null"
    assert list_arrays(machine) == ["md127 readonly"]
    assert [machine.read(f"/sys/class/block/{Path(member).name}/ro") for member in members].count("1") == 3
    rescued = machine.blklab("md", "rescue", uuid, timeout=600)
    assert "The data are probably all there" in rescued.stdout
    assert machine.run("sha256sum", *members).stdout == before

    stopped = machine.blklab("md", "overlays", "stop", TRY, timeout=600)
    machine.settle()
    assert stopped.status == 0, stopped.stderr
    assert machine.run("readlink", RULE, check=False).status != 0
    assert [machine.read(f"/sys/class/block/{Path(member).name}/ro") for member in members] == ["0"] * 4
    assert machine.run("sha256sum", *members).stdout == before

    assembled = machine.blklab("md", "fix", "assemble", uuid, "--overlays", TRY, "--yes", timeout=600)
    assert assembled.status == 0, assembled.stdout + assembled.stderr
    (array,) = list_arrays(machine)
    assert array.split()[1] in {"clean", "active", "read-auto"}
    machine.run("e2fsck", "-f", "-n", f"/dev/{array.split()[0]}")
    machine.run("mdadm", "--stop", f"/dev/{array.split()[0]}")
