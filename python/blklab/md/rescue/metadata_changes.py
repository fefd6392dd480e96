"""Compares members with their saved metadata: whether anything was written there since."""

from pathlib import Path

from blklab.md.rescue.saved_index import SavedMember, load_device, read_index
from blklab.md.rescue.saved_metadata import ReadFailed, read_range
from blklab.system import identity
from blklab.system.roots import Roots


def find_changes(directory: Path, roots: Roots) -> list[str]:
    """Returns how members differ from their saved metadata, one sentence each; empty if nothing differs.

    Reads only. Raises BlklabError for a directory without saved metadata, or if a copy is damaged.
    """
    changes = []
    for member in read_index(directory).members:
        with load_device(directory, member):
            pass  # The copies are as they were saved
        path = _find_path(member, roots)
        if path is None:
            changes.append(f"{member.path}: this disk is not here any more")
            continue
        for saved in member.ranges:
            try:
                checksum, unread = read_range(path, saved.offset_bytes, saved.length_bytes, None)
            except ReadFailed as error:
                changes.append(f"{error}")
                break
            if unread or checksum != saved.sha256:
                changes.append(f"{path}: its metadata have changed since they were saved")
                break
    return changes


def _find_path(member: SavedMember, roots: Roots) -> str | None:
    """Returns the path of a member now: of a disk with stable ids by these, else by its name; None if it is gone."""
    for known in member.ids:
        for device in identity.called(known, roots):
            if device.size == member.size_bytes:
                return device.path
    if member.ids or not Path(member.path).exists():
        return None
    return member.path
