"""Arrays out of images, or devices, of another machine's members."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blklab.md.model import PARITIES, REDUNDANT, Array, ArrayMember, Inventory
from blklab.md.superblocks import SECTOR, Superblock, read


def inventory(paths: Sequence[Path]) -> Inventory:
    """Returns the arrays that images are members of; what they do not tell is None."""
    groups: dict[tuple[str, str], list[ArrayMember]] = {}
    strays = []
    for path in dict.fromkeys(paths):
        reading = read(path)
        # A device with several superblocks belongs to the array that wrote to it last.
        newest = max(
            reading.superblocks,
            key=lambda one: (one.checksum_holds, one.updated, one.events),
            default=None,
        )
        superblock = newest
        leftovers = tuple(one for one in reading.superblocks if one is not newest)
        member = ArrayMember(
            name=str(path),
            path=str(path),
            slot=superblock.slot if superblock else None,
            superblock=superblock,
            leftovers=leftovers,
            foreign=reading.foreign,
            data_offset=superblock.data_offset if superblock else None,
            unseen=reading.failure,
        )
        if superblock is None:
            strays.append(member)
        else:
            groups.setdefault(superblock.key, []).append(member)
    arrays = [_array(members, told) for members in groups.values() if (told := freshest(members))]
    return Inventory(
        tuple(_told_apart(arrays)),
        tuple(strays),
        unseen=tuple(f"{one.path}: not seen: {one.unseen}" for one in strays if one.unseen),
    )


def _told_apart(arrays: list[Array]) -> list[Array]:
    """Has arrays of one name called by their UUID as well."""
    many = Counter(array.name for array in arrays)
    return [
        replace(array, name=f"{array.name} {array.uuid} {array.metadata}")
        if many[array.name] > 1
        else array
        for array in arrays
    ]


def freshest(members: Sequence[ArrayMember]) -> Superblock | None:
    """Returns the superblock that was written last: what it says of the array holds."""
    return max(
        (member.superblock for member in members if member.superblock),
        key=lambda one: (one.checksum_holds, one.events, one.updated),
        default=None,
    )


def _array(members: list[ArrayMember], told: Superblock) -> Array:
    given = {member.slot for member in members}
    present = [slot for slot, there in enumerate(told.present) if there]
    ordered = sorted(members, key=lambda one: (one.slot is None, one.slot or 0, one.name))
    return Array(
        name=told.name or told.uuid,
        path="",
        uuid=told.uuid,
        level=told.level,
        layout=told.layout,
        chunk=told.chunk,
        raid_disks=told.raid_disks,
        metadata=told.version,
        live=False,
        members=tuple(ordered),
        member_sectors=told.size,
        label=told.name,
        size=_size(told, members),
        state="clean" if told.resync is None else "not clean",
        # More slots than superblocks have room for: that is damage, not a degraded array.
        degraded=len(told.present) - len(present) if told.level in REDUNDANT else None,
        bitmap=any(one.superblock.bitmap for one in members if one.superblock),
        reshaping=any(one.superblock.reshaping for one in members if one.superblock),
        absent=tuple(slot for slot in present if slot not in given),
    )


def _size(told: Superblock, members: Sequence[ArrayMember]) -> int | None:
    if told.level == "raid1":
        return told.size * SECTOR
    if told.level in PARITIES:
        return told.size * max(0, told.raid_disks - PARITIES[told.level]) * SECTOR
    if told.level == "raid10" and told.chunk:
        copies = (told.layout & 0xFF) * (told.layout >> 8 & 0xFF)
        chunks = told.size // (told.chunk // SECTOR) if told.chunk >= SECTOR else 0
        return chunks * told.raid_disks // copies * told.chunk if copies else None
    given = [one.superblock.data_size for one in members if one.superblock]
    return sum(given) * SECTOR if len(given) == told.raid_disks else None
