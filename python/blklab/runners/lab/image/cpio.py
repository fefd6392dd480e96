"""An initramfs as the kernel unpacks it: cpio, newc format, the same bytes for the same files.

The format is that of Documentation/driver-api/early-userspace/buffer-format.rst (Linux 6.1).
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

TRAILER = "TRAILER!!!"
_BLOCK = 512


@dataclass(frozen=True)
class CpioEntry:
    """A file of the archive: its path without a leading slash, and its metadata and content."""

    path: str
    mode: int
    content: bytes = b""
    device: int = 0  # What os.makedev gives, of a device node


def directory(path: str, permissions: int = 0o755) -> CpioEntry:
    return CpioEntry(path, stat.S_IFDIR | permissions)


def file(path: str, content: bytes, permissions: int = 0o644) -> CpioEntry:
    return CpioEntry(path, stat.S_IFREG | permissions, content)


def link(path: str, target: str) -> CpioEntry:
    return CpioEntry(path, stat.S_IFLNK | 0o777, target.encode())


def character(path: str, major: int, minor: int, permissions: int) -> CpioEntry:
    """Returns a character device, which needs no privileges to be in an archive."""
    return CpioEntry(path, stat.S_IFCHR | permissions, device=os.makedev(major, minor))


def write(nodes: Iterable[CpioEntry], stream: BinaryIO) -> None:
    """Writes an archive, sorted, including the parent directories of its entries.

    Everything belongs to root and dates from 1970. It ends at a multiple of 512 bytes, so that
    another archive may follow. Raises ValueError when two nodes differ on a path.
    """
    entries: dict[str, CpioEntry] = {}
    for node in nodes:
        if entries.setdefault(node.path, node) != node:
            raise ValueError(f"{node.path}: twice in one archive")
    for path in list(entries):
        while path := path.rpartition("/")[0]:
            entries.setdefault(path, directory(path))
    written = 0
    # A directory's name is the beginning of those in it: it sorts before them.
    for number, path in enumerate(sorted(entries), start=1):
        written += _write_entry(entries[path], number, stream)
    written += _write_entry(CpioEntry(TRAILER, 0), 0, stream)
    stream.write(b"\0" * (-written % _BLOCK))


def _write_entry(node: CpioEntry, number: int, stream: BinaryIO) -> int:
    name = os.fsencode(node.path) + b"\0"
    fields = [
        number,
        node.mode,
        0,  # user
        0,  # group
        2 if stat.S_ISDIR(node.mode) else 1,
        0,  # time of change
        len(node.content),
        0,  # device it lies on, major and minor
        0,
        os.major(node.device),
        os.minor(node.device),
        len(name),
        0,  # checksum: not in this format
    ]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    head += b"\0" * (-len(head) % 4)
    tail = b"\0" * (-len(node.content) % 4)
    stream.write(head)
    stream.write(node.content)
    stream.write(tail)
    return len(head) + len(node.content) + len(tail)
