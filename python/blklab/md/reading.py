"""What an inventory asks besides sysfs: disks and programs, which are dearer to ask."""

from pathlib import Path

from blklab.md import filesystems, software, superblocks
from blklab.md.model import Geometry, Software
from blklab.md.repair import journal
from blklab.md.superblocks import Reading
from blklab.system.roots import Roots, text


class Reader:
    """Asks each time. Reading a superblock wakes a disk that has spun down; sysfs does not."""

    def superblocks(self, path: Path) -> Reading:
        """Returns a member's superblocks."""
        return superblocks.read(path)

    def geometry(self, path: Path) -> tuple[Geometry | None, str]:
        """Returns what a filesystem believes, or why that could not be read."""
        return filesystems.geometry(path)

    def repairing(self, uuid: str, roots: Roots) -> bool:
        """Tells whether a repair of an array is written down here as unfinished."""
        return text(journal.path_of(uuid, roots)) is not None

    def software(self, roots: Roots) -> Software | None:
        """Returns what is installed and set; None if that is not known."""
        return software.software(roots)
