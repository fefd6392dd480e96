"""Plans what happens to one slot of an array: a disk is added, replaced or taken out, or a member is rebuilt."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.md import command_lines
from blklab.md.audit import host
from blklab.md.audit.split import exclude_each_other
from blklab.md.good_copies import is_redundant_without
from blklab.md.inventory import read_array, read_inventory
from blklab.md.model import Array, ArrayMember, Software
from blklab.md.probing import read_software
from blklab.md.recipes import NEW_DISK
from blklab.md.repair.array_state import disk_id, has_uuid
from blklab.md.repair.environment_checks import find_busy_neighbour, find_spare_monitor
from blklab.md.repair.operations import find_mdadm
from blklab.md.repair.plan import find_array, refuse_unfinished_repair
from blklab.md.repair.preconditions import Reason, check_activity, unmet_precondition
from blklab.md.repair.slot_task import DiskFacts, Operation, SlotTask
from blklab.md.superblocks import Superblock, read_superblocks
from blklab.system.identity import BlockDevice, resolve
from blklab.system.layers import beneath, partitions
from blklab.system.roots import Roots, entries, open_descriptor, read_text
from blklab.system.signatures import locate_signatures, signatures
from blklab.system.users import openers, uses
from blklab.units import SECTOR, format_size

SAMPLES = 16  # Places of a disk without signatures that are looked at
SAMPLE_BYTES = 64 << 10  # Of each of them


@dataclass(frozen=True)
class SlotStep:
    """A step of a plan, for people."""

    what: str
    command: str = ""  # What blklab runs then; empty if it runs nothing


@dataclass(frozen=True)
class SlotPlan:
    array: Array
    task: SlotTask
    refused: tuple[Diagnostic, ...]  # Why blklab cannot do it now
    steps: tuple[SlotStep, ...]
    warnings: tuple[str, ...] = ()  # What the user must know before

    @property
    def nothing_to_do(self) -> bool:
        return False

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "operation": self.task.operation,
            "slot": self.task.slot,
            "refused": [reason.sentence for reason in self.refused],
            "members_with_entries": [member.name for member in self.array.members if member.ranges],
            "steps": [{"step": step.what, "command": step.command or None} for step in self.steps],
            "warnings": list(self.warnings),
        }


def plan_add(name: str, disk: str, roots: Roots) -> SlotPlan:
    """Returns the plan that puts a disk into an empty slot. Raises UsageError if an argument is no array or no disk."""
    array = find_array(name, roots)
    refuse_unfinished_repair(array, roots)
    device = find_device(disk, roots)
    superblock = find_own_superblock(array, device, roots)
    slot = choose_empty_slot(array, superblock)
    task = SlotTask("add", array.uuid, array.path, slot, describe_disk(device, superblock, roots))
    reasons = [*_check_array(array, "add", roots), *check_new_disk(array, device, superblock, roots)]
    if superblock is None:  # a former member is re-added, which works
        reasons += check_adding(array, read_software(roots))
    steps = [SlotStep("read all members completely; stop if a sector can be read only from a disk that is out")]
    if superblock:
        steps.append(
            SlotStep(f"bring {device.name} back: md copies what was written since it left", _re_add(array, device))
        )
        steps.append(SlotStep("or, if md refuses this, erase its superblock and add it as an empty disk"))
    else:
        steps.append(SlotStep(f"add {device.name}", command_lines.add_disk(array.path, _path(device, roots))))
    steps.append(SlotStep(f"wait until {device.name} is in sync"))
    warnings = () if superblock else tuple(_warn_of_raw_data(device, roots))
    return SlotPlan(array, task, _refusals(array, reasons), tuple(steps), warnings)


def plan_replace(name: str, old: str, new: str, roots: Roots) -> SlotPlan:
    """Returns the plan that replaces a member while it stays in use. Raises UsageError as `plan_add`."""
    array = find_array(name, roots)
    refuse_unfinished_repair(array, roots)
    member = find_member(array, old, roots)
    device = find_device(new, roots)
    superblock = find_own_superblock(array, device, roots)
    task = SlotTask(
        "replace",
        array.uuid,
        array.path,
        member.slot or 0,
        describe_disk(device, superblock, roots),
        describe_member(member, roots),
    )
    reasons = list(_check_array(array, "replace", roots))
    if device.name == member.name:
        reasons.append(("same-disk", f"{device.name} is the old disk and the new one: expected two disks"))
    elif not _is_spare_of(array, device):
        reasons += check_new_disk(array, device, superblock, roots)
    path = _path(device, roots)
    add = SlotStep(f"add {device.name} as a spare", command_lines.add_disk(array.path, path))
    first_steps = () if _is_spare_of(array, device) else (add,)
    steps = (
        *first_steps,
        SlotStep(
            f"have md copy {member.name} onto it; where {member.name} has bad blocks, md reads the other members",
            command_lines.replace_disk(array.path, member.path, path),
        ),
        SlotStep(f"wait until {device.name} is in sync: {member.name} stays in use until then"),
        SlotStep(f"remove {member.name}", command_lines.remove_disk(array.path, member.path)),
    )
    warnings = () if superblock or _is_spare_of(array, device) else tuple(_warn_of_raw_data(device, roots))
    return SlotPlan(array, task, _refusals(array, reasons), steps, warnings)


def plan_remove(name: str, old: str, roots: Roots) -> SlotPlan:
    """Returns the plan that takes a member out, so that another disk can get its port. Raises as `plan_add`."""
    array = find_array(name, roots)
    refuse_unfinished_repair(array, roots)
    member = find_member(array, old, roots, or_faulty=True)
    task = SlotTask("remove", array.uuid, array.path, member.slot or 0, describe_member(member, roots))
    reasons = list(_check_array(array, "remove", roots))
    if "faulty" in member.states:  # md does not use it any more
        line = command_lines.remove_disk(array.path, member.path)
        return SlotPlan(array, task, _refusals(array, reasons), (SlotStep(f"remove {member.name}", line),))
    reasons += _check_taking_out(array, member, roots)
    steps = (
        SlotStep(f"read the other members completely; stop if {member.name} has the only copy of a sector"),
        SlotStep(f"fail {member.name}", command_lines.fail_disk(array.path, member.path)),
        SlotStep(f"remove {member.name}", command_lines.remove_disk(array.path, member.path)),
    )
    return SlotPlan(array, task, _refusals(array, reasons), steps)


def plan_rebuild(name: str, slot: str, roots: Roots) -> SlotPlan:
    """Returns the plan that has md write a member completely again. Raises as `plan_add`."""
    array = find_array(name, roots)
    refuse_unfinished_repair(array, roots)
    member = find_member(array, slot, roots)
    task = SlotTask("rebuild", array.uuid, array.path, member.slot or 0, describe_member(member, roots))
    reasons = [*_check_array(array, "rebuild", roots), *_check_taking_out(array, member, roots)]
    if not is_redundant_without(array, member):
        reasons.append(
            (
                "no-redundancy-left",
                f"while {member.name} is rebuilt, the array has no redundancy, and one sector that cannot be read is"
                f" lost: replace {member.name} by another disk instead",
                command_lines.fix_replace(array.path, member.path, NEW_DISK),
            )
        )
    path = member.path
    steps = (
        SlotStep("read the other members completely; stop if the array is not redundant everywhere without this one"),
        SlotStep(f"fail {member.name}", command_lines.fail_disk(array.path, path)),
        SlotStep(f"remove {member.name}", command_lines.remove_disk(array.path, path)),
        SlotStep("erase its superblock, so that md writes all of it", command_lines.zero_superblock(path)),
        SlotStep("add it again", command_lines.add_disk(array.path, path)),
        SlotStep(f"wait until {member.name} is in sync"),
    )
    return SlotPlan(array, task, _refusals(array, reasons), steps)


def find_device(word: str, roots: Roots) -> BlockDevice:
    """Returns a disk by its path, its stable id or its name in sysfs. Raises UsageError if there is none."""
    if "/" not in word and (roots.sys / "class/block" / word).exists():
        return resolve(str(roots.device(word)), roots)
    return resolve(word, roots)


def find_member(array: Array, argument: str, roots: Roots, *, or_faulty: bool = False) -> ArrayMember:
    """Returns the member of an array in a slot, or with a path, a stable id or a name. Raises UsageError.

    A faulty member has no slot any more: it is returned only with `or_faulty`.
    """
    if argument.isascii() and argument.isdigit():
        matches = [
            member for member in array.active if str(member.slot) == str(int(argument)) and not member.replacement
        ]
    else:
        name = find_device(argument, roots).name
        matches = [member for member in array.members if member.name == name]
    if not matches or (matches[0].slot is None and not (or_faulty and "faulty" in matches[0].states)):
        slots = ", ".join(f"{member.slot} ({member.name})" for member in array.active)
        raise UsageError(f"{argument}: no active member of {array.path}; expected the disk or the slot of one: {slots}")
    return matches[0]


def find_own_superblock(array: Array, device: BlockDevice, roots: Roots) -> Superblock | None:
    """Returns the superblock of this array on a disk; None if the disk has none."""
    for superblock in read_superblocks(roots.device(device.name)).members:
        if superblock.uuid == array.uuid:
            return superblock
    return None


def describe_disk(device: BlockDevice, superblock: Superblock | None, roots: Roots) -> DiskFacts:
    """Returns what finds a disk again."""
    path = _path(device, roots)
    if superblock is None:
        return DiskFacts(path, disk_id(path, roots), device.size)
    return DiskFacts(path, disk_id(path, roots), device.size, superblock.device, superblock.offset)


def describe_member(member: ArrayMember, roots: Roots) -> DiskFacts:
    """Returns what finds the disk of a member again."""
    superblock = member.superblock
    if superblock is None:
        return DiskFacts(member.path, disk_id(member.path, roots), member.size or 0)
    return DiskFacts(member.path, disk_id(member.path, roots), member.size or 0, superblock.device, superblock.offset)


def choose_empty_slot(array: Array, superblock: Superblock | None) -> int:
    """Returns the slot that an added disk gets: that of its superblock, or the first empty one; -1 if there is none."""
    filled_slots = {member.slot for member in array.active if "faulty" not in member.states}
    empty_slots = [slot for slot in range(array.raid_disks) if slot not in filled_slots]
    if superblock is not None and superblock.slot in empty_slots:
        return superblock.slot or 0
    return empty_slots[0] if empty_slots else -1


def check_new_disk(array: Array, device: BlockDevice, superblock: Superblock | None, roots: Roots) -> Iterator[Reason]:
    """Yields why a disk cannot become a member: it is too small, it is in use, or it has data."""
    min_bytes = _min_device_bytes(array)
    if device.size < min_bytes:
        size_text = f"{format_size(device.size)}, expected at least {format_size(min_bytes)}"
        yield "too-small", f"{device.name} is too small: it has {size_text}"
    if (read_text(roots.sys / "block" / array.name / "dev") or "") in beneath(device.number, roots):
        yield "itself", f"{device.name} is on {array.path} itself: name another disk"
    if partitions(device.node):
        yield "partitions", f"{device.name} has partitions: name one of them, or another disk"
    member_names = {member.name for member in array.members}
    if device.name in member_names and not _is_faulty_in(array, device):
        yield "member", f"{device.name} is a member of {array.path} already"
        return
    if device.name not in member_names:
        for user in uses(device, roots):
            yield "in-use", f"{device.name} is in use: {user}"
        for program in openers(device, roots):
            if program.writes:
                yield "in-use", f"{device.name}: {program.program} (process {program.pid}) has it open for writing"
    if superblock is not None:
        if device.name not in member_names:
            yield from _check_former_member(array, device, superblock, roots)
        return
    content = signatures(roots.device(device.name))
    if content:
        yield (
            "not-empty",
            f"{device.name} is not empty: it has {', '.join(content)}. blklab overwrites no data; if it is not needed,"
            " erase it yourself (wipefs)",
        )


def _check_former_member(array: Array, device: BlockDevice, superblock: Superblock, roots: Roots) -> Iterator[Reason]:
    """Yields why a disk that was a member must not be overwritten: only it has some data."""
    newest = max((member.superblock.events for member in array.members if member.superblock), default=0)
    former = ArrayMember(device.name, device.path, superblock=superblock)
    if superblock.events > newest:
        yield (
            "newer",
            f"{device.name} has {superblock.events:,} events, the array only {newest:,}: it was written to apart from"
            " the array. Decide which of the two has the right data first",
        )
    elif any(exclude_each_other(former, member) for member in array.members):
        yield (
            "split",
            f"{device.name} and {array.path} were written to apart from each other: each has data that the other has"
            " not. Decide which of the two has the right data first, and copy what only the other has",
        )
    begin = superblock.data_offset * SECTOR
    end = (superblock.data_offset + superblock.data_size) * SECTOR
    for kind, byte in locate_signatures(roots.device(device.name)):
        if byte != superblock.offset and not begin <= byte < end:  # In between are signatures of what is on the array
            yield (
                "other-data",
                f"{device.name} has a superblock of {array.path}, and also {kind} at byte {byte}: it may have been used"
                " for something else since. blklab overwrites no data; if it is not needed, erase it yourself (wipefs)",
            )


def _warn_of_raw_data(device: BlockDevice, roots: Roots) -> Iterator[str]:
    """Yields a warning if a disk without a signature is not empty: plain dm-crypt and some databases have none."""
    try:
        with open_descriptor(roots.device(device.name), os.O_RDONLY) as descriptor:
            samples = [
                os.pread(descriptor, SAMPLE_BYTES, offset)
                for offset in range(0, device.size, max(1, device.size // 16))
            ]
    except OSError:
        return
    if any(any(sample) for sample in samples):
        yield (
            f"{device.name} has no filesystem and no other signature, but it is not empty: all of it is overwritten."
            " Data of plain dm-crypt and of some databases have no signature: make sure that this disk is not needed"
        )


def check_duplicates(array: Array, roots: Roots) -> Iterator[Reason]:
    """Yields other assembled arrays with the same UUID: halves of one mirror, or copies."""
    for entry in entries(roots.sys / "block"):
        if entry.name != array.name and has_uuid(entry, array.uuid):
            yield (
                "split",
                f"{entry.name} has the same UUID: both are halves or copies of one array. Decide which has the right"
                " data, and stop the other one first",
            )


def _check_array(array: Array, operation: Operation, roots: Roots) -> Iterator[Reason]:
    """Yields why an array cannot be changed now."""
    software = read_software(roots)
    if os.geteuid() != 0:
        yield "no-root", "permission denied: run blklab as root"
    if array.external:
        yield "external", f"it has metadata {array.metadata}: use the tools of its firmware"
        return
    if not array.redundant:
        yield "no-redundancy", f"{array.level} has no redundancy: no member of it can be missing or replaced"
        return
    node = (roots.sys / "block" / array.name).resolve()
    yield from check_activity(array, software, node / "md", may_be_degraded=operation == "add")
    yield from check_duplicates(array, roots)
    try:
        find_mdadm()
    except EnvironmentLacks as error:
        yield "no-mdadm", str(error)
    if operation == "add" and (not array.degraded or choose_empty_slot(array, None) < 0):
        yield "complete", "no member is missing: there is no empty slot"
    if operation in {"replace", "rebuild"}:
        yield from check_adding(array, software)
    neighbour = find_busy_neighbour(node, roots)
    if neighbour:
        yield "neighbour", f"md is working on another array on the same disks ({neighbour}): wait until that ends"
    for member in array.members:
        if member.unseen and "faulty" not in member.states:
            yield "no-superblock", f"{member.name}: {member.unseen}"


def check_adding(array: Array, software: Software) -> Iterator[Reason]:
    """Yields why no empty disk can be added with this kernel and mdadm."""
    if host.adding_fails(array, software):
        yield "add-fails", "with this kernel, --add fails and damages superblocks: install mdadm 4.5 or newer first"


def _check_taking_out(array: Array, member: ArrayMember, roots: Roots) -> Iterator[Reason]:
    """Yields why a member cannot be taken out: the array would not run, or md would use another disk at once."""
    sector_map = array.sector_map
    if sector_map is None or member.slot is None:
        yield "no-map", "blklab does not know where the members' sectors are on the array (a rare layout)"
    elif not sector_map.runs_without([member.slot]):
        yield "needed", f"the array does not run without {member.name}"
    if "in_sync" not in member.states:
        yield "not-in-sync", f"{member.name} is {', '.join(member.states) or 'not in sync'}"
    spares = [other.path for other in array.members if other.spare]
    if spares:
        yield (
            "spare",
            f"md would rebuild onto the spare {spares[0]} at once: replace {member.name} by it instead",
            command_lines.fix_replace(array.path, member.path, spares[0]),
        )
    moving, stop = find_spare_monitor((roots.sys / "block" / array.name).resolve(), roots)
    if moving and stop:
        yield "spare-moves", f"{moving}; stop it during the repair", stop
    elif moving:
        yield "spare-moves", moving


def read_array_by_name(name: str, roots: Roots) -> Array:
    """Returns the present state of an assembled array (`md0`)."""
    return read_array((roots.sys / "block" / name).resolve(), roots)


def read_array_with_outside(name: str, uuid: str, roots: Roots) -> Array:
    """Returns the present state of an array, with its members outside of it. Reads the superblocks of all disks.

    Raises BlklabError if it is not there any more.
    """
    for array in read_inventory(roots).arrays:
        if (array.name, array.uuid) == (name, uuid):
            return array
    raise BlklabError(f"{roots.device(name)}: it is another array now: nothing was changed")


def _min_device_bytes(array: Array) -> int:
    """Returns the bytes of a device that can become a member; mdadm checks it again with the metadata."""
    offsets = [member.data_offset for member in array.members if member.data_offset]
    return (array.member_sectors + (min(offsets) if offsets else 0)) * SECTOR


def _is_faulty_in(array: Array, device: BlockDevice) -> bool:
    return any(member.name == device.name and "faulty" in member.states for member in array.members)


def _is_spare_of(array: Array, device: BlockDevice) -> bool:
    return any(member.name == device.name and member.spare for member in array.members)


def _re_add(array: Array, device: BlockDevice) -> str:
    return command_lines.re_add_disk(array.path, device.path)


def _path(device: BlockDevice, roots: Roots) -> str:
    """Returns the kernel's path of a disk: links such as those in /dev/disk may change."""
    return str(Path(roots.device(device.name)))


def _refusals(array: Array, reasons: list[Reason]) -> tuple[Diagnostic, ...]:
    return tuple(unmet_precondition(array, code, message, *remedy) for code, message, *remedy in reasons)
