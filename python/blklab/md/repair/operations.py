"""What a repair sees of its array and does to it: the machine's own, or a test's."""

# ruff: noqa: D102  # ArrayOps says what each operation of MachineOps does

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from blklab.diagnostic import Diagnostic
from blklab.md import inventory, journal_directory
from blklab.md.host_software import software
from blklab.md.members import number
from blklab.md.model import Software
from blklab.md.repair import array_state, journal, mdadm
from blklab.md.repair.array_state import ArrayState
from blklab.md.repair.environment_checks import busy_neighbour
from blklab.md.repair.preconditions import refusals
from blklab.md.repair.task import RemovedSpare, RepairTask
from blklab.system.roots import Roots, text


class ArrayOps(Protocol):
    """The operations of a repair."""

    def node(self, task: RepairTask) -> Path:
        """Returns the array's directory in sysfs, `/sys/block/md0`. Raises BlklabError."""

    def array(self, task: RepairTask) -> str:
        """Returns the array's path."""

    def observe(self, task: RepairTask) -> ArrayState:
        """Looks at the array and at the disks of the task."""

    def refused(self, task: RepairTask) -> Iterator[Diagnostic]:
        """Yields why the array is not to be touched now."""

    def with_lists(self, task: RepairTask) -> list[str]:
        """Returns the members that have a bad-block list, or cannot be read."""

    def spare_at(self, device: str, path: str, task: RepairTask) -> RemovedSpare:
        """Returns what must be known of a spare to find it again."""

    def device_at(self, path: str, task: RepairTask) -> str | None:
        """Returns the UUID of the member of the array at a path."""

    def busy_neighbour(self, task: RepairTask) -> str:
        """Returns an array on the same disks that md is at work on."""

    def software(self) -> Software:
        """Returns the machine's kernel and mdadm."""

    def mdadm(self, *words: str) -> mdadm.CommandOutput:
        """Runs mdadm until it ends."""

    def mark_all(self, task: RepairTask) -> bool:
        """Has all of a member written anew when it is re-added; tells whether that is so."""

    def written(self, task: RepairTask) -> RepairTask:
        """Returns the task as it was written down. Raises BlklabError."""

    def write(self, task: RepairTask) -> None:
        """Writes the task down; it is on the disk when this returns. Raises BlklabError."""

    def remove(self, task: RepairTask) -> None:
        """Forgets what was written down."""

    def clock(self) -> float:
        """Returns seconds that only grow."""

    def sleep(self, seconds: float) -> None:
        """Waits."""


class MachineOps:
    """The operations on the arrays of a machine."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def node(self, task: RepairTask) -> Path:
        return array_state.node_of(task.uuid, self.roots)

    def array(self, task: RepairTask) -> str:
        return str(self.roots.dev / self.node(task).name)

    def observe(self, task: RepairTask) -> ArrayState:
        return array_state.observe(task, self.roots)

    def refused(self, task: RepairTask) -> Iterator[Diagnostic]:
        array = inventory.array(self.node(task), self.roots)
        return refusals(array, self.software(), self.roots)

    def with_lists(self, task: RepairTask) -> list[str]:
        return array_state.with_lists(task.uuid, self.roots)

    def spare_at(self, device: str, path: str, task: RepairTask) -> RemovedSpare:
        return array_state.spare_at(device, path, task, self.roots)

    def device_at(self, path: str, task: RepairTask) -> str | None:
        return array_state.device_at(Path(path), task.uuid, self.roots)

    def busy_neighbour(self, task: RepairTask) -> str:
        return busy_neighbour(self.node(task), self.roots)

    def software(self) -> Software:
        return software(self.roots)

    def mdadm(self, *words: str) -> mdadm.CommandOutput:
        return mdadm.run(*words)

    def mark_all(self, task: RepairTask) -> bool:
        """Sets every bit of the bitmap: drivers/md/md.c, `bitmap_store`; others are passed over."""
        md = self.node(task) / "md"
        sectors = (number(text(md / "component_size")) or 0) * 2 * max(1, task.raid_disks)
        chunk = number(text(md / "bitmap/chunksize")) or 0
        try:
            (md / "bitmap_set_bits").write_text(f"0-{sectors * 512 // chunk}")
        except (OSError, ZeroDivisionError):
            return False
        return True

    def written(self, task: RepairTask) -> RepairTask:
        return journal.read(journal_directory.path_of(task.uuid, self.roots))

    def write(self, task: RepairTask) -> None:
        journal.write(task, self.roots)

    def remove(self, task: RepairTask) -> None:
        journal.remove(task, self.roots)

    def clock(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
