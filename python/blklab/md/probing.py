"""What an inventory asks besides sysfs: disks and programs, which are dearer to ask."""

from dataclasses import replace
from pathlib import Path

from blklab.md import (
    dmsetup,
    filesystem_geometry,
    host_software,
    journal_directory,
    smartctl,
    superblocks,
)
from blklab.md.model import Geometry, Software
from blklab.md.superblocks import SuperblockReading
from blklab.system.identity import BlockDevice
from blklab.system.roots import Roots
from blklab.system.users import uses


class Probe:
    """Asks each time. Reading a superblock wakes a disk that has spun down; sysfs does not."""

    def superblocks(self, path: Path) -> SuperblockReading:
        """Returns a member's superblocks."""
        return superblocks.read(path)

    def geometry(self, path: Path) -> tuple[Geometry | None, str]:
        """Returns what a filesystem believes, or why that could not be read."""
        return filesystem_geometry.geometry(path)

    def repairing(self, uuid: str, roots: Roots) -> bool | None:
        """Tells whether a repair of an array is written down here as unfinished; None: that may
        not be seen.
        """
        # It is root that repairs, whoever asks.
        states = {roots.state, roots.state_of_root}
        states_found = {
            _is_there(journal_directory.path_of(uuid, replace(roots, state=state)))
            for state in states
        }
        return True if True in states_found else None if None in states_found else False

    def users(self, device: BlockDevice, roots: Roots) -> list[str]:
        """Returns who uses an array, each for a message. Files beneath loop devices are looked at:
        one on a dead server keeps whoever asks waiting.
        """
        return uses(device, roots)

    def mapping(self, number: str) -> tuple[str, str]:
        """Returns the table of a device of the device mapper, or why it could not be read."""
        return dmsetup.table(number)

    def smart(self, path: str, kind: str = "") -> tuple[str, str]:
        """Returns what smartctl says of a disk, or why it could not be asked."""
        return smartctl.disk(path, kind)

    def controllers(self) -> tuple[str, str]:
        """Returns what smartctl finds behind controllers, or why it could not be asked."""
        return smartctl.scan()

    def software(self, roots: Roots) -> Software | None:
        """Returns what is installed and set; None if that is not known."""
        return host_software.software(roots)


def _is_there(path: Path) -> bool | None:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    return True
