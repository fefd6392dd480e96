"""Completes outputs of `mdadm --examine` of which grep has left a few fields: `… | egrep 'Event|Role|State|/dev/sd'`.

Level, layout and number of slots are those of the array that the text shows otherwise.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from blklab.md.audit.rule import list_names
from blklab.md.levels import layout_name
from blklab.md.model import Array
from blklab.md.pasted.blocks import TextBlock
from blklab.md.pasted.examine import read_events, read_superblock
from blklab.md.pasted.versions import ExaminedMember, Place
from blklab.units import format_size

MAGIC = "a92b4efc"


@dataclass(frozen=True)
class PartialMember:
    """A few fields of `mdadm --examine`."""

    block: TextBlock
    place: Place


def is_partial(block: TextBlock) -> bool:
    """Whether a block has a few fields of a member's superblock: no magic, but its events and its role."""
    fields = block.fields
    has_role = "device role" in fields or "array state" in fields
    return (
        bool(block.device) and "magic" not in fields and has_role and read_events(fields.get("events", "")) is not None
    )


def complete_members(
    partial_members: Sequence[PartialMember], arrays: Sequence[Array], notes: list[str]
) -> Iterator[ExaminedMember]:
    """Yields members with the geometry of their arrays; notes which fields are missing."""
    completed: dict[str, list[str]] = {}
    unknown = []
    for member in partial_members:
        array = _find_array(member.block, arrays)
        superblock = None if array is None else read_superblock(_complete_block(member.block, array))
        if array is None or superblock is None:
            unknown.append(member.block.device)
            continue
        completed.setdefault(array.name, []).append(member.block.device)
        yield ExaminedMember(member.block.device, superblock, member.place, is_partial=True)
    for name, paths in completed.items():
        notes.append(
            f"{list_names(list(dict.fromkeys(paths)), 24)}: the text shows only some fields of mdadm --examine: level "
            f"and layout are those of {name}. Paste all of the output"
        )
    if unknown:
        paths = list(dict.fromkeys(unknown))
        notes.append(f"{list_names(paths, 24)}: not seen: the text shows only some fields of mdadm --examine")


def _find_array(block: TextBlock, arrays: Sequence[Array]) -> Array | None:
    """Returns the array of a member: by its UUID, by its path, or by the number of slots if that is unique."""
    candidates = [array for array in arrays if array.level and array.raid_disks and not array.external]
    uuid = block.fields.get("array uuid", "")
    for array in candidates:
        paths = {member.path for member in array.members}
        if (uuid and uuid == array.uuid) or (not uuid and block.device in paths):
            return array
    letters = re.match(r"[AR._]+", block.fields.get("array state", ""))
    same = [array for array in candidates if letters and array.raid_disks == len(letters[0])]
    return same[0] if len(same) == 1 and not uuid else None


def _complete_block(block: TextBlock, array: Array) -> TextBlock:
    fields = {
        "magic": MAGIC,
        "version": array.metadata or "1.2",
        "array uuid": array.uuid or f"*:*:*:{array.name}",
        "raid level": array.level,
        "raid devices": str(array.raid_disks),
        "layout": layout_name(array.level, array.layout),
        "chunk size": format_size(array.chunk).replace(" KiB", "K").replace(" MiB", "M") if array.chunk else "",
        "used dev size": str(array.member_sectors),
    }
    return replace(block, fields={**fields, **block.fields})
