"""Reads the state of an array under repair from sysfs and its disks."""

import enum
from dataclasses import dataclass, field, replace
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md import command_lines
from blklab.md.inventory import parse_number, read_members
from blklab.md.model import ArrayMember
from blklab.md.probing import Probe, parse_version
from blklab.md.repair.environment_checks import find_busy_neighbour
from blklab.md.repair.task import MemberSlot, RemovedSpare, RepairTask
from blklab.md.superblocks import Superblock, read_superblocks, swap_words
from blklab.system.identity import array_uuid, resolve
from blklab.system.roots import Roots, entries, read_text


class MemberState(enum.Enum):
    IN_SYNC = "in sync"
    REBUILDING = "being rebuilt"
    FAULTY = "faulty"
    OUT = "out"  # Its disk is present, and not in the array
    GONE = "gone"  # No disk has its superblock, or several have


class BadBlockListState(enum.Enum):
    """Whether a member has a bad-block list, on its disk or in the kernel's memory."""

    NONE = "none"
    EMPTY = "empty"
    ENTRIES = "entries"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SlotState:
    """The present state of a member of the task."""

    device: str
    path: str
    state: MemberState
    list_state: BadBlockListState
    has_write_error: bool = False  # A write to it failed, which md shows only in sysfs: `write_error`
    occupant: str = ""  # Path of a disk that is not in the task and has its slot


@dataclass(frozen=True)
class ArrayState:
    slots: tuple[SlotState, ...]
    bitmap: bool
    degraded: int
    sync: str = "idle"  # `sync_action` in sysfs: `idle`, `recover`, `resync`, `check`…
    array_state: str = "clean"  # `array_state` in sysfs
    spares: dict[str, str] = field(default_factory=dict)  # Spares in the array: device and path
    removed_spares: dict[str, str] = field(default_factory=dict)
    """Spares of the task that are out of the array: device and path."""
    has_unplanned_member: bool = False  # A member that is not in the task is in sync, in the slot of one that is
    busy_neighbour: str = ""  # Another array on the same disks that md syncs or checks, and the action
    with_bad_blocks: tuple[str, ...] = ()  # Paths of members whose lists have entries
    unusable: tuple[str, ...] = ()  # Paths of members that the kernel would not accept after a stop

    def slot(self, device: str) -> SlotState:
        return next(slot for slot in self.slots if slot.device == device)


def find_array_node(uuid: str, roots: Roots) -> Path:
    """Returns the array's directory in sysfs. Raises BlklabError if it is not assembled."""
    for entry in entries(roots.sys / "block"):
        if not (entry / "md").is_dir():
            continue
        if has_uuid(entry, uuid):
            return entry.resolve()
        if not array_uuid(read_text(entry / "md/uuid") or ""):  # kernels before 4.19
            members = read_members(entry.resolve(), "", roots, Probe())
            if any(member.superblock and member.superblock.uuid == uuid for member in members):
                return entry.resolve()
    assemble = command_lines.assemble_all()
    resume = command_lines.resume_fix()
    raise BlklabError(f"the array {uuid} is not assembled: assemble it ({assemble}), then run {resume}")


def has_uuid(node: Path, uuid: str) -> bool:
    """Whether an array in sysfs has a UUID, as mdadm prints it: for metadata 0.90, sysfs has other words."""
    sysfs_uuid = array_uuid(read_text(node / "md/uuid") or "")
    is_swapped = (read_text(node / "md/metadata_version") or "").startswith("0") and bool(sysfs_uuid)
    return bool(uuid) and uuid in {sysfs_uuid, swap_words(sysfs_uuid) if is_swapped else sysfs_uuid}


def read_array_state(task: RepairTask, roots: Roots) -> ArrayState:
    """Returns the array's present state. Raises BlklabError if it is not assembled."""
    node = find_array_node(task.uuid, roots)
    md = node / "md"
    inside = _read_members(node, task, roots)
    outside = _find_removed_disks(task, set(inside), roots)
    devices = {slot.device for slot in task.slots}
    kernel = parse_version(read_text(roots.proc / "sys/kernel/osrelease") or "")
    occupants = {member.slot: member.path for device, member in inside.items() if device not in devices}
    return ArrayState(
        slots=tuple(
            replace(
                _member_state(slot.device, inside[slot.device])
                if slot.device in inside
                else _outside_member_state(slot.device, slot.path, outside),
                occupant=occupants.get(slot.slot, ""),
            )
            for slot in task.slots
        ),
        bitmap=read_text(md / "bitmap/location") not in {None, "none", ""},
        degraded=parse_number(read_text(md / "degraded")) or 0,
        sync=read_text(md / "sync_action") or "idle",
        array_state=read_text(md / "array_state") or "",
        spares={
            device: member.path
            for device, member in inside.items()
            if member.spare and member.superblock and device not in devices
        },
        removed_spares={
            spare.device: str(outside[spare.device][0]) for spare in task.spares if spare.device in outside
        },
        has_unplanned_member=any(
            device not in devices and "in_sync" in member.states for device, member in inside.items()
        ),
        busy_neighbour=find_busy_neighbour(node, roots),
        with_bad_blocks=tuple(member.path for member in inside.values() if member.ranges),
        unusable=tuple(member.path for member in inside.values() if member.is_refused_by(kernel)),
    )


