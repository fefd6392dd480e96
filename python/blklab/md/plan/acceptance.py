"""What mdadm and the kernel check for several kinds of changes, and the sentences with which they refuse them.

mdadm 4.2 to 4.6: Grow.c (`Grow_reshape`, `reshape_array`), Manage.c (`Manage_add`). Linux 6.1: drivers/md/md.c
(`update_size`, `level_store`), raid5.c (`check_reshape`), raid10.c (`raid10_start_reshape`).
"""

from collections.abc import Iterator, Sequence

from blklab.md import command_lines
from blklab.md.availability import is_past_redundancy
from blklab.md.levels import PARITIES
from blklab.md.model import Array
from blklab.md.plan.change import Conditions, NewDisk, Refusal
from blklab.md.plan.duration import copies_of
from blklab.units import SECTOR, format_size

BAD_LIST_SECTORS = 8
END_SECTORS = 16  # What metadata 1.0 keeps for itself at the end, at most
OLD_RESERVED = 128  # Sectors that metadata 0.90 keeps at the end, and its alignment
OLD_LARGEST_BYTES = 4 << 40  # A disk of metadata 0.90 (mdadm 4.2, Manage_add)


def check_running(array: Array) -> Iterator[Refusal]:
    """Yields why an array cannot be changed at all."""
    if array.external:
        reason = f"it has metadata {array.metadata}: the tools of its firmware change it"
        yield Refusal("external", "", reason)
    if array.live and array.state in {"inactive", "clear"}:
        yield Refusal(
            "inactive", f"{array.path} is not an active md array - aborting", "the array does not run",
            (command_lines.audit_arrays(),),
        )  # fmt: skip


def check_failed(array: Array, printed: str) -> Iterator[Refusal]:
    """Yields that too many members are missing; `printed` is what mdadm prints for this change."""
    if array.live and is_past_redundancy(array):
        yield Refusal(
            "failed", printed, "the array has failed: too many members are missing", (command_lines.audit_arrays(),),
        )  # fmt: skip


def count_empty_slots(array: Array) -> int:
    """Returns the slots without a member. A member that md rebuilds has its slot, and md counts it as missing."""
    rebuilt = 0
    for member in array.active:
        if member.states and not member.replacement and not {"in_sync", "faulty"} & set(member.states):
            rebuilt += 1
    if not rebuilt and array.sync is not None and array.sync.action == "recover":
        rebuilt = 1  # /proc/mdstat does not say which member it is
    return max(0, (array.degraded or 0) - rebuilt)


def describe_empty_slots(array: Array) -> str:
    """Returns how many slots are empty, as the start of a sentence."""
    count = count_empty_slots(array)
    verb = "is" if count == 1 else "are"
    return f"{count} of {array.raid_disks} slots {verb} empty"


def check_slots_filled(array: Array, new: Sequence[NewDisk]) -> Iterator[Refusal]:
    """Yields that md rebuilds a new disk or a spare into an empty slot, and refuses a reshape during that."""
    disks = [disk for disk in new if not disk.is_spare]
    if array.redundant and count_empty_slots(array) and (disks or count_spares(array)) and array.sync is None:
        name = disks[0].name if disks else "a spare"
        remedy = (command_lines.fix_add(array.path, disks[0].path),) if disks else ()
        yield Refusal(
            "degraded", f"{array.path} is performing resync/recovery and cannot be reshaped",
            f"{describe_empty_slots(array)}, and md rebuilds {name} for it first: let md fill all empty slots",
            remedy,
        )  # fmt: skip


def check_writable(array: Array, printed: str) -> Iterator[Refusal]:
    """Yields that an array is read-only; `printed` is what mdadm prints for this change."""
    if array.state == "readonly":
        remedy = (command_lines.make_writable(array.path),)
        yield Refusal("read-only", printed, "the array is read-only", remedy)


