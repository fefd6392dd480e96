"""Disks that may be missing members: without a superblock where one belongs, but of the right size, or with remains.

A partition table or a filesystem that was written over a member leaves the rest of it. Reads 16 MiB at both ends of
each disk that is not known as a member, and nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md.audit.rule import list_names
from blklab.md.member_devices import find_candidates
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.rescue.diagnosis import describe_by_superblocks, find_not_here, is_stopped, list_all_members
from blklab.md.rescue.old_superblocks import OldSuperblock, find_old_superblocks
from blklab.system.identity import of_node
from blklab.system.layers import partitions
from blklab.system.mounts import list_all_mounts
from blklab.system.roots import Roots

FOREIGN = ("Intel IMSM", "DDF")
MOST_DISKS = 64  # Disks that are searched


@dataclass(frozen=True)
class UnknownDisk:
    """A disk, partition or image that is no member of a known array."""

    path: str
    size: int  # Bytes
    id: str  # Its stable id; empty if unknown
    is_divided: bool  # Whether it has partitions


@dataclass(frozen=True)
class ArrayNote:
    """What one disk has to do with an array that does not run."""

    array_name: str  # Empty if it belongs to none that is known
    sentence: str


def list_unknown_disks(inventory: Inventory, roots: Roots) -> list[UnknownDisk]:
    """Returns the disks and partitions of this host that are in no array and have no superblock."""
    member_names = {
        member.name for array in (*inventory.arrays, *inventory.unassembled) for member in list_all_members(array)
    }
    disks = []
    for node in find_candidates(roots, inventory.arrays, list_all_mounts(roots)):
        if node.name in member_names or (node / "md").is_dir():
            continue
        device = of_node(node, roots)
        disks.append(UnknownDisk(device.path, device.size, device.id or "", bool(partitions(node))))
    return disks


def list_unknown_images(inventory: Inventory) -> list[UnknownDisk]:
    """Returns the images without a superblock."""
    disks = []
    for member in inventory.strays:
        disks.append(UnknownDisk(member.path, _measure(member), "", is_divided=False))
    return disks


def _measure(member: ArrayMember) -> int:
    """Returns the bytes of a member's device or image; 0 if unknown."""
    if member.size is not None:
        return member.size
    with suppress(OSError):
        return Path(member.path).stat().st_size
    return 0


def find_lost_members(inventory: Inventory, disks: Sequence[UnknownDisk]) -> list[ArrayNote]:
    """Returns what is left of members on disks that are no members any more."""
    stopped_arrays = []
    for array in (*inventory.unassembled, *inventory.arrays):
        if is_stopped(array) and not array.external:
            stopped_arrays.append(describe_by_superblocks(array))
    notes: list[ArrayNote] = []
    for disk in disks[:MOST_DISKS]:
        try:
            remains = find_old_superblocks(Path(disk.path))
        except BlklabError:
            continue  # The inventory says which disks cannot be read
        notes += _describe_remains(disk, remains, stopped_arrays)
        notes += _compare_sizes(disk, remains, stopped_arrays)
    return notes


def _describe_remains(
    disk: UnknownDisk, remains: Iterable[OldSuperblock], arrays: Sequence[Array]
) -> Iterator[ArrayNote]:
    for old in remains:
        if old.kind in FOREIGN:
            sentence = f"{_name(disk)} has {old.kind} metadata: a RAID of firmware, which blklab does not read."
            yield ArrayNote("", sentence)
        elif old.superblock is not None and not old.place_agrees:
            superblock = old.superblock
            owner = next((array.name for array in arrays if array.uuid == superblock.uuid), "")
            owner_text = "this array" if owner else f"the array {superblock.uuid}"
            slot = "" if superblock.slot is None else f", slot {superblock.slot}"
            yield ArrayNote(owner, f"{_name(disk)} has a remaining superblock of {owner_text}{slot}: {old}.")


def _compare_sizes(disk: UnknownDisk, remains: Sequence[OldSuperblock], arrays: Sequence[Array]) -> Iterator[ArrayNote]:
    """Yields the arrays that lack a member and whose other members have exactly the size of this disk."""
    for array in arrays:
        slots = find_not_here(array)
        if not slots or disk.size not in {_measure(member) for member in array.members}:
            continue
        reason = "its superblock was probably overwritten"
        if any(old.kind == "partition entries" for old in remains):
            reason = "a partition table was written over the place of its superblock"
        elif disk.is_divided:
            reason = "it has a partition table, which may have been written over its superblock"
        missing = f"slot {slots[0]}" if len(slots) == 1 else f"slots {list_names([str(slot) for slot in slots], 12)}"
        yield ArrayNote(
            array.name,
            f"{_name(disk)} has no superblock and exactly the size of the members: it may be the member of {missing}; "
            f"{reason}. Write nothing to it.",
        )


def _name(disk: UnknownDisk) -> str:
    return f"{disk.path} ({disk.id})" if disk.id else disk.path
