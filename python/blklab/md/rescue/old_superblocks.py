"""Finds md superblocks that are left on a device, also where no member begins any more. It only reads.

The places: drivers/md/md.c (Linux 6.1), `super_1_load` (1.0: 8 to 12 KiB before the end, 1.1: at the beginning, 1.2:
4 KiB behind it) and `calc_dev_sboffset` (0.90: the last but one whole 64 KiB), of the whole disk and of each
partition. For partitions of a table that is lost, both ends of the device are searched for the magic.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.md.rescue.blocks_volumes import is_gpt
from blklab.md.superblocks import SectorRange, Superblock, read_superblocks
from blklab.units import SECTOR

MAGIC = 0xA92B4EFC  # include/uapi/linux/raid/md_p.h, MD_SB_MAGIC
LITTLE = struct.pack("<I", MAGIC)
BIG = struct.pack(">I", MAGIC)
SEARCHED = 16 << 20  # Bytes at each end
SUPERBLOCK = 4096  # Bytes that are copied and parsed
SUPER_OFFSET_AT = 144  # mdp_superblock_1.super_offset: the superblock's sector on its member
# Words of mdp_super_t: two numbers of two words, whose order is the machine's
EVENTS_AT = 39
CHECKPOINT_AT = 41
ROUND_090 = 64 << 10
# Of a GPT that are read: the number, and bytes of each
MOST_ENTRIES = 128
ENTRY = 128
LARGEST_MEMBER = 1 << 50  # Bytes; a superblock that says it is farther from the beginning of its member is garbage
IMSM = b"Intel Raid ISM Cfg Sig. "  # mdadm's super-intel.c: the last sector but one
DDF = 0xDE11DE11  # SNIA, DDF 2.0, section 4.1: the last sector, big-endian
KINDS = {0: "1.1", 8: "1.2"}  # By super_offset; others are 1.0


@dataclass(frozen=True)
class OldSuperblock:
    """A superblock that is left on a device, or why none can be."""

    kind: str  # `0.90`, `1.0`, `1.1`, `1.2`, `Intel IMSM`, `DDF`, or `partition entries` in place of 1.2
    position: int  # Byte of the device where it is
    member_begin: int | None  # Byte where its member begins, as the superblock says; None if it does not say it
    checksum_holds: bool | None  # None for what has none, or whose checksum is not computed
    place_agrees: bool | None  # Whether the disk, or a partition that is there now, has its superblock here
    big_endian: bool  # Written by a big-endian machine, with 0.90 only
    superblock: Superblock | None  # What it says; None if it cannot be parsed

    def __str__(self) -> str:
        """Returns one sentence."""
        if self.kind == "partition entries":
            return "the place of the 1.2 superblock holds partition entries: a GPT was written over it"
        if self.superblock is None and self.checksum_holds is None:
            return f"{self.kind} metadata at byte {self.position}"
        parts = [f"superblock {self.kind} at byte {self.position}"]
        if self.member_begin is not None:
            parts.append(f"its member begins at sector {self.member_begin // SECTOR}")
        if self.big_endian:
            parts.append("written by a big-endian machine")
        parts.append("its checksum holds" if self.checksum_holds else "its checksum is WRONG")
        if not self.place_agrees:
            parts.append("neither the disk nor a partition of it has its superblock there now")
        return ", ".join(parts)


def find_old_superblocks(path: Path) -> list[OldSuperblock]:
    """Returns the md superblocks of a disk or an image, in the order of their positions, and foreign metadata.

    Raises BlklabError if it cannot be opened or read.
    """
    with SystemErrors(BlklabError, path, ": expected a device or an image that can be read"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _Disk(descriptor).find()
        finally:
            os.close(descriptor)


class _Disk:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.bytes = os.lseek(descriptor, 0, os.SEEK_END)
        disk_range = SectorRange(0, self.bytes // SECTOR)
        self._ranges = [disk_range, *self._read_partitions()]

    def find(self) -> list[OldSuperblock]:
        positions = {position for position in self._search_ends() if 0 <= position <= self.bytes - SECTOR}
        for sectors in self._ranges:
            positions.update(list_places(sectors).values())
        superblocks = []
        for position in sorted(positions):
            old = self._read_superblock(position)
            if old is not None:
                superblocks.append(old)
        return [*superblocks, *self._find_overwritten(superblocks), *self._find_foreign()]

    def _read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position) if position >= 0 else b""

    def _search_ends(self) -> Iterator[int]:
        """Yields where the magic is, in a sector's first bytes: an old partition may begin at any sector."""
        for begin in sorted({0, max(0, self.bytes - SEARCHED) // SECTOR * SECTOR}):
            content = self._read(begin, SEARCHED)
            for magic in (LITTLE, BIG):
                position = content.find(magic)
                while position >= 0:
                    if position % SECTOR == 0:
                        yield begin + position
                    position = content.find(magic, position + 1)

    def _read_superblock(self, position: int) -> OldSuperblock | None:
        content = self._read(position, SUPERBLOCK)
        if len(content) < 256:
            return None
        if content[:4] == BIG and struct.unpack_from(">2I", content, 4) in {(0, 90), (0, 91)}:
            return self._make_old(position, "0.90", swap_superblock(content), None, big_endian=True)
        if content[:4] != LITTLE:
            return None
        major, minor = struct.unpack_from("<2I", content, 4)
        if major == 0 and minor in {90, 91}:
            return self._make_old(position, "0.90", content, None, big_endian=False)
        if major != 1:
            return None
        (super_offset,) = struct.unpack_from("<Q", content, SUPER_OFFSET_AT)
        kind = KINDS.get(super_offset, "1.0")
        begin = position - super_offset * SECTOR
        return self._make_old(position, kind, content, begin if begin >= 0 else None, big_endian=False)

    def _make_old(
        self, position: int, kind: str, content: bytes, begin: int | None, *, big_endian: bool
    ) -> OldSuperblock:
        superblock = parse_copy(kind, content)
        agrees = False
        for sectors in self._ranges:
            is_begin = begin is None or begin == sectors.sector * SECTOR
            is_place = list_places(sectors).get(kind) == position
            agrees = agrees or (is_place and is_begin and (kind == "0.90" or begin is not None))
        holds = superblock.checksum_holds if superblock else False
        return OldSuperblock(kind, position, begin, holds, agrees, big_endian, superblock)

    def _read_partitions(self) -> Iterator[SectorRange]:
        """Yields the partitions of the table that is there now: of a GPT, or the primary ones of an MBR."""
        head = self._read(0, 2 * SECTOR)
        last = self.bytes // SECTOR
        if is_gpt(1, head[SECTOR:]):
            entries = self._read_entries(head[SECTOR:])
            for offset in range(0, len(entries) - ENTRY + 1, ENTRY):
                first, end = struct.unpack_from("<2Q", entries, offset + 32)
                if any(entries[offset : offset + 16]) and first <= end < last:
                    yield SectorRange(first, end - first + 1)
        elif head[510:512] == b"\x55\xaa":
            for offset in range(446, 510, 16):
                kind, first, count = struct.unpack_from("<4xB3x2I", head, offset)
                if kind and count and first + count <= last:
                    yield SectorRange(first, count)

    def _read_entries(self, header: bytes) -> bytes:
        sector, count, size = struct.unpack_from("<QII", header, 72)
        return self._read(sector * SECTOR, min(count, MOST_ENTRIES) * ENTRY) if size == ENTRY else b""

    def _find_overwritten(self, superblocks: list[OldSuperblock]) -> Iterator[OldSuperblock]:
        """Yields the place of the disk's own superblock 1.2 if a GPT's entries are in it (UEFI 2.10, section 5.3)."""
        header = self._read(SECTOR, SECTOR)
        if any(old.kind == "1.2" and old.member_begin == 0 for old in superblocks) or not is_gpt(1, header):
            return
        sector, count, size = struct.unpack_from("<QII", header, 72)
        if sector * SECTOR <= 4096 < sector * SECTOR + count * size:
            yield OldSuperblock("partition entries", 4096, 0, None, None, big_endian=False, superblock=None)

    def _find_foreign(self) -> Iterator[OldSuperblock]:
        last = self.bytes // SECTOR - 1
        if self._read((last - 1) * SECTOR, SECTOR).startswith(IMSM):
            position = (last - 1) * SECTOR
            yield OldSuperblock("Intel IMSM", position, 0, None, True, big_endian=False, superblock=None)
        if self._read(last * SECTOR, 4) == struct.pack(">I", DDF):
            yield OldSuperblock("DDF", last * SECTOR, 0, None, True, big_endian=False, superblock=None)


def list_places(sectors: SectorRange) -> dict[str, int]:
    """Returns where a disk or a partition has its superblock, by version, in bytes of the disk."""
    begin = sectors.sector * SECTOR
    length = sectors.sectors
    places = {"1.1": begin, "1.2": begin + 4096}
    if length >= 16:
        places["1.0"] = begin + (length - 16) // 8 * 8 * SECTOR
    if length >= 128:
        places["0.90"] = begin + length * SECTOR // ROUND_090 * ROUND_090 - ROUND_090
    return places


def parse_copy(kind: str, content: bytes) -> Superblock | None:
    """Parses a superblock wherever it was found: `_core` looks only at a member's places, so it gets a copy in memory.

    The copy is a sparse file in which the superblock is where it says. None if it says what cannot be.
    """
    if kind == "0.90":
        offset = ROUND_090
        size = 2 * ROUND_090
    else:
        offset = struct.unpack_from("<Q", content, SUPER_OFFSET_AT)[0] * SECTOR
        size = offset + (8192 if kind == "1.0" else 1 << 20)
    if offset > LARGEST_MEMBER or offset % 4096:
        return None
    descriptor = os.memfd_create("superblock", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        os.pwrite(descriptor, content, offset)
        reading = read_superblocks(Path(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)
    return next((member for member in reading.members if member.version == kind and member.offset == offset), None)


def swap_superblock(content: bytes) -> bytes:
    """Returns a superblock 0.90 of a big-endian machine in little-endian order.

    All fields are words, except two event counts: their high word comes first on such a machine (md_p.h).
    """
    words = list(struct.unpack(f">{len(content) // 4}I", content[: len(content) // 4 * 4]))
    for index in (EVENTS_AT, CHECKPOINT_AT):
        words[index], words[index + 1] = words[index + 1], words[index]
    return struct.pack(f"<{len(words)}I", *words)
