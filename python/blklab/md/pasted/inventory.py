"""Makes arrays of what people pasted: superblocks, outputs of mdadm --detail, and copies of /proc/mdstat."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from blklab.errors import UsageError
from blklab.md import command_lines
from blklab.md.audit.log_timeline import find_subjects
from blklab.md.audit.rule import list_names
from blklab.md.images import make_arrays
from blklab.md.inventory import add_geometry_of_superblocks, join_containers
from blklab.md.levels import REDUNDANT
from blklab.md.log_events import LogEvent, find_events
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.pasted import detail, examine
from blklab.md.pasted.blocks import clean_lines, find_blocks
from blklab.md.pasted.mdstat import StatArray, find_arrays
from blklab.md.superblocks import Superblock

MOST_BYTES = 32 << 20  # Of all texts together
MOST_PATHS = 24  # Disks in a command
NO_SUPERBLOCK = re.compile(r"No md superblock detected on (/dev/\S+?)\.?$")
LIST_HEADING = re.compile(r"^\s*Bad-blocks on (\S+?):\s*$")
NO_LIST = re.compile(r"No bad-blocks list configured on (/dev/\S+)")
LIST_ENTRY = re.compile(r"^\s*(\d{1,19}) for (\d{1,6}) sectors\s*$")

EXPECTED = (
    "expected the output of `mdadm --examine` (of each disk), `mdadm --detail` (of each array), /proc/mdstat or dmesg; "
    "for an image of a disk: --image"
)


@dataclass
class PastedOutputs:
    """The outputs that were found in texts."""

    members: dict[str, ArrayMember] = field(default_factory=dict)  # With superblocks, by path; the last one counts
    details: list[Array] = field(default_factory=list)
    stats: dict[str, StatArray] = field(default_factory=dict)  # By name; the last one counts
    strays: list[ArrayMember] = field(default_factory=list)
    lists: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # Entries of bad-block lists, by path
    unread: list[str] = field(default_factory=list)
    has_mdstat: bool = False  # Also without an array in it
    log: list[LogEvent] = field(default_factory=list)  # Of all texts

    @property
    def is_empty(self) -> bool:
        return not (self.members or self.details or self.stats or self.strays or self.has_mdstat or self.log)


def read_texts(texts: Sequence[tuple[str, str]]) -> Inventory:
    """Returns the arrays that texts, with their names, are about. Raises UsageError if there are none."""
    outputs = PastedOutputs()
    for _, text in texts:
        _find_outputs(clean_lines(text[:MOST_BYTES]), outputs)
    if outputs.is_empty:
        files = ", ".join(name for name, _ in texts)
        reason = f"; {outputs.unread[0]}" if outputs.unread else ""
        raise UsageError(f"{files}: no array in this text{reason}: {EXPECTED}")
    _add_lists(outputs)
    arrays = [_with_superblocks(array, outputs) for array in outputs.details]
    array_names = {array.name for array in arrays}
    uuids = {array.uuid for array in arrays if array.uuid}
    for stat in outputs.stats.values():
        if stat.name in array_names:
            arrays = [_with_stat(array, stat) if array.name == stat.name else array for array in arrays]
            continue
        array = _with_superblocks(_array_of_stat(stat, outputs), outputs)
        if not array.uuid or array.uuid not in uuids:
            arrays.append(array)
    arrays = join_containers([add_geometry_of_superblocks(array) for array in arrays])
    live_uuids = {array.uuid for array in arrays if array.uuid}
    others = [member for member in outputs.members.values() if _uuid(member) not in live_uuids]
    arrays += make_arrays(others)
    unseen = list(_describe_missing_outputs(arrays))
    if outputs.has_mdstat and not arrays:
        unseen.append("/proc/mdstat: it shows no array; to see disks of arrays that are not assembled: mdadm --examine")
    inventory = Inventory(tuple(arrays), tuple(outputs.strays), log=tuple(outputs.log))
    unseen += _describe_outputs_for_log(inventory)
    return replace(inventory, unseen=(*unseen, *outputs.unread))


def _find_outputs(lines: list[str], outputs: PastedOutputs) -> None:
    for block in find_blocks(lines):
        if examine.is_superblock(block):
            superblock = examine.read_superblock(block)
            path = block.device or _own_path(block.rows) or f"member {len(outputs.members) + 1}"
            if superblock is None:
                missing = list_names([name for name in examine.NEEDED if name not in block.fields])
                reason = f"it lacks {missing}" if missing else "a line is damaged"
                outputs.unread.append(f"{path}: not seen: its output of mdadm --examine is not complete: {reason}")
            else:
                outputs.members[path] = _member(path, superblock)
        elif kind := _foreign_kind(block.fields.get("magic", "")):
            outputs.strays.append(ArrayMember(_short(block.device), block.device, foreign=(kind,)))
        elif detail.is_array(block):
            array = detail.read_array(block)
            if array is None:
                outputs.unread.append(f"{block.device}: not seen: the output of mdadm --detail is not complete")
            else:
                outputs.details = [other for other in outputs.details if other.path != array.path]
                outputs.details.append(array)
    outputs.has_mdstat = outputs.has_mdstat or any(line.strip().startswith("Personalities :") for line in lines)
    for stat in find_arrays(lines):
        outputs.stats[stat.name] = stat
    _find_lists(lines, outputs)
    outputs.log += find_events(lines)


def _find_lists(lines: list[str], outputs: PastedOutputs) -> None:
    """Reads `mdadm --examine-badblocks`, and members without a superblock."""
    entries: list[tuple[int, int]] | None = None
    for line in lines:
        stray = NO_SUPERBLOCK.search(line)
        heading = LIST_HEADING.match(line)
        entry = LIST_ENTRY.match(line)
        if stray:
            outputs.strays.append(ArrayMember(_short(stray[1]), stray[1]))
        if heading:
            entries = outputs.lists.setdefault(heading[1], [])
        elif entry and entries is not None:
            entries.append((int(entry[1]), int(entry[2])))
        elif line.strip():
            entries = None


def _foreign_kind(magic: str) -> str:
    """Returns the name of firmware's metadata by what mdadm prints as their magic; empty for others, as of bitmaps."""
    if magic.startswith("Intel"):
        return "Intel IMSM"
    return "DDF" if magic.upper().startswith("DE11DE11") else ""


