"""Blocks of ext4 that say where they belong.

The offsets of fields are those of fs/ext4/ext4.h (Linux 6.1): `ext4_super_block`, `ext4_group_desc`, `ext4_inode`;
fs/ext4/ext4_extents.h; the checksums those of fs/ext4/super.c (`ext4_group_desc_csum`), inode.c
(`ext4_inode_csum`), bitmap.c and namei.c (`ext4_dirblock_csum`).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from blklab.md.rescue.blocks import Check, Read, spread
from blklab.md.rescue.crc32c import ONES, crc32c, find_word, pack_word, take_back

MAGIC = b"\x53\xef"  # At byte 56 of the superblock
# Length, and where the first one is
SUPERBLOCK = 1024
SUPERBLOCK_AT = 1024
RO_METADATA_CSUM = 0x400
RO_BIGALLOC = 0x200
COMPAT_SPARSE_SUPER2 = 0x200
INCOMPAT_META_BG = 0x10
INCOMPAT_64BIT = 0x80
INCOMPAT_CSUM_SEED = 0x2000
# bg_flags
INODE_UNINIT = 1
BLOCK_UNINIT = 2
EXTENTS_FLAG = 0x80000
INDEX_FLAG = 0x1000
INLINE_FLAG = 0x10000000
EXTENT_MAGIC = 0xF30A
# How many are sampled
GROUPS = 48
BACKUPS = 16
INODES_OF_GROUP = 64
DIRECTORIES = 64
FIRST_FILE = 11  # Inodes below are reserved; some of them have no checksum


@dataclass(frozen=True)
class Group:
    """A block group: where its bitmaps and inodes are, in blocks, and the checksums of the bitmaps."""

    number: int
    block_bitmap: int
    inode_bitmap: int
    inode_table: int
    flags: int
    block_checksum: int
    inode_checksum: int


def is_superblock(content: bytes) -> bool:
    """Whether 1,024 bytes are a superblock of ext2, ext3 or ext4 that makes sense, with a checksum that holds."""
    if len(content) < SUPERBLOCK or content[56:58] != MAGIC:
        return False
    log_block = struct.unpack_from("<I", content, 24)[0]
    inode_size = struct.unpack_from("<H", content, 88)[0]
    (blocks_per_group, _, inodes_per_group) = struct.unpack_from("<3I", content, 32)
    if log_block > 6 or not blocks_per_group or not inodes_per_group or inode_size not in {128, 256, 512, 1024}:
        return False
    if blocks_per_group > 8 << (10 + log_block) << 6 or inodes_per_group > 8 << (10 + log_block):
        return False
    if struct.unpack_from("<I", content, 100)[0] & RO_METADATA_CSUM:
        return bool(crc32c(ONES, content[:1020]) == struct.unpack_from("<I", content, 1020)[0])
    return True


class Ext4:
    name = "ext4"

    def __init__(self, superblock: bytes) -> None:
        """`superblock` is any copy that `is_superblock` accepts."""
        (self.inodes, blocks_low) = struct.unpack_from("<2I", superblock, 0)
        (self.first_block, log_block) = struct.unpack_from("<2I", superblock, 20)
        (self.blocks_per_group, self.clusters_per_group, self.inodes_per_group) = struct.unpack_from(
            "<3I", superblock, 32
        )
        (self.compat, self.incompat, self.ro_compat) = struct.unpack_from("<3I", superblock, 92)
        self.inode_size = struct.unpack_from("<H", superblock, 88)[0]
        self.block = 1024 << log_block
        self.uuid = superblock[104:120]
        is_64bit = bool(self.incompat & INCOMPAT_64BIT)
        self.descriptor_size = max(32, struct.unpack_from("<H", superblock, 254)[0]) if is_64bit else 32
        blocks_high = struct.unpack_from("<I", superblock, 336)[0] if is_64bit else 0
        self.blocks = blocks_high << 32 | blocks_low
        self.groups = max(1, -(-(self.blocks - self.first_block) // self.blocks_per_group))
        self.has_checksums = bool(self.ro_compat & RO_METADATA_CSUM)
        if self.incompat & INCOMPAT_CSUM_SEED:
            self.seed = struct.unpack_from("<I", superblock, 624)[0]
        else:
            self.seed = crc32c(ONES, self.uuid)
        self.backups = struct.unpack_from("<2I", superblock, 588)  # s_backup_bgs, with sparse_super2
        self._tables: dict[int, int] = {}  # Inode tables by group, from group descriptors that were found

    @property
    def size(self) -> int:
        """Bytes of the filesystem."""
        return int(self.blocks * self.block)

    def backup_groups(self) -> list[int]:
        """Returns the groups with a copy of the superblock (fs/ext4/balloc.c, `ext4_bg_has_super`)."""
        if self.compat & COMPAT_SPARSE_SUPER2:
            return [0, *(group for group in self.backups if 0 < group < self.groups)]
        groups = {0, 1}
        for base in (3, 5, 7):
            power = base
            while power < self.groups:
                groups.add(power)
                power *= base
        return sorted(group for group in groups if group < self.groups)

    def superblock_check(self, group: int) -> Check:
        address = (self.first_block + group * self.blocks_per_group) * self.block
        return Check(
            address if group else SUPERBLOCK_AT, "ext4 superblock", SUPERBLOCK, partial(self._is_copy_of_group, group)
        )

    def _is_copy_of_group(self, group: int, content: bytes) -> bool:
        is_here = is_superblock(content) and content[104:120] == self.uuid
        return bool(is_here and struct.unpack_from("<H", content, 90)[0] == group & 0xFFFF)

    def find_blocks(self, piece: bytes, end: int) -> Iterator[tuple[int, tuple[Check, ...]]]:
        """Yields superblocks and inodes. The group of a superblock is a number in it (s_block_group_nr)."""
        position = piece.find(MAGIC)
        while 0 <= position - 56 < end:
            start = position - 56
            content = piece[start : start + SUPERBLOCK]
            if start % 1024 == 0 and content[104:120] == self.uuid and is_superblock(content):
                group = struct.unpack_from("<H", content, 90)[0]
                if group < self.groups:
                    yield start, (self.superblock_check(group),)
            position = piece.find(MAGIC, position + 1)
        if self.has_checksums and self._tables and self.inode_size >= 160:
            yield from self._find_inodes(piece, end)

    def _find_inodes(self, piece: bytes, end: int) -> Iterator[tuple[int, tuple[Check, ...]]]:
        """Yields inodes: the checksum depends on the number of the inode, which is computed back from it."""
        size = self.inode_size
        for start in range(0, end - size + 1, size):
            # i_mode, i_links_count, i_extra_isize: a type, a name, and the extra fields that have the checksum
            if piece[start + 128] != 32 or piece[start + 129] or not piece[start + 26] | piece[start + 27]:
                continue
            number = self._inode_number(piece[start : start + size])
            if not FIRST_FILE <= number <= self.inodes and number != 2:
                continue
            check = self._inode_check(number)
            # Inodes lie in their table one behind the other: the place in the block must fit, too.
            if check is not None and (check.address - start) % 1024 == 0:
                yield start, (check,)

    def _inode_number(self, inode: bytes) -> int:
        checksum = struct.unpack_from("<H", inode, 124)[0] | struct.unpack_from("<H", inode, 130)[0] << 16
        before = take_back(take_back(checksum, without_checksum(inode)), inode[100:104])
        return find_word(self.seed, before)

    def _inode_check(self, number: int) -> Check | None:
        group, index = divmod(number - 1, self.inodes_per_group)
        table = self._tables.get(group)
        if table is None:
            return None
        address = table * self.block + index * self.inode_size
        return Check(address, "ext4 inode", self.inode_size, partial(self._is_inode, number))

    def _is_inode(self, number: int, inode: bytes) -> bool:
        if len(inode) < self.inode_size or not any(inode):
            return False
        checksum = struct.unpack_from("<H", inode, 124)[0] | struct.unpack_from("<H", inode, 130)[0] << 16
        seed = crc32c(crc32c(self.seed, pack_word(number)), inode[100:104])
        return bool(crc32c(seed, without_checksum(inode)) == checksum)

    def learn_groups(self, piece: bytes, end: int) -> None:
        """Looks for the first block of group descriptors: it says where inodes are, which carry only their number."""
        if not self.has_checksums or self.incompat & INCOMPAT_META_BG or 0 in self._tables:
            return
        for start in range(0, end, 1024):
            block_bitmap, inode_bitmap, table = struct.unpack_from("<3I", piece, start)
            if not 0 < block_bitmap < self.blocks or not 0 < inode_bitmap < self.blocks or not 0 < table < self.blocks:
                continue
            for number in range(min(self.groups, self.block // self.descriptor_size)):
                offset = start + number * self.descriptor_size
                descriptor = piece[offset : offset + self.descriptor_size]
                if not self._is_descriptor(number, descriptor):
                    break
                self._tables[number] = self._parse_group(number, descriptor).inode_table
            if self._tables:
                return

    def _is_descriptor(self, number: int, descriptor: bytes) -> bool:
        if len(descriptor) < self.descriptor_size or not any(descriptor):
            return False
        if not self.has_checksums:
            return bool(0 < struct.unpack_from("<I", descriptor, 8)[0] < self.blocks)
        register = crc32c(crc32c(self.seed, pack_word(number)), descriptor[:30])
        register = crc32c(crc32c(register, bytes(2)), descriptor[32:])
        return bool(register & 0xFFFF == struct.unpack_from("<H", descriptor, 30)[0])

    def _parse_group(self, number: int, descriptor: bytes) -> Group:
        (block_bitmap, inode_bitmap, table) = struct.unpack_from("<3I", descriptor, 0)
        (flags,) = struct.unpack_from("<H", descriptor, 18)
        (block_checksum, inode_checksum) = struct.unpack_from("<2H", descriptor, 24)
        if self.descriptor_size >= 64:
            (block_high, inode_high, table_high) = struct.unpack_from("<3I", descriptor, 32)
            (block_checksum_high, inode_checksum_high) = struct.unpack_from("<2H", descriptor, 56)
            block_bitmap |= block_high << 32
            inode_bitmap |= inode_high << 32
            table |= table_high << 32
            block_checksum |= block_checksum_high << 16
            inode_checksum |= inode_checksum_high << 16
        return Group(number, block_bitmap, inode_bitmap, table, flags, block_checksum, inode_checksum)

    def list_checks(self, read: Read) -> Iterator[Check]:
        for backup in self.backup_groups():
            yield self.superblock_check(backup)
        if self.incompat & INCOMPAT_META_BG:
            return
        table = (self.first_block + 1) * self.block
        directories: list[bytes] = []
        for number in spread(self.groups, GROUPS):
            address = table + number * self.descriptor_size
            descriptor = read(address, self.descriptor_size)
            if self.has_checksums:
                kind = "ext4 group descriptor"
                yield Check(address, kind, self.descriptor_size, partial(self._is_descriptor, number))
            if self.has_checksums and self._is_descriptor(number, descriptor):
                group = self._parse_group(number, descriptor)
                self._tables[number] = group.inode_table
                yield from self._list_group(group, read, directories)
        yield from self._list_directories(directories)
        yield from self._list_copies_of_descriptors()

    def _list_copies_of_descriptors(self) -> Iterator[Check]:
        """Yields the first and the last group descriptor behind each copy of the superblock."""
        if not self.has_checksums:
            return
        for backup in self.backup_groups()[:BACKUPS]:
            table = (self.first_block + backup * self.blocks_per_group + 1) * self.block
            for number in sorted({0, self.groups - 1}):
                address = table + number * self.descriptor_size
                kind = "ext4 group descriptor"
                yield Check(address, kind, self.descriptor_size, partial(self._is_descriptor, number))

    def _list_group(self, group: Group, read: Read, directories: list[bytes]) -> Iterator[Check]:
        mask = 0xFFFFFFFF if self.descriptor_size >= 64 else 0xFFFF
        if not group.flags & BLOCK_UNINIT:
            length = self.clusters_per_group // 8
            holds = partial(has_checksum, self.seed, group.block_checksum, mask)
            yield Check(group.block_bitmap * self.block, "ext4 block bitmap", length, holds)
        if group.flags & INODE_UNINIT:
            return
        length = self.inodes_per_group // 8
        holds = partial(has_checksum, self.seed, group.inode_checksum, mask)
        yield Check(group.inode_bitmap * self.block, "ext4 inode bitmap", length, holds)
        bitmap = read(group.inode_bitmap * self.block, length)
        if len(bitmap) < length or not holds(bitmap):
            return
        indexes = [index for index in range(self.inodes_per_group) if bitmap[index // 8] >> index % 8 & 1]
        numbers = [group.number * self.inodes_per_group + index + 1 for index in indexes]
        files = [number for number in numbers if number >= FIRST_FILE or number == 2]
        for position in spread(len(files), INODES_OF_GROUP):
            check = self._inode_check(files[position])
            if check is not None:
                yield check
                inode = read(check.address, self.inode_size)
                if self._is_inode(files[position], inode) and inode[1] & 0xF0 == 0x40:  # S_IFDIR
                    directories.append(pack_word(files[position]) + inode)

    def _list_directories(self, directories: list[bytes]) -> Iterator[Check]:
        """Yields blocks of directories with extents in the inode. Each has a checksum in its last 12 bytes."""
        for number_and_inode in directories[:DIRECTORIES]:
            number = number_and_inode[:4]
            inode = number_and_inode[4:]
            (flags,) = struct.unpack_from("<I", inode, 32)
            magic, entries, _, depth = struct.unpack_from("<4H", inode, 40)
            if not flags & EXTENTS_FLAG or flags & INLINE_FLAG or magic != EXTENT_MAGIC or depth:
                continue
            seed = crc32c(crc32c(self.seed, number), inode[100:104])
            for entry in range(min(entries, 4)):
                logical, length, high, low = struct.unpack_from("<IHHI", inode, 52 + entry * 12)
                for block in range(min(length, 4)):
                    if flags & INDEX_FLAG and logical + block == 0:  # The root of an index has another end
                        continue
                    address = ((high << 32 | low) + block) * self.block
                    yield Check(address, "ext4 directory", self.block, partial(self._is_directory, seed))

    def _is_directory(self, seed: int, content: bytes) -> bool:
        if len(content) < self.block or content[-12:-4] != b"\0\0\0\0\x0c\0\0\xde":
            return False
        return bool(crc32c(seed, content[:-12]) == struct.unpack_from("<I", content, self.block - 4)[0])


def without_checksum(inode: bytes) -> bytes:
    """Returns an inode with zeros in place of its checksum, as it is computed."""
    return inode[:124] + bytes(2) + inode[126:130] + bytes(2) + inode[132:]


def has_checksum(seed: int, checksum: int, mask: int, content: bytes) -> bool:
    """Whether a bitmap has the checksum that its group descriptor names."""
    return crc32c(seed, content) & mask == checksum & mask
