"""Crafted members: recorded ones with values that no kernel of the recordings wrote."""

import struct
from pathlib import Path
from typing import Any

import msgspec

from blklab.md.superblocks import Superblock, read_superblocks
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


def make_superblock(**changes: Any) -> Superblock:
    """Returns the superblock 1.2 of a member in slot 0 of a clean RAID-5 of three disks, with changed values."""
    slots = changes.get("raid_disks", 3)
    values = {
        "offset": 4096, "checksum": {"stored": 1, "computed": 1}, "version": "1.2", "uuid": "a:b:c:d",
        "name": "host:0", "level": 5, "layout": 2, "chunk": 65536, "raid_disks": slots, "size": 192,
        "data_offset": 2048, "data_size": 192, "device_uuid": None, "role": "active", "slot": 0,
        "present": [True] * slots, "write_mostly": False, "replacement": False, "bitmap": True, "events": 100,
        "updated": 1_767_225_600, "created": 1_735_689_600, "resync_offset": None, "recovery_offset": None,
        "reshape_position": None, "reshape": None, "journal": False, "ppl": False,
        "bad_blocks": None, "bitmap_superblock": None, "refusal_reasons": [], "problems": [],
    }  # fmt: skip
    return msgspec.convert(values | changes, Superblock)
