"""Judges `mdadm --grow ARRAY --level=…`: which levels md makes from which, at once or by a reshape.

mdadm 4.2: Grow.c, `analyse_change`. Linux 6.1: the functions `takeover` of raid0.c, raid1.c, raid10.c and raid5.c.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blklab.md import command_lines
from blklab.md.audit.rule import level_text
from blklab.md.levels import PARITIES, PARITY_LAYOUTS, layout_name
from blklab.md.model import Array
from blklab.md.plan import acceptance
from blklab.md.plan.change import ChangePlan, Conditions, NewDisk, Refusal, Work
from blklab.md.plan.duration import estimate_duration, plan_recovery, plan_restripe, raises_minimum
from blklab.md.plan.filesystems import list_growing
from blklab.md.plan.reshape import (
    FEWEST,
    check_array_size,
    check_backup,
    describe_backup,
    describe_interruption,
    describe_seeks,
    needs_backup,
    parse_raid10_layout,
)

PARITY_LAST = 5
CHUNK_OF_MIRROR = 65536  # Bytes, of a RAID-1 that becomes a RAID-5 (raid5.c, `raid5_takeover_raid1`)
Q_ON_LAST_DISK = 16  # Layouts of RAID-6 from this number on (drivers/md/raid5.h)
RAID10_NEAR_2 = 0x102
IMPOSSIBLE_FROM_MIRROR = "Impossibly level change request for RAID1"
IMPOSSIBLE = "Impossible level change requested"


@dataclass(frozen=True)
class NewLevel:
    """The level that an array is to get; 0 and an empty layout: mdadm chooses."""

    level: str  # `raid6`
    disks: int = 0
    layout: str = ""
    new: tuple[NewDisk, ...] = ()
    backup_file: str = ""


@dataclass(frozen=True)
class Conversion:
    """How md makes one level of another."""

    disks: int  # Slots of the new array
    restripes: bool = False  # Whether all data moves
    old_data: int = 0  # Data disks before and after it
    new_data: int = 0
    recovers: int = 0  # Disks that md rebuilds
    loses_redundancy: bool = False


def judge_level(array: Array, change: NewLevel, conditions: Conditions) -> ChangePlan:
    """Returns whether md gives an array another level, and how long that takes."""
    path = array.path or f"/dev/{array.name}"
    number = change.level.removeprefix("raid")
    adding = [disk.path for disk in change.new if not disk.is_spare]
    conversion, impossible = find_conversion(array, change)
    if array.level == "raid0" and adding:
        call = command_lines.change_level_adding(path, number, change.disks or conversion.disks, adding)
    else:
        call = command_lines.change_level(path, number, change.disks, change.layout, change.backup_file)
    refusals = [*acceptance.check_running(array), *acceptance.check_failed(array, "")]
    for disk in change.new:
        refusals += acceptance.check_new_disk(array, disk)
    if impossible is None and change.level != "raid0" and not conversion.loses_redundancy:
        refusals += _check_disks(array, conversion, change)
    if conversion.disks > array.raid_disks:
        refusals += acceptance.check_slots_filled(array, change.new)
    refusals += acceptance.check_idle(array)
    if impossible is not None:
        refusals.append(impossible)
    else:
        shape = f"{path}: could not set level to {change.level}"
        refusals += acceptance.check_writable(array, shape)
        refusals += acceptance.check_log(array, f"Cannot set device shape for {path}")
        refusals += _check_layout(change)
        refusals += _check_size(array, change, conversion, call)
        if conversion.restripes:
            chunk = array.chunk or CHUNK_OF_MIRROR
            spares = acceptance.count_spares(array) + len(change.new)
            refusals += check_backup(array, chunk, conversion.old_data, conversion.new_data, change.backup_file, spares)
    dangers = acceptance.warn_of_disks(array, change.new)
    dangers += _warn_of_lost_redundancy(array, change, conversion)
    if conversion.restripes or conversion.recovers:
        dangers += acceptance.warn_of_bad_blocks(array)
    refusals += acceptance.check_zones(array)
    work = tuple(_plan_work(array, change, conversion, conditions)) if impossible is None else ()
    commands: list[str] = []
    if not refusals and not dangers:
        commands = _list_commands(array, conversion, call, adding)
    interruption: tuple[str, ...] = ()
    if not refusals and conversion.restripes:
        interruption = tuple(describe_interruption(array, path, change.backup_file))
    elif work and not refusals:
        interruption = ("# md continues to rebuild the new disk. No data is lost.", command_lines.show_detail(path))
    caveats = [*acceptance.describe_conditions(conditions), *acceptance.describe_redundancy(array)]
    return ChangePlan(
        array, "level", call, conditions, tuple(refusals), tuple(dangers), "", work,
        None if refusals else estimate_duration(work, conditions),
        tuple(_describe(array, change, conversion)) if impossible is None else (), tuple(commands), interruption,
        tuple(caveats),
    )  # fmt: skip


def find_conversion(array: Array, change: NewLevel) -> tuple[Conversion, Refusal | None]:
    """Returns how an array gets a level, and why mdadm calls that impossible."""
    nothing = Conversion(array.raid_disks)
    if change.level == array.level:
        return nothing, Refusal(
            "same-level", f"{array.path}: no change requested", f"the array is a {level_text(array.level)} already"
        )
    if array.level == "raid1":
        return _from_mirror(array, change)
    if array.level == "raid10":
        return _from_raid10(array, change)
    if array.level == "raid0":
        return _from_stripes(array, change)
    if array.level in {"raid4", "raid5"}:
        return _from_one_parity(array, change)
    if array.level == "raid6":
        return _from_two_parities(array, change)
    printed = "No reshape is possibly for this RAID level"
    return nothing, Refusal("level", printed, f"md makes no other level of {array.level}")


def _from_mirror(array: Array, change: NewLevel) -> tuple[Conversion, Refusal | None]:
    nothing = Conversion(array.raid_disks)
    if change.level == "raid0":
        return Conversion(1, loses_redundancy=True), None
    if change.level != "raid5":
        reason = f"md makes only RAID-5 or RAID-0 of a RAID-1, not {level_text(change.level)}"
        return nothing, Refusal("level", IMPOSSIBLE_FROM_MIRROR, reason)
    if array.raid_disks != 2:
        reason = f"the mirror has {array.raid_disks} slots: reduce them to two first"
        remedy = (command_lines.reshape_array(array.path, 2),)
        return nothing, Refusal("two-disks", "Can only convert a 2-device array to RAID5", reason, remedy)
    disks = change.disks or 2
    return Conversion(disks, disks > 2, 1, disks - 1), None


def _from_raid10(array: Array, change: NewLevel) -> tuple[Conversion, Refusal | None]:
    nothing = Conversion(array.raid_disks)
    if change.level != "raid0":
        reason = (
            f"md makes only RAID-0 of a RAID-10, not {level_text(change.level)}: make a new array, and copy the files"
        )
        return nothing, Refusal("level", "RAID10 can only be changed to RAID0", reason)
    near = array.layout & 0xFF
    if array.layout & ~0xFF != 0x100:
        reason = "md makes a RAID-0 only of a RAID-10 with near layout"
        return nothing, Refusal("layout", "Cannot Grow RAID10 with far/offset layout", reason)
    if array.raid_disks % near:
        reason = f"{array.raid_disks} disks are no multiple of {near} copies"
        return nothing, Refusal("layout", "RAID10 layout too complex for Grow operation", reason)
    if near != 2:
        printed = f"{array.path}: could not set level to raid0"
        return nothing, Refusal("layout", printed, "the kernel accepts only two near copies (raid0.c)")
    return Conversion(array.raid_disks // near, loses_redundancy=True), None


def _from_stripes(array: Array, change: NewLevel) -> tuple[Conversion, Refusal | None]:
    count = array.raid_disks
    added = len(change.new)
    if change.level == "raid10":
        if added and added % count:
            printed = "Impossible number of devices for RAID0->RAID10"
            return Conversion(count), Refusal("disks", printed, f"expected {count} new disks, one for each member")
        return Conversion(count + (added or count), recovers=added or count), None
    if change.level == "raid6":
        printed = f"{array.path}: could not set level to raid6"
        return Conversion(count), Refusal(
            "level", printed, "the kernel makes a RAID-6 only of a RAID-5: change to 5 first"
        )
    if change.level in {"raid4", "raid5"}:
        parities = PARITIES[change.level]
        disks = change.disks or count + parities
        return _from_stripes_to_parity(array, change, disks), None
    reason = f"md makes only RAID-4, 5, 6 or 10 of a RAID-0, not {level_text(change.level)}"
    return Conversion(count), Refusal("level", IMPOSSIBLE, reason)


def _from_stripes_to_parity(array: Array, change: NewLevel, disks: int) -> Conversion:
    count = array.raid_disks
    new_data = disks - PARITIES[change.level]
    if change.level == "raid4" and new_data == count:
        return Conversion(disks, recovers=1)
    return Conversion(disks, True, count, new_data)


def _from_one_parity(array: Array, change: NewLevel) -> tuple[Conversion, Refusal | None]:
    count = array.raid_disks
    data = count - 1
    if change.level == "raid1":
        if count != 2:
            reason = f"the array has {count} disks, and md makes a RAID-1 only of two"
            return Conversion(count), Refusal("two-disks", "Can only convert a 2-device array to RAID1", reason)
        return Conversion(2), None
    if change.level == "raid6":
        disks = change.disks or count + 1
        if change.layout == "preserve" and disks == count + 1:
            return Conversion(disks, recovers=1), None
        return Conversion(disks, True, data, disks - 2), None
    if change.level in {"raid4", "raid5"}:
        moves = array.level == "raid5" and array.layout != PARITY_LAST
        if array.level == "raid4" and change.layout not in {"", "parity-last"}:
            moves = True
        disks = change.disks or count
        return Conversion(disks, moves or disks != count, data, disks - 1), None
    if change.level == "raid0":
        disks = change.disks or data
        moves = (array.level == "raid5" and array.layout != PARITY_LAST) or disks != data
        return Conversion(disks, moves, data, disks, loses_redundancy=True), None
    return Conversion(count), Refusal(
        "level", IMPOSSIBLE, f"md makes no {level_text(change.level)} of a {level_text(array.level)}"
    )


def _from_two_parities(array: Array, change: NewLevel) -> tuple[Conversion, Refusal | None]:
    count = array.raid_disks
    if change.level not in {"raid4", "raid5"}:
        reason = f"md makes only RAID-5 or RAID-4 of a RAID-6, not {level_text(change.level)}"
        return Conversion(count), Refusal("level", IMPOSSIBLE, reason)
    disks = change.disks or count - 1
    moves = array.layout < Q_ON_LAST_DISK or disks != count - 1
    return Conversion(disks, moves, count - 2, disks - 1), None


def _check_layout(change: NewLevel) -> Iterator[Refusal]:
    """Yields that the new level has no such layout."""
    layout = change.layout
    if not layout:
        return
    is_known = change.level == "raid10" and parse_raid10_layout(layout) > 0
    if change.level in {"raid4", "raid5", "raid6"}:
        is_known = layout in PARITY_LAYOUTS or layout in {"preserve", "normalise", "normalize"}
    if not is_known:
        printed = f"layout {layout} not understood for this level"
        yield Refusal("layout", printed, f"{layout} is no layout of {change.level}")


def _check_size(array: Array, change: NewLevel, conversion: Conversion, call: str) -> Iterator[Refusal]:
    """Yields that the new level has too few disks, or less space than the array has now."""
    fewest = FEWEST.get(change.level, 1)
    if conversion.disks < fewest:
        yield Refusal("few-disks", "", f"{change.level} needs at least {fewest} disks")
    elif conversion.restripes and conversion.new_data < conversion.old_data:
        yield from check_array_size(array, array.member_sectors * conversion.new_data, call)


def _check_disks(array: Array, conversion: Conversion, change: NewLevel) -> Iterator[Refusal]:
    """Yields that disks are missing: mdadm prints two sentences, before and after it has computed the stripes."""
    needed = conversion.disks - array.raid_disks
    present = acceptance.count_spares(array) + sum(not disk.is_spare for disk in change.new)
    if needed <= present:
        return
    plural = "" if needed == 1 else "s"
    printed = f"Need {needed} spare{plural} to avoid degraded array, and only have {present}."
    yield Refusal("spares", printed, f"it needs {needed} more disk{plural}: name them with --add")


def _plan_work(array: Array, change: NewLevel, conversion: Conversion, conditions: Conditions) -> Iterator[Work]:
    if conversion.restripes:
        disks = max(conversion.disks, array.raid_disks)
        is_fast = raises_minimum(change.backup_file, conditions)
        yield plan_restripe(
            array.member_sectors, conversion.old_data, conversion.new_data, disks, raises_minimum=is_fast
        )
    elif conversion.recovers:
        yield plan_recovery(array, array.member_sectors, conversion.recovers)


def _warn_of_lost_redundancy(array: Array, change: NewLevel, conversion: Conversion) -> Iterator[str]:
    if not conversion.loses_redundancy:
        return
    if array.level in {"raid1", "raid10"}:
        yield f"mdadm takes the other copies out at once: the {level_text(change.level)} has no redundancy"
    else:
        yield f"the {level_text(change.level)} has no redundancy: one failure loses all data"


def _describe(array: Array, change: NewLevel, conversion: Conversion) -> Iterator[str]:
    if conversion.restripes:
        yield describe_seeks(array)
        reason = needs_backup(array, array.chunk or CHUNK_OF_MIRROR, conversion.old_data, conversion.new_data)
        yield from describe_backup(reason, change.backup_file)
        if array.level == "raid5" and change.level == "raid6" and conversion.disks == array.raid_disks + 1:
            yield (
                "with --layout preserve, md only rebuilds the new disk, which is faster; all Q parity is on it then "
                f"({layout_name('raid6', array.layout + Q_ON_LAST_DISK)})"
            )
    elif conversion.recovers:
        yield "no data moves: md rebuilds the new disks"
    else:
        yield "no data moves: md changes the level at once"


def _list_commands(array: Array, conversion: Conversion, call: str, adding: Sequence[str]) -> list[str]:
    path = array.path
    lines = []
    if adding and array.level != "raid0":
        lines.append(command_lines.add_disks(path, list(adding)))
    lines.append(call)
    if conversion.restripes or conversion.recovers:
        lines.append(command_lines.wait_for_sync(path))
    if conversion.new_data > conversion.old_data:
        lines += list_growing(array, path)
    return lines
