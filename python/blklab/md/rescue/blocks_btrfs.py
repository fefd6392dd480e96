"""Blocks of btrfs that say where they belong.

The offsets of fields are those of include/uapi/linux/btrfs_tree.h (Linux 6.1): `btrfs_super_block`, `btrfs_header`,
`btrfs_item`, `btrfs_key_ptr`, `btrfs_chunk`, `btrfs_root_item`. Checksums are CRC-32C of all behind the first 32
bytes, inverted. A node carries its logical address; the chunk tree says where that lies on the device.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from blklab.md.rescue.blocks import Check, Read
from blklab.md.rescue.crc32c import ONES, crc32c

MAGIC = b"_BHRfS_M"  # At byte 64 of the superblock
SUPERBLOCK = 4096
SUPERBLOCKS = (64 << 10, 64 << 20, 256 << 30)  # fs/btrfs/disk-io.h, `btrfs_sb_offset`
INCOMPAT_METADATA_UUID = 0x400
# Lengths of structures
HEADER = 101
KEY = 17
ITEM = 25
POINTER = 33
CHUNK_ITEM = 228
ROOT_ITEM = 132
CHUNK_TREE = 3
SYSTEM_CHUNKS_AT = 811
SYSTEM_CHUNKS_MOST = 2048
STRIPED = 0x8 | 0x40 | 0x80 | 0x100  # RAID-0, 10, 5, 6 of btrfs itself: over several devices
MOST_NODES = 300  # That are sampled
LARGEST_NODE = 64 << 10


@dataclass(frozen=True)
class Chunk:
    """Logical addresses, and the bytes on this device that hold them: one beginning for each copy."""

    logical: int
    length: int
    begins: tuple[int, ...]


def is_superblock(content: bytes) -> bool:
    """Whether 4,096 bytes are a superblock whose checksum (CRC-32C) holds."""
    if len(content) < SUPERBLOCK or content[64:72] != MAGIC or struct.unpack_from("<H", content, 196)[0]:
        return False
    return has_checksum(content[:SUPERBLOCK])


def has_checksum(content: bytes) -> bool:
    return bool(crc32c(ONES, content[32:]) ^ ONES == struct.unpack_from("<I", content, 0)[0])


class Btrfs:
    name = "btrfs"

    def __init__(self, superblock: bytes) -> None:
        """`superblock` is any copy that `is_superblock` accepts."""
        self.uuid = superblock[32:48]
        self._roots = struct.unpack_from("<2Q", superblock, 80)  # Of the tree of roots, and of the chunk tree
        (self._size,) = struct.unpack_from("<Q", superblock, 112)
        (node,) = struct.unpack_from("<I", superblock, 148)
        self.node = min(max(node, 4096), LARGEST_NODE)
        (incompat,) = struct.unpack_from("<Q", superblock, 188)
        self.node_uuid = superblock[571:587] if incompat & INCOMPAT_METADATA_UUID else self.uuid
        (self._device,) = struct.unpack_from("<Q", superblock, 201)
        (length,) = struct.unpack_from("<I", superblock, 160)
        self._chunks: dict[int, Chunk] = {}
        self._read_chunks(superblock[SYSTEM_CHUNKS_AT : SYSTEM_CHUNKS_AT + min(length, SYSTEM_CHUNKS_MOST)])

    @property
    def size(self) -> int:
        """Bytes of the filesystem."""
        return int(self._size)

    def _read_chunks(self, array: bytes) -> None:
        """Reads keys, each followed by its chunk."""
        offset = 0
        while offset + KEY + 48 <= len(array):
            (logical,) = struct.unpack_from("<Q", array, offset + 9)
            (stripes,) = struct.unpack_from("<H", array, offset + KEY + 44)
            self._read_chunk(logical, array[offset + KEY :])
            offset += KEY + 48 + 32 * stripes

    def _read_chunk(self, logical: int, chunk: bytes) -> None:
        (length, _, _, kind) = struct.unpack_from("<4Q", chunk, 0)
        (stripes,) = struct.unpack_from("<H", chunk, 44)
        if kind & STRIPED or not 0 < stripes <= 4 or len(chunk) < 48 + 32 * stripes:
            return
        begins = []
        for stripe in range(stripes):
            device, begin = struct.unpack_from("<2Q", chunk, 48 + 32 * stripe)
            if device == self._device:
                begins.append(begin)
        self._chunks[logical] = Chunk(logical, length, tuple(begins))

    def _find_physical(self, logical: int) -> list[int]:
        for chunk in self._chunks.values():
            if chunk.logical <= logical < chunk.logical + chunk.length:
                return [begin + logical - chunk.logical for begin in chunk.begins]
        return []

    def learn_groups(self, piece: bytes, end: int) -> None:
        """Reads the leaves of the chunk tree in a piece of a device: without them, a logical address says nothing."""
        for start in self._find_nodes(piece, end):
            node = piece[start : start + self.node]
            (owner,) = struct.unpack_from("<Q", node, 88)
            if owner == CHUNK_TREE and len(node) == self.node and has_checksum(node):
                self._read_leaf_of_chunks(node)

    def _read_leaf_of_chunks(self, node: bytes) -> None:
        for kind, key_offset, item in self._items(node):
            if kind == CHUNK_ITEM and len(item) >= 80:
                self._read_chunk(key_offset, item)

    def _items(self, node: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yields the items of a leaf: the key's type and offset, and the content. None of an inner node."""
        (count, level) = struct.unpack_from("<IB", node, 96)
        if level:
            return
        for number in range(min(count, (self.node - HEADER) // ITEM)):
            _, kind, key_offset, offset, length = struct.unpack_from("<QBQII", node, HEADER + number * ITEM)
            yield kind, key_offset, node[HEADER + offset : HEADER + offset + length]

    def _find_nodes(self, piece: bytes, end: int) -> Iterator[int]:
        position = piece.find(self.node_uuid)
        while position >= 0:
            start = position - 32
            if start >= 0 and start % 4096 == 0 and start < end and len(piece) >= start + HEADER:
                yield start
            position = piece.find(self.node_uuid, position + 1)

    def find_blocks(self, piece: bytes, end: int) -> Iterator[tuple[int, tuple[Check, ...]]]:
        """Yields superblocks and the beginnings of nodes; with small chunks, the rest is on other devices."""
        for start in self._find_nodes(piece, end):
            (address,) = struct.unpack_from("<Q", piece, start + 48)
            if piece[start + 64 : start + 72] == MAGIC:
                if address in SUPERBLOCKS and is_superblock(piece[start : start + SUPERBLOCK]):
                    yield start, (self._superblock_check(address),)
                continue
            checks = self._node_checks(address)
            if checks:
                yield start, tuple(checks)

    def _superblock_check(self, address: int) -> Check:
        return Check(address, "btrfs superblock", SUPERBLOCK, partial(self._is_copy, address))

    def _is_copy(self, address: int, content: bytes) -> bool:
        if not is_superblock(content) or content[32:48] != self.uuid:
            return False
        return bool(struct.unpack_from("<Q", content, 48)[0] == address)

    def _node_checks(self, logical: int) -> list[Check]:
        holds = partial(self._is_node, logical)
        return [Check(physical, "btrfs node", self.node, holds) for physical in self._find_physical(logical)]

    def _is_node(self, logical: int, content: bytes) -> bool:
        if len(content) < self.node or content[32:48] != self.node_uuid:
            return False
        return struct.unpack_from("<Q", content, 48)[0] == logical and has_checksum(content)

    def list_checks(self, read: Read) -> Iterator[Check]:
        for address in SUPERBLOCKS:
            if address + SUPERBLOCK <= self._size:
                yield self._superblock_check(address)
        root, chunk_root = self._roots
        waiting = [chunk_root, root]
        addresses: set[int] = set()
        while waiting and len(addresses) < MOST_NODES:
            logical = waiting.pop(0)
            if logical in addresses:
                continue
            addresses.add(logical)
            checks = self._node_checks(logical)
            yield from checks
            for check in checks:
                node = read(check.address, self.node)
                if check.holds(node):
                    waiting += self._read_node(node)
                    break

    def _read_node(self, node: bytes) -> list[int]:
        """Returns the nodes that a node names: those below it, or the roots in a leaf of the tree of roots."""
        (owner,) = struct.unpack_from("<Q", node, 88)
        (count, level) = struct.unpack_from("<IB", node, 96)
        if level:
            count = min(count, (self.node - HEADER) // POINTER)
            return [struct.unpack_from("<Q", node, HEADER + number * POINTER + KEY)[0] for number in range(count)]
        if owner == CHUNK_TREE:
            self._read_leaf_of_chunks(node)
        return [
            struct.unpack_from("<Q", item, 176)[0]
            for kind, _, item in self._items(node)
            if kind == ROOT_ITEM and len(item) >= 184
        ]
