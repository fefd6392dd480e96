"""Another machine's arrays, by the same rules as those of this one: what was seen there is laid out
as a tree of files here, for as long as it takes to look at it.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from blklab.md.host_software import software
from blklab.md.inventory import inventory
from blklab.md.model import Geometry, Inventory, Software
from blklab.md.probing import Probe
from blklab.md.remote.probe_output import ProbedDevice, ProbeOutput
from blklab.md.superblocks import SuperblockReading, reason
from blklab.system.roots import Roots


@dataclass(frozen=True)
class RemoteRoots(Roots):
    """A machine that is not this one: none of its names means anything here."""

    top: Path = Path("/")

    def shown(self, path: Path) -> str:
        """As it is called there."""
        return f"/{path.relative_to(self.top)}" if path.is_relative_to(self.top) else str(path)

    def status(self, name: Path) -> os.stat_result:
        """Raises OSError: a file of that name here is another."""
        raise FileNotFoundError(errno.ENOENT, "is on another machine", str(name))


class RecordedProbe(Probe):
    """Answers from what was seen there, and from nothing else."""

    def __init__(self, roots: RemoteRoots, refusals: Mapping[Path, str], mdadm: str) -> None:
        """`refusals`: devices that were looked at, and why they could not be read, if so."""
        self._roots, self._refusals, self._mdadm = roots, refusals, mdadm

    def superblocks(self, path: Path) -> SuperblockReading:
        """As on the spot; a name that leads out of the tree is that of no device."""
        refusal = self._refusal(path)
        return SuperblockReading(failure=refusal) if refusal else super().superblocks(path)

    def geometry(self, path: Path) -> tuple[Geometry | None, str]:
        """As on the spot, of the device by its own name."""
        if refusal := self._refusal(path):
            return None, refusal
        geometry, failure = super().geometry(path)
        return geometry and replace(geometry, device=self._roots.shown(path)), failure

    def repairing(self, uuid: str, roots: Roots) -> bool:  # noqa: ARG002
        """What is written down here is of arrays of this machine."""
        return False

    def software(self, roots: Roots) -> Software:
        """As on the spot; mdadm was asked there."""
        return software(roots, self._mdadm)

    def _refusal(self, path: Path) -> str:
        return self._refusals.get(path, "no such file or directory")


def seen(output: ProbeOutput) -> Inventory:
    """Returns the arrays of the machine that a stream is of. Raises OSError if there is no room."""
    with _tree(output) as (roots, refusals):
        return inventory(roots, RecordedProbe(roots, refusals, output.mdadm))


@contextmanager
def _tree(output: ProbeOutput) -> Iterator[tuple[RemoteRoots, dict[Path, str]]]:
    with (
        TemporaryDirectory(prefix="blklab-", ignore_cleanup_errors=True) as directory,
        ExitStack() as stack,
    ):
        top = Path(directory).resolve()

        def place(path: str) -> Path:
            made = top / path[1:]
            made.parent.mkdir(parents=True, exist_ok=True)
            return made

        for path in (*output.directories, *output.links.values()):
            place(path).mkdir(exist_ok=True)
        for path, content in output.files.items():
            place(path).write_bytes(content)
        for path, target in output.links.items():
            place(path).symlink_to(top / target[1:])
        for path in output.unread:
            # It is there, and root, too, cannot read it.
            place(path).symlink_to("may-not-be-read")
        refusals = {}
        for path, disk in output.disks.items():
            made = place(path)
            refusals[made] = reason(disk.refused.rpartition(": ")[2])
            if not disk.refused:
                made.symlink_to(f"/proc/self/fd/{_file(disk, stack)}")
        roots = RemoteRoots(proc=top / "proc", sys=top / "sys", dev=top / "dev", top=top)
        yield roots, refusals


def _file(disk: ProbedDevice, stack: ExitStack) -> int:
    """Returns an open file as large as the disk; in memory, for few filesystems have 100 TB files.

    Closed by `stack`.
    """
    descriptor = os.memfd_create("blklab-disk", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.ftruncate(descriptor, disk.size)
    for begin, piece in disk.pieces:
        for at in range(0, len(piece), 4096):
            page = piece[at : at + 4096]
            if any(page) and begin + at + len(page) <= disk.size:
                os.pwrite(descriptor, page, begin + at)
    return descriptor
