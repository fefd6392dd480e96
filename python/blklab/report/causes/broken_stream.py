"""Sequential streams reach a disk mixed, so that it moves its head between them."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting

FEWEST = 100  # Requests
SEQUENTIAL = 0.7  # Share of the I/Os that continue a stream
TOGETHER = 0.5  # Share of the requests that continue the one before from which on streams are served well
SHORT = 512 << 10  # Bytes of a request from which on moving the head is cheap
SEEK = 2_000_000  # ns that a disk needs if it must move its head: flash is faster


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the disks that jump between streams."""
    for device in waiting.view.devices:
        dispatches = device.data.dispatches
        took = device.latency("all", "d2c")
        if dispatches.requests < FEWEST or took is None or (took.p50 or 0) < SEEK:
            continue
        mean = dispatches.bytes / dispatches.requests
        contiguous = dispatches.contiguous / dispatches.requests
        op = max(("read", "write"), key=lambda each: device.op(each).ios)
        streams = device.streams(op)
        if (streams.sequential_share or 0.0) < SEQUENTIAL or streams.peak_concurrent_streams < 2:
            continue
        if contiguous >= TOGETHER or mean >= SHORT:
            continue
        sequential, together = map(formatting.share, (streams.sequential_share, contiguous))
        message = (
            f"{device.label} serves sequential {formatting.ops(op)} mixed: {sequential} continue one of up to"
            f" {streams.peak_concurrent_streams} streams, but only {together} of the requests (of"
            f" {formatting.size(mean)} on average) continue the one before"
        )
        remedy = (
            "larger requests: more read-ahead (queue/read_ahead_kb), larger blocks of the program",
            "or a scheduler that stays with a stream: bfq",
        )
        yield waiting.cause("broken-stream", device, (1 - contiguous) * waiting.op_ns(device, op), message, *remedy)
