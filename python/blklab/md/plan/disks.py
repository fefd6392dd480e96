"""Reads what decides whether a disk can become a member: its size, its blocks, what uses it, what is on it."""

from collections.abc import Sequence

from blklab.errors import UsageError
from blklab.md.member_devices import device_facts
from blklab.md.model import Array
from blklab.md.plan.change import NewDisk
from blklab.md.repair.slot_plan import find_device
from blklab.md.superblocks import read_superblocks
from blklab.system.roots import Roots
from blklab.system.signatures import signatures
from blklab.system.users import uses


def read_new_disk(word: str, array: Array, roots: Roots) -> NewDisk:
    """Returns the facts of a disk of this host by its path, stable id or name. Raises UsageError if there is none."""
    device = find_device(word, roots)
    facts = device_facts(device.node)
    path = roots.format_path(roots.device(device.name))
    member = next((member for member in array.members if member.name == device.name), None)
    if member is not None:
        return NewDisk(
            path,
            device.name,
            device.size,
            facts["logical_block"],
            is_spare=member.spare,
            is_member=not member.spare and "faulty" not in member.states,
            is_faulty="faulty" in member.states,
            array_uuid=array.uuid,
        )
    reading = read_superblocks(roots.device(device.name))
    uuid = reading.members[0].uuid if reading.members else ""
    return NewDisk(
        path,
        device.name,
        device.size,
        facts["logical_block"],
        users=tuple(uses(device, roots)),
        contents=tuple(signatures(roots.device(device.name))),
        array_uuid=uuid,
    )


def name_new_disk(word: str, array: Array) -> NewDisk:
    """Returns a disk by its path, and what a text says of it. Raises UsageError for an empty one."""
    if not word:
        raise UsageError("DISK: expected the path of a disk")
    name = word.rpartition("/")[2]
    member = next((member for member in array.members if word in {member.path, member.name}), None)
    if member is None:
        return NewDisk(word, name)
    return NewDisk(
        member.path or word,
        name,
        member.size,
        member.logical_block,
        array_uuid=array.uuid,
        is_spare=member.spare,
        is_member=not member.spare and "faulty" not in member.states,
        is_faulty="faulty" in member.states,
    )


def check_distinct(disks: Sequence[NewDisk]) -> None:
    """Raises UsageError for a disk that is named twice."""
    names = [disk.name for disk in disks]
    for disk in disks:
        if names.count(disk.name) > 1:
            raise UsageError(f"{disk.path}: this disk is named twice")
