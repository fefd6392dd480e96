"""What there is of an array under repair: as sysfs and the disks themselves say."""

import enum
from dataclasses import dataclass, field
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md import members as of_sysfs
from blklab.md.audit.redundancy import is_spare
from blklab.md.model import ArrayMember
from blklab.md.probing import Probe
from blklab.md.repair.environment_checks import busy_neighbour
from blklab.md.repair.task import MemberSlot, RemovedSpare, RepairTask
from blklab.md.superblocks import Superblock, read
from blklab.system.identity import array_uuid, resolve
from blklab.system.roots import Roots, entries, text


class MemberState(enum.Enum):
    """Where a member is."""

    IN_SYNC = "in sync"
    REBUILDING = "being rebuilt"
    FAULTY = "faulty"
    OUT = "out"
    """Its disk is there, and is not in the array."""
    GONE = "gone"
    """No disk has its superblock, or more than one."""


class BadBlockListState(enum.Enum):
    """What a member has of a bad-block list: on its disk, or in the kernel's memory."""

    NONE = "none"
    EMPTY = "empty"
    ENTRIES = "entries"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SlotState:
    """A member of the task, now."""

    device: str
    path: str
    where: MemberState
    lists: BadBlockListState
    erring: bool = False
    """A write to it failed, which md keeps to itself: `write_error`."""


@dataclass(frozen=True)
class ArrayState:
    """An array, now."""

    slots: tuple[SlotState, ...]
    bitmap: bool
    degraded: int
    sync: str = "idle"
    """What md does to it: `idle`, `recover`, `resync`, `check`…"""
    mode: str = "clean"
    """`array_state`."""
    spares: dict[str, str] = field(default_factory=dict)
    """Members that stand by: device and path."""
    set_aside: dict[str, str] = field(default_factory=dict)
    """Of the task's spares that are out: device and path."""
    strangers: bool = False
    """Members that are no slots are in sync: they have a slot's slot."""
    neighbour: str = ""
    """Another array on the same disks that md is at work at, and what it does there."""

    def slot(self, device: str) -> SlotState:
        """Returns the state of a slot."""
        return next(slot for slot in self.slots if slot.device == device)


def node_of(uuid: str, roots: Roots) -> Path:
    """Returns the directory of an array in sysfs. Raises BlklabError if it is not assembled."""
    for entry in entries(roots.sys / "block"):
        if not (entry / "md").is_dir():
            continue
        uuid_read = array_uuid(text(entry / "md/uuid") or "")
        if uuid_read == uuid:
            return entry.resolve()
        if not uuid_read:  # kernels before 4.19
            members_read = of_sysfs.members(entry.resolve(), "", roots, Probe())
            if any(member.superblock and member.superblock.uuid == uuid for member in members_read):
                return entry.resolve()
    raise BlklabError(
        f"the array {uuid} is not assembled: assemble it (mdadm --assemble --scan), then go on with"
        " blklab md fix --resume"
    )


def observe(task: RepairTask, roots: Roots) -> ArrayState:
    """Returns what is there now. Raises BlklabError if the array is not assembled."""
    node = node_of(task.uuid, roots)
    md = node / "md"
    inside = _members(node, task, roots)
    outside = _outside(task, set(inside), roots)
    devices = {slot.device for slot in task.slots}
    where = text(md / "bitmap/location")
    return ArrayState(
        slots=tuple(
            _inside(slot.device, inside[slot.device])
            if slot.device in inside
            else _out(slot.device, slot.path, outside)
            for slot in task.slots
        ),
        bitmap=where not in {None, "none", ""},
        degraded=of_sysfs.number(text(md / "degraded")) or 0,
        sync=text(md / "sync_action") or "idle",
        mode=text(md / "array_state") or "",
        spares={
            device: member.path
            for device, member in inside.items()
            if is_spare(member) and device not in devices
        },
        set_aside={
            spare.device: str(outside[spare.device][0])
            for spare in task.spares
            if spare.device in outside
        },
        strangers=any(
            device not in devices and "in_sync" in member.states
            for device, member in inside.items()
        ),
        neighbour=busy_neighbour(node, roots),
    )


def _members(node: Path, task: RepairTask, roots: Roots) -> dict[str, ArrayMember]:
    """Returns the array's members by their UUIDs; those that cannot be read, by where they were."""
    known = {disk.path: disk.device for disk in task.disks}
    members_read = {}
    for member in of_sysfs.members(node, task.uuid, roots, Probe()):
        superblock = member.superblock
        device = superblock.device if superblock else known.get(member.path)
        if device is not None:
            members_read[device] = member
    return members_read


