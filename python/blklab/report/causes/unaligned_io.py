"""I/O that is not aligned: to blocks of 4 KiB, or to the chunks of an array."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.array_members import MD_THREAD
from blklab.report.causes.waiting import Waiting
from blklab.report.view import BLOCK

FEWEST = 100  # I/Os
OFTEN = 0.3  # Share of the I/Os from which on it is told
STREAM = 0.8  # Share of the I/Os that continue a stream from which on it is one
SMALL = 128 << 10  # Bytes of an I/O that fits into a usual chunk
SPLIT = (1.3, 2.2)  # Parts of an I/O between which it is told: it crosses one border; md's resync reads more


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields devices with unaligned I/O, and arrays that split small reads."""
    for device in waiting.entrances:
        load = device.op("write")
        share = load.unaligned / max(1, load.ios)
        if (device.streams("write").sequential_share or 0.0) >= STREAM:
            continue  # A disk's cache makes whole blocks of them
        if load.ios >= FEWEST and share >= OFTEN:
            message = (
                f"{formatting.share(share)} of the writes do not begin and end at a multiple of"
                f" {formatting.size(BLOCK)}: a disk with sectors of 4 KiB must read before it writes, and flash too"
            )
            remedy = ("align partitions and filesystems to 1 MiB, and let the program use blocks of 4 KiB",)
            yield waiting.cause("unaligned", device, share * waiting.op_ns(device, "write"), message, *remedy)
    for array, members in waiting.arrays():
        reads = array.op("read")
        fed = sum(
            group.ios.get("read", 0)
            for each in members
            for group in each.groups("sources")
            if group.label == array.label
        )
        parts, size = fed / max(1, reads.ios), reads.sizes.mode_bytes or 0
        if any(
            MD_THREAD.fullmatch(group.label) and group.ios.get("read")
            for each in members
            for group in each.groups("processes")
        ):
            continue  # md itself reads, such as what a missing member had
        if reads.ios >= FEWEST and BLOCK < size <= SMALL and SPLIT[0] <= parts <= SPLIT[1]:
            message = (
                f"reads of {formatting.size(size)} need {formatting.number(parts)} I/Os of the members each: they cross"
                " the borders of chunks"
            )
            remedy = ("begin partitions and filesystems at a multiple of the chunk size; use a larger chunk",)
            share = min(1.0, (parts - 1) / parts)
            yield waiting.cause("split-by-chunks", array, share * waiting.op_ns(array, "read"), message, *remedy)
