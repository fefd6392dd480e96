"""Small writes on RAID-4, 5 or 6: md reads before it writes (read, modify, write)."""

import re
from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import FEWEST, Waiting

THREAD = re.compile(r"md\w*_raid[456]")
LEAST = 0.5  # Reads of md for each write from which on it is the cause
RESYNC = 4.0  # More reads of each member for each write are not because of writes, but a resync


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the arrays with parity whose members are read because of writes."""
    for array, members in waiting.arrays():
        writes = array.op("write").ios
        own = [group for each in members for group in each.groups("processes") if THREAD.fullmatch(group.label)]
        reads = sum(group.ios.get("read", 0) for group in own) / max(1, writes)
        if writes < FEWEST or not LEAST <= reads <= RESYNC * len(members):
            continue
        written = sum(each.op("write").ios for each in members) / writes
        size = formatting.size(array.op("write").sizes.mode_bytes)
        message = (
            f"md reads before it writes: each write, mostly of {size}, causes {formatting.number(reads)} reads and"
            f" {formatting.number(written)} writes on the members"
        )
        remedy = (
            "write whole stripes (chunk size times data disks) or in sequence, so that md needs no reads; but if a"
            " member is missing (/proc/mdstat), md reads for that: replace it first",
            "for small random writes, RAID-1 or RAID-10: blklab advise compares them",
        )
        yield waiting.cause("read-modify-write", array, waiting.op_ns(array, "write"), message, *remedy)
