"""Crafted members: recorded ones with values that no kernel of the recordings wrote."""

import struct
from pathlib import Path

from blklab.md.superblocks import read_superblocks
from tests.md.conftest import image


def changed(path: Path, at: int, content: bytes, *, sign: bool = True) -> Path:
    """Changes bytes of a superblock 1.2; with `sign`, its checksum is right again."""
    with path.open("r+b") as file:
        file.seek(4096)
        head = bytearray(file.read(4096))
        head[at : at + len(content)] = content
        if sign:
            head[216:220] = bytes(4)
            (slots,) = struct.unpack_from("<I", head, 220)
            total = sum(struct.unpack_from(f"<{64 + min(slots, 1920) // 2}I", head))
            struct.pack_into("<I", head, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
        file.seek(4096)
        file.write(head)
    return path


def with_block_size(disk: str, directory: Path) -> Path:
    """Returns a member as Linux 6.19 makes them: with a logical block size, of 4 KiB."""
    return changed(image(f"raid1-12-bitmap.{disk}", directory), 224, struct.pack("<I", 4096))


def with_lockless_bitmap(disk: str, directory: Path) -> Path:
    """Returns a member with the superblock of a lockless bitmap, with chunks of 16 MiB."""
    path = image(f"raid1-12-bitmap.{disk}", directory)
    (superblock,) = read_superblocks(path).members
    assert superblock.bitmap_superblock is not None
    with path.open("r+b") as file:
        for at, value in ((4, 6), (52, 32_768)):
            file.seek(superblock.bitmap_superblock.offset + at)
            file.write(struct.pack("<I", value))
    return path


def with_wrong_checksum(disk: str, directory: Path) -> Path:
    """Returns a member of which a bit of the events was changed, and not its checksum."""
    return changed(image(f"raid1-12-bitmap.{disk}", directory), 200, b"\x40", sign=False)


CRAFTED = {"block-size": with_block_size, "lockless": with_lockless_bitmap, "checksum": with_wrong_checksum}
