"""Compares members with their saved metadata: whether anything was written there since."""

from pathlib import Path

from blklab.md.rescue.overlay_record import find_known_device
from blklab.md.rescue.saved_index import load_device, read_index
from blklab.md.rescue.saved_metadata import ReadFailed, read_range
from blklab.system.roots import Roots


def find_changes(directory: Path, roots: Roots) -> list[str]:
    """Returns how members differ from their saved metadata, one sentence each; empty if nothing differs.

    Reads only. Raises BlklabError for a directory without saved metadata, or if a copy is damaged.
    """
    changes = []
    for member in read_index(directory).members:
        with load_device(directory, member):
            pass  # The copies are as they were saved
        device = find_known_device(member.path, member.ids, member.size_bytes, roots)
        if device is None:
            changes.append(f"{member.path}: this disk is not here any more")
            continue
        path = device.path
        for saved_range in member.ranges:
            try:
                checksum, unread = read_range(path, saved_range.offset_bytes, saved_range.length_bytes, None)
            except ReadFailed as error:
                changes.append(f"{error}")
                break
            if unread or checksum != saved_range.sha256:
                changes.append(f"{path}: its metadata have changed since they were saved")
                break
    return changes
