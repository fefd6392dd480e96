"""The task of an operation on one slot of an array: facts that find the disks again, never names or commands."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Operation = Literal["add", "replace", "rebuild", "remove"]
FORMAT = 1


@dataclass(frozen=True)
class DiskFacts:
    """What identifies a disk later, when its name may be that of another one."""

    path: str  # Its last known path, for messages
    id: str = ""  # Its stable id; empty if it has none
    size: int = 0  # Bytes
    device: str = ""  # UUID of the member in its superblock; empty for a disk that is no member yet
    offset: int = 0  # Bytes from the start of the device to this superblock


@dataclass(frozen=True)
class SlotTask:
    operation: Operation
    uuid: str  # Of the array
    array: str  # Its last known path, `/dev/md0`
    slot: int
    disk: DiskFacts  # The disk that gets the slot, or that is taken out of it
    old: DiskFacts | None = None  # `replace`: the member that has the slot now
    out: bool = False  # blklab has taken the member out of the slot, or is about to

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for the journal."""
        return {"slot_task": FORMAT, **asdict(self)}


def from_dict(document: Mapping[str, Any]) -> SlotTask:
    """Returns the task of a journal. Raises ValueError, KeyError or TypeError if it is damaged."""
    fields = dict(document)
    version = fields.pop("slot_task")
    if version != FORMAT:
        raise ValueError(f"format {version}, expected {FORMAT}")
    disk = DiskFacts(**fields.pop("disk"))
    old_fields = fields.pop("old")
    old = None if old_fields is None else DiskFacts(**old_fields)
    task = SlotTask(**fields, disk=disk, old=old)
    if task.operation not in get_args(Operation):
        raise ValueError("an unknown operation")
    disks = [disk] if old is None else [disk, old]
    strings = [task.uuid, task.array]
    numbers = [task.slot]
    for facts in disks:
        strings += [facts.path, facts.id, facts.device]
        numbers += [facts.size, facts.offset]
    if any(type(string) is not str or "\0" in string for string in strings):
        raise ValueError("a text of another type")
    if any(type(number) is not int for number in numbers) or type(task.out) is not bool:
        raise ValueError("a number of another type")
    return task
