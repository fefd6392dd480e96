"""What is to be done, and how far it went: all that a repair must remember over a crash."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

FORMAT: Final = 1


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
    seats: tuple[MemberSlot, ...]
    """In order of slots."""
    spares: tuple[RemovedSpare, ...] = ()
    """Those that are set aside, or are about to be."""
    bitmap_added: bool = False
    """The bitmap is ours, or is about to be: it goes when all is done."""
    taken: str = ""
    """The device of the seat that is out because we took it out, or are about to."""
    returned: bool = False
    """It was added again: should it be faulty now, it has failed for real."""
    suspect: bool = False
    """Bad blocks came up while it was taken out: all of it is to be written anew."""
    tried: frozenset[str] = field(default_factory=frozenset)
    """Devices of seats that were taken out once: none is a second time."""

    @property
    def disks(self) -> list[MemberSlot | RemovedSpare]:
        """All that have, or had, a part in the array."""
        return [*self.seats, *self.spares]

    def found_at(self, device: str, path: str) -> Self:
        """Returns the same task, where a member or a spare is known to be elsewhere."""
        return replace(
            self,
            seats=tuple(
                replace(one, path=path) if one.device == device else one for one in self.seats
            ),
            spares=tuple(
                replace(one, path=path) if one.device == device else one for one in self.spares
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """For the journal."""
        return {"task": FORMAT, **asdict(self), "tried": sorted(self.tried)}


def from_dict(found: Mapping[str, Any]) -> RepairTask:
    """Returns the task of a journal. Raises ValueError, KeyError or TypeError if it is none."""
    rest = dict(found)
    if rest.pop("task") != FORMAT:
        raise ValueError(f"format {found['task']}, expected {FORMAT}")
    seats = tuple(MemberSlot(**seat) for seat in rest.pop("seats"))
    spares = tuple(RemovedSpare(**spare) for spare in rest.pop("spares"))
    task = RepairTask(
        **{**rest, "seats": seats, "spares": spares, "tried": frozenset(rest["tried"])}
    )
    told: list[tuple[object, type]] = [
        *((word, str) for word in (task.uuid, task.array, task.level, task.taken, *task.tried)),
        *((word, str) for one in task.disks for word in (one.device, one.path, one.id)),
        *((one.offset, int) for one in task.disks),
        *((number, int) for number in (task.raid_disks, task.layout)),
        *((seat.slot, int) for seat in seats),
        *((flag, bool) for flag in (task.bitmap_added, task.returned, task.suspect)),
    ]
    if any(type(value) is not wanted or "\0" in str(value) for value, wanted in told):
        raise ValueError("a value of another type")
    if task.taken and all(seat.device != task.taken for seat in seats):
        raise ValueError("no seat is that of what was taken")
    return task
