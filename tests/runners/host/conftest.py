"""Machines made of files, and real loop devices where they can be had."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.system.roots import Roots
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
        made = subprocess.run(
            ["losetup", *options, "--find", "--show", str(file)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        self.attached.append(made)
        return made

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
    """This very machine, but for blklab's state."""
    return Roots(state=tmp_path / "state")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without devices."""
    return Machine(tmp_path / "machine")
