"""Causes in the I/O itself: its size, its alignment, and how its streams are mixed."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.render import formatting
from blklab.trace.array_members import MD_THREAD
from blklab.trace.causes.waiting import Waiting
from blklab.trace.view import BLOCK, DeviceView

FEWEST_SMALL = 200  # I/Os
STREAM = 0.8  # Share of the I/Os that continue a stream
TINY = 16 << 10  # Bytes; the mean of I/Os and of requests is below it


def tiny_io(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices whose streams consist of tiny I/Os that the block layer does not merge.

    Sequential I/O in tiny pieces.
    """
    requests = sum(leaf.data.dispatches.requests for leaf in waiting.leaves)
    if requests and sum(leaf.data.dispatches.bytes for leaf in waiting.leaves) >= TINY * requests:
        return
    for device in waiting.tops:
        # Small writes in sequence are a log, which must be stable after each record.
        load = device.op("read")
        mean = load.sizes.mean_bytes or 0.0
        share = device.streams("read").sequential_share or 0.0
        if load.ios < FEWEST_SMALL or mean >= TINY or share < STREAM:
            continue
        yield waiting.cause(
            "tiny-io",
            device,
            share * waiting.op_ns(device, "read"),
            f"reads are sequential ({formatting.share(share)}) but of {formatting.size(mean)} on average, "
            "and are not merged: each costs as much as a large one",
            "larger blocks of the program (bs, buffer size), or read-ahead",
        )


FEWEST = 100  # I/Os, or requests of the disk
OFTEN = 0.3  # Share of the I/Os from which on it is told
SMALL = 128 << 10  # Bytes of an I/O that fits into a usual chunk
SPLIT = (1.3, 2.2)  # Parts of an I/O between which it is told: it crosses one border; md's resync reads more


