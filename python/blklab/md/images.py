"""Assembles arrays from images of members, or from devices of another host, for the audit."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from blklab.grouping import by_key
from blklab.md.levels import PARITIES, REDUNDANT
from blklab.md.model import Array, ArrayMember, Inventory, by_slot
from blklab.md.superblocks import Superblock, newest_superblock, read_superblocks
from blklab.text.natural_order import natural_order
from blklab.units import SECTOR


def read_images(paths: Sequence[Path]) -> Inventory:
    """Returns the arrays to which images belong; what images do not contain is None."""
    members = []
    strays = []
    for path, name in _short_names(list(dict.fromkeys(paths))).items():
        reading = read_superblocks(path)
        superblock = newest_superblock(reading)
        leftovers = tuple(other for other in reading.members if other is not superblock)
        member = ArrayMember(
            name=name,
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
            members.append(member)
    return Inventory(
        make_arrays(members),
        tuple(strays),
        unseen=tuple(f"{candidate.path}: not seen: {candidate.unseen}" for candidate in strays if candidate.unseen),
    )


def make_arrays(members: Iterable[ArrayMember]) -> tuple[Array, ...]:
    """Returns the arrays of members with superblocks, in order of their names."""
    groups = by_key((member.superblock.key, member) for member in members if member.superblock)
    arrays = _with_unique_names([make_array(members_of_array) for members_of_array in groups.values()])
    return tuple(sorted(arrays, key=lambda array: natural_order(array.name)))


def _short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Returns names for messages: the shortest different ends of the paths, in the middle cut if long."""
    ends = []  # The ends of all paths, by the number of their parts
    for depth in (1, 2, 3, 4):
        ends.append([str(Path(*path.parts[-depth:])) for path in paths])
    names = []
    for position, path in enumerate(paths):
        unique = (same_depth[position] for same_depth in ends if same_depth.count(same_depth[position]) == 1)
        names.append(next(unique, str(path)))
    for width in (24, 32, 48):
        cut = [name if len(name) <= width else f"{name[: width // 2 - 1]}…{name[-width // 2 :]}" for name in names]
        if len(set(cut)) == len(paths):
            return dict(zip(paths, cut, strict=True))
    return dict(zip(paths, names, strict=True))


def _with_unique_names(arrays: list[Array]) -> list[Array]:
    """Adds the start of the UUID to equal names, and if that is not enough, all of it and the version."""
    names = [array.name for array in arrays]
    for form in ("{0.name} {0.uuid:.8}", "{0.name} {0.uuid} {0.metadata}"):
        counts = Counter(names)
        names = [form.format(array) if counts[name] > 1 else name for array, name in zip(arrays, names, strict=True)]
    return [replace(array, name=name) for array, name in zip(arrays, names, strict=True)]


def make_array(members: list[ArrayMember]) -> Array:
    """Returns the array of members that have superblocks, as the newest accepted one describes it."""
    superblocks = [member.superblock for member in members if member.superblock]
    newest = max(superblocks, key=lambda superblock: (superblock.accepted, superblock.events, superblock.updated))
    slots = {member.slot for member in members}
    present = [slot for slot, is_present in enumerate(newest.present) if is_present]
    positions = [position for position in (one.reshape_position for one in superblocks) if position is not None]
    state = "refused"
    if newest.accepted:
        state = "clean" if newest.resync_offset is None else "not clean"
    return Array(
        name=newest.name or newest.uuid[:8],
        path="",
        uuid=newest.uuid,
        level=newest.level_name,
        layout=newest.layout,
        chunk=newest.chunk,
        # A damaged number of slots must not make sets of four billion elements.
        raid_disks=newest.raid_disks if newest.accepted else len(newest.present),
        metadata=newest.version,
        live=False,
        members=tuple(sorted(members, key=by_slot)),
        member_sectors=newest.size,
        label=newest.name,
        size=_size(newest, members) if newest.accepted else None,
        state=state,
        # Of a refused superblock, the number of slots may be damage.
        degraded=len(newest.present) - len(present) if newest.level_name in REDUNDANT and newest.accepted else None,
        bitmap=any(superblock.bitmap for superblock in superblocks),
        reshaping=bool(positions),
        reshape_position=min(positions, default=None),
        consistency="journal" if newest.journal else "",
        absent=tuple(slot for slot in present if slot not in slots),
    )


def _size(newest: Superblock, members: Sequence[ArrayMember]) -> int | None:
    if newest.level_name == "raid1":
        return newest.size * SECTOR
    if newest.level_name in PARITIES:
        return newest.size * max(0, newest.raid_disks - PARITIES[newest.level_name]) * SECTOR
    if newest.level_name == "raid10" and newest.chunk:
        copies = (newest.layout & 0xFF) * (newest.layout >> 8 & 0xFF)
        chunks = newest.size // (newest.chunk // SECTOR) if newest.chunk >= SECTOR else 0
        return chunks * newest.raid_disks // copies * newest.chunk if copies else None
    sizes = {member.slot: member.superblock.data_size for member in members if member.superblock}
    return sum(sizes.values()) * SECTOR if len(sizes) == newest.raid_disks else None
