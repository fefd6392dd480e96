"""Reads what a question about a change is about: an array of this host, of pasted text, or of images."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blklab.errors import UsageError
from blklab.md.images import read_images
from blklab.md.inventory import parse_number
from blklab.md.model import Array, ArrayMember, Inventory, Software
from blklab.md.pasted.files import STDIN, is_text_file, read_text_files
from blklab.md.plan.change import SyncLimits
from blklab.md.probing import read_software
from blklab.md.repair.plan import find_array
from blklab.system.roots import Roots, read_text
from blklab.units import SECTOR


def read_live_array(name: str, roots: Roots) -> Array:
    """Returns an assembled array of this host. Raises UsageError if there is none."""
    return with_size_of_stripes(find_array(name, roots))


def with_size_of_stripes(array: Array) -> Array:
    """Returns an array with the sectors of a member: a RAID-0 has none in sysfs, and mdadm divides its size."""
    if array.level != "raid0" or array.size is None or not array.raid_disks:
        return array
    return replace(array, member_sectors=array.size // SECTOR // array.raid_disks)


def read_host_software(roots: Roots) -> Software:
    """Returns the versions of mdadm and the kernel of this host."""
    return read_software(roots)


def read_files(name: str, files: Sequence[str]) -> Inventory:
    """Returns an inventory with one array of pasted texts, or of images of its members. Raises UsageError."""
    if not name:
        raise UsageError("ARRAY: expected the name of an array, such as /dev/md0")
    for file in files:
        if file != STDIN and not Path(file).exists():
            raise UsageError(f"--from {file}: no such file")
        if Path(file).is_dir():
            raise UsageError(f"--from {file}: this is a directory; expected a text, or an image of a member")
    texts = [file for file in files if is_text_file(file)]
    if texts and len(texts) < len(files):
        raise UsageError("--from: expected either texts or images")
    inventory = read_text_files(files) if texts else read_images([Path(file) for file in files])
    arrays = [
        array for array in (*inventory.arrays, *inventory.unassembled) if array.is_called({name, Path(name).name})
    ]
    if not arrays:
        names = ", ".join(array.name for array in (*inventory.arrays, *inventory.unassembled))
        raise UsageError(f"{name}: the files have no such array: expected {names or 'output about an array'}")
    array = replace(arrays[0], path=arrays[0].path or _make_path(name))
    return replace(inventory, arrays=(with_size_of_stripes(array),))


def _make_path(name: str) -> str:
    """Returns the path of an array for commands: of `host:0`, `md0`, and of `host:home`, `home` are the devices."""
    short_name = name.rpartition("/")[2].rpartition(":")[2]
    if short_name.isdecimal():
        return f"/dev/md{short_name}"
    return f"/dev/{short_name}" if short_name.startswith("md") else f"/dev/md/{short_name}"


def read_limits(array: Array, roots: Roots) -> SyncLimits:
    """Returns the speed limits of an array of this host: its own, or those of the system."""
    values = []
    for name, system in (("sync_speed_min", "speed_limit_min"), ("sync_speed_max", "speed_limit_max")):
        text = read_text(roots.sys / "block" / array.name / "md" / name)
        if text is None:
            text = read_text(roots.proc / "sys/dev/raid" / system)
        values.append(parse_number(text))
    minimum, maximum = values
    if not minimum or not maximum:
        return SyncLimits()
    return SyncLimits(minimum, maximum, are_known=True)


def find_old_member(array: Array, word: str) -> ArrayMember:
    """Returns the member with a slot, a path or a name. Raises UsageError."""
    for member in array.active:
        is_named = word in {member.name, member.path}
        if (is_named or (word.isascii() and word.isdecimal() and member.slot == int(word))) and not member.replacement:
            return member
    slots = ", ".join(f"{member.slot} ({member.name})" for member in array.active)
    raise UsageError(f"{word}: no active member of {array.path}; expected the disk or the slot of one: {slots}")
