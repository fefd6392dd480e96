"""Rules about reshapes that are not finished, and about sync actions that almost stand."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import make_finding
from blklab.md.levels import layout_name
from blklab.md.model import Array, Software, SyncPass
from blklab.md.superblocks import Superblock
from blklab.units import SECTOR, format_size

DEFAULT_MINIMUM = 1000  # KiB/s: the default of sync_speed_min (drivers/md/md.c)
NEAR = 0.1  # So near to a limit, as a share of it, that the limit is the reason
BUSY = 0.9  # Share of the time from which on a disk is called busy
FULL = 0.95  # Share of the stripe cache in use from which on it is full
LARGE_CACHE = 4096  # Stripes; the default is 256 (drivers/md/raid5.c, NR_STRIPES)
PAGE = 4096  # Bytes of a stripe on one disk
RAISED_MINIMUM = 50_000  # KiB/s, for a resync that must not wait for other I/O


def check_reshape(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A reshape is not finished, and does not run now."""
    if not array.reshaping or (array.sync is not None and array.sync.action == "reshape"):
        return
    sentences = ["a reshape is not finished", *describe_reshape(array)]
    if array.live and array.state not in {"inactive", ""}:
        sentences.append("Someone stopped it: see findings about bugs of this kernel before you continue it")
    else:
        sentences.append("md continues it when the array runs")
    newest = find_newest_superblock(array)
    if newest is None or newest.new_data_offset is None:
        sentences.append("If the reshape used a backup file, mdadm needs it (--backup-file)")
    sentences.append("Do not remove, fail or re-create a member: only the reshape knows where the data are")
    yield make_finding(array, "warning", "reshape-unfinished", ". ".join(sentences))


def describe_reshape(array: Array) -> list[str]:
    """Returns sentences without full stops: how far a reshape is, and what it changes."""
    sentences = []
    position = array.reshape_position
    newest = find_newest_superblock(array)
    if position is not None:
        share = ""
        if array.size and position * SECTOR <= array.size:
            share = f" ({100 * position * SECTOR / array.size:.1f} %)"
        sentences.append(f"It is at sector {position:,} of the array{share}")
    if newest is not None and newest.reshape is not None:
        sentences += describe_change(newest)
    return sentences


def describe_change(superblock: Superblock) -> list[str]:
    """Returns sentences without full stops about what an unfinished reshape changes."""
    reshape = superblock.reshape
    if reshape is None:
        return []
    sentences = []
    count = abs(reshape.delta_disks)
    disks = "1 disk" if count == 1 else f"{count} disks"
    if reshape.delta_disks > 0:
        sentences.append(
            f"It adds {disks}: {superblock.raid_disks - count} were there before, {superblock.raid_disks} after it"
        )
    elif reshape.delta_disks < 0:
        sentences.append(f"It takes {disks} away, and goes from the end of the array to its beginning")
    elif superblock.reshape_backwards:
        sentences.append("It goes from the end of the array to its beginning")
    if reshape.chunk != superblock.chunk:
        sentences.append(f"It changes the chunk from {format_size(superblock.chunk)} to {format_size(reshape.chunk)}")
    if reshape.level != superblock.level:
        sentences.append(f"It changes the level from RAID-{superblock.level} to RAID-{reshape.level}")
    if reshape.layout != superblock.layout:
        names = []
        for layout in (superblock.layout, reshape.layout):
            names.append(layout_name(superblock.level_name, layout) or str(layout))
        sentences.append(f"It changes the layout from {names[0]} to {names[1]}")
    if superblock.new_data_offset is not None:
        old_offset = format_size(superblock.data_offset * SECTOR)
        new_offset = format_size(superblock.new_data_offset * SECTOR)
        sentences.append(f"It moves the data from offset {old_offset} to {new_offset}, and needs no backup file")
    return sentences


def find_newest_superblock(array: Array) -> Superblock | None:
    superblocks = [member.superblock for member in array.members if member.superblock and member.superblock.accepted]
    return max(superblocks, key=lambda superblock: superblock.events, default=None)


def is_growing_raid0(array: Array) -> bool:
    """Whether the array may be a RAID-0 that grows: md reshapes it as a RAID-4 without the parity disk.

    The kernel then has one more slot, the last one, which is empty (drivers/md/raid5.c, `raid45_takeover_raid0`).
    """
    slots = {member.slot for member in array.active}
    return array.reshaping and array.level == "raid4" and array.degraded == 1 and (array.raid_disks - 1) not in slots


