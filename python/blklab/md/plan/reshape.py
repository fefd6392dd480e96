"""Judges `mdadm --grow ARRAY` with another number of disks, chunk or layout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blklab.md import command_lines
from blklab.md.levels import PARITIES, PARITY_LAYOUTS, layout_name
from blklab.md.model import Array
from blklab.md.plan import acceptance
from blklab.md.plan.change import ChangePlan, Conditions, NewDisk, Refusal, Work
from blklab.md.plan.duration import (
    copies_of,
    estimate_duration,
    plan_raid10_reshape,
    plan_recovery,
    plan_restripe,
    raises_minimum,
    size_of_array,
)
from blklab.md.plan.filesystems import list_growing, list_shrinking
from blklab.md.plan.offsets import count_critical_sectors, count_needed_sectors, find_free_space
from blklab.units import SECTOR, format_size

SMALLEST_CHUNK = 4096
MOST_DISKS = 1920  # Of metadata 1 (super1.c: MAX_DEVS)
MOST_DISKS_OLD = 27  # Of metadata 0.90 (MD_SB_DISKS)
FEWEST = {"raid4": 2, "raid5": 2, "raid6": 4}  # Disks (drivers/md/raid5.c, check_reshape)


@dataclass(frozen=True)
class Shape:
    """What a reshape is to make; 0 and an empty layout: as it is."""

    disks: int = 0
    chunk: int = 0  # Bytes
    layout: str = ""  # As mdadm names it
    new: tuple[NewDisk, ...] = ()
    backup_file: str = ""


def judge_reshape(array: Array, shape: Shape, conditions: Conditions) -> ChangePlan:
    """Returns whether md gives an array another number of disks, chunk or layout, and how long that takes."""
    path = array.path or f"/dev/{array.name}"
    disks = shape.disks or array.raid_disks
    adding = [disk.path for disk in shape.new if not disk.is_spare]
    if array.level == "raid0" and adding:
        call = command_lines.reshape_adding(path, disks, adding)
    else:
        call = command_lines.reshape_array(path, shape.disks, shape.chunk, shape.layout, shape.backup_file)
    refusals = [*acceptance.check_running(array), *acceptance.check_failed(array, _printed_if_failed(array))]
    if array.level not in {"raid0", "raid1", "raid4", "raid5", "raid6", "raid10"}:
        refusals.append(Refusal("level", "No reshape is possibly for this RAID level", f"{array.level} has no reshape"))
    for disk in shape.new:
        refusals += acceptance.check_new_disk(array, disk)
    refusals += _check_count(array, disks)
    refusals += acceptance.check_zones(array)
    refusals += acceptance.check_spares(array, disks, shape.new)
    if disks > array.raid_disks:
        refusals += acceptance.check_slots_filled(array, shape.new)
    refusals += acceptance.check_idle(array)
    refusals += acceptance.check_writable(array, _printed_if_read_only(array))
    if array.level == "raid10":
        refusals += _check_raid10(array, shape)
    elif array.level == "raid1":
        refusals += _check_mirror(array, shape)
    elif array.level in PARITIES or array.level == "raid0":
        refusals += _check_striped(array, shape)
    dangers = acceptance.warn_of_disks(array, shape.new)
    dangers += _warn_of_offset(array, shape)
    if array.level != "raid1":
        dangers += acceptance.warn_of_bad_blocks(array)
    caveats = [*acceptance.describe_conditions(conditions), *acceptance.describe_redundancy(array)]
    no_effect = _explain_no_effect(array, shape)
    work: tuple[Work, ...] = ()
    facts: tuple[str, ...] = ()
    if not no_effect:
        work = tuple(_plan_work(array, shape, conditions))
        facts = tuple(_describe(array, shape))
    commands: list[str] = []
    if not refusals and not dangers and not no_effect:
        commands = _list_commands(array, shape, call, adding)
    interruption: tuple[str, ...] = ()
    if work and not refusals:
        interruption = tuple(describe_interruption(array, path, shape.backup_file))
    return ChangePlan(
        array, "reshape", call, conditions, tuple(refusals), tuple(dangers), no_effect, work,
        None if refusals else estimate_duration(work, conditions), facts, tuple(commands), interruption,
        tuple(caveats),
    )  # fmt: skip


def _warn_of_offset(array: Array, shape: Shape) -> Iterator[str]:
    """Yields that a reshape from near to offset layout fails: seen twice with Linux 6.1, mdadm 4.2 in a guest."""
    is_offset = array.layout >> 16 & 1
    if array.level == "raid10" and shape.layout.startswith("o") and not is_offset:
        yield (
            "at the end of a reshape from near to offset layout, Linux 6.1 failed members, and the array was broken "
            "(tried in a guest): make a new array, and copy the files"
        )


def _printed_if_failed(array: Array) -> str:
    return f"Cannot set device shape for {array.path}: Invalid argument" if array.level in PARITIES else ""


def _printed_if_read_only(array: Array) -> str:
    if array.level == "raid1":
        return "failed to set raid disks"
    return f"Cannot set device shape for {array.path}: Read-only file system"


def data_disks(level: str, disks: int) -> int:
    """Returns the data disks of a striped array."""
    return disks - PARITIES.get(level, 0)


def needs_backup(array: Array, new_chunk: int, old_data: int, new_data: int) -> str | None:
    """Returns why a reshape of an array with parity needs a backup; empty if its data can move, None if unknown."""
    if array.metadata == "0.90":
        return "metadata 0.90 cannot move the data of members"
    space = find_free_space(array)
    if new_data < old_data:
        return "mdadm does not move the data of an array that shrinks"
    if space is None:
        return None
    needed = count_needed_sectors(array.chunk or new_chunk, new_chunk, old_data, new_data)
    if new_data > old_data and space.before < needed:
        return _explain_space(needed, space.before, "before")
    if new_data == old_data and max(space.before, space.after) < needed:
        return _explain_space(needed, max(space.before, space.after), "before and behind")
    return ""


def describe_backup(reason: str | None, backup_file: str) -> Iterator[str]:
    """Yields whether a reshape needs a backup, and where mdadm has it."""
    if reason is None:
        yield "whether it needs a backup file depends on the free space of the members: see `mdadm --examine` of each"
    elif not reason:
        yield "the data of the members moves by some chunks: no backup file is needed"
    elif backup_file:
        yield f"{reason}: mdadm writes the stripes at work to the backup file first"
    else:
        yield f"{reason}: mdadm writes the first stripes to the new disk first"


def describe_seeks(array: Array) -> str:
    """Returns what a reshape does to the disks."""
    if all(member.rotational is False for member in array.members):
        return "md reads all data and writes it again, on the same disks"
    return "md reads all data and writes it again, on the same disks: the heads of rotating disks move all the time"


def _explain_space(needed: int, present: int, where: str) -> str:
    return f"the data must move by {needed:,} sectors, and only {present:,} are free {where} it"


def check_backup(
    array: Array, new_chunk: int, old_data: int, new_data: int, backup_file: str, spares: int
) -> Iterator[Refusal]:
    """Yields that mdadm needs a backup file for a reshape of an array with parity that has none."""
    reason = needs_backup(array, new_chunk, old_data, new_data)
    if not reason or backup_file or new_data <= 0:
        return
    if new_data > old_data and spares > 0:
        return  # mdadm backs the critical section up on the spare
    size = count_critical_sectors(array.chunk, new_chunk, old_data, new_data) * SECTOR
    printed = f"{array.path}: Cannot grow - need backup-file"
    space = find_free_space(array)
    needed = count_needed_sectors(array.chunk, new_chunk, old_data, new_data)
    if array.metadata != "0.90" and new_data < old_data and space is not None and space.after >= needed:
        printed = "Cannot set new_offset for"
    yield Refusal(
        "backup-file", printed,
        f"it needs a backup file: {reason}; name a file of at least {format_size(size)} on another disk"
        " with --backup-file",
    )  # fmt: skip


def _check_striped(array: Array, shape: Shape) -> Iterator[Refusal]:
    path = array.path
    chunk = shape.chunk or array.chunk
    disks = shape.disks or array.raid_disks
    old_data = data_disks(array.level, array.raid_disks)
    new_data = data_disks(array.level, disks)
    yield from _check_layout_name(array, shape)
    yield from _check_chunk(array, shape.chunk)
    yield from acceptance.check_log(array, f"Cannot set device shape for {path}: Invalid argument")
    if new_data < old_data:
        call = command_lines.reshape_array(path, shape.disks, shape.chunk, shape.layout, shape.backup_file)
        yield from check_array_size(array, array.member_sectors * new_data, call)
    if disks < FEWEST.get(array.level, 1):
        yield Refusal("few-disks", "", f"{array.level} needs at least {FEWEST[array.level]} disks")
    spares = acceptance.count_spares(array) + len(shape.new)
    yield from check_backup(array, chunk, old_data, new_data, shape.backup_file, spares)


def _check_chunk(array: Array, chunk: int) -> Iterator[Refusal]:
    if not chunk:
        return
    if chunk & (chunk - 1) or chunk < SMALLEST_CHUNK:
        yield Refusal("chunk-power", "", "the chunk must be a power of two, and at least 4 KiB")
        return
    sectors = chunk // SECTOR
    if array.member_sectors % sectors:
        fitting = array.member_sectors // sectors * sectors
        yield Refusal(
            "chunk",
            f"New chunk size ({chunk // 1024}K) does not evenly divide device size ({array.member_sectors // 2}k)",
            f"the chunk must divide the size of a member, {array.member_sectors // 2:,} KiB; {fitting // 2:,} KiB would"
            " fit (make the filesystem smaller first)",
        )


def _check_count(array: Array, disks: int) -> Iterator[Refusal]:
    """Yields that the superblocks have no room for so many members."""
    most = MOST_DISKS_OLD if array.metadata == "0.90" else MOST_DISKS
    if disks > most:
        printed = f"Cannot increase raid-disks on this array beyond {most}"
        yield Refusal("most-disks", printed, f"metadata {array.metadata} have room for {most} members")


def _explain_no_effect(array: Array, shape: Shape) -> str:
    """Returns that the array has this shape already; the layout of a text may be unknown."""
    if shape.layout or shape.disks not in {0, array.raid_disks} or shape.chunk not in {0, array.chunk}:
        return ""
    return "the array has this shape already: mdadm prints `no change requested`"


def check_array_size(array: Array, sectors: int, call: str) -> Iterator[Refusal]:
    """Yields that an array is larger than it will be; `call` is the command that shrinks it to so many sectors."""
    if sectors <= 0:
        yield Refusal("few-disks", "", "no disk would be left for data")
    elif array.size is None or array.size // SECTOR > sectors:
        yield Refusal(
            "array-size", "this change will reduce the size of the array.",
            f"the array would shrink to {format_size(sectors * SECTOR)}: set --array-size first, and before that make"
            " the filesystem smaller",
            tuple(list_shrinking(array, array.path, sectors * SECTOR, call)),
        )  # fmt: skip


def _check_layout_name(array: Array, shape: Shape) -> Iterator[Refusal]:
    if not shape.layout:
        return
    if array.level in {"raid5", "raid6"}:
        if shape.layout not in PARITY_LAYOUTS and shape.layout not in {"preserve", "normalise"}:
            printed = f"layout {shape.layout} not understood for this level"
            yield Refusal("layout", printed, f"{shape.layout} is no layout of {array.level}")
    else:
        yield Refusal("layout", "layout not meaningful with this level", f"{array.level} has no layouts")


def _check_mirror(array: Array, shape: Shape) -> Iterator[Refusal]:
    if shape.chunk:
        yield Refusal("chunk", "chunk size not meaningful for this level", "RAID-1 has no chunks")
    if shape.layout:
        yield Refusal("layout", "layout not meaningful with this level", "RAID-1 has no layouts")
    if shape.disks and shape.disks < array.raid_disks - (array.degraded or 0):
        surplus = array.raid_disks - (array.degraded or 0) - shape.disks
        yield Refusal(
            "members", "failed to set raid disks", f"{surplus} members too many are in use: fail and remove them first",
            tuple(_list_removals(array, surplus)),
        )  # fmt: skip


def _list_removals(array: Array, surplus: int) -> Iterator[str]:
    for member in array.active[-surplus:]:
        yield command_lines.fix_remove(array.path, member.path)


def parse_raid10_layout(layout: str) -> int:
    """Returns a layout word (`n2`, `f2`, `o2`) as superblocks have it; 0 if it is none."""
    kind = layout[:1]
    copies = layout[1:]
    if kind not in {"n", "f", "o"} or not copies.isdecimal() or not copies.isascii():
        return 0
    count = int(copies)
    if kind == "n":
        return 0x100 + count
    return (0x10000 if kind == "o" else 0) + (count << 8) + 1


def _check_raid10(array: Array, shape: Shape) -> Iterator[Refusal]:
    far = array.layout >> 8 & 0xFF
    if far > 1 and not array.layout >> 16 & 1:
        reason = "md cannot reshape a RAID-10 with far layout: make a new array, and copy the files"
        yield Refusal("far-layout", "Cannot reshape RAID10 in far-mode", reason)
        return
    if shape.layout:
        yield from _check_raid10_layout(array, shape.layout)
    yield from _check_chunk(array, shape.chunk)
    disks = shape.disks or array.raid_disks
    if disks < array.raid_disks:
        call = command_lines.reshape_array(array.path, shape.disks, shape.chunk, shape.layout, shape.backup_file)
        yield from check_array_size(array, array.member_sectors * disks // copies_of(array), call)
    yield from _check_raid10_space(array, shape, disks)


def _check_raid10_layout(array: Array, layout: str) -> Iterator[Refusal]:
    number = parse_raid10_layout(layout)
    if not number:
        yield Refusal("layout", f"layout {layout} not understood for this level", f"{layout} is no layout of RAID-10")
        return
    near = number & 0xFF
    far = number >> 8 & 0xFF
    if far > 1 and not number >> 16 & 1:
        yield Refusal("far-layout", "Cannot reshape RAID10 to far-mode", "md cannot reshape a RAID-10 to far layout")
    elif near * far != copies_of(array):
        printed = "Cannot change number of copies when reshaping RAID10"
        yield Refusal("copies", printed, "md cannot change the number of copies of a RAID-10")


def _check_raid10_space(array: Array, shape: Shape, disks: int) -> Iterator[Refusal]:
    if array.metadata == "0.90":
        printed = f"{array.path}: Metadata version doesn't support data_offset changes"
        yield Refusal("old-metadata", printed, "a RAID-10 moves its data in a reshape, which metadata 0.90 cannot")
        return
    space = find_free_space(array)
    if space is None:
        return
    needed = max(array.chunk, shape.chunk) * max(1, array.layout >> 8 & 0xFF) // SECTOR
    if disks > array.raid_disks and space.before < needed:
        reason = _explain_space(needed, space.before, "before")
        yield Refusal("no-space", "Insufficient head-space for reshape", reason)
    if disks == array.raid_disks and max(space.before, space.after) < needed:
        present = max(space.before, space.after)
        yield Refusal("no-space", "", _explain_space(needed, present, "before and behind"))


def _plan_work(array: Array, shape: Shape, conditions: Conditions) -> Iterator[Work]:
    disks = shape.disks or array.raid_disks
    if array.level == "raid1":
        if disks > array.raid_disks:
            yield plan_recovery(array, array.member_sectors, disks - array.raid_disks)
    elif array.level == "raid10":
        sectors = size_of_array("raid10", disks, copies_of(array), array.member_sectors)
        yield plan_raid10_reshape(array, sectors // SECTOR, disks)
    else:
        old = data_disks(array.level, array.raid_disks)
        new = data_disks(array.level, disks)
        slots = max(disks, array.raid_disks)
        is_fast = raises_minimum(shape.backup_file, conditions)
        yield plan_restripe(array.member_sectors, old, new, slots, raises_minimum=is_fast)


def _describe(array: Array, shape: Shape) -> Iterator[str]:
    disks = shape.disks or array.raid_disks
    if array.level == "raid1":
        yield f"md rebuilds the new members; the size stays the same, with {disks} copies"
        return
    before = size_of_array(array.level, array.raid_disks, copies_of(array), array.member_sectors)
    after = size_of_array(array.level, disks, copies_of(array), array.member_sectors)
    if before != after:
        yield f"the array has {format_size(after)} then, now {format_size(before)}; the new space is there at the end"
    yield describe_seeks(array)
    if array.level in PARITIES:
        chunk = shape.chunk or array.chunk
        old = data_disks(array.level, array.raid_disks)
        new = data_disks(array.level, disks)
        reason = needs_backup(array, chunk, old, new)
        yield from describe_backup(reason, shape.backup_file)
    if shape.layout and array.level in {"raid5", "raid6", "raid10"}:
        yield f"the layout changes from {layout_name(array.level, array.layout)} to {shape.layout}"


def _list_commands(array: Array, shape: Shape, call: str, adding: Sequence[str]) -> list[str]:
    path = array.path
    disks = shape.disks or array.raid_disks
    lines = []
    if adding and array.level != "raid0":
        lines.append(command_lines.add_disks(path, list(adding)))
    lines += [call, command_lines.wait_for_sync(path)]
    if disks > array.raid_disks and array.level != "raid1":
        lines += list_growing(array, path)
    if disks < array.raid_disks and array.level != "raid1":
        lines.append("# The surplus disks are spares then.")
    return lines


def describe_interruption(array: Array, path: str, backup_file: str) -> Iterator[str]:
    """Yields what a power cut during a reshape means, and how it goes on."""
    if array.level == "raid1":
        yield "# md continues the recovery of the new members. No data is lost."
        yield command_lines.show_detail(path)
        return
    if backup_file:
        yield f"# The stripes that were being written are in {backup_file}: without this file they are lost."
        yield "# It must be on another disk, and readable before the array is assembled: not on a filesystem in memory."
        yield "# mdadm(8) says so; blklab has not tried a power cut with a backup file."
    else:
        yield "# The position is in the superblocks, and nothing is overwritten before it was copied. No data is lost."
    yield from _list_assembly(array, path, backup_file)
    yield "# If the array runs and the reshape does not go on:"
    yield command_lines.continue_reshape(path, backup_file)


def _list_assembly(array: Array, path: str, backup_file: str) -> Iterator[str]:
    """Yields how the array starts again. Disks may have other names then, so that only its UUID finds the members."""
    if array.uuid:
        yield "# If the array does not run:"
        yield command_lines.assemble_by_uuid(path, array.uuid, backup_file)
        return
    yield "# Disks may have other names after a restart. Write down the UUID of the array now:"
    yield command_lines.show_detail(path)
    yield f"# If the array does not run: {command_lines.assemble_by_uuid(path, 'UUID', backup_file)}"
