"""Inventories that read the disks now and then, and sysfs each time."""

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from blklab.md.inventory import inventory
from blklab.md.model import Geometry, Inventory, Software
from blklab.md.probing import Probe
from blklab.md.superblocks import SuperblockReading
from blklab.system.identity import BlockDevice
from blklab.system.roots import Roots, text

PATIENCE: Final = 2.0
"""Seconds that a scrape waits for disks. One that hangs must not hide what sysfs says of it."""

NOT_READ: Final = "disks are not read"
SILENT: Final = "the disks do not answer, or not yet"


class InventoryCache:
    """The arrays of this machine, their superblocks as they were when they were last read.

    They are read again when they are older than `every` seconds, and when a member came, went or
    changed: md has then just written to all of them, and none is woken. None: never.
    """

    def __init__(
        self,
        roots: Roots,
        every: float | None,
        *,
        patience: float | None = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        reader: Callable[[], Probe] = Probe,
    ) -> None:
        """`patience` is how many seconds to wait for disks; None: for ever."""
        self.read_at: float | None = None
        """When the superblocks were read, seconds since 1970."""
        self._roots = roots
        self._every = every
        self._patience = patience
        self._clock = clock
        self._reader = reader
        self._known: _KnownArray | None = None
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def seen(self) -> Inventory:
        """Returns what is there; superblocks that were not read say so in `unseen`.

        Raises whatever reading them raised.
        """
        if self._every is None:
            if self._known is None:
                software = self._reader().software(self._roots)
                self._known = _KnownArray(_CachedProbe(NOT_READ, software), None, 0)
            return inventory(self._roots, self._known.memory)
        if (cached := self._remembered(self._every)) is not None:
            return cached
        if self._thread is None or not self._thread.is_alive():
            self._failure = None
            self._thread = threading.Thread(target=self._read, name="superblocks", daemon=True)
            self._thread.start()
        self._thread.join(self._patience)
        if self._failure is not None:
            raise self._failure
        if (cached := self._remembered(math.inf)) is not None:
            return cached
        software = self._known.memory.known if self._known else None
        return inventory(self._roots, _CachedProbe(SILENT, software))

    def _remembered(self, seconds: float) -> Inventory | None:
        """What is there, if what is known is of these members and not older than that."""
        known = self._known
        if known is None or self._clock() - known.since >= seconds:
            return None
        inventory_read = inventory(self._roots, known.memory)
        return inventory_read if known.mark == _mark(inventory_read, self._roots) else None

    def _read(self) -> None:
        recorder = _RecordingProbe(self._reader())
        since, read_at = self._clock(), time.time()
        try:
            mark = _mark(inventory(self._roots, recorder), self._roots)
        except Exception as error:  # whoever waits for it raises it
            self._failure = error
            return
        self._known, self.read_at = _KnownArray(recorder.memory, mark, since), read_at


class _ScrapeProbe(Probe):
    """Leaves out what no metric tells, and what the service may never see."""

    def users(self, device: BlockDevice, roots: Roots) -> list[str]:  # noqa: ARG002
        """Not asked: it might hang."""
        return []

    def repairing(self, uuid: str, roots: Roots) -> bool:
        """What is root's is not held against others: `unseen` is to be 0 where all is well."""
        return bool(super().repairing(uuid, roots))


class _CachedProbe(_ScrapeProbe):
    """Answers with what was read, and `reason` for the rest."""

    def __init__(self, reason: str, software: Software | None = None) -> None:
        self.readings: dict[Path, SuperblockReading] = {}
        self.geometries: dict[Path, tuple[Geometry | None, str]] = {}
        self.known = software
        self._reason = reason

    def superblocks(self, path: Path) -> SuperblockReading:
        return self.readings.get(path) or SuperblockReading(failure=self._reason)

    def geometry(self, path: Path) -> tuple[Geometry | None, str]:
        return self.geometries.get(path) or (None, self._reason)

    def software(self, roots: Roots) -> Software | None:  # noqa: ARG002  # it is of this machine
        return self.known


class _KnownArray(NamedTuple):
    memory: _CachedProbe
    mark: object
    """Of the members that it is of."""
    since: float


class _RecordingProbe(_ScrapeProbe):
    """Asks, and remembers the answers."""

    def __init__(self, reader: Probe) -> None:
        self.memory = _CachedProbe(SILENT)
        self._reader = reader

    def superblocks(self, path: Path) -> SuperblockReading:
        self.memory.readings[path] = self._reader.superblocks(path)
        return self.memory.readings[path]

    def geometry(self, path: Path) -> tuple[Geometry | None, str]:
        self.memory.geometries[path] = self._reader.geometry(path)
        return self.memory.geometries[path]

    def software(self, roots: Roots) -> Software | None:
        self.memory.known = self._reader.software(roots)
        return self.memory.known


def _mark(inventory: Inventory, roots: Roots) -> object:
    """What sysfs tells of members, that changes whenever superblocks may have become others'."""
    return [
        (
            array.name,
            array.uuid,
            array.reshaping,
            [part.name for part in array.parts],
            [
                (
                    member.slot,
                    member.states,
                    member.listed,
                    member.unacknowledged,
                    _identity(member.name, roots),
                )
                for member in array.members
            ],
        )
        for array in inventory.arrays
    ]


def _identity(name: str, roots: Roots) -> tuple[str | None, ...]:
    """A device's numbers; diskseq is a disk's among all that ever were (Linux 5.15)."""
    node = (roots.sys / "class/block" / name).resolve()
    disk = node.parent if (node / "partition").exists() else node
    return name, text(node / "dev"), text(node / "size"), text(disk / "diskseq")
