"""Who queued the I/O of an array's members: processes, or md's own threads.

md's threads are named after the array: `md0_raid1` writes superblocks, bitmaps and, for parity levels, stripes;
`md0_resync` and `md0_reshape` run a check, resync, recovery or reshape (drivers/md/md.c: md_register_thread).
"""

import re
from collections.abc import Sequence

from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.render.table import TextTable, number_columns, text_column
from blklab.trace.view import BLOCK, DeviceView, OriginGroup, ProfileView

MD_THREAD = re.compile(r"md\w*_(raid\d+|resync|reshape|multipath)")
MOST_NAMED = 3


def members(view: ProfileView, array: DeviceView) -> list[DeviceView]:
    """Returns the devices of a trace that an md array, or a volume on several devices, passes its I/O to."""
    numbers = {feed.lower for feed in view.feeds if feed.upper == array.number}
    lower = sorted((device for device in view.devices if device.number in numbers), key=lambda device: device.label)
    return lower if len(lower) > 1 or any(map(_by_md, lower)) else []


def members_table(view: ProfileView, array: DeviceView) -> TextTable:
    """Returns the I/O of each member, and who queued it."""
    rows = []
    for member in members(view, array):
        processes = []
        for group in member.groups("processes")[:MOST_NAMED]:
            processes.append(f"{group.label} {formatting.share(group.total / member.ios)}")
        by_md = sum(group.total for group in _by_md(member))
        row = [
            member.label,
            formatting.count(member.ios),
            formatting.size(member.op("read").bytes),
            formatting.size(member.op("write").bytes),
            formatting.share(by_md / member.ios if member.ios else None),
            ", ".join(processes),
        ]
        rows.append(row)
    columns = [text_column("member"), *number_columns("I/Os", "read", "written", "md's own"), text_column("queued by")]
    return TextTable(f"Members of {array.label}", columns, rows, spare=("I/Os",))


def sentence(view: ProfileView, array: DeviceView) -> list[Sentence]:
    """Returns what reaches the members of an array; nothing for other devices."""
    lower = members(view, array)
    ios = sum(member.ios for member in lower)
    if not ios or not array.ios:
        return []
    md_groups = [group for member in lower for group in _by_md(member)]
    parts = []
    written = array.op("write").bytes
    if written:
        factor = sum(member.op("write").bytes for member in lower) / written
        parts.append(
            f"for each byte written to {array.label}, {formatting.number(factor)} bytes are written to its members"
        )
    if md_groups:
        share = formatting.share(sum(group.total for group in md_groups) / ios)
        names = formatting.listing(sorted({group.label for group in md_groups}))
        parts.append(f"md itself queued {share} of the I/O of the members ({names})")
    if syncs(array, lower, md_groups):
        parts.append("md checked, resynced, recovered or reshaped the array")
    line = "; ".join(parts)
    return [Sentence("Members", f"{line[:1].upper()}{line[1:]}.")] if parts else []


def _by_md(member: DeviceView) -> list[OriginGroup]:
    return [group for group in member.groups("processes") if MD_THREAD.fullmatch(group.label)]


def syncs(array: DeviceView, lower: Sequence[DeviceView], md_groups: Sequence[OriginGroup]) -> bool:
    """Whether md read more than the load explains.

    The thread of a parity level also reads for writes: for each block of a write at most one block of each member.
    """
    if any(group.label.endswith(("_resync", "_reshape")) for group in md_groups):
        return True
    writes = array.op("write")
    blocks = writes.bytes / BLOCK + 2 * writes.ios
    reads = sum(member.op("read").bytes for member in lower) - array.op("read").bytes
    return bool(md_groups) and reads > blocks * BLOCK * len(lower)
