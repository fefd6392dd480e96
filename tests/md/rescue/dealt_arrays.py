"""Deals the bytes of a volume out to the members of an array: rows written by hand, not with the product's maps."""

import struct
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO

SECTOR = 512


@dataclass
class DealtArray:
    """What was dealt: the truth that a search must find."""

    level: int
    layout: str
    chunk: int
    offsets: list[int]  # Data offsets by slot, in bytes
    paths: list[Path | None] = field(default_factory=list)  # By slot; None if removed


Row = list[str]  # By slot: `d0`, `d1`… data of this stripe, `p`, `q`


def parity_row(level: int, layout: str, disks: int, number: int) -> Row:
    """Returns a row of RAID-4, 5 or 6 as Documentation and drivers/md/raid5.c draw them."""
    parities = ["p", "q"][: 2 if level == 6 else 1]
    data = [f"d{column}" for column in range(disks - len(parities))]
    if level == 4:
        return [*data, "p"]
    turn = number % disks
    place = disks - 1 - turn if layout.startswith("left") else turn
    if layout.endswith("-symmetric"):
        row = deque([*parities, *data])
        row.rotate(place)
        return list(row)
    drawn = [""] * disks
    for step, parity in enumerate(parities):
        drawn[(place + step) % disks] = parity
    waiting = deque(data)
    return [cell or waiting.popleft() for cell in drawn]


def double(content: bytes) -> bytes:
    """Multiplies each byte by 2 in the field of RAID-6."""
    return content.translate(DOUBLES)


DOUBLES = bytes((byte << 1 ^ 0x1D) & 0xFF if byte & 0x80 else byte << 1 for byte in range(256))


def add(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def fill_row(row: Row, data: list[bytes]) -> list[bytes]:
    """Returns the chunks of a row; Q by Horner's rule, from the last data chunk behind Q to the first one."""
    zero = bytes(len(data[0]))
    p = zero
    for chunk in data:
        p = add(p, chunk)
    q = zero
    if "q" in row and not all(is_zero(chunk) for chunk in data):
        turned = deque(row)
        turned.rotate(-row.index("q") - 1)
        for cell in reversed([cell for cell in turned if cell.startswith("d")]):
            q = add(double(q), data[int(cell[1:])])
    by_name = {"p": p, "q": q, **{f"d{column}": chunk for column, chunk in enumerate(data)}}
    return [by_name[cell] for cell in row]


def mirror_rows(layout: str, disks: int, chunks: int) -> list[list[int | None]]:
    """Returns the rows of RAID-10, with the number of the chunk in each slot."""
    numbers = list(range(chunks))
    near = int(layout[1]) if layout[0] == "n" else 1
    dealt: list[int | None] = [number for number in numbers for _ in range(near)]
    dealt += [None] * (-len(dealt) % disks)
    rows = [dealt[first : first + disks] for first in range(0, len(dealt), disks)]
    if layout == "f2":
        return rows + [row[-1:] + row[:-1] for row in rows]
    if layout == "o2":
        both = []
        for row in rows:
            both += [row, row[-1:] + row[:-1]]
        return both
    return rows


def deal(volume: Path, members: list[Path], truth: DealtArray, spare_bytes: int = 0) -> None:
    """Writes the members of an array that holds a volume; `spare_bytes` more at the end of each member."""
    disks, chunk = len(members), truth.chunk or 1 << 16
    size = volume.stat().st_size
    chunks = -(-size // chunk)
    with volume.open("rb") as source:

        def content(number: int | None) -> bytes:
            if number is None:
                return b""
            source.seek(number * chunk)
            return source.read(chunk).ljust(chunk, b"\0")

        files = [member.open("wb") for member in members]
        if truth.level in {0, 1, 10}:
            if truth.level == 10:
                rows = mirror_rows(truth.layout, disks, chunks)
            elif truth.level == 1:
                rows = [[number] * disks for number in range(chunks)]
            else:
                rows = mirror_rows("n1", disks, chunks)
            for number, row in enumerate(rows):
                kept: dict[int | None, bytes] = {}
                for slot, cell in enumerate(row):
                    if cell not in kept:
                        kept[cell] = content(cell)
                    put(files[slot], truth.offsets[slot] + number * chunk, kept[cell])
        else:
            width = disks - (2 if truth.level == 6 else 1)
            rows = [[None]] * -(-chunks // width)
            for number in range(len(rows)):
                data = [content(number * width + column).ljust(chunk, b"\0") for column in range(width)]
                if not all(is_zero(piece) for piece in data):
                    cells = parity_row(truth.level, truth.layout, disks, number)
                    for slot, piece in enumerate(fill_row(cells, data)):
                        put(files[slot], truth.offsets[slot] + number * chunk, piece)
        for slot, file in enumerate(files):
            file.truncate(truth.offsets[slot] + len(rows) * chunk + spare_bytes)
            file.close()


def is_zero(content: bytes) -> bool:
    return content.count(0) == len(content)


def put(file: IO[bytes], at: int, content: bytes) -> None:
    if not is_zero(content):
        file.seek(at)
        file.write(content)


def overwrite_with_created(path: Path, slot: int, disks: int, random: Random, *, data_offset: int) -> None:
    """Writes what a wrong `mdadm --create --metadata=1.2` leaves: a superblock at 4 KiB, and a bitmap at 8 KiB.

    include/uapi/linux/raid/md_p.h, `mdp_superblock_1`; drivers/md/md-bitmap.h, `bitmap_super_s`. Sectors.
    """
    size = path.stat().st_size // SECTOR - data_offset
    uuid = random.randbytes(16)
    head = bytearray(512)
    struct.pack_into("<4I16s32sQ", head, 0, 0xA92B4EFC, 1, 1, 0, uuid, b"host:wrong", 1_700_000_000)
    struct.pack_into("<iiQIIi", head, 72, 5, 2, size // 1024 * 1024, 1024, disks, 8)
    struct.pack_into("<4Q", head, 128, data_offset, size, 8, 0)
    struct.pack_into("<II16sBBBB", head, 160, slot, 0, random.randbytes(16), 0, 0, 0, 0)
    struct.pack_into("<QQQII", head, 192, 1_700_000_000, 1, 0xFFFFFFFFFFFFFFFF, 0, 128)
    roles = [*range(disks), *[0xFFFF] * (128 - disks)]
    struct.pack_into("<128H", head, 256, *roles)
    total = sum(struct.unpack("<128I", head))
    struct.pack_into("<I", head, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    bitmap = bytearray(4096)
    struct.pack_into("<4sI16s3Q3I", bitmap, 0, b"bitm", 4, uuid, 1, 1, size, 0, 64 << 20, 5)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(head)
        file.seek(8192)
        file.write(bitmap)
