"""The task of a repair and its progress: everything that must survive a crash."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

FORMAT = 3  # Format 1 has another key for `slots`; 1 and 2 have commands of the last run, which are ignored


@dataclass(frozen=True)
class MemberSlot:
    slot: int
    device: str  # UUID of the member in its superblock: names of disks may change at boot
    path: str  # Its last known path
    offset: int = 0
    """Bytes from the start of the device to its superblock. It distinguishes a whole disk from a
    partition that ends where the disk ends."""
    id: str = ""  # Stable id of the disk, if it has one. It distinguishes the disk from a copy.


@dataclass(frozen=True)
class RemovedSpare:
    """A spare that is removed, so that md does not rebuild onto it while a member is out."""

    device: str
    path: str
    offset: int = 0
    id: str = ""


@dataclass(frozen=True)
class RepairTask:
    uuid: str
    array: str  # Its last known path, `/dev/md0`
    level: str
    raid_disks: int
    layout: int
    slots: tuple[MemberSlot, ...]  # In order of slots
    spares: tuple[RemovedSpare, ...] = ()  # Spares that blklab has removed, or is about to remove
    bitmap_added: bool = False  # blklab has added the bitmap, or is about to, and must remove it at the end
    taken: str = ""  # `device` of the member that blklab has taken out, or is about to
    returned: bool = False  # That member was added again; if it is faulty now, it has really failed
    suspect: bool = False  # Bad blocks appeared while that member was taken out: md must rebuild all of it
    tried: frozenset[str] = field(default_factory=frozenset)
    """`device` of all members that were taken out; none is taken out twice."""
    entries: bool = False  # It writes bad ranges again (`md fix entries`), and takes no member out

    @property
    def disks(self) -> list[MemberSlot | RemovedSpare]:
        return [*self.slots, *self.spares]

    def with_path(self, device: str, path: str) -> Self:
        """Returns the task with a new path of a member or a spare."""
        return replace(
            self,
            slots=tuple(replace(slot, path=path) if slot.device == device else slot for slot in self.slots),
            spares=tuple(replace(slot, path=path) if slot.device == device else slot for slot in self.spares),
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for the journal."""
        return {"task": FORMAT, **asdict(self), "tried": sorted(self.tried)}


def from_dict(document: Mapping[str, Any]) -> RepairTask:
    """Returns the task of a journal. Raises ValueError, KeyError or TypeError if it is damaged."""
    fields = dict(document)
    version = fields.pop("task")
    if version == 1:
        fields["slots"] = fields.pop("seats")
    elif version not in {2, FORMAT}:
        raise ValueError(f"format {version}, expected {FORMAT}, 2 or 1")
    fields.pop("stopped", None)
    slots = tuple(MemberSlot(**slot) for slot in fields.pop("slots"))
    spares = tuple(RemovedSpare(**spare) for spare in fields.pop("spares"))
    tried_devices = frozenset(fields.pop("tried"))
    task = RepairTask(**fields, slots=slots, spares=spares, tried=tried_devices)
    typed_values: list[tuple[object, type]] = [
        *((string, str) for string in (task.uuid, task.array, task.level, task.taken, *task.tried)),
        *((string, str) for disk in task.disks for string in (disk.device, disk.path, disk.id)),
        *((disk.offset, int) for disk in task.disks),
        *((number, int) for number in (task.raid_disks, task.layout)),
        *((slot.slot, int) for slot in slots),
        *((flag, bool) for flag in (task.bitmap_added, task.returned, task.suspect, task.entries)),
    ]
    if any(type(value) is not value_type or "\0" in str(value) for value, value_type in typed_values):
        raise ValueError("a value of another type")
    if task.taken and all(slot.device != task.taken for slot in slots):
        raise ValueError("the member that was taken out has no slot")
    return task