def check_idle(array: Array, printed: str = "") -> Iterator[Refusal]:
    """Yields that md is doing something which a change would disturb; `printed` is the sentence, if it is another."""
    if array.reshaping:
        yield Refusal(
            "reshaping", printed or f"{array.path} is performing resync/recovery and cannot be reshaped",
            "a reshape is not finished", (command_lines.wait_for_sync(array.path),),
        )  # fmt: skip
    elif array.sync is not None:
        remedy = [command_lines.wait_for_sync(array.path)]
        if array.sync.action in {"check", "repair"}:
            remedy = [command_lines.make_idle(array.path)]
        yield Refusal(
            "busy", printed or f"{array.path} is performing resync/recovery and cannot be",
            f"md does a {array.sync.name} now", tuple(remedy),
        )  # fmt: skip


def check_log(array: Array, printed: str) -> Iterator[Refusal]:
    """Yields that the array has a write journal or a PPL, with which the kernel changes no size and no shape."""
    if array.consistency == "journal":
        yield Refusal(
            "journal", printed,
            "the array has a write journal: the kernel does not change its size, shape or level (raid5.c)",
            ("# A write journal can only be given up with the array stopped and its journal removed: see `man md`.",),
        )  # fmt: skip
    elif array.consistency == "ppl":
        yield Refusal(
            "ppl", printed, "the array has a PPL: the kernel does not change its size, shape or level (raid5.c)",
            (command_lines.set_consistency_policy(array.path, "resync"),),
        )  # fmt: skip


def count_spares(array: Array) -> int:
    """Returns the spares of an array."""
    return sum(member.spare for member in array.members)


def check_spares(array: Array, disks: int, new: Sequence[NewDisk]) -> Iterator[Refusal]:
    """Yields that there are too few disks for an array of `disks` slots."""
    needed = disks - array.raid_disks
    present = count_spares(array) + sum(not disk.is_spare for disk in new)
    if needed > present:
        plural = "" if needed == 1 else "s"
        yield Refusal(
            "spares",
            f"Need {needed} spare{plural} to avoid degraded array, and only have {present}.",
            f"it needs {needed} more disk{plural}, and has {present} for them: name new disks with --add",
        )


def check_new_disk(array: Array, disk: NewDisk) -> Iterator[Refusal]:
    """Yields why mdadm does not add a disk."""
    if disk.is_spare:
        return
    if disk.is_member:
        yield Refusal(
            "member", f"Cannot open {disk.path}: Device or resource busy", f"{disk.name} is a member of the array",
        )  # fmt: skip
        return
    if disk.is_faulty:
        yield Refusal(
            "faulty", f"Cannot open {disk.path}: Device or resource busy",
            f"{disk.name} failed in this array, which still holds it: remove it first",
            (command_lines.remove_disk(array.path, disk.path),),
        )  # fmt: skip
        return
    if disk.users:
        yield Refusal(
            "in-use", f"Cannot open {disk.path}: Device or resource busy", f"{disk.name} is in use: {disk.users[0]}",
        )  # fmt: skip
        return
    if disk.size is None:
        return
    if array.metadata == "0.90" and disk.size > OLD_LARGEST_BYTES:
        yield Refusal(
            "too-large",
            f"{disk.path} is larger than {array.path} can effectively use.",
            f"metadata 0.90 use at most 4 TiB of a disk, and {disk.name} has {format_size(disk.size)}",
        )
    usable = usable_sectors(array, disk.size)
    if usable is not None and usable < array.member_sectors:
        missing = (array.member_sectors - usable) * SECTOR
        offset = data_offset(array)
        where = f" behind the data offset of {offset:,} sectors" if offset else ""
        yield Refusal(
            "too-small",
            f"{disk.path} not large enough to join array",
            f"{disk.name} is too small by {format_size(missing)}: the array uses {array.member_sectors:,} sectors of"
            f" each member{where}",
        )


def data_offset(array: Array) -> int:
    """Returns the data offset that mdadm gives a new member: that of the first superblock that it finds."""
    offsets = [member.superblock.data_offset for member in array.members if member.superblock]
    return offsets[0] if offsets else next((member.data_offset for member in array.members if member.data_offset), 0)


