"""What is to be done, and how far it went: all that a repair must remember over a crash."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

FORMAT: Final = 2
"""Format 1 said `seats` where 2 says `slots`."""


@dataclass(frozen=True)
class MemberSlot:
    """A member as it was found, and as it is to be again."""

    slot: int
    device: str
    """Its own UUID, of the superblock: names of disks may change when a machine is booted."""
    path: str
    """Where it was when it was last seen."""
    offset: int = 0
    """Bytes from the start of the disk to its superblock: another one behind a whole disk's and a
    partition's name, if it is at their common end."""
    id: str = ""
    """The disk's stable id, if it has one: what is on a disk may have been copied to another."""


@dataclass(frozen=True)
class RemovedSpare:
    """A spare, which is set aside: md would take it as soon as a member is out."""

    device: str
    path: str
    offset: int = 0
    id: str = ""


@dataclass(frozen=True)
class RepairTask:
    """A repair of one array."""

    uuid: str
    array: str
    """`/dev/md0`: what it was called when it was last seen."""
    level: str
    raid_disks: int
    layout: int
    slots: tuple[MemberSlot, ...]
    """In order of slots."""
    spares: tuple[RemovedSpare, ...] = ()
    """Those that are set aside, or are about to be."""
    bitmap_added: bool = False
    """The bitmap is ours, or is about to be: it goes when all is done."""
    taken: str = ""
    """The device of the slot that is out because we took it out, or are about to."""
    returned: bool = False
    """It was added again: should it be faulty now, it has failed for real."""
    suspect: bool = False
    """Bad blocks came up while it was taken out: all of it is to be written anew."""
    tried: frozenset[str] = field(default_factory=frozenset)
    """Devices of slots that were taken out once: none is a second time."""

    @property
    def disks(self) -> list[MemberSlot | RemovedSpare]:
        """All that have, or had, a part in the array."""
        return [*self.slots, *self.spares]

    def found_at(self, device: str, path: str) -> Self:
        """Returns the same task, where a member or a spare is known to be elsewhere."""
        return replace(
            self,
            slots=tuple(
                replace(slot, path=path) if slot.device == device else slot for slot in self.slots
            ),
            spares=tuple(
                replace(slot, path=path) if slot.device == device else slot for slot in self.spares
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """For the journal."""
        return {"task": FORMAT, **asdict(self), "tried": sorted(self.tried)}


def from_dict(document: Mapping[str, Any]) -> RepairTask:
    """Returns the task of a journal. Raises ValueError, KeyError or TypeError if it is none."""
    rest = dict(document)
    if (version := rest.pop("task")) == 1:
        rest["slots"] = rest.pop("seats")
    elif version != FORMAT:
        raise ValueError(f"format {version}, expected {FORMAT} or 1")
    slots = tuple(MemberSlot(**slot) for slot in rest.pop("slots"))
    spares = tuple(RemovedSpare(**spare) for spare in rest.pop("spares"))
    task = RepairTask(
        **{**rest, "slots": slots, "spares": spares, "tried": frozenset(rest["tried"])}
    )
    typed: list[tuple[object, type]] = [
        *((word, str) for word in (task.uuid, task.array, task.level, task.taken, *task.tried)),
        *((word, str) for disk in task.disks for word in (disk.device, disk.path, disk.id)),
        *((disk.offset, int) for disk in task.disks),
        *((number, int) for number in (task.raid_disks, task.layout)),
        *((slot.slot, int) for slot in slots),
        *((flag, bool) for flag in (task.bitmap_added, task.returned, task.suspect)),
    ]
    if any(type(value) is not wanted or "\0" in str(value) for value, wanted in typed):
        raise ValueError("a value of another type")
    if task.taken and all(slot.device != task.taken for slot in slots):
        raise ValueError("no slot is that of what was taken")
    return task
