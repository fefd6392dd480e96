"""The rule about the last page of a write-intent bitmap, which md writes only in part.

drivers/md/md-bitmap.c: a bitmap is a superblock of 256 bytes and a bit for each chunk. `__write_sb_page` (6.1:
`write_sb_page`) writes whole pages, but of the last page only the used part, rounded up to the logical block. Since
8745faa95611 (Linux 6.4) it rounds up to `optimal_io_size`, if that is larger than a logical block and if the write then
ends before the data. Which chunks mdadm accepts: super1.c, `add_internal_bitmap1`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.redundancy import is_changing
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember, Software
from blklab.units import SECTOR, format_size

FIXED_IN = (6, 4)
"""Linux since which `optimal_io_size` decides how much of the last page is written."""

HEADER = 256  # Bytes of the bitmap's superblock
PAGE = 4096
"""Bytes that slow disks write at once. With larger pages of the processor, writes are multiples of it as well."""

SMALLEST_CHUNK = 4096  # Of a bitmap
LARGEST_CHUNK = 1 << 31  # The field has 32 bits
VERSIONS = (3, 4)  # Internal bitmaps of one host with bits
MEASURED = (
    "on Intel P5520 with sectors of 512 bytes, md made 1,676 random writes per second like this, "
    "and 15,700 with whole pages (linux-raid 2023-02-24)"
)


@dataclass(frozen=True)
class LastPage:
    """The last page of a bitmap."""

    used_bytes: int
    share: float  # The part of all chunks whose bits are in it


def check_bitmap_page(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """Md writes the last page of the bitmap in part, and disks have to read before they can write it."""
    kernel = software.kernel if software else None
    sync_bytes = _find_sync_bytes(array)
    chunk = array.bitmap_chunk
    if kernel is None or not array.live or not sync_bytes or not chunk or array.bitmap is not True:
        return
    if (array.bitmap_sector or 0) % (PAGE // SECTOR) or array.bitmap_sector is None:
        return  # Then no write is whole
    page = find_last_page(sync_bytes, chunk)
    slow = [member for member in array.active if _writes_slowly(member, page, kernel)]
    if not slow:
        return
    written = max(_round_up(page.used_bytes, member.logical_block or SECTOR) for member in slow)
    effect = "a rotating disk needs another turn for it" if all(member.rotational for member in slow) else MEASURED
    message = (
        f"md writes {written:,} bytes of the bitmap's last page, "
        f"which has the bits of {100 * page.share:.0f} % of the array. Before such a write, "
        f"{list_names([member.name for member in slow])} must read a block of 4,096 bytes. "
        f"This slows down the first write to a chunk of {format_size(chunk)}: {effect}. "
        f"{_describe_fix(slow, page, kernel)}"
    )
    new_chunk = choose_chunk(array, sync_bytes, slow)
    if new_chunk is None:
        message += (
            " No bitmap chunk avoids it here. Disks with sectors of 4,096 bytes do (nvme format; it erases the disk)"
        )
        yield make_finding(array, "note", "bitmap-page", message)
        return
    message += f" With a bitmap chunk of {format_size(new_chunk)}, whole pages are written"
    yield make_finding(array, "note", "bitmap-page", message, *_list_commands(array, new_chunk))


def find_last_page(sync_bytes: int, chunk: int) -> LastPage:
    """Returns the last page of the bitmap for so many bytes, with a bit for each `chunk` bytes."""
    bits = -(-sync_bytes // chunk)
    size = _count_bytes(sync_bytes, chunk)
    used_bytes = size % PAGE or PAGE
    first_byte = max(0, size - used_bytes - HEADER)
    return LastPage(used_bytes, (bits - 8 * first_byte) / bits)


def choose_chunk(array: Array, sync_bytes: int, members: list[ArrayMember]) -> int | None:
    """Returns the chunk, in bytes, with which all members write whole pages; None if there is none.

    The smallest one above the present chunk: then md writes the bitmap less often. Otherwise the largest one below it.
    """
    present = array.bitmap_chunk or 0
    blocks = {member.logical_block or SECTOR for member in members}
    chunks = []
    chunk = SMALLEST_CHUNK
    while chunk <= LARGEST_CHUNK:
        used_bytes = find_last_page(sync_bytes, chunk).used_bytes
        is_whole = all(_round_up(used_bytes, block) % PAGE == 0 for block in blocks)
        if is_whole and chunk != present and (chunk > present or _has_space(array, sync_bytes, chunk)):
            chunks.append(chunk)
        chunk *= 2
    larger = [chunk for chunk in chunks if chunk > present]
    return min(larger) if larger else max(chunks, default=None)


def _find_sync_bytes(array: Array) -> int | None:
    """Returns how much the bitmap covers; None for bitmaps of another kind, and if unknown."""
    superblocks = [member.superblock for member in array.active if member.superblock]
    bitmaps = [superblock.bitmap_superblock for superblock in superblocks if superblock.bitmap_superblock]
    if any(bitmap.version not in VERSIONS for bitmap in bitmaps):
        return None
    if bitmaps:
        return bitmaps[0].sync_size * SECTOR
    if array.level == "raid1" or array.level in PARITIES:
        return array.member_sectors * SECTOR
    return array.size if array.level == "raid10" else None


def _writes_slowly(member: ArrayMember, page: LastPage, kernel: tuple[int, int]) -> bool:
    """Whether a member gets a part of a page, and its disk says that it writes whole ones only."""
    logical = member.logical_block
    physical = member.physical_block
    optimal = member.optimal_io
    if logical is None or physical is None or _round_up(page.used_bytes, logical) % PAGE == 0:
        return False
    if kernel >= FIXED_IN and (optimal is None or _is_fixed(member, page)):
        return False
    is_nvme = member.transport == "NVMe"  # Of other disks, it is the size of long transfers
    return physical >= PAGE or (is_nvme and optimal is not None and optimal >= PAGE)


def _is_fixed(member: ArrayMember, page: LastPage) -> bool:
    """Whether Linux 6.4 and newer write whole pages to a member."""
    optimal = member.optimal_io or 0
    return optimal > (member.logical_block or SECTOR) and _round_up(page.used_bytes, optimal) % PAGE == 0


def _describe_fix(slow: list[ArrayMember], page: LastPage, kernel: tuple[int, int]) -> str:
    if kernel < FIXED_IN and all(_is_fixed(member, page) for member in slow):
        return "Linux 6.4 and newer write whole pages to these disks (8745faa95611); your distribution may have it."
    return "No kernel avoids it, because these disks do not say how much they write at once (optimal_io_size)."


def _has_space(array: Array, sync_bytes: int, chunk: int) -> bool:
    """Whether a bitmap of a smaller chunk surely fits between the superblocks and the bad-block lists or the data."""
    for member in array.active:
        superblock = member.superblock
        if superblock is None or superblock.version not in {"1.1", "1.2"}:
            return False
        bad_blocks = superblock.bad_blocks
        end = bad_blocks.sector if bad_blocks else superblock.data_offset - PAGE // SECTOR
        # mdadm counts one bit more than there are.
        if superblock.offset + PAGE + _count_bytes(sync_bytes + chunk, chunk) > end * SECTOR:
            return False
    return True


def _list_commands(array: Array, chunk: int) -> list[str]:
    """Returns the commands for another chunk; none while a sync runs or a member is missing."""
    is_complete = array.degraded == 0 and not any("faulty" in member.states for member in array.members)
    is_writable = array.state in {"clean", "active", "active-idle", "write-pending"}
    if not is_complete or not is_writable or is_changing(array) or array.repairing or array.suspended:
        return []
    return [
        "# Between these commands, and for 15 s after them, a crash means a resync of the whole array.",
        command_lines.remove_bitmap(array.path),
        command_lines.add_bitmap_with_chunk(array.path, chunk),
    ]


def _count_bytes(sync_bytes: int, chunk: int) -> int:
    bits = -(-sync_bytes // chunk)
    return HEADER + -(-bits // 8)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
