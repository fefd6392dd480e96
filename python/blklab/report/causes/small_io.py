"""Sequential I/O in tiny pieces."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting

FEWEST = 200  # I/Os
SEQUENTIAL = 0.8  # Share of the I/Os that continue a stream
TINY = 16 << 10  # Bytes; the mean of I/Os and of requests is below it


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices whose streams consist of tiny I/Os that the block layer does not merge."""
    requests = sum(each.data.dispatches.requests for each in waiting.leaves)
    if requests and sum(each.data.dispatches.bytes for each in waiting.leaves) >= TINY * requests:
        return
    for device in waiting.tops:
        # Small writes in sequence are a log, which must be stable after each record.
        load, streams = device.op("read"), device.streams("read")
        mean, share = load.sizes.mean_bytes or 0.0, streams.sequential_share or 0.0
        if load.ios < FEWEST or mean >= TINY or share < SEQUENTIAL:
            continue
        message = (
            f"reads are sequential ({formatting.share(share)}) but of {formatting.size(mean)} on average, and are not"
            " merged: each costs as much as a large one"
        )
        remedy = ("larger blocks of the program (bs, buffer size), or read-ahead",)
        yield waiting.cause("tiny-io", device, share * waiting.op_ns(device, "read"), message, *remedy)