def usable_sectors(array: Array, size: int) -> int | None:
    """Returns the sectors of a device that mdadm can use for the array; `size` is bytes. None if unknown.

    mdadm 4.2: super1.c, `avail_size1`; super0.c, `avail_size0`.
    """
    sectors = size // SECTOR
    if array.metadata == "0.90":
        return sectors // OLD_RESERVED * OLD_RESERVED - OLD_RESERVED
    if array.metadata == "1.0":
        has_list = any(member.superblock and member.superblock.bad_blocks for member in array.members)
        return sectors - data_offset(array) - END_SECTORS - (BAD_LIST_SECTORS if has_list else 0)
    if array.metadata in {"1.1", "1.2"}:
        return sectors - data_offset(array)
    return None


def warn_of_disks(array: Array, disks: Sequence[NewDisk]) -> list[str]:
    """Returns what mdadm overwrites on new disks."""
    lines: list[str] = []
    for disk in disks:
        lines += warn_of_disk(array, disk)
    return lines


def warn_of_disk(array: Array, disk: NewDisk) -> Iterator[str]:
    """Yields what mdadm overwrites without a question on a new disk, and what else it does not check."""
    if disk.is_spare or disk.is_member or disk.is_faulty:
        return
    if disk.array_uuid and disk.array_uuid != array.uuid:
        yield f"{disk.name} is a member of another array ({disk.array_uuid}): mdadm --add overwrites it without asking"
    elif disk.contents and not disk.array_uuid:
        yield f"{disk.name} is not empty ({', '.join(disk.contents)}): mdadm --add overwrites it without asking"


def warn_of_blocks(array: Array, disk: NewDisk) -> Iterator[str]:
    """Yields that a disk with larger logical blocks changes those of the array."""
    if disk.logical_block and array.logical_block and disk.logical_block > array.logical_block:
        yield (
            f"{disk.name} has logical blocks of {disk.logical_block} bytes, the array of {array.logical_block}: "
            "after the next start, a filesystem with smaller blocks may not mount"
        )


def warn_of_bad_blocks(array: Array) -> Iterator[str]:
    """Yields that members list sectors which md does not read."""
    for member in array.members:
        bad_blocks = member.superblock.bad_blocks if member.superblock else None
        if bad_blocks is not None and bad_blocks.ranges and "faulty" not in member.states:
            count = sum(entry.sectors for entry in bad_blocks.ranges)
            yield (
                f"the bad-block list of {member.name} has {count:,} sectors: md takes them from the other members, and"
                " where these lack them, too, it cannot go on: clear the list first (see `blklab md audit`)"
            )


def check_zones(array: Array) -> Iterator[Refusal]:
    """Yields that a RAID-0 of disks with different sizes has no other shape (raid5.c, `raid45_takeover_raid0`)."""
    if array.level != "raid0" or not array.chunk:
        return
    chunk = array.chunk // SECTOR
    sizes = {member.superblock.data_size // chunk for member in array.active if member.superblock is not None}
    if len(sizes) > 1:
        printed = f"md/raid:{array.name}: cannot takeover raid0 with more than one zone."
        yield Refusal(
            "zones", printed, "the members of the RAID-0 have different sizes, and md keeps its level and shape"
        )


def describe_redundancy(array: Array) -> Iterator[str]:
    """Yields that one more failure can lose data; `md audit` says which."""
    if array.degraded and array.degraded >= count_tolerated(array) and array.redundant:
        yield "the array is degraded: one more failure can lose data, and a reshape stresses all disks"


def count_tolerated(array: Array) -> int:
    """Returns how many missing members the array survives in any case."""
    if array.level in PARITIES:
        return PARITIES[array.level]
    return max(1, copies_of(array) - 1)


def describe_conditions(conditions: Conditions) -> Iterator[str]:
    """Yields what is not known about the host."""
    software = conditions.software
    if software is None or software.mdadm is None or software.kernel is None:
        yield "the versions of mdadm and the kernel are not known: the answer is for mdadm 4.2 and Linux 6.1"
