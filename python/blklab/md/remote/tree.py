"""Another machine's arrays, by the same rules as those of this one: what was seen there is laid out
as a tree of files here, for as long as it takes to look at it.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from blklab.md.inventory import inventory
from blklab.md.model import Inventory
from blklab.md.remote.stream import Disk, Stream
from blklab.md.superblocks import reason
from blklab.system.roots import Roots


@dataclass(frozen=True)
class Elsewhere(Roots):
    """A machine that is not this one: none of its names means anything here."""

    top: Path = Path("/")
    disks: Mapping[Path, str] = field(default_factory=dict)
    """Devices of which something is known, and why they could not be read; empty if they could."""

    def shown(self, path: Path) -> str:
        """As it is called there."""
        return f"/{path.relative_to(self.top)}" if path.is_relative_to(self.top) else str(path)

    def status(self, name: Path) -> os.stat_result:
        """Raises OSError: a file of that name here is another."""
        raise FileNotFoundError(errno.ENOENT, "is on another machine", str(name))

    def refusal(self, device: Path) -> str:
        """As dd said it there. A name that leads out of the tree is that of no device."""
        return self.disks.get(device, "no such file or directory")


def seen(found: Stream) -> Inventory:
    """Returns the arrays of the machine that a stream is of. Raises OSError if there is no room."""
    with _tree(found) as roots:
        return inventory(roots, found.mdadm)


@contextmanager
def _tree(found: Stream) -> Iterator[Elsewhere]:
    with (
        TemporaryDirectory(prefix="blklab-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        top = Path(folder).resolve()

        def place(path: str) -> Path:
            made = top / path[1:]
            made.parent.mkdir(parents=True, exist_ok=True)
            return made

        for path in (*found.directories, *found.links.values()):
            place(path).mkdir(exist_ok=True)
        for path, content in found.files.items():
            place(path).write_bytes(content.encode(errors="surrogateescape"))
        for path, target in found.links.items():
            place(path).symlink_to(top / target[1:])
        for path in found.unread:
            # It is there, and root, too, cannot read it.
            place(path).symlink_to("may-not-be-read")
        disks = {}
        for path, disk in found.disks.items():
            made = place(path)
            disks[made] = reason(disk.refused.rpartition(": ")[2])
            if not disk.refused:
                made.symlink_to(f"/proc/self/fd/{_file(disk, stack)}")
        yield Elsewhere(proc=top / "proc", sys=top / "sys", dev=top / "dev", top=top, disks=disks)


def _file(disk: Disk, stack: ExitStack) -> int:
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
