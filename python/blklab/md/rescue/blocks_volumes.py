"""Labels and tables that say where they belong: LVM, LUKS, GPT; and where the volumes in them begin.

Offsets of fields: lvm2, lib/format_text/layout.h and lib/label/label.h; cryptsetup, docs/on-disk-format-luks2.pdf;
UEFI 2.10, section 5.3. The beginning of a partition or a logical volume is a byte of the array.
"""

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from functools import partial

from blklab.md.rescue.blocks import Check, Read
from blklab.units import SECTOR

# In one of the first four sectors
LABEL = b"LABELONE"
LABEL_SECTORS = 4
LVM_INITIAL_CRC = 0xF597A6CF  # lib/misc/crc.h
LUKS = b"LUKS\xba\xbe"
LUKS_SECOND = b"SKUL\xba\xbe"
LUKS2_SECOND_AT = tuple(size << 10 for size in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
GPT = b"EFI PART"
LARGEST_TABLE = 64 << 10  # Bytes of entries of a GPT that are read
MOST_BEGINNINGS = 12


def is_label(sector: int, content: bytes) -> bool:
    """Whether a sector has an LVM label with this own number, and a checksum that holds."""
    if len(content) < SECTOR or content[:8] != LABEL:
        return False
    (number, checksum) = struct.unpack_from("<QI", content, 8)
    # LVM's CRC-32 starts with another register, and is not inverted at the end.
    crc = zlib.crc32(content[20:SECTOR], LVM_INITIAL_CRC ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return bool(number == sector and checksum == crc)


def is_luks(offset: int, content: bytes) -> bool:
    """Whether a header of LUKS is here: of version 2, the first or the second one with this own offset."""
    if len(content) < 512 or content[:6] not in {LUKS, LUKS_SECOND}:
        return False
    (version,) = struct.unpack_from(">H", content, 6)
    if version == 1:
        return offset == 0 and content[:6] == LUKS
    size = struct.unpack_from(">Q", content, 8)[0]
    own_offset = struct.unpack_from(">Q", content, 256)[0]
    if version != 2 or own_offset != offset or (content[:6] == LUKS) != (offset == 0):
        return False
    if size > len(content):  # Only the beginning was read
        return True
    digest = hashlib.sha256(content[:448] + bytes(64) + content[512:size]).digest()
    return content[72:78] != b"sha256" or content[448:480] == digest


def is_gpt(sector: int, content: bytes) -> bool:
    """Whether a sector is a header of a GPT with this own number, and a checksum that holds."""
    if len(content) < SECTOR or content[:8] != GPT:
        return False
    (size, checksum) = struct.unpack_from("<2I", content, 12)
    if not 92 <= size <= SECTOR:
        return False
    crc = zlib.crc32(content[:16] + bytes(4) + content[20:size])
    return bool(checksum == crc and struct.unpack_from("<Q", content, 24)[0] == sector)


def has_entries(checksum: int, content: bytes) -> bool:
    """Whether the entries of a GPT have the checksum in its header."""
    return zlib.crc32(content) == checksum


def label_check(sector: int) -> Check:
    return Check(sector * SECTOR, "LVM label", SECTOR, partial(is_label, sector))


def luks_check(offset: int, length: int) -> Check:
    return Check(offset, "LUKS header", length, partial(is_luks, offset))


def gpt_check(sector: int) -> Check:
    return Check(sector * SECTOR, "GPT header", SECTOR, partial(is_gpt, sector))


def find_volume_blocks(piece: bytes, end: int) -> Iterator[tuple[int, tuple[Check, ...]]]:
    """Yields labels and headers in a piece of a device, each with the address that it says it has."""
    for magic, at_number in ((LABEL, 8), (GPT, 24)):
        for start in find_all(piece, magic, SECTOR, end):
            if len(piece) < start + SECTOR:
                continue
            (sector,) = struct.unpack_from("<Q", piece, start + at_number)
            check = label_check(sector) if magic == LABEL else gpt_check(sector)
            if check.holds(piece[start : start + SECTOR]):
                yield start, (check,)
    for start in find_all(piece, LUKS, SECTOR, end):
        if is_luks(0, piece[start : start + 4096]):
            yield start, (luks_check(0, 4096),)
    for start in find_all(piece, LUKS_SECOND, SECTOR, end):
        for offset in LUKS2_SECOND_AT:
            if is_luks(offset, piece[start : start + 512]):
                yield start, (luks_check(offset, 512),)


def find_all(piece: bytes, magic: bytes, alignment: int, end: int) -> Iterator[int]:
    """Yields the aligned places of a magic that begin before `end`."""
    position = piece.find(magic)
    while 0 <= position < end:
        if position % alignment == 0:
            yield position
        position = piece.find(magic, position + 1)


def list_volume_checks(read: Read) -> Iterator[Check]:
    """Yields what the beginning of an array names: the other header of a GPT, its entries, both LUKS2 headers."""
    start = read(0, 4096)
    for sector in range(LABEL_SECTORS):
        if is_label(sector, start[sector * SECTOR : (sector + 1) * SECTOR]):
            yield label_check(sector)
    if is_luks(0, start):
        (version,) = struct.unpack_from(">H", start, 6)
        (size,) = struct.unpack_from(">Q", start, 8)
        if version == 2 and size in LUKS2_SECOND_AT and size <= 1 << 20:
            yield luks_check(0, size)
            yield luks_check(size, size)
        else:
            yield luks_check(0, 4096)
    header = start[SECTOR : 2 * SECTOR]
    if is_gpt(1, header):
        yield gpt_check(1)
        (other,) = struct.unpack_from("<Q", header, 32)
        yield gpt_check(other)
        (entries, count, size, checksum) = struct.unpack_from("<Q3I", header, 72)
        if 0 < count * size <= LARGEST_TABLE:
            yield Check(entries * SECTOR, "GPT entries", count * size, partial(has_entries, checksum))


def find_beginnings(piece: bytes, end: int) -> set[int]:
    """Returns where partitions and logical volumes begin, in bytes of the array, as far as a piece says it."""
    beginnings: set[int] = set()
    for start in find_all(piece, GPT, SECTOR, end):
        if struct.unpack_from("<Q", piece.ljust(start + SECTOR), start + 24)[0] == 1:
            entries = piece[start + SECTOR : start + SECTOR + 3072]  # Those in the first 4 KiB of the array
            for offset in range(0, len(entries) - 127, 128):
                first, last = struct.unpack_from("<2Q", entries, offset + 32)
                if any(entries[offset : offset + 16]) and first <= last < 1 << 53:
                    beginnings.add(first * SECTOR)
    for start in find_all(piece, LABEL, SECTOR, end):
        beginnings |= _volumes_of_lvm(piece, start)
    for offset in range(0, end - SECTOR + 1, 4096):
        if piece[offset + 510 : offset + 512] == b"\x55\xaa":
            beginnings |= _partitions_of_mbr(piece[offset : offset + SECTOR])
    return beginnings


def _partitions_of_mbr(sector: bytes) -> set[int]:
    """Returns where the primary partitions of an MBR begin; nothing if it is none: boot sectors end like it."""
    beginnings = set()
    for offset in range(446, 510, 16):
        status, kind, first, count = struct.unpack_from("<B3xB3x2I", sector, offset)
        if status not in {0, 0x80} or (kind and not (first and count)):
            return set()
        if kind and kind != 0xEE:  # 0xEE protects a GPT
            beginnings.add(first * SECTOR)
    return beginnings


def _volumes_of_lvm(piece: bytes, start: int) -> set[int]:
    """Returns where logical volumes begin on a physical volume, from its first data area and the text behind it."""
    header = piece[start + 32 : start + SECTOR]  # pv_header: UUID, size, then areas (disk_locn)
    if len(header) < 56:
        return set()
    (first_extent,) = struct.unpack_from("<Q", header, 40)
    if not 0 < first_extent < 1 << 40:
        return set()
    beginnings = {first_extent}
    text = piece[start : start + (1 << 20)]
    size = re.search(rb"extent_size = (\d{1,9})\b", text)
    if size is not None:
        for extent in re.findall(rb'stripes = \[\s*"pv0", (\d{1,12})\s*\]', text):
            beginnings.add(first_extent + int(extent) * int(size[1]) * SECTOR)
    return beginnings