def lists_of(superblock: Superblock | None, listed: bool) -> BadBlockListState:
    """Returns what is known of a list: of the disk's superblock, and whether the kernel has
    entries.
    """
    if listed:
        return BadBlockListState.ENTRIES
    if superblock is None:
        return BadBlockListState.UNKNOWN
    if superblock.bad_blocks is None:
        return BadBlockListState.NONE
    return BadBlockListState.ENTRIES if superblock.bad_blocks.ranges else BadBlockListState.EMPTY


def _inside(device: str, member: ArrayMember) -> SlotState:
    if "faulty" in member.states:
        where = MemberState.FAULTY
    elif "in_sync" in member.states:
        where = MemberState.IN_SYNC
    else:
        where = MemberState.REBUILDING
    return SlotState(
        device,
        member.path,
        where,
        lists_of(member.superblock, bool(member.listed)),
        erring="write_error" in member.states or "want_replacement" in member.states,
    )


def _out(device: str, path: str, outside: dict[str, tuple[Path, Superblock]]) -> SlotState:
    if device not in outside:
        return SlotState(device, path, MemberState.GONE, BadBlockListState.UNKNOWN)
    at, superblock = outside[device]
    return SlotState(device, str(at), MemberState.OUT, lists_of(superblock, False))


def disk_id(path: str, roots: Roots) -> str:
    """Returns the stable id of a disk, or nothing."""
    try:
        return resolve(path, roots).id or ""
    except BlklabError:
        return ""


def spare_at(device: str, path: str, task: RepairTask, roots: Roots) -> RemovedSpare:
    """Returns what must be known of a spare to find it again."""
    superblocks = [
        superblock for superblock in read(Path(path)).superblocks if superblock.uuid == task.uuid
    ]
    return RemovedSpare(
        device, path, superblocks[0].offset if superblocks else 0, disk_id(path, roots)
    )


def _outside(
    task: RepairTask, inside: set[str], roots: Roots
) -> dict[str, tuple[Path, Superblock]]:
    """Returns where disks of the task are that are not in the array.

    None that something else holds (multipath has the same superblock as its paths), and none that
    is not surely the same: a copy of a disk would be taken for it, and is not what md knows.
    """
    outside: dict[str, tuple[Path, Superblock]] = {}
    for disk in task.disks:
        if disk.device not in inside and (it := _locate(disk, task.uuid, roots)):
            outside[disk.device] = it
    return outside


def _locate(
    slot: MemberSlot | RemovedSpare, uuid: str, roots: Roots
) -> tuple[Path, Superblock] | None:
    before = Path(slot.path)
    superblock = _on(before, slot, uuid, roots)
    if superblock is not None and slot.id and disk_id(slot.path, roots) == slot.id:
        return before, superblock
    matches = []
    for entry in entries(roots.sys / "class/block"):
        path = roots.device(entry.name)
        superblock = _on(path, slot, uuid, roots)
        if superblock is None:
            continue
        now = disk_id(str(path), roots)
        if not (slot.id and now and now != slot.id):
            matches.append((path, superblock))
    return matches[0] if len(matches) == 1 else None


def _on(path: Path, slot: MemberSlot | RemovedSpare, uuid: str, roots: Roots) -> Superblock | None:
    """Returns the superblock of a member if it is on a disk that nothing holds."""
    node = roots.sys / "class/block" / str(path.relative_to(roots.dev)).replace("/", "!")
    if entries(node / "holders") or text(node / "size") in {"0", None}:
        return None
    wanted = (uuid, slot.device, slot.offset)
    superblocks = read(path).superblocks
    return next((it for it in superblocks if (it.uuid, it.device, it.offset) == wanted), None)


def device_at(path: Path, uuid: str, roots: Roots) -> str | None:
    """Returns the UUID of an array's member by its path; None if it is not in the array."""
    for member in of_sysfs.members(node_of(uuid, roots), uuid, roots, Probe()):
        if member.path == str(path) and member.superblock and "faulty" not in member.states:
            return member.superblock.device
    return None


def with_lists(uuid: str, roots: Roots) -> list[str]:
    """Returns the members that have a list, or of which it is not known; spares too."""
    return [
        member.path
        for member in of_sysfs.members(node_of(uuid, roots), uuid, roots, Probe())
        if member.superblock is None or member.bad_blocks is not None or member.listed
    ]