def unaligned_io(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields devices with unaligned I/O, and arrays that split small reads.

    I/O that is not aligned: to blocks of 4 KiB, or to the chunks of an array.
    """
    causes = list(filter(None, (_unaligned_writes(waiting, device) for device in waiting.entrances)))
    if not causes:
        # What is aligned above can be shifted below, where a partition or volume begins.
        lower = [device for device in waiting.leaves if device not in waiting.entrances and shifted_by(device)]
        causes = list(filter(None, (_unaligned_writes(waiting, device) for device in lower)))
    yield from causes
    for array, members in waiting.arrays():
        reads = array.op("read")
        sources = [group for member in members for group in member.groups("sources")]
        member_reads = sum(group.ios.get("read", 0) for group in sources if group.label == array.label)
        parts = member_reads / max(1, reads.ios)
        size = reads.sizes.mode_bytes or 0
        processes = [group for member in members for group in member.groups("processes")]
        if any(MD_THREAD.fullmatch(group.label) and group.ios.get("read") for group in processes):
            continue  # md itself reads, such as what a missing member had
        if reads.ios >= FEWEST and BLOCK < size <= SMALL and SPLIT[0] <= parts <= SPLIT[1]:
            crossing = min(1.0, (parts - 1) / parts) * waiting.op_ns(array, "read")
            yield waiting.cause(
                "split-by-chunks",
                array,
                crossing,
                f"reads of {formatting.size(size)} need {formatting.number(parts)} I/Os of the members each: "
                "they cross the borders of chunks",
                "begin partitions and filesystems at a multiple of the chunk size; use a larger chunk",
            )


SECTORS = BLOCK // 512
SAME_SHIFT = 0.9  # Share of the whole blocks that are shifted by the same number of sectors


def _unaligned_writes(waiting: Waiting, device: DeviceView) -> Diagnostic | None:
    load = device.op("write")
    share = load.unaligned / max(1, load.ios)
    # A disk's cache makes whole blocks of what continues the write before.
    costly_share = share * (1 - (device.streams("write").sequential_share or 0.0))
    if load.ios < FEWEST or costly_share < OFTEN:
        return None
    shift_text, remedy = describe_shift(waiting, device)
    return waiting.cause(
        "unaligned",
        device,
        costly_share * waiting.op_ns(device, "write"),
        f"{formatting.share(share)} of the writes do not begin and end at a multiple of "
        f"{formatting.size(BLOCK)}: a disk with sectors of 4 KiB must read before it writes, and flash too"
        f"{shift_text}",
        remedy,
    )


def shifted_by(device: DeviceView) -> int:
    """Returns by how many sectors whole blocks are shifted on a device; 0 if they are not, or not all by the same."""
    starts = device.op("write").block_starts
    shift = max(range(SECTORS), key=lambda index: starts[index])
    if starts[shift] < SAME_SHIFT * sum(starts) or starts[shift] < FEWEST:
        return 0
    return shift


def describe_shift(waiting: Waiting, device: DeviceView) -> tuple[str, str]:
    """Returns by how much whole blocks are shifted on a device and where this begins, and what to do about it."""
    small_blocks = "make the filesystem with blocks of 4 KiB (mkfs -b 4096), and let the program use such blocks"
    begins = device.data.begins
    is_aligned = bool(begins) and all(begin.sector % SECTORS == 0 for begin in begins)
    shift = shifted_by(device)
    if not shift:
        return "", small_blocks if is_aligned else f"align partitions to 1 MiB; {small_blocks}"
    amount = formatting.size(shift * 512)
    text = f"; blocks begin {amount} ({formatting.plural(shift, 'sector')}) after such a multiple"
    for begin in begins:
        if begin.sector % SECTORS == shift:
            upper = waiting.view.names.get(begin.upper, begin.upper)
            lower = waiting.view.names.get(begin.lower, begin.lower)
            text += f", because {upper} begins at sector {begin.sector} of {lower}"
            return (
                text,
                f"move {upper} by {amount}: let it begin at a multiple of 1 MiB (sector 2048), as parted -a opt does",
            )
    if is_aligned:
        names = list(dict.fromkeys(waiting.view.names.get(begin.upper, begin.upper) for begin in begins))
        verb = "begins" if len(names) == 1 else "begin"
        return f"{text}, but {formatting.listing(names[:2])} {verb} at one", small_blocks
    return text, f"let the partition or volume that is written begin at a multiple of 1 MiB, not {amount} after one"


MOSTLY_STREAMS = 0.7  # Share of the I/Os that continue a stream
TOGETHER = 0.5  # Share of the requests that continue the one before from which on streams are served well
CHEAP = 512 << 10  # Bytes of a request from which on moving the head is cheap
SEEK = 2_000_000  # ns that a disk needs if it must move its head: flash is faster


def broken_stream(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the disks that jump between streams.

    Sequential streams reach a disk mixed, so that it moves its head between them.
    """
    for device in waiting.view.devices:
        dispatches = device.data.dispatches
        took = device.latency("all", "d2c")
        if dispatches.requests < FEWEST or took is None or (took.p50 or 0) < SEEK:
            continue
        mean = dispatches.bytes / dispatches.requests
        contiguous = dispatches.contiguous / dispatches.requests
        op = max(("read", "write"), key=lambda each: device.op(each).ios)
        streams = device.streams(op)
        if (streams.sequential_share or 0.0) < MOSTLY_STREAMS or streams.peak_concurrent_streams < 2:
            continue
        if contiguous >= TOGETHER or mean >= CHEAP:
            continue
        yield waiting.cause(
            "broken-stream",
            device,
            (1 - contiguous) * waiting.op_ns(device, op),
            f"{device.label} serves sequential {formatting.ops(op)} mixed: "
            f"{formatting.share(streams.sequential_share)} continue one of up to "
            f"{streams.peak_concurrent_streams} streams, "
            f"but only {formatting.share(contiguous)} of the requests (of {formatting.size(mean)} on average) "
            "continue the one before",
            "larger requests: more read-ahead (queue/read_ahead_kb), larger blocks of the program",
            "or a scheduler that stays with a stream: bfq",
        )
