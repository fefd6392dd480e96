"""Reads what sysfs does not have, from disks and programs."""

from dataclasses import replace
from pathlib import Path

from blklab import dmsetup
from blklab.md import filesystem_geometry, host_software, journal_directory, smartctl, superblocks
from blklab.md.model import Geometry, Software
from blklab.md.superblocks import SuperblockReading
from blklab.system.identity import BlockDevice
from blklab.system.roots import Roots
from blklab.system.users import uses


class Probe:
    """Reads without a cache. Reading a superblock spins up a disk in standby; sysfs does not."""

    def read_superblocks(self, path: Path) -> SuperblockReading:
        """Returns a member's superblocks."""
        return superblocks.read_superblocks(path)

    def read_geometry(self, path: Path) -> tuple[Geometry | None, str]:
        """Returns the geometry that a filesystem assumes, or why it cannot be read."""
        return filesystem_geometry.read_geometry(path)

    def is_repairing(self, uuid: str, roots: Roots) -> bool | None:
        """Whether a repair of an array is unfinished; None: permission denied."""
        # root repairs arrays, whichever user runs this.
        states = {roots.state, roots.state_of_root}
        journals_exist = {
            _exists(journal_directory.journal_path(uuid, replace(roots, state=state))) for state in states
        }
        return True if True in journals_exist else None if None in journals_exist else False

    def find_users(self, device: BlockDevice, roots: Roots) -> list[str]:
        """Returns what uses an array, for messages. It may hang: files of loop devices on a network
        filesystem are examined.
        """
        return uses(device, roots)

    def read_mapping(self, number: str) -> tuple[str, str]:
        """Returns the table of a dm device, or why it cannot be read."""
        return dmsetup.read_table(number)

    def read_smart(self, path: str, kind: str = "") -> tuple[str, str]:
        """Returns smartctl's output for a disk, or why there is none."""
        return smartctl.read_disk(path, kind)

    def read_controllers(self) -> tuple[str, str]:
        """Returns smartctl's list of devices, or why there is none."""
        return smartctl.scan_controllers()

    def read_software(self, roots: Roots) -> Software | None:
        """Returns the host's software and settings; None if unknown."""
        return host_software.read_software(roots)


def _exists(path: Path) -> bool | None:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    return True
