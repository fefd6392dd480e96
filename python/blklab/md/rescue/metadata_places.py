"""Where the metadata of a member and the partition tables of a disk are: nothing else is ever put back.

Places are spans of bytes of a device. What they are computed from is read through a descriptor: of a device, or of a
copy of one in memory.
"""

import os
import struct
import zlib
from collections.abc import Iterable

from blklab.errors import BlklabError
from blklab.md.superblocks import LOCKLESS_BITMAP, Superblock
from blklab.system.spans import Span, spans_without
from blklab.units import SECTOR

MAGIC = (0xA92B4EFC).to_bytes(4, "little")  # How a superblock begins (md_p.h, MD_SB_MAGIC)
SUPERBLOCK_BYTES = 4096  # Version 1: 256 bytes, and 2 for each slot (include/uapi/linux/raid/md_p.h, mdp_superblock_1)
OLD_SUPERBLOCK_BYTES = 64 << 10  # Version 0.90, with its bitmap (md_p.h, MD_RESERVED_BYTES)
LOG_FIELD = 96  # Where a superblock 1 has the offset (signed) and the length of its partial parity log, sectors
BITMAP_HEADER = 256  # Bytes (drivers/md/md-bitmap.h, bitmap_super_t)
LOCKLESS_HEADER = 1024  # Bytes (drivers/md/md-llbitmap.c, BITMAP_DATA_OFFSET)
CLUSTERED_BITMAP = 5  # Its version: there is one bitmap for each node (drivers/md/md-bitmap.c)
PAGE = 4096  # Bytes: md reads and writes whole pages of a bitmap
MOST_METADATA = 64 << 20  # Bytes of a bitmap, a list or a log
GPT_HEADER = struct.Struct("<8s4xII4xQQQQ16xQIII")  # UEFI 2.10, 5.3.2: 92 bytes
LEAST_ENTRIES = 16 << 10  # Bytes that UEFI reserves for the entries of a GPT
MOST_ENTRIES = 1 << 20  # Bytes of them; both GPTs must be within so much of the ends of the disk
BLOCKS = (512, 4096)  # Bytes of a logical block


def span_of(begin: int, length: int) -> Span:
    return Span(begin, begin + length, begin)


def find_data(superblock: Superblock) -> Span:
    """Returns where the data of a member are, whether its array uses all of it or not."""
    return span_of(superblock.data_offset * SECTOR, superblock.data_size * SECTOR)


def find_superblock(superblock: Superblock) -> Span:
    """Returns where a superblock is: it is put back last."""
    length = OLD_SUPERBLOCK_BYTES if superblock.version == "0.90" else SUPERBLOCK_BYTES
    return span_of(superblock.offset, length)