def _own_path(rows: Sequence[object]) -> str:
    return getattr(rows[0], "device", "") if rows else ""


def _short(path: str) -> str:
    return path.rpartition("/")[2] or path


def _uuid(member: ArrayMember) -> str:
    return member.superblock.uuid if member.superblock else ""


def _member(path: str, superblock: Superblock) -> ArrayMember:
    unseen = ""
    if superblock.bad_blocks is not None and superblock.bad_blocks.active:
        unseen = f"the text does not show its bad-block list: {command_lines.examine_bad_blocks(path)}"
    return ArrayMember(
        name=_short(path), path=path, slot=superblock.slot, superblock=superblock, data_offset=superblock.data_offset,
        unseen=unseen,
    )  # fmt: skip


def _add_lists(outputs: PastedOutputs) -> None:
    """Adds the entries of bad-block lists to the superblocks of their members."""
    for path, entries in outputs.lists.items():
        member = outputs.members.get(path)
        if member is None or member.superblock is None or member.superblock.bad_blocks is None:
            outputs.unread.append(
                f"{path}: its bad-block list is in the text, its superblock is not: {command_lines.examine_disk(path)}"
            )
            continue
        document = msgspec.to_builtins(member.superblock)
        document["bad_blocks"]["entries"] = [{"sector": sector, "sectors": length} for sector, length in entries]
        superblock = msgspec.convert(document, Superblock)
        outputs.members[path] = replace(member, superblock=superblock, unseen="")


def _with_superblocks(array: Array, outputs: PastedOutputs) -> Array:
    """Returns an array with the superblocks of its members; those of others of this array are outside of it."""
    members = []
    for member in array.members:
        examined = outputs.members.get(member.path)
        if examined is None or (array.uuid and _uuid(examined) != array.uuid):
            members.append(replace(member, unseen="the text does not show its superblock"))
            continue
        slot = examined.slot if member.slot is None and "spare" not in member.states else member.slot
        if "faulty" in member.states:
            slot = None
        members.append(replace(examined, slot=slot, states=member.states))
    paths = {member.path for member in members}
    outside = [
        member
        for path, member in outputs.members.items()
        if path not in paths and array.uuid and _uuid(member) == array.uuid
    ]
    superblocks = [member.superblock for member in members if member.superblock]
    return replace(
        array,
        members=tuple(members),
        outside=tuple(outside),
        uuid=array.uuid or (superblocks[0].uuid if superblocks else ""),
        label=array.label or (superblocks[0].name if superblocks else ""),
    )


