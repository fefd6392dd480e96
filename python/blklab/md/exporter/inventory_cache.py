"""Reads the inventory of this host with cached superblocks."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from blklab.md.inventory import read_inventory
from blklab.md.member_devices import find_candidates
from blklab.md.model import Geometry, Inventory, Software
from blklab.md.probing import Probe
from blklab.md.superblocks import SuperblockReading
from blklab.system.identity import BlockDevice
from blklab.system.mounts import list_all_mounts
from blklab.system.roots import Roots, read_text

DISK_TIMEOUT_S = 2.0  # Time that a scrape waits for disks. A disk that hangs must not hide its values in sysfs.
NOT_READ = "disks are not read"
NO_ANSWER = "the disks have not answered yet"
Value = TypeVar("Value")


@dataclass(eq=False)
class InventoryCache:
    """The arrays of this host with cached superblocks.

    Superblocks are read again when they are older than `max_age` seconds, and when a member appears, disappears or
    changes: md has then just written to all disks, so no disk in standby is spun up. None: they are never read.
    """

    roots: Roots
    max_age: float | None
    timeout: float | None = DISK_TIMEOUT_S  # Time to wait for disks, seconds; None: no limit
    clock: Callable[[], float] = time.monotonic
    reader: Callable[[], Probe] = Probe
    read_at: float | None = field(default=None, init=False)  # When the superblocks were read, seconds since 1970
    _memory: "_Memory | None" = field(default=None, init=False)
    _failure: Exception | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def read(self) -> Inventory:
        """Returns the inventory; `unseen` lists superblocks that were not read.

        Raises the exceptions that occurred while superblocks were read.
        """
        if self.max_age is None:
            if self._memory is None:
                self._memory = _Memory(NOT_READ, software=self.reader().read_software(self.roots))
            return read_inventory(self.roots, self._memory)
        if (inventory := self._read_cached(self.max_age)) is not None:
            return inventory
        if self._thread is None or not self._thread.is_alive():
            self._failure = None
            self._thread = threading.Thread(target=self._read, name="superblocks", daemon=True)
            self._thread.start()
        self._thread.join(self.timeout)
        if self._failure is not None:
            raise self._failure
        if (inventory := self._read_cached(math.inf)) is not None:
            return inventory
        software = self._memory.read_software(self.roots) if self._memory else None
        return read_inventory(self.roots, _Memory(NO_ANSWER, software=software))

    def _read_cached(self, max_age: float) -> Inventory | None:
        """Returns the inventory if the cache is of the present members and not older than that."""
        memory = self._memory
        if memory is None or self.clock() - memory.since >= max_age:
            return None
        inventory = read_inventory(self.roots, memory)
        return inventory if memory.mark == _mark(inventory, self.roots) else None

    def _read(self) -> None:
        """Reads the members first: a disk that hangs and is in no array must not hide them."""
        reader = self.reader()
        read_at = time.time()
        memory = _Memory(NO_ANSWER, reader)
        memory.since = self.clock()
        try:
            inventory = read_inventory(self.roots, memory, with_outside=False)
            memory.mark = _mark(inventory, self.roots)
            memory.reader = None
            memory.take_superblocks(self._memory)
            self._memory = memory
            self.read_at = read_at
            for node in find_candidates(self.roots, inventory.arrays, list_all_mounts(self.roots)):
                path = self.roots.device(node.name)
                memory.remember_superblocks(path, reader.read_superblocks(path))
            # A disk that appears later and is in no array is read with the others.
            memory.failure = NOT_READ
        except Exception as error:  # raised by the thread that waits for it
            self._failure = error


class _Memory(Probe):
    """Reads and remembers; without a reader it only remembers, and `failure` is the reason for everything else.

    Leaves out what no metric needs, and what the service has no permission to read.
    """

    mark: object = None  # Result of `_mark` for the members in the memory
    since = 0.0

    def __init__(self, failure: str, reader: Probe | None = None, software: Software | None = None) -> None:
        self.reader = reader
        self.failure = failure
        self._values: dict[object, Any] = {"software": software}

    def _value(self, key: object, read: Callable[[Probe], Value], default: Value) -> Value:
        if self.reader:
            self._values[key] = read(self.reader)
        value: Value = self._values.get(key, default)
        return value

    def remember_superblocks(self, path: Path, reading: SuperblockReading) -> None:
        self._values["superblocks", path] = reading

    def take_superblocks(self, before: "_Memory | None") -> None:
        """Takes what an older memory has of devices that this one has not read yet."""
        for key, value in before.copy_values().items() if before else ():
            self._values.setdefault(key, value)

    def copy_values(self) -> dict[object, Any]:
        return {key: value for key, value in self._values.items() if isinstance(key, tuple) and key[0] == "superblocks"}

    def read_superblocks(self, path: Path) -> SuperblockReading:
        failure = SuperblockReading(failure=self.failure)
        return self._value(("superblocks", path), lambda reader: reader.read_superblocks(path), failure)

    def read_geometry(self, path: Path) -> tuple[Geometry | None, str]:
        failure: tuple[Geometry | None, str] = (None, self.failure)
        return self._value(("geometry", path), lambda reader: reader.read_geometry(path), failure)

    def read_software(self, roots: Roots) -> Software | None:
        return self._value("software", lambda reader: reader.read_software(roots), None)

    def find_users(self, device: BlockDevice, roots: Roots) -> list[str]:  # noqa: ARG002
        """Returns nothing: the search might hang."""
        return []

    def is_repairing(self, uuid: str, roots: Roots) -> bool:
        """Returns False if permission is denied, so that `unseen` is 0 if all is well."""
        return bool(super().is_repairing(uuid, roots))


def _mark(inventory: Inventory, roots: Roots) -> object:
    """Returns values of members in sysfs that change whenever superblocks may have changed."""
    marks: list[object] = []
    for array in inventory.arrays:
        marks += array.name, array.uuid, array.reshaping, [part.name for part in array.parts]
        for member in array.members:
            marks += member.slot, member.states, member.listed, member.unacknowledged, _identity(member.name, roots)
    return marks


def _identity(name: str, roots: Roots) -> tuple[str | None, ...]:
    """Returns values that identify a device; diskseq is unique for each disk (Linux 5.15)."""
    node = (roots.sys / "class/block" / name).resolve()
    disk = node.parent if (node / "partition").exists() else node
    return name, read_text(node / "dev"), read_text(node / "size"), read_text(disk / "diskseq")