def find_metadata(superblock: Superblock, device: int, size: int) -> list[Span]:
    """Returns where the bitmap, the bad-block list and the partial parity log of a member are, and its superblock last.

    They do not overlap. `device` is a descriptor of what has this superblock, and has `size` bytes. Raises BlklabError
    if a place is outside of the device or in the data, or if it is not known where the data are (a reshape).
    """
    if superblock.reshape_position is not None:
        raise BlklabError("the array was being reshaped: where its data begin is in doubt; ask on the linux-raid list")
    places = [_find_bitmap(superblock), _find_list(superblock), _find_log(superblock, device)]
    superblock_span = find_superblock(superblock)
    data = find_data(superblock)
    spans: list[Span] = []
    for place in [superblock_span, *filter(None, places)]:
        if place.begin < 0 or place.end > size or place.end - place.begin > MOST_METADATA:
            raise BlklabError(f"its superblock names metadata at byte {place.begin:,}, which is not on the device")
        if place.within(data.begin, data.end):
            raise BlklabError(f"its superblock names metadata at byte {place.begin:,}, which is in the data")
        # The rest of its last page, if it is not something else.
        page = place.begin + -(-(place.end - place.begin) // PAGE) * PAGE
        page_span = Span(place.begin, min(page, size), place.begin)
        spans = [*subtract_spans([page_span], [*spans, data]), *spans]
    return spans


def subtract_spans(places: Iterable[Span], regions: Iterable[Span]) -> list[Span]:
    """Returns the parts of places that are in none of the others."""
    return spans_without(places, [(region.begin, region.end) for region in regions])


def intersect_spans(places: Iterable[Span], regions: Iterable[Span]) -> list[Span]:
    """Returns the parts of places that are in one of the others, in order of the places."""
    region_list = list(regions)
    parts = []
    for place in places:
        for region in region_list:
            part = place.within(region.begin, region.end)
            if part:
                parts.append(part)
    return parts


def _find_bitmap(superblock: Superblock) -> Span | None:
    """Returns the place of a bitmap; its length is that of its header and a bit, or a byte, for each chunk."""
    bitmap = superblock.bitmap_superblock
    if bitmap is None:
        return None
    if bitmap.version == CLUSTERED_BITMAP or bitmap.chunk < SECTOR:
        raise BlklabError(f"its bitmap has version {bitmap.version} and chunks of {bitmap.chunk} bytes: not supported")
    chunks = -(-bitmap.sync_size * SECTOR // bitmap.chunk)
    if bitmap.version == LOCKLESS_BITMAP:
        return span_of(bitmap.offset, LOCKLESS_HEADER + chunks)
    return span_of(bitmap.offset, BITMAP_HEADER + -(-chunks // 8))


def _find_list(superblock: Superblock) -> Span | None:
    bad_blocks = superblock.bad_blocks
    return None if bad_blocks is None else span_of(bad_blocks.sector * SECTOR, bad_blocks.sectors * SECTOR)


def _find_log(superblock: Superblock, device: int) -> Span | None:
    """Returns the place of the partial parity log, from the superblock (md_p.h, `ppl`)."""
    if not superblock.ppl:
        return None
    offset, sectors = struct.unpack("<hH", os.pread(device, 4, superblock.offset + LOG_FIELD))
    return span_of(superblock.offset + offset * SECTOR, sectors * SECTOR)


def find_reserved_for_tables(size: int, block: int, superblock: Superblock) -> list[Span]:
    """Returns where partition tables would be on a disk that is a member as a whole, outside of its data.

    An MBR and a GPT at the beginning, the other GPT at the end (UEFI 2.10, 5.3.1). `block` is a logical block, bytes.
    """
    begin = span_of(0, min(size, 2 * block + LEAST_ENTRIES))
    last = max(begin.end, size - block - LEAST_ENTRIES)
    end = Span(last, size, last)
    return subtract_spans([begin, end], [find_data(superblock)])


def find_tables(device: int, size: int) -> list[Span]:
    """Returns where the partition tables of a disk are: MBR, and both GPTs; nothing if it has none.

    Tables of logical partitions (DOS) lie between the partitions, and are not among them.
    """
    mbr = os.pread(device, SECTOR, 0)
    for block in BLOCKS:
        primary = _read_gpt(device, block, block)
        if primary is None:
            continue
        header, first_usable, last_usable, alternate, entries = primary
        places = [span_of(0, SECTOR), header]
        if header.end <= entries.begin and entries.end <= min(first_usable * block, MOST_ENTRIES):
            places.append(entries)
        backup = _read_gpt(device, alternate * block, block) if last_usable < alternate < size // block else None
        if backup is not None:
            header, _, _, _, entries = backup
            if max((last_usable + 1) * block, size - MOST_ENTRIES) <= entries.begin and entries.end <= header.begin:
                places += [entries, header]
        return places
    return [span_of(0, SECTOR)] if mbr[510:] == b"\x55\xaa" else []


def _read_gpt(device: int, offset: int, block: int) -> tuple[Span, int, int, int, Span] | None:
    """Returns the places of a GPT's header and its entries, and its first and last usable and its other block.

    None if there is none, or its checksum is wrong.
    """
    content = os.pread(device, block, offset)
    if len(content) < block or not content.startswith(b"EFI PART"):
        return None
    _, length, checksum, _, alternate, first, last, entries, count, entry_bytes, _ = GPT_HEADER.unpack_from(content)
    if not GPT_HEADER.size <= length <= block or count * entry_bytes > MOST_ENTRIES:
        return None
    if zlib.crc32(content[:16] + bytes(4) + content[20:length]) != checksum:
        return None
    return span_of(offset, block), first, last, alternate, span_of(entries * block, count * entry_bytes)
