"""CRC-32C, forwards and backwards: the checksum of the metadata of ext4, XFS and btrfs.

The register is the one of Linux's `crc32c()`: no inversion at the end, and the start is an argument (lib/crc32c.c).
"""

import struct
from functools import lru_cache

POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected (RFC 3720, appendix B.4)
ONES = 0xFFFFFFFF


def _make_table() -> list[int]:
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = (register >> 1) ^ (POLYNOMIAL if register & 1 else 0)
        table.append(register)
    return table


TABLE = _make_table()
INDEX_BY_TOP = {value >> 24: index for index, value in enumerate(TABLE)}
"""Which entry of the table has this highest byte: it is a permutation, so that a step can be taken back."""


@lru_cache(maxsize=16384)
def crc32c(register: int, content: bytes) -> int:
    """Returns the register after the content. The same blocks are judged for many geometries, so it is kept."""
    table = TABLE
    for byte in content:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def take_back(register: int, content: bytes) -> int:
    """Returns the register before the content, from the one after it."""
    for byte in reversed(content):
        index = INDEX_BY_TOP[register >> 24]
        register = ((register ^ TABLE[index]) << 8 & ONES) | (index ^ byte)
    return register


def find_word(before: int, after: int) -> int:
    """Returns the only little-endian word of 32 bits that leads from one register to the other.

    The first four bytes are added to the register: crc(register, word) = crc(register ^ word, 0).
    """
    return take_back(after, bytes(4)) ^ before


def pack_word(number: int) -> bytes:
    return struct.pack("<I", number & ONES)
