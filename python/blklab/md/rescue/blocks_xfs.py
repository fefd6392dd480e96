"""Blocks of XFS version 5 that say where they belong.

The offsets of fields are those of fs/xfs/libxfs/xfs_format.h and xfs_da_format.h (Linux 6.1): `xfs_dsb`, `xfs_agf`,
`xfs_agi`, `xfs_agfl`, `xfs_btree_block`, `xfs_dinode`, `xfs_dir3_blk_hdr`, `xfs_da3_blkinfo`. Checksums are CRC-32C
with zeros in place of the checksum, inverted, little-endian (xfs_cksum.h).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from blklab.md.rescue.blocks import Check, Read, spread
from blklab.md.rescue.crc32c import ONES, crc32c
from blklab.units import SECTOR

MAGIC = b"XFSB"
INCOMPAT_META_UUID = 4
# How many are sampled
GROUPS = 32
INODES_OF_GROUP = 24


@dataclass(frozen=True)
class Header:
    """A kind of block with its own address: where the fields are, in bytes."""

    kind: str
    magics: tuple[bytes, ...]
    magic_at: int
    uuid_at: int
    checksum_at: int
    address_at: int  # Of a word of 64 bits: the block's first sector of 512 bytes
    is_sector: bool = False  # As long as a sector, not as a block


SHORT_BTREE = Header("XFS btree", (b"AB3B", b"AB3C", b"IAB3", b"FIB3", b"RMB3", b"R3FC"), 0, 32, 52, 16)
LONG_BTREE = Header("XFS file map", (b"BMA3",), 0, 40, 64, 24)
DIRECTORY = Header("XFS directory", (b"XDB3", b"XDD3", b"XDF3"), 0, 24, 4, 8)
TREE_OF_NAMES = Header("XFS directory", (b"\x3d\xf1", b"\x3d\xff", b"\x3e\xbe", b"\x3b\xee"), 8, 32, 12, 16)
HEADERS = (SHORT_BTREE, LONG_BTREE, DIRECTORY, TREE_OF_NAMES)
GROUP_HEADERS = (  # Sector in the group, magic, and where its number, UUID and checksum are
    (1, b"XAGF", 8, 64, 216),
    (2, b"XAGI", 8, 296, 312),
    (3, b"XAFL", 4, 8, 32),
)
INODE_UUID_AT = 160
INODE_NUMBER_AT = 152
INODE_CHECKSUM_AT = 100


def has_checksum(content: bytes, offset: int) -> bool:
    """Whether the checksum of a block holds; `offset` is where it is."""
    checksum = struct.unpack_from("<I", content, offset)[0]
    register = crc32c(ONES, content[:offset] + bytes(4) + content[offset + 4 :])
    return bool(register ^ ONES == checksum)


def is_superblock(content: bytes) -> bool:
    """Whether a sector is a superblock of version 5 whose checksum holds."""
    if len(content) < SECTOR or content[:4] != MAGIC or struct.unpack_from(">H", content, 100)[0] & 15 != 5:
        return False
    (sector,) = struct.unpack_from(">H", content, 102)
    return sector in {512, 1024, 2048, 4096} and len(content) >= sector and has_checksum(content[:sector], 224)


class Xfs:
    name = "XFS"

    def __init__(self, superblock: bytes) -> None:
        """`superblock` is any copy that `is_superblock` accepts."""
        (self.block, self.blocks) = struct.unpack_from(">IQ", superblock, 4)
        self.uuid = superblock[32:48]
        (self.group_blocks, self.groups) = struct.unpack_from(">2I", superblock, 84)
        (self.sector, self.inode_size) = struct.unpack_from(">2H", superblock, 102)
        (self.inodes_per_block_log, self.group_log) = struct.unpack_from(">2B", superblock, 123)
        (incompat,) = struct.unpack_from(">I", superblock, 216)
        self.block_uuid = superblock[248:264] if incompat & INCOMPAT_META_UUID else self.uuid

    @property
    def size(self) -> int:
        """Bytes of the filesystem."""
        return int(self.blocks * self.block)

    def learn_groups(self, piece: bytes, end: int) -> None:
        """Does nothing: every block of XFS carries its own address."""

    def find_blocks(self, piece: bytes, end: int) -> Iterator[tuple[int, tuple[Check, ...]]]:
        """Yields headers of groups, blocks of trees and directories, and inodes. Superblocks do not say their group."""
        position = piece.find(self.block_uuid)
        while position >= 0:
            for start, check in self._try_headers(piece, position):
                if 0 <= start < end:
                    yield start, (check,)
            position = piece.find(self.block_uuid, position + 1)

    def _try_headers(self, piece: bytes, position: int) -> Iterator[tuple[int, Check]]:
        for sector, magic, number_at, uuid_at, checksum_at in GROUP_HEADERS:
            start = position - uuid_at
            if start >= 0 and start % self.sector == 0 and piece[start : start + 4] == magic:
                (number,) = struct.unpack_from(">I", piece, start + number_at)
                check = self._group_check(number, sector, magic, number_at, checksum_at)
                if number < self.groups and check.holds(piece[start : start + self.sector]):
                    yield start, check
        for header in HEADERS:
            start = position - header.uuid_at
            if start >= 0 and start % SECTOR == 0:
                address = struct.unpack_from(">Q", piece, start + header.address_at)[0] * SECTOR
                check = self._block_check(header, address)
                if address < self.size and check.holds(piece[start : start + self.block]):
                    yield start, check
        start = position - INODE_UUID_AT
        if start >= 0 and start % self.inode_size == 0 and piece[start : start + 2] == b"IN":
            number = struct.unpack_from(">Q", piece, start + INODE_NUMBER_AT)[0]
            check = self._inode_check(number)
            if check.address < self.size and check.holds(piece[start : start + self.inode_size]):
                yield start, check

    def _group_check(self, number: int, sector: int, magic: bytes, number_at: int, checksum_at: int) -> Check:
        address = number * self.group_blocks * self.block + sector * self.sector
        holds = partial(self._is_group_header, number, magic, number_at, checksum_at)
        return Check(address, "XFS group header", self.sector, holds)

    def _is_group_header(self, number: int, magic: bytes, number_at: int, checksum_at: int, content: bytes) -> bool:
        if len(content) < self.sector or content[:4] != magic:
            return False
        is_of_group = struct.unpack_from(">I", content, number_at)[0] == number
        return is_of_group and self.block_uuid in content and has_checksum(content, checksum_at)

    def _block_check(self, header: Header, address: int) -> Check:
        return Check(address, header.kind, self.block, partial(self._is_block, header, address))

    def _is_block(self, header: Header, address: int, content: bytes) -> bool:
        if len(content) < self.block or content[header.uuid_at : header.uuid_at + 16] != self.block_uuid:
            return False
        has_magic = content[header.magic_at :].startswith(header.magics)
        is_here = struct.unpack_from(">Q", content, header.address_at)[0] * SECTOR == address
        return has_magic and is_here and has_checksum(content, header.checksum_at)

    def _inode_check(self, number: int) -> Check:
        """An inode's number is its address: group, block and place in it (xfs_format.h, `XFS_INO_TO_AGNO`)."""
        group = number >> self.group_log + self.inodes_per_block_log
        block = number >> self.inodes_per_block_log & (1 << self.group_log) - 1
        index = number & (1 << self.inodes_per_block_log) - 1
        address = (group * self.group_blocks + block) * self.block + index * self.inode_size
        return Check(address, "XFS inode", self.inode_size, partial(self._is_inode, number))

    def _is_inode(self, number: int, content: bytes) -> bool:
        if len(content) < self.inode_size or content[:2] != b"IN":
            return False
        is_here = struct.unpack_from(">Q", content, INODE_NUMBER_AT)[0] == number
        return is_here and self.block_uuid in content[160:176] and has_checksum(content, INODE_CHECKSUM_AT)

    def _is_copy(self, content: bytes) -> bool:
        return is_superblock(content) and content[32:48] == self.uuid

    def list_checks(self, read: Read) -> Iterator[Check]:
        for number in spread(self.groups, GROUPS):
            start = number * self.group_blocks * self.block
            yield Check(start, "XFS superblock", self.sector, self._is_copy)
            roots = []
            for sector, magic, number_at, _, checksum_at in GROUP_HEADERS:
                check = self._group_check(number, sector, magic, number_at, checksum_at)
                yield check
                content = read(check.address, self.sector)
                # agf_roots of the trees of free space by block and by length; agi_root
                root_offsets = {b"XAGF": (16, 20), b"XAGI": (20,)}.get(magic, ())
                if check.holds(content):
                    roots += [struct.unpack_from(">I", content, offset)[0] for offset in root_offsets]
            for root in roots:
                yield from self._list_tree(number, start + root * self.block, read)

    def _list_tree(self, group: int, address: int, read: Read) -> Iterator[Check]:
        """Yields the root of a tree of a group; of the tree of inodes, also inodes in use if the root is a leaf."""
        check = self._block_check(SHORT_BTREE, address)
        yield check
        content = read(address, self.block)
        if not check.holds(content) or content[:4] != b"IAB3":
            return
        level, records = struct.unpack_from(">2H", content, 4)
        if level:
            return
        numbers = []
        for record in range(min(records, (self.block - 56) // 16)):
            first, holes = struct.unpack_from(">IH", content, 56 + record * 16)
            (free,) = struct.unpack_from(">Q", content, 64 + record * 16)
            for index in range(64):
                is_hole = holes >> index // 4 & 1  # Each bit of ir_holemask is for four inodes
                if not free >> index & 1 and not is_hole:
                    numbers.append(first + index)
        shift = self.group_log + self.inodes_per_block_log
        for position in spread(len(numbers), INODES_OF_GROUP):
            yield self._inode_check(group << shift | numbers[position])
