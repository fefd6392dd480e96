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
            key=lambda candidate: (candidate.checksum_holds, candidate.updated, candidate.events),
            default=None,
        )
        superblock = newest
        leftovers = tuple(candidate for candidate in reading.superblocks if candidate is not newest)
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
    arrays = [
        _array(members, newest_superblock)
        for members in groups.values()
        if (newest_superblock := freshest(members))
    ]
    return Inventory(
        tuple(_told_apart(arrays)),
        tuple(strays),
        unseen=tuple(
            f"{candidate.path}: not seen: {candidate.unseen}"
            for candidate in strays
            if candidate.unseen
        ),
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
        key=lambda superblock: (superblock.checksum_holds, superblock.events, superblock.updated),
        default=None,
    )


def _array(members: list[ArrayMember], newest: Superblock) -> Array:
    given = {member.slot for member in members}
    present = [slot for slot, there in enumerate(newest.present) if there]
    ordered = sorted(members, key=lambda other: (other.slot is None, other.slot or 0, other.name))
    return Array(
        name=newest.name or newest.uuid,
        path="",
        uuid=newest.uuid,
        level=newest.level,
        layout=newest.layout,
        chunk=newest.chunk,
        raid_disks=newest.raid_disks,
        metadata=newest.version,
        live=False,
        members=tuple(ordered),
        member_sectors=newest.size,
        label=newest.name,
        size=_size(newest, members),
        state="clean" if newest.resync is None else "not clean",
        # More slots than superblocks have room for: that is damage, not a degraded array.
        degraded=len(newest.present) - len(present) if newest.level in REDUNDANT else None,
        bitmap=any(other.superblock.bitmap for other in members if other.superblock),
        reshaping=any(other.superblock.reshaping for other in members if other.superblock),
        absent=tuple(slot for slot in present if slot not in given),
    )


def _size(newest: Superblock, members: Sequence[ArrayMember]) -> int | None:
    if newest.level == "raid1":
        return newest.size * SECTOR
    if newest.level in PARITIES:
        return newest.size * max(0, newest.raid_disks - PARITIES[newest.level]) * SECTOR
    if newest.level == "raid10" and newest.chunk:
        copies = (newest.layout & 0xFF) * (newest.layout >> 8 & 0xFF)
        chunks = newest.size // (newest.chunk // SECTOR) if newest.chunk >= SECTOR else 0
        return chunks * newest.raid_disks // copies * newest.chunk if copies else None
    given = [member.superblock.data_size for member in members if member.superblock]
    return sum(given) * SECTOR if len(given) == newest.raid_disks else None
