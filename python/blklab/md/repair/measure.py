"""Reads members completely, past md and the kernel's caches, to find sectors that cannot be read.

md must not find them first: without a bad-block list, it fails a member of a degraded array whose sector it cannot
read, and the array is broken (Linux 6.1: drivers/md/raid5.c, `raid5_end_read_request`).
"""

import mmap
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from blklab.errors import BlklabError
from blklab.md.model import Array, ArrayMember, merge_ranges
from blklab.md.superblocks import SectorRange
from blklab.system.identity import device_number
from blklab.system.roots import Roots, open_descriptor, read_text
from blklab.units import SECTOR

PIECE_BYTES = 1 << 20
PAGE_BYTES = 4096
MAX_UNREADABLE_PAGES = 100_000  # Of a member; with more, the disk does not answer any more
PROGRESS_INTERVAL_S = 0.25

Advance = Callable[[int, int], object]  # Called with the bytes done and all bytes


class Measurement:
    """Reads members at the same time, each in its own thread."""

    def __init__(self, array: Array, members: Sequence[ArrayMember], roots: Roots) -> None:
        self._array = array
        self._members = members
        self._roots = roots
        self._done = 0
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def read(self, advance: Advance) -> dict[str, tuple[SectorRange, ...]]:
        """Returns the sectors that cannot be read, by the path of the member; sectors of the member.

        Raises BlklabError if a member cannot be opened, or is another disk than the array's.
        """
        total = sum(self._bytes(member) for member in self._members)
        with ThreadPoolExecutor(max(1, len(self._members))) as pool:
            try:
                futures = [pool.submit(self._read_member, member) for member in self._members]
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, PROGRESS_INTERVAL_S, FIRST_EXCEPTION)
                    for future in done:
                        future.result()  # the error of one member ends the others
                    advance(self._done, total)
            finally:
                self._cancelled.set()  # after Ctrl-C, the threads end with their present read
        results = [future.result() for future in futures]
        return {member.path: ranges for member, ranges in zip(self._members, results, strict=True) if ranges}

    def _bytes(self, member: ArrayMember) -> int:
        sectors = self._array.member_sectors
        if not sectors and member.superblock:
            sectors = member.superblock.data_size
        return sectors * SECTOR

    def _read_member(self, member: ArrayMember) -> tuple[SectorRange, ...]:
        number = read_text(self._roots.sys / "class/block" / member.name / "dev") or ""
        first = (member.data_offset or 0) * SECTOR
        end = first + self._bytes(member)
        unreadable: list[SectorRange] = []
        try:
            with (
                open_descriptor(member.path, os.O_RDONLY | os.O_DIRECT) as descriptor,
                mmap.mmap(-1, PIECE_BYTES) as memory,
                memoryview(memory) as buffer,
            ):
                if os.fstat(descriptor).st_rdev != device_number(number):
                    raise BlklabError(f"{member.path}: it is another device than {number}, the member of the array")
                for begin in range(first, end, PIECE_BYTES):
                    if self._cancelled.is_set():
                        break
                    length = min(PIECE_BYTES, end - begin)
                    if not _is_readable(descriptor, buffer[:length], begin):
                        unreadable += self._find_unreadable_pages(descriptor, buffer, begin, length)
                    if len(unreadable) > MAX_UNREADABLE_PAGES:
                        raise BlklabError(f"{member.path}: more than {MAX_UNREADABLE_PAGES:,} pages cannot be read")
                    with self._lock:
                        self._done += length
        except OSError as error:
            raise BlklabError(f"{member.path}: cannot be read: {error.strerror or error}") from None
        return merge_ranges(tuple(unreadable))

    def _find_unreadable_pages(self, descriptor: int, buffer: memoryview, begin: int, length: int) -> list[SectorRange]:
        unreadable = []
        for offset in range(begin, begin + length, PAGE_BYTES):
            if self._cancelled.is_set():  # a bad sector can take minutes
                break
            size = min(PAGE_BYTES, begin + length - offset)
            if not _is_readable(descriptor, buffer[:size], offset):
                unreadable.append(SectorRange(offset // SECTOR, size // SECTOR))
        return unreadable


def _is_readable(descriptor: int, buffer: memoryview, begin: int) -> bool:
    try:
        return os.preadv(descriptor, [buffer], begin) == len(buffer)
    except OSError:
        return False
