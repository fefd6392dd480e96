"""The operations by which a repair reads and changes its array; tests replace them.

mdadm's exit status is not reliable: only the state of the array shows the effect.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, EnvironmentLacks
from blklab.md import inventory, probing
from blklab.md.inventory import parse_number
from blklab.md.model import Software
from blklab.md.probing import read_software
from blklab.md.repair import array_state, journal
from blklab.md.repair.array_state import ArrayState
from blklab.md.repair.environment_checks import find_busy_neighbour
from blklab.md.repair.preconditions import check_preconditions
from blklab.md.repair.task import RemovedSpare, RepairTask
from blklab.system.dmsetup import PATH
from blklab.system.roots import Roots, read_text
from blklab.units import SECTOR

INSTALL = "install it: apt-get install mdadm"


@dataclass(frozen=True)
class CommandOutput:
    """What a program printed, and its exit status; mdadm's is not reliable."""

    status: int
    lines: tuple[str, ...]

    @property
    def last(self) -> str:
        """The last line, for messages."""
        return self.lines[-1] if self.lines else f"nothing (exit status {self.status})"


def find_mdadm() -> str:
    """Returns the path of mdadm. Raises EnvironmentLacks if it is not installed."""
    program = shutil.which("mdadm", path=PATH)
    if program is None:
        raise EnvironmentLacks("mdadm is not installed", INSTALL)
    return program


def run_mdadm(*words: str) -> CommandOutput:
    """Runs mdadm as `run_program` does."""
    return run_program(find_mdadm(), *words)


def run_line(line: str) -> CommandOutput:
    """Runs a command line of mdadm. Raises BlklabError for a comment: a name cannot be part of a command."""
    if line.startswith("#"):
        raise BlklabError(line.removeprefix("# "))
    return run_mdadm(*shlex.split(line)[1:])


def run_program(path: str, *words: str) -> CommandOutput:
    """Runs a program until it ends, in a new session, so that Ctrl-C does not reach it."""
    process = subprocess.run(
        [path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
        check=False,
    )
    lines = [line.strip() for line in process.stdout.splitlines()]
    return CommandOutput(process.returncode, tuple(line for line in lines if line))


class MachineOps:
    """The operations on the arrays of this host."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def find_node(self, task: RepairTask) -> Path:
        return array_state.find_array_node(task.uuid, self.roots)

    def array_path(self, task: RepairTask) -> str:
        return str(self.roots.dev / self.find_node(task).name)

    def read_state(self, task: RepairTask) -> ArrayState:
        return array_state.read_array_state(task, self.roots)

    def check_preconditions(self, task: RepairTask) -> Iterator[Diagnostic]:
        array = inventory.read_array(self.find_node(task), self.roots)
        return check_preconditions(array, self.read_software(), self.roots)

    def find_members_with_lists(self, task: RepairTask) -> list[str]:
        return array_state.find_members_with_lists(task.uuid, self.roots)

    def read_spare(self, device: str, path: str, task: RepairTask) -> RemovedSpare:
        return array_state.read_spare(device, path, task, self.roots)

    def find_member_uuid(self, path: str, task: RepairTask) -> str | None:
        return array_state.find_member_uuid(Path(path), task.uuid, self.roots)

    def find_busy_neighbour(self, task: RepairTask) -> str:
        return find_busy_neighbour(self.find_node(task), self.roots)

    def read_software(self) -> Software:
        return read_software(self.roots)

    def run_mdadm(self, *arguments: str) -> CommandOutput:
        return run_mdadm(*arguments)

    def mark_all_dirty(self, task: RepairTask) -> bool:
        """Sets all bits of the bitmap (drivers/md/md.c, `bitmap_store`; md ignores excess bits)."""
        md = self.find_node(task) / "md"
        sectors = (parse_number(read_text(md / "component_size")) or 0) * 2 * max(1, task.raid_disks)
        chunk = parse_number(read_text(md / "bitmap/chunksize")) or 0
        try:
            (md / "bitmap_set_bits").write_text(f"0-{sectors * SECTOR // chunk}")
        except (OSError, ZeroDivisionError):
            return False
        return True

    def read_journal(self, task: RepairTask) -> RepairTask:
        return journal.read_journal(probing.journal_path(task.uuid, self.roots))

    def write_journal(self, task: RepairTask) -> None:
        journal.write_journal(task, self.roots)

    def remove_journal(self, task: RepairTask) -> None:
        journal.remove_journal(task, self.roots)

    def clock(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
