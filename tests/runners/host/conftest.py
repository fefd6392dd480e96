"""Machines made of files, and real loop devices where they can be had."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.runners.host import settings
from blklab.system.layers import SysfsLayer, layers
from blklab.system.roots import Roots
from tests.loop_devices import attach_loop_device
from tests.system.machine import Machine

MIB = 1 << 20


class Loops:
    """Makes loop devices over files below a directory, and takes them down again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.attached: list[str] = []

    def file(self, name: str = "disk", size: int = 64 * MIB) -> Path:
        path = self.directory / name
        with path.open("ab") as file:
            file.truncate(size)
        return path

    def attach(self, file: Path, *options: str) -> str:
        """Returns the device, /dev/loopN."""
        device = attach_loop_device(file, *options)
        self.attached.append(device)
        return device

    def attach_at(self, device: str, file: Path) -> None:
        subprocess.run(["losetup", device, str(file)], check=True, capture_output=True)
        self.attached.append(device)

    def detach(self, device: str) -> None:
        subprocess.run(["losetup", "-d", device], check=True, capture_output=True)
        self.attached.remove(device)

    def detach_all(self) -> None:
        for device in list(self.attached):
            self.detach(device)


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[Loops]:
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("loop devices need root and losetup")
    made = Loops(tmp_path)
    try:
        made.detach(made.attach(made.file("probe", MIB)))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device can be made: {error.stderr}")
    yield made
    made.detach_all()


@pytest.fixture
def here(tmp_path: Path) -> Roots:
    """This machine, with another state directory."""
    return Roots(state=tmp_path / "state")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without devices."""
    return Machine(tmp_path / "machine")


def alive(machine: Machine, pid: int, start: int) -> None:
    machine.proc(f"{pid}/stat", f"{pid} (a (b) c) S" + " 1" * 18 + f" {start} 0 0")


@pytest.fixture
def disks(machine: Machine) -> list[SysfsLayer]:
    """A RAID-5 of two disks' partitions."""
    machine.proc("sys/kernel/random/boot_id", "boot-1")
    machine.proc("sys/vm/dirty_ratio", "20")
    machine.proc("sys/vm/dirty_bytes", "0")
    machine.proc("sys/vm/drop_caches", "0")
    alive(machine, os.getpid(), 7)
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        machine.device(
            name,
            number,
            device__serial=f"S-{name}",
            device__queue_depth="31",
            diskseq=number.partition(":")[2],
            queue__scheduler="none [mq-deadline] bfq",
            queue__nr_requests="64",
            queue__wbt_lat_usec="75000",
            queue__read_ahead_kb="128",
            queue__iosched__read_expire="400",
        )
        machine.device(f"{name}1", number[:-1] + str(int(number[-1]) + 1), parent=name)
    machine.device(
        "md0",
        "9:0",
        slaves="sda1 sdb1",
        queue__scheduler="none",
        queue__nr_requests="128",
        queue__read_ahead_kb="1024",
        md__stripe_cache_size="256",
        md__sync_speed_min="1000 (system)",
    )
    return layers(["9:0"], machine.roots)


def attribute(machine: Machine, name: str) -> str:
    """Returns what a file of a device in sysfs holds."""
    return (machine.roots.sys / "block" / name).read_text().strip()


KEYS = ("scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec")


def real_values(device: str) -> dict[str, str | None]:
    queue = Path("/sys/block", Path(device).name, "queue")
    return {key: settings.current(queue / key, key) for key in KEYS}


def layers_of(device: str, roots: Roots) -> list[SysfsLayer]:
    """The device alone: what its file is on is the test machine's own disk."""
    number = Path("/sys/class/block", Path(device).name, "dev").read_text().strip()
    return [layer for layer in layers([number], roots) if layer.name == Path(device).name]
