"""Reads and writes pages of arrays and members, past the kernel's caches."""

import mmap
import os

PAGE_BYTES = 4096


def read_page(descriptor: int, begin: int, length: int) -> bytes:
    """Reads from the disk; O_DIRECT needs aligned memory. Raises OSError."""
    with mmap.mmap(-1, PAGE_BYTES) as buffer, memoryview(buffer)[:length] as content:
        if os.preadv(descriptor, [content], begin) != length:
            raise OSError("only a part of it was read")
        return bytes(content)


def write_page(descriptor: int, begin: int, data: bytes) -> None:
    """Writes to the disk. Raises OSError."""
    with mmap.mmap(-1, PAGE_BYTES) as buffer, memoryview(buffer)[: len(data)] as content:
        content[:] = data
        os.pwritev(descriptor, [content], begin, os.RWF_DSYNC)
