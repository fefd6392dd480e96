"""Judges `mdadm --grow ARRAY --size=…`: the size that the array uses of each member."""

import math
from collections.abc import Iterator

from blklab.md import command_lines
from blklab.md.levels import STRIPED
from blklab.md.model import Array
from blklab.md.plan import acceptance
from blklab.md.plan.change import ChangePlan, Conditions, Refusal, Work
from blklab.md.plan.duration import copies_of, estimate_duration, plan_resync, size_of_array
from blklab.md.plan.filesystems import list_growing, list_shrinking
from blklab.units import SECTOR, format_size

OLD_LARGEST_KIB = 2 << 30  # Of a member with metadata 0.90 before Linux 3.1 (mdadm 4.2, Grow.c): 2 TiB
SAFE_OLD_KERNEL = (3, 1)


def judge_grow(array: Array, kib: int | None, conditions: Conditions) -> ChangePlan:
    """Returns whether md changes the size that it uses of each member; None is the largest size."""
    path = array.path or f"/dev/{array.name}"
    call = command_lines.set_member_size(path, kib or 0)
    largest = find_largest_sectors(array)
    new = largest if kib is None else 2 * kib
    if new is not None and array.level in STRIPED and array.chunk:
        new -= new % (array.chunk // SECTOR)
    refusals = [*acceptance.check_running(array), *acceptance.check_failed(array, "")]
    refusals += [*_check_level(array), *_check_size(array, kib, largest)]
    refusals += acceptance.check_idle(array)
    refusals += acceptance.check_writable(array, f"Cannot set device size for {path}: Read-only file system")
    refusals += acceptance.check_log(array, f"Cannot set device size for {path}: Invalid argument")
    refusals += _check_old_metadata(array, new, conditions)
    caveats = list(acceptance.describe_conditions(conditions))
    if new is None and not refusals:
        caveats.append("the sizes of the disks are not known: the largest size, and how long it takes, are not either")
    elif largest is None and not refusals:
        caveats.append("the sizes of the disks are not known: md refuses a size that one of them does not have")
    work: tuple[Work, ...] = ()
    facts: list[str] = []
    dangers: list[str] = []
    commands: list[str] = []
    is_work_known = bool(new and array.member_sectors)
    if new is None:
        commands = [call, *list_growing(array, path)]
    elif not array.member_sectors:
        dangers.append(
            "the size that the array uses of each member is not known: if it is larger now, mdadm cuts the end off at"
            " once"
        )
    elif new > array.member_sectors:
        work = tuple(_plan_work(array, new))
        facts += _describe_growth(array, new)
        commands = [call, *list_growing(array, path)]
    elif new < array.member_sectors and not refusals:
        size = size_of_array(array.level, array.raid_disks, copies_of(array), new)
        dangers.append(
            f"the array shrinks to {format_size(size)}: mdadm does it at once, and what the filesystem has behind it is"
            " lost: make the filesystem smaller first"
        )
        commands = list_shrinking(array, path, size, call)
    elif new == array.member_sectors:
        facts.append("the size is the same as now: nothing changes")
    return ChangePlan(
        array, "grow", call, conditions, tuple(refusals), tuple(dangers), "", work,
        None if refusals else estimate_duration(work, conditions), tuple(facts),
        () if refusals else tuple(commands),
        _describe_interruption(path) if work and not refusals else (), tuple(caveats),
        is_work_known,
    )  # fmt: skip


def find_largest_sectors(array: Array) -> int | None:
    """Returns the sectors that all members can give; None if the size of one is unknown."""
    sizes = []
    for member in array.active:
        if member.size is None:
            return None
        usable = acceptance.usable_sectors(array, member.size)
        if usable is None:
            return None
        sizes.append(usable)
    return min(sizes, default=None)


def _check_level(array: Array) -> list[Refusal]:
    path = array.path
    if array.level in {"raid0", "linear"}:
        return [
            Refusal(
                "no-size", "Cannot set device size in this type of array.",
                f"{array.level} uses each member completely, and has no size for members",
                ("# To use larger disks, add disks with `blklab md plan reshape`, or make a new array.",),
            )
        ]  # fmt: skip
    far = array.layout >> 8 & 0xFF
    if array.level == "raid10" and far > 1 and not array.layout >> 16 & 1:
        reason = "the copies of a RAID-10 with far layout lie at half of the member size, which the kernel cannot move"
        return [Refusal("far-layout", f"Cannot set device size for {path}: Invalid argument", reason)]
    return []


def _check_size(array: Array, kib: int | None, largest: int | None) -> list[Refusal]:
    if kib is None:
        return []
    if array.level in STRIPED and kib < array.chunk // 1024:
        return [
            Refusal(
                "size-below-chunk", "component size must be larger than chunk size.",
                f"expected at least one chunk, {array.chunk // 1024:,} KiB",
            )
        ]  # fmt: skip
    if largest is not None and 2 * kib > largest:
        return [
            Refusal(
                "no-space", f"Cannot set device size for {array.path}: No space left on device",
                f"the smallest member can give {largest // 2:,} KiB",
            )
        ]  # fmt: skip
    return []


def _check_old_metadata(array: Array, new: int | None, conditions: Conditions) -> list[Refusal]:
    kernel = conditions.software.kernel if conditions.software else None
    if array.metadata != "0.90" or new is None or kernel is None or kernel >= SAFE_OLD_KERNEL:
        return []
    if new // 2 <= OLD_LARGEST_KIB:
        return []
    printed = "Cannot safely make this array use more than 2TB per device on this kernel."
    return [Refusal("old-metadata", printed, "metadata 0.90 with a kernel older than 3.1: at most 2 TiB of each disk")]


def _plan_work(array: Array, new: int) -> Iterator[Work]:
    """Yields the resync of the new part. Without redundancy there is nothing to compare; a RAID-10 may have some left.

    With a bitmap, md compares only the new chunks of the bitmap (md-bitmap.c, `md_bitmap_resize`).
    """
    if array.degraded and array.degraded >= acceptance.count_tolerated(array) and array.level != "raid10":
        return
    sectors = new - array.member_sectors
    if array.bitmap and array.bitmap_chunk:
        chunk = array.bitmap_chunk // SECTOR
        # Bits of a RAID-10 are of the array's sectors.
        factor = array.raid_disks / copies_of(array) if array.level == "raid10" else 1.0
        covered = math.ceil(array.member_sectors * factor / chunk) * chunk / factor
        sectors = max(0, new - max(array.member_sectors, int(covered)))
    if sectors:
        yield plan_resync(array, sectors)


def _describe_growth(array: Array, new: int) -> list[str]:
    gain = (new - array.member_sectors) * SECTOR
    lines = [f"md uses {format_size(gain)} more of each member, at once; then it compares the new part"]
    if array.bitmap:
        lines.append("the bitmap covers the new part too: mdadm makes it larger if there is room for it")
    return lines


def _describe_interruption(path: str) -> tuple[str, ...]:
    return (
        "# The new size is in the superblocks at once. md continues to compare the new part; no data is lost.",
        command_lines.show_detail(path),
    )
