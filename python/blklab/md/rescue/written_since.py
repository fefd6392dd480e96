"""How much was written since a member left, by the write-intent bitmap of the newest member. Reads only.

While a member is out, md sets a bit for each chunk that is written, and clears none (drivers/md/md-bitmap.c,
`md_bitmap_endwrite`). So the bits are at most what the members that left lack.
"""

import os
from collections.abc import Sequence

from blklab.md.model import Array, ArrayMember
from blklab.md.rescue.diagnosis import ArrayRescue, find_newest, list_all_members
from blklab.md.rescue.lost_members import ArrayNote
from blklab.md.rescue.metadata_places import BITMAP_HEADER
from blklab.system.roots import open_descriptor
from blklab.units import SECTOR, format_size

BIT_BITMAPS = (3, 4)  # Versions with a bit for each chunk
MOST_BYTES = 64 << 20  # Of the bits that are read

CONDITIONS = ("degraded", "unclean", "behind", "stale")
"""Conditions in which members left."""


def find_written(rescues: Sequence[ArrayRescue]) -> list[ArrayNote]:
    """Returns a note for each array whose bitmap says what was written since members left."""
    notes = []
    for rescue in rescues:
        if rescue.condition in CONDITIONS:
            sentence = describe_written(rescue.array)
            if sentence:
                notes.append(ArrayNote(rescue.array.name, sentence))
    return notes


def describe_written(array: Array) -> str:
    """Returns what the bitmap of the newest member says; empty if there is none, or if it cannot be believed."""
    newest = find_newest(array)
    member = next((member for member in list_all_members(array) if member.superblock is newest), None)
    if newest is None or member is None:
        return ""
    counts = count_chunks(member)
    if counts is None:
        return ""
    written, total = counts
    share = f"{100 * written / total:.2g} % of the array" if written else "nothing"
    size = f", {format_size(array.size * written // total)}" if written and array.size else ""
    return f"By the bitmap of {member.name}, at most {share}{size} was written since the first of these members left."


def count_chunks(member: ArrayMember) -> tuple[int, int] | None:
    """Returns how many chunks of a member's bitmap are marked as written, and how many there are; None if unknown."""
    superblock = member.superblock
    bitmap = superblock.bitmap_superblock if superblock else None
    if superblock is None or bitmap is None or superblock.bitmap_distrusted or bitmap.version not in BIT_BITMAPS:
        return None
    if bitmap.chunk < SECTOR or bitmap.sync_size <= 0:
        return None
    total = -(-bitmap.sync_size * SECTOR // bitmap.chunk)
    length = -(-total // 8)
    if length > MOST_BYTES:
        return None
    try:
        with open_descriptor(member.path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            content = os.pread(descriptor, length, bitmap.offset + BITMAP_HEADER)
    except OSError:
        return None
    if len(content) < length:
        return None
    bits = int.from_bytes(content, "little") & ((1 << total) - 1)
    return bits.bit_count(), total
