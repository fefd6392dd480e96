"""The guest's disks: unnamed files, so that nothing of them remains however blklab ends."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.lab.image.cache import directory
from blklab.units import format_size

MOST = 160  # Most disks of a guest: 8 functions in each of 20 PCI slots
SERIAL = 20  # Most characters of a virtio disk's serial number (include/uapi/linux/virtio_blk.h)
RESULTS = "blklab-results"  # The serial number of the disk for results
RESULTS_BYTES = 4 << 30
LEAST_FREE = 256 << 20  # Bytes that must be free for the guest's disks; sparse files take only what is written


@dataclass(frozen=True)
class VirtualDiskShape:
    """The fixed properties of a virtual disk while a guest runs."""

    name: str  # The device's name; its serial number is the beginning of it
    bytes: int
    logical_block_size: int = 512
    physical_block_size: int = 512
    discard: bool = True
    write_back: bool = True
    queue_depth: int | None = None  # A power of two, for one hardware queue; None: QEMU's, one for each processor


@dataclass
class VirtualDisk:
    """A virtual disk and the file behind it."""

    number: int
    serial: str
    shape: VirtualDiskShape
    descriptor: int

    @property
    def id(self) -> str:
        """QEMU's name of it."""
        return f"disk{self.number}"

    def clear(self) -> None:
        """Resets it to zeros. The guest must have closed it."""
        os.ftruncate(self.descriptor, 0)
        os.ftruncate(self.descriptor, self.shape.bytes)

    def read(self, offset: int, many: int) -> bytes:
        """Returns bytes that the guest has written. Raises BlklabError if there are fewer."""
        parts = []
        while many:
            part = os.pread(self.descriptor, min(many, 1 << 24), offset)
            if not part:
                raise BlklabError(f"disk {self.serial}: ends at {offset}, expected {many} more bytes")
            parts.append(part)
            offset, many = offset + len(part), many - len(part)
        return b"".join(parts)


@dataclass
class VirtualDisks:
    """All disks of a guest; the files are removed after the `with` block."""

    shapes: Sequence[VirtualDiskShape]
    directory: Path = field(default_factory=directory)
    disks: dict[VirtualDiskShape, VirtualDisk] = field(default_factory=dict)
    results: VirtualDisk = field(init=False)

    def __enter__(self) -> Self:
        """Makes the files. Raises EnvironmentLacks without enough space."""
        if len(self.shapes) > MOST - 1:
            raise BlklabError(f"{len(self.shapes)} disks: a guest has {MOST - 1} at most")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            room = os.statvfs(self.directory)
            if room.f_bavail * room.f_frsize < LEAST_FREE:
                free = format_size(room.f_bavail * room.f_frsize)
                raise EnvironmentLacks(
                    f"{self.directory}: found {free} free, the guest's disks need at least {format_size(LEAST_FREE)}",
                    "free some space, or set XDG_CACHE_HOME to a larger filesystem",
                )
            for shape in dict.fromkeys(self.shapes):
                self.disks[shape] = self._made(shape, _serial(shape.name, self.serials()))
            self.results = self._made(VirtualDiskShape(RESULTS, RESULTS_BYTES), RESULTS)
        except OSError as error:
            self._close()
            raise EnvironmentLacks(
                f"{self.directory}: cannot make a disk: {error.strerror}",
                "set XDG_CACHE_HOME to a filesystem that supports large files with holes",
            ) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    def every(self) -> list[VirtualDisk]:
        """Returns all disks, with the disk for results last."""
        return [*self.disks.values(), self.results]

    def serials(self) -> set[str]:
        """Returns the serial numbers in use."""
        return {disk.serial for disk in self.disks.values()}

    def _made(self, shape: VirtualDiskShape, serial: str) -> VirtualDisk:
        with tempfile.TemporaryFile(dir=self.directory, prefix="disk-") as file:
            os.ftruncate(file.fileno(), shape.bytes)
            return VirtualDisk(len(self.disks), serial, shape, os.dup(file.fileno()))

    def _close(self) -> None:
        for disk in self.disks.values():
            os.close(disk.descriptor)
        self.disks.clear()
        if hasattr(self, "results"):
            os.close(self.results.descriptor)
            del self.results


def _serial(name: str, taken: set[str]) -> str:
    """Returns a serial number like a device's name, different from all others."""
    serial, number = name[:SERIAL], 2
    while serial in taken or serial == RESULTS:
        ending = f"-{number}"
        serial, number = name[: SERIAL - len(ending)] + ending, number + 1
    return serial