def _read_members(node: Path, task: RepairTask, roots: Roots) -> dict[str, ArrayMember]:
    """Returns the array's members by UUID; unreadable members are recognised by their path, others have it as key."""
    devices = {disk.path: disk.device for disk in task.disks}
    members = {}
    for member in read_members(node, task.uuid, roots, Probe()):
        superblock = member.superblock
        members[superblock.device if superblock else devices.get(member.path, member.path)] = member
    return members


def bad_block_list_state(superblock: Superblock | None, has_entries: bool) -> BadBlockListState:
    """Returns the state of a list from the superblock on disk; `has_entries`: the kernel has entries."""
    if has_entries:
        return BadBlockListState.ENTRIES
    if superblock is None:
        return BadBlockListState.UNKNOWN
    if superblock.bad_blocks is None:
        return BadBlockListState.NONE
    return BadBlockListState.ENTRIES if superblock.bad_blocks.ranges else BadBlockListState.EMPTY


def _member_state(device: str, member: ArrayMember) -> SlotState:
    if "faulty" in member.states:
        state = MemberState.FAULTY
    elif "in_sync" in member.states:
        state = MemberState.IN_SYNC
    else:
        state = MemberState.REBUILDING
    return SlotState(
        device,
        member.path,
        state,
        bad_block_list_state(member.superblock, bool(member.listed)),
        has_write_error="write_error" in member.states or "want_replacement" in member.states,
    )


def _outside_member_state(device: str, path: str, outside: dict[str, tuple[Path, Superblock]]) -> SlotState:
    if device not in outside:
        return SlotState(device, path, MemberState.GONE, BadBlockListState.UNKNOWN)
    present_path, superblock = outside[device]
    return SlotState(device, str(present_path), MemberState.OUT, bad_block_list_state(superblock, False))


def disk_id(path: str, roots: Roots) -> str:
    """Returns the stable id of a disk, or an empty string."""
    try:
        return resolve(path, roots).id or ""
    except BlklabError:
        return ""


def read_spare(device: str, path: str, task: RepairTask, roots: Roots) -> RemovedSpare:
    """Returns a spare with everything that identifies its disk later."""
    offsets = [superblock.offset for superblock in read_superblocks(Path(path)).members if superblock.uuid == task.uuid]
    return RemovedSpare(device, path, offsets[0] if offsets else 0, disk_id(path, roots))


def _find_removed_disks(task: RepairTask, inside: set[str], roots: Roots) -> dict[str, tuple[Path, Superblock]]:
    """Returns the paths and superblocks of the task's disks that are out of the array.

    Leaves out disks that another device uses (multipath has the same superblock as its paths), and
    disks that could be copies.
    """
    outside: dict[str, tuple[Path, Superblock]] = {}
    for disk in task.disks:
        if disk.device not in inside and (location := _find_disk(disk, task.uuid, roots)):
            outside[disk.device] = location
    return outside


def _find_disk(slot: MemberSlot | RemovedSpare, uuid: str, roots: Roots) -> tuple[Path, Superblock] | None:
    before = Path(slot.path)
    superblock = _read_unused_superblock(before, slot, uuid, roots)
    if superblock is not None and slot.id and disk_id(slot.path, roots) == slot.id:
        return before, superblock
    matches = []
    for entry in entries(roots.sys / "class/block"):
        path = roots.device(entry.name)
        superblock = _read_unused_superblock(path, slot, uuid, roots)
        if superblock is None:
            continue
        now = disk_id(str(path), roots)
        if not (slot.id and now and now != slot.id):
            matches.append((path, superblock))
    return matches[0] if len(matches) == 1 else None


def _read_unused_superblock(path: Path, slot: MemberSlot | RemovedSpare, uuid: str, roots: Roots) -> Superblock | None:
    """Returns the superblock of a member if it is at this path and no device uses the disk."""
    if not path.is_relative_to(roots.dev):  # in a damaged journal
        return None
    node = roots.sys / "class/block" / str(path.relative_to(roots.dev)).replace("/", "!")
    if entries(node / "holders") or read_text(node / "size") in {"0", None}:
        return None
    for superblock in read_superblocks(path).members:
        identity = (superblock.uuid, superblock.device, superblock.offset)
        if identity == (uuid, slot.device, slot.offset):
            return superblock
    return None


def find_member_uuid(path: Path, uuid: str, roots: Roots) -> str | None:
    """Returns the UUID of the array's member at a path; None if there is no such member."""
    for member in read_members(find_array_node(uuid, roots), uuid, roots, Probe()):
        if member.path == str(path) and member.superblock and "faulty" not in member.states:
            return member.superblock.device
    return None


def find_members_with_lists(uuid: str, roots: Roots) -> list[str]:
    """Returns the paths of members, spares included, that have a list or cannot be read."""
    return [
        member.path
        for member in read_members(find_array_node(uuid, roots), uuid, roots, Probe())
        if member.superblock is None or member.bad_blocks is not None or member.listed
    ]
