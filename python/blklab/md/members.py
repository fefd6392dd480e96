"""Members of a running array, as sysfs and their own superblocks have them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from blklab.md.model import ArrayMember
from blklab.md.probing import Probe
from blklab.md.superblocks import SECTOR, SectorRange, Superblock, SuperblockReading
from blklab.system.roots import Roots, entries, text

PAGE: Final = 4096
"""Bytes that sysfs shows of a list."""

LONGEST_LINE: Final = 32
"""Bytes that an entry may need: less room than that, and there may be more of them."""


def members(node: Path, uuid: str, roots: Roots, reader: Probe) -> Iterator[ArrayMember]:
    """Yields the members of the array of a sysfs directory (`…/block/md0`), in order of slots."""
    members_read = [
        _member(entry, uuid, roots, reader)
        for entry in entries(node / "md")
        if entry.name.startswith("dev-") and entry.is_dir()
    ]
    yield from sorted(
        members_read, key=lambda member: (member.slot is None, member.slot or 0, member.name)
    )


def number(words: str | None) -> int | None:
    """Returns the number that an attribute begins with; None for `none`, and for nothing."""
    match = re.match(r"-?\d{1,20}(?!\S)", words or "")
    return int(match[0]) if match else None


def ranges(content: str) -> tuple[SectorRange, ...]:
    """Returns a list of bad blocks as sysfs writes it: a sector and a length a line."""
    pairs = re.findall(r"^(\d{1,20}) (\d{1,10})$", content, re.M | re.A)
    return tuple(sorted(SectorRange(int(sector), int(many)) for sector, many in pairs if int(many)))


def chosen(
    reading: SuperblockReading, uuid: str
) -> tuple[Superblock | None, tuple[Superblock, ...]]:
    """Returns the superblock of an array and the others; without a UUID, the first."""
    of_array = [
        superblock
        for superblock in reading.superblocks
        if uuid in {superblock.uuid, _swapped(superblock)}
    ]
    mine = next(iter(of_array or ([] if uuid else reading.superblocks)), None)
    return mine, tuple(one for one in reading.superblocks if one is not mine)


def _swapped(superblock: Superblock) -> str:
    """The UUID as sysfs has it: of 0.90 its words are those of memory, and mdadm's are numbers."""
    if superblock.version != "0.90":
        return superblock.uuid
    words = [bytes.fromhex(word)[::-1].hex() for word in superblock.uuid.split(":")]
    return ":".join(words)


def _member(directory: Path, uuid: str, roots: Roots, reader: Probe) -> ArrayMember:
    name = directory.name.removeprefix("dev-")
    block = directory / "block"
    node = block.resolve() if block.exists() else None
    path = roots.device(node.name if node else name)
    reading = reader.superblocks(path)
    superblock, leftovers = chosen(reading, uuid)
    known = text(directory / "bad_blocks")
    waiting = text(directory / "unacknowledged_bad_blocks")
    waits = ranges(waiting or "")
    disk = node.parent if node and (node / "partition").exists() else node
    rotational = text(disk / "queue/rotational") if disk else None
    begin = number(text(node / "start")) if node and disk != node else 0
    sectors = number(text(node / "size")) if node else None
    unseen = reading.failure
    if not unseen and superblock is None and not reading.foreign:
        unseen = "no superblock of this array is on it"
    return ArrayMember(
        name=node.name if node else name,
        path=roots.shown(path),
        slot=number(text(directory / "slot")),
        states=tuple((text(directory / "state") or "").replace(",", " ").split()),
        errors=number(text(directory / "errors")),
        superblock=superblock,
        leftovers=leftovers,
        foreign=reading.foreign,
        listed=None if known is None else tuple(sorted({*ranges(known), *waits})),
        listed_cut=known is not None and len(known) > PAGE - LONGEST_LINE,
        unacknowledged=len(waits),
        data_offset=number(text(directory / "offset")),
        size=None if sectors is None else sectors * SECTOR,
        start=None if begin is None else begin * SECTOR,
        rotational={"0": False, "1": True}.get(rotational or ""),
        transport="NVMe" if disk and disk.name.startswith("nvme") else "",
        physical_block=number(text(disk / "queue/physical_block_size")) if disk else None,
        unseen=unseen,
    )
