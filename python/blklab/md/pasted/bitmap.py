"""Reads `mdadm --examine-bitmap` (-X): the write-intent bitmap on a member (mdadm: bitmap.c)."""

import re

from blklab.md.model import MemberBitmap
from blklab.md.pasted.blocks import TextBlock

MAGIC = "6d746962"
BITS = re.compile(r"(\d{1,18}) bits \(chunks\), (\d{1,18}) dirty\b")
CHUNK = re.compile(r"(\d{1,9}) ([KMG])B\b")
UNITS = {"K": 10, "M": 20, "G": 30}


def is_bitmap(block: TextBlock) -> bool:
    """Whether a block is the output of `mdadm --examine-bitmap`."""
    return block.fields.get("magic", "").lower().startswith(MAGIC)


def read_bitmap(block: TextBlock) -> MemberBitmap | None:
    """Returns the bitmap of a block; None if its events are missing."""
    fields = block.fields
    events = re.match(r"\d{1,19}\b", fields.get("events", ""))
    if not events:
        return None
    cleared = re.match(r"\d{1,19}\b", fields.get("events cleared", ""))
    bits = BITS.match(fields.get("bitmap", ""))
    chunk = CHUNK.match(fields.get("chunksize", ""))
    return MemberBitmap(
        uuid=fields.get("uuid", ""),
        events=int(events[0]),
        events_cleared=int(cleared[0]) if cleared else None,
        is_out_of_date=fields.get("state", "OK") != "OK",
        chunk=int(chunk[1]) << UNITS[chunk[2]] if chunk else None,
        bits=int(bits[1]) if bits else None,
        dirty=int(bits[2]) if bits else None,
    )
