"""A guest with blklab and persistent disks: it can be switched off and on again."""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from blklab.runners.lab.agent import ProgramExit
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.boot import GuestLost, GuestMachine
from blklab.runners.lab.machine.qemu import VirtualDisk, VirtualDisks, VirtualDiskShape
from tests.md.guest import debian, payload
from tests.runners.lab.arrays import names

PAYLOAD = VirtualDiskShape("python", payload.BYTES)
STATE = VirtualDiskShape("state", 32 << 20)
"""The state directory of blklab: /var/lib/blklab."""

DIGEST = "import hashlib, sys; print(hashlib.file_digest(open(sys.argv[1], 'rb'), 'sha256').hexdigest())"


class Rig:
    """The machine: `power()` boots it, `cut()` has the power fail."""

    def __init__(self, image: GuestImage, python: Path, disks: Sequence[VirtualDiskShape], *, memory: int) -> None:
        self._image, self._memory = image, memory
        self._shapes = [*disks, STATE, PAYLOAD]
        self._files = {shape: tempfile.TemporaryFile() for shape in self._shapes[:-1]}  # noqa: SIM115
        for shape, file in self._files.items():
            os.ftruncate(file.fileno(), shape.bytes)
        self._files[PAYLOAD] = python.open("r+b")
        self._fresh = True
        self.guest: GuestMachine

    def __enter__(self) -> Self:
        self.power()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        for file in self._files.values():
            file.close()

    def power(self) -> None:
        """Boots the machine; no array is assembled, and what blklab wrote down is there."""
        try:
            self._boot()
        except GuestLost:
            self._boot()  # QEMU itself crashes now and then: that is not what is tested here
        state, python = names(self.guest, [STATE, PAYLOAD])
        run = self.guest.agent.run
        run(["mkdir", "-p", payload.MOUNTED, "/var/lib/blklab", "/etc/mdadm"])
        if self._fresh:
            run(["mke2fs", "-q", "-t", "ext4", f"/dev/{state}"])
            self._fresh = False
        run(["mount", f"/dev/{state}", "/var/lib/blklab"])
        run(["mount", "-o", "ro", f"/dev/{python}", payload.MOUNTED])

    def _boot(self) -> None:
        self.guest = GuestMachine(self._image, self._shapes, cpus=2, memory=self._memory)
        self.guest._disks = _Kept(self._shapes, self._files)
        try:
            self.guest.start("tcg")
        except BaseException:
            self.guest.end()
            raise

    def cut(self) -> None:
        """Has the power fail."""
        self.guest.end()

    def names(self, shapes: Sequence[VirtualDiskShape]) -> list[str]:
        """Returns what the guest calls disks, as paths."""
        return [f"/dev/{name}" for name in names(self.guest, list(shapes))]

    def run(self, *words: str, check: bool = True, **more: Any) -> ProgramExit:
        return self.guest.agent.run(list(words), check=check, **more)

    def blklab(self, *words: str, **more: Any) -> ProgramExit:
        """Runs blklab; any exit status is accepted."""
        return self.run(*payload.command("blklab.cli"), *words, check=False, **more)

    def read(self, path: str) -> str:
        """Returns a file of the guest."""
        return (self.guest.agent.read([path])[path] or "").strip()

    def write(self, shape: VirtualDiskShape, offset: int, content: bytes) -> None:
        """Writes to a disk beneath the guest, which has not read it yet, or reads it again."""
        os.pwrite(self._files[shape].fileno(), content, offset)

    def digest(self, device: str) -> str:
        """Returns the digest of what a device holds, not of what is cached."""
        self.run("blockdev", "--flushbufs", device)
        return self.run(*payload.PYTHON, "-c", DIGEST, device).stdout.strip()

    def create(self, array: str, members: Sequence[str], *options: str) -> None:
        """Makes an array that is in sync, of disks without anything on them."""
        self.run(
            "mdadm", "--create", array, "--run", "--assume-clean", *options,
            f"--raid-devices={len(members)}", *members,
        )  # fmt: skip

    def lists(self, members: Sequence[str]) -> list[str]:
        """Returns what mdadm says of members' lists: `none`, `empty`, or entries."""
        result = []
        for path in members:
            output = self.run("mdadm", "--examine-badblocks", path, check=False)
            words = (output.stdout + output.stderr).strip()
            if re.match("No bad-blocks list configured", words):
                result.append("none")
            elif re.match("Bad-blocks list is empty", words):
                result.append("empty")
            else:
                result.append(words)
        return result


class _Kept(VirtualDisks):
    """Disks whose files are the rig's."""

    def __init__(self, shapes: Sequence[VirtualDiskShape], files: dict[VirtualDiskShape, Any]) -> None:
        super().__init__(shapes)
        self._files = files

    def _make_disk(self, shape: VirtualDiskShape, serial: str) -> VirtualDisk:
        if shape not in self._files:
            return super()._make_disk(shape, serial)
        return VirtualDisk(len(self.disks), serial, shape, os.dup(self._files[shape].fileno()))


class SystemRig(Rig):
    """A machine that boots Debian with systemd, udev and mdadm's units; the agent is a service."""

    def __init__(
        self,
        image: GuestImage,
        python: Path,
        disks: Sequence[VirtualDiskShape],
        *,
        memory: int,
        system: Path | None = None,
    ) -> None:
        booted, made = debian.make(image)
        system = system or made
        shape = VirtualDiskShape(debian.DISK, system.stat().st_size)
        super().__init__(booted, python, [*disks, shape], memory=memory)
        path = f"/proc/{os.getpid()}/fd/{self._files[shape].fileno()}"
        subprocess.run(["cp", "--sparse=always", str(system), path], check=True)

    def power(self) -> None:
        """Boots the machine, whose udev assembles arrays, and waits until systemd has started everything."""
        super().power()
        self.run("systemctl", "is-system-running", "--wait", check=False)

    def settle(self) -> None:
        """Waits until udev has handled all events."""
        self.run("udevadm", "settle")
