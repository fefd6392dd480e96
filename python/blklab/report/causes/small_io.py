"""Sequential I/O in tiny pieces."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting

FEWEST = 200  # I/Os
SEQUENTIAL = 0.8  # Share of the I/Os that continue a stream
LOG = 0.25  # Flushes for each write from which on a stream of writes is a log
TINY = 16 << 10  # Bytes; the mean of I/Os and of requests is below it


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices whose streams consist of tiny I/Os that the block layer does not merge."""
    requests = sum(each.data.dispatches.requests for each in waiting.leaves)
    if requests and sum(each.data.dispatches.bytes for each in waiting.leaves) >= TINY * requests:
        return
    for device in waiting.tops:
        for op in ("read", "write"):
            load, streams = device.op(op), device.streams(op)
            mean = load.sizes.mean_bytes or 0.0
            if op == "write" and device.data.waits.flushing.count >= LOG * load.ios:
                continue  # A log must be stable after each record
            if load.ios < FEWEST or mean >= TINY or (streams.sequential_share or 0.0) < SEQUENTIAL:
                continue
            message = (
                f"{formatting.ops(op)} are sequential ({formatting.share(streams.sequential_share)}) but of"
                f" {formatting.size(mean)} on average, and are not merged: each costs as much as a large one"
            )
            ns = (streams.sequential_share or 0.0) * waiting.op_ns(device, op)
            remedy = ("larger blocks of the program (bs, buffer size), or read-ahead and buffered writes",)
            yield waiting.cause("tiny-io", device, ns, message, *remedy)