def check_growing_raid0(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A RAID-0 grows, which md does as a RAID-4 without its parity disk."""
    if is_growing_raid0(array):
        message = (
            "is a RAID-4 without its last disk, and is reshaped: a RAID-0 that grows looks like this. Then no disk is "
            "missing, and mdadm makes it a RAID-0 again at the end. Do not add a disk. "
            "If it was a RAID-4, its parity disk is missing"
        )
        yield make_finding(array, "warning", "raid0-grows", message)


def is_slow(array: Array) -> bool:
    """Whether a resync, recovery, check or reshape runs at the minimum that md keeps, or slower."""
    sync = array.sync
    if not array.live or sync is None or sync.done_sectors is None or sync.speed_kib is None:
        return False
    return sync.speed_kib <= (1 + NEAR) * (sync.minimum_kib or DEFAULT_MINIMUM)


def check_stalled_sync(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A resync, recovery, check or reshape almost stands, or runs at the minimum that md keeps."""
    sync = array.sync
    if sync is None or sync.done_sectors is None or sync.speed_kib is None:
        return
    minimum = sync.minimum_kib or DEFAULT_MINIMUM
    if sync.speed_kib < (1 - NEAR) * min(minimum, DEFAULT_MINIMUM):
        message = _describe_stall(sync, minimum) + _describe_members(array)
        yield make_finding(array, "warning", "sync-stalled", message, *_enlarge_stripe_cache(array))
    elif sync.speed_kib < (1 - NEAR) * minimum:
        return  # Someone raised the minimum above what the disks can do
    elif sync.maximum_kib and sync.speed_kib >= (1 - NEAR) * sync.maximum_kib:
        message = (
            f"{sync.name} runs at {sync.speed_kib:,} KiB/s, the most that md is allowed "
            f"(sync_speed_max is {sync.maximum_kib:,} KiB/s)"
        )
        yield make_finding(array, "note", "sync-limited", message)
    elif sync.speed_kib <= (1 + NEAR) * minimum:
        message = (
            f"{sync.name} runs at {sync.speed_kib:,} KiB/s, the minimum that md keeps while other I/O goes on "
            f"(sync_speed_min is {minimum:,} KiB/s): other I/O to its disks slows it down" + _describe_members(array)
        )
        commands: tuple[str, ...] = ()
        if minimum < RAISED_MINIMUM <= (sync.maximum_kib or RAISED_MINIMUM):
            commands = (
                "# This makes it faster and other I/O slower, until the next start of the array:",
                command_lines.raise_sync_speed(array.name, RAISED_MINIMUM),
            )
        yield make_finding(array, "warning", "sync-stalled", message, *commands)


def _describe_members(array: Array) -> str:
    """Returns a sentence about how busy the members are, if that was measured: one slow member, all, or none."""
    if len(array.busy_shares) < 2:
        return ""
    name, most = max(array.busy_shares, key=lambda member: member[1])
    others = sorted(share for other, share in array.busy_shares if other != name)
    middle = others[len(others) // 2]
    if most >= BUSY and middle <= most / 2:
        return (
            f". {name} is busy {100 * most:.0f} % of the time, the others {100 * middle:.0f} %: {name} holds it up. "
            "Look at its errors in dmesg and its SMART values"
        )
    if others[0] >= BUSY:
        return ". All members are busy all the time: other I/O, or a controller that they share, holds it up"
    if most < BUSY:
        return f". No member is busy for more than {100 * most:.0f} % of the time: the disks do not hold it up"
    return ""


def _enlarge_stripe_cache(array: Array) -> tuple[str, ...]:
    """Returns how to enlarge a stripe cache of which all stripes are in use."""
    if not array.stripes or (array.stripes_in_use or 0) < FULL * array.stripes or array.stripes >= LARGE_CACHE:
        return ()
    memory = format_size(LARGE_CACHE * PAGE * array.raid_disks)
    return (
        f"# All {array.stripes:,} stripes of stripe_cache_size are in use. This allows more, and takes up to {memory}",
        "# of memory, until the next start of the array:",
        command_lines.raise_stripe_cache(array.name, LARGE_CACHE),
    )


def _describe_stall(sync: SyncPass, minimum: int) -> str:
    """Returns that a sync action is slower than md's minimum, and what can hold it up."""
    message = (
        f"{sync.name} has almost stopped: {sync.speed_kib:,} KiB/s, although md keeps at least {minimum:,} KiB/s "
        "(sync_speed_min) if the disks can. Look for errors and time-outs of a member in dmesg, and at SMART values"
    )
    if sync.action == "reshape":
        message += (
            ". A backup file that cannot be written, or a small stripe_cache_size, holds a reshape up too. "
            "Do not fail or remove a member during a reshape"
        )
    return message
