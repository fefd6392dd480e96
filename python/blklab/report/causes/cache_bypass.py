"""Reads go past a cache: they come from the slow device and are not kept."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting

FEWEST = 100  # Reads
PAST = 0.5  # Share of the bytes read that comes from the slow device
KEPT = 0.2  # Share of these that is written to the cache, from which on the cache is being filled


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the caches past which most reads go."""
    for device, lower in waiting.arrays():
        roles = {waiting.role(each): each for each in lower}
        cache, backing = roles.get("cache"), roles.get("backing")
        reads = device.op("read")
        if cache is None or backing is None or reads.ios < FEWEST:
            continue
        past, kept = backing.op("read").bytes, cache.op("write").bytes
        if past < PAST * reads.bytes or kept >= KEPT * past:
            continue
        message = (
            f"{formatting.share(past / reads.bytes)} of the bytes read go past the cache {cache.label}: they come from"
            f" {backing.label} and are not kept; reads are mostly of {formatting.size(reads.sizes.mode_bytes)},"
            f" {formatting.share(device.streams('read').sequential_share)} of them sequential"
        )
        remedy = (
            "bcache lets streams pass: bcache/sequential_cutoff, and congested_read_threshold_us of its cache set",
            "dm-cache keeps what is read often: it needs time; blklab cache shows what a cache could do",
        )
        yield waiting.cause("cache-bypass", device, waiting.op_ns(backing, "read"), message, *remedy)