def _with_stat(array: Array, stat: StatArray) -> Array:
    """Returns an array of mdadm --detail with what only /proc/mdstat has: how fast a pass is."""
    if stat.sync is None or array.state == "inactive":
        return array
    return replace(array, sync=stat.sync)


def _array_of_stat(stat: StatArray, outputs: PastedOutputs) -> Array:
    """Returns an array of /proc/mdstat: slots and UUID are those of the superblocks, if the text has them."""
    members = []
    uuids = set()
    for stat_member in stat.members:
        path = f"/dev/{stat_member.name.replace('!', '/')}"
        examined = outputs.members.get(path)
        is_active = not {"faulty", "spare", "journal"}.intersection(stat_member.states)
        is_running = is_active and stat.state != "inactive"
        states = ("in_sync", *stat_member.states) if is_running else stat_member.states
        slot = _slot_of_number(stat, stat_member.number) if is_running else None
        members.append(ArrayMember(name=stat_member.name, path=path, slot=slot, states=states))
        if examined is not None:
            uuids.add(_uuid(examined))
    degraded = None
    if stat.raid_disks is not None and stat.working is not None and stat.level in REDUNDANT:
        degraded = max(0, stat.raid_disks - stat.working)
    level_number = examine.LEVEL_NUMBERS.get(stat.level, 0)
    layout = int(stat.layout) if stat.layout.isdecimal() else examine.read_layout(stat.layout, level_number)
    is_container = stat.metadata in {"external:imsm", "external:ddf"}
    return Array(
        name=stat.name, path=f"/dev/{stat.name}", uuid=uuids.pop() if len(uuids) == 1 else "",
        level="container" if is_container else stat.level, layout=layout, chunk=stat.chunk,
        raid_disks=stat.raid_disks or 0, metadata=stat.metadata, live=True, members=tuple(members),
        size=(stat.size_kib << 10) or None, state=stat.state, degraded=degraded, sync=stat.sync, bitmap=stat.bitmap,
        reshaping=stat.sync is not None and stat.sync.action == "reshape",
    )  # fmt: skip


def _slot_of_number(stat: StatArray, number: int) -> int | None:
    """Returns the slot of a working member with a number in brackets; None if it is not known.

    Members that were there when the array was made have the number of their slot; md gives a later one a number that is
    not below the number of slots (drivers/md/md.c, `bind_rdev_to_array`).
    """
    is_slot = number < len(stat.slots) and stat.slots[number] == "U"
    return number if is_slot else None


def _describe_missing_outputs(arrays: Sequence[Array]) -> Iterable[str]:
    """Yields what the text does not show, with the commands that show it: one line for all arrays where possible."""
    for array in arrays:
        if array.absent and not array.external:
            slots = list_names([str(slot) for slot in array.absent])
            plural = "s" if array.absent[1:] else ""
            yield (
                f"{array.name}: the text does not show the member{plural} of slot{plural} {slots}: "
                "mdadm --examine of all disks and partitions of this size"
            )
    names = []
    paths: list[str] = []
    for array in arrays:
        missing = [member.path for member in array.members if member.superblock is None]
        if array.live and not array.external and missing:
            names.append(array.name)
            paths += missing
    if paths:
        command = command_lines.examine_disks(list(dict.fromkeys(paths))[:MOST_PATHS])
        suffix = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
        yield f"{list_names(names)}: the text does not show the superblocks of {len(paths)} members: {command}{suffix}"
    undetailed = [array for array in arrays if array.live and not array.external and not array.uuid]
    if undetailed:
        command = command_lines.show_details([array.path for array in undetailed])
        yield f"{list_names([array.name for array in undetailed])}: the text does not show details: {command}"


def _describe_outputs_for_log(inventory: Inventory) -> Iterable[str]:
    """Yields which outputs are missing for the arrays and disks that only the kernel's log names, in one line."""
    subjects = [subject for subject in find_subjects(inventory) if subject.array is None]
    names = [subject.name for subject in subjects]
    paths = [f"/dev/{device}" for subject in subjects for device in sorted(subject.devices)]
    if not names and inventory.log and not inventory.arrays:
        names = ["kernel log"]
        paths = [f"/dev/{name}" for name in sorted({event.device for event in inventory.log if event.device})]
    if not names:
        return
    command = command_lines.examine_disks(paths[:MOST_PATHS]) if paths else "mdadm --examine of all disks"
    yield f"{list_names(names)}: the text shows only the kernel's log, add: {command}; cat /proc/mdstat"
