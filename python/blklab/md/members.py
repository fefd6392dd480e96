"""Reads the members of a running array from sysfs and their superblocks."""

import re
from collections.abc import Iterator
from pathlib import Path

from blklab.md.model import ArrayMember
from blklab.md.probing import Probe
from blklab.md.superblocks import SectorRange, Superblock, SuperblockReading
from blklab.system.roots import Roots, entries, text
from blklab.units import SECTOR

PAGE = 4096  # Bytes of a bad-block list that sysfs shows at most
LONGEST_LINE = 32  # Bytes of the longest entry: with less space left in the page, entries may be cut off


def read_members(node: Path, uuid: str, roots: Roots, reader: Probe) -> Iterator[ArrayMember]:
    """Yields the members of the array of a sysfs directory (`…/block/md0`), in order of slots."""
    array_members = [
        _read_member(entry, uuid, roots, reader)
        for entry in entries(node / "md")
        if entry.name.startswith("dev-") and entry.is_dir()
    ]
    yield from sorted(array_members, key=lambda member: (member.slot is None, member.slot or 0, member.name))


def parse_number(words: str | None) -> int | None:
    """Returns the number at the beginning of an attribute; None if there is no number."""
    match = re.match(r"-?\d{1,20}(?!\S)", words or "")
    return int(match[0]) if match else None


def parse_bad_blocks(content: str) -> tuple[SectorRange, ...]:
    """Returns a bad-block list of sysfs, which has a sector and a length in each line."""
    pairs = re.findall(r"^(\d{1,20}) (\d{1,10})$", content, re.M | re.A)
    return tuple(sorted(SectorRange(int(sector), int(length)) for sector, length in pairs if int(length)))


def choose_superblock(reading: SuperblockReading, uuid: str) -> tuple[Superblock | None, tuple[Superblock, ...]]:
    """Returns the superblock with this UUID and the others; with an empty UUID, the first."""
    of_array = [superblock for superblock in reading.members if uuid in {superblock.uuid, _swapped(superblock)}]
    superblock = next(iter(of_array or ([] if uuid else reading.members)), None)
    return superblock, tuple(other for other in reading.members if other is not superblock)


def _swapped(superblock: Superblock) -> str:
    """Returns the UUID as sysfs prints it: for 0.90, mdadm prints its words in another byte order."""
    if superblock.version != "0.90":
        return superblock.uuid
    words = [bytes.fromhex(word)[::-1].hex() for word in superblock.uuid.split(":")]
    return ":".join(words)


def _read_member(directory: Path, uuid: str, roots: Roots, reader: Probe) -> ArrayMember:
    name = directory.name.removeprefix("dev-")
    block = directory / "block"
    node = block.resolve() if block.exists() else None
    path = roots.device(node.name if node else name)
    reading = reader.read_superblocks(path)
    superblock, leftovers = choose_superblock(reading, uuid)
    acknowledged = text(directory / "bad_blocks")
    unacknowledged = parse_bad_blocks(text(directory / "unacknowledged_bad_blocks") or "")
    disk = node.parent if node and (node / "partition").exists() else node
    rotational = text(disk / "queue/rotational") if disk else None
    begin = parse_number(text(node / "start")) if node and disk != node else 0
    sectors = parse_number(text(node / "size")) if node else None
    unseen = reading.failure
    if not unseen and superblock is None and not reading.foreign:
        unseen = "it has no superblock of this array"
    return ArrayMember(
        name=node.name if node else name,
        path=roots.shown(path),
        slot=parse_number(text(directory / "slot")),
        states=tuple((text(directory / "state") or "").replace(",", " ").split()),
        errors=parse_number(text(directory / "errors")),
        superblock=superblock,
        leftovers=leftovers,
        foreign=reading.foreign,
        listed=None if acknowledged is None else tuple(sorted({*parse_bad_blocks(acknowledged), *unacknowledged})),
        listed_cut=acknowledged is not None and len(acknowledged) > PAGE - LONGEST_LINE,
        unacknowledged=len(unacknowledged),
        data_offset=parse_number(text(directory / "offset")),
        size=None if sectors is None else sectors * SECTOR,
        start=None if begin is None else begin * SECTOR,
        rotational={"0": False, "1": True}.get(rotational or ""),
        transport="NVMe" if disk and disk.name.startswith("nvme") else "",
        physical_block=parse_number(text(disk / "queue/physical_block_size")) if disk else None,
        unseen=unseen,
    )
