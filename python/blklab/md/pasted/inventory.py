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
from blklab.md.levels import PARITIES, REDUNDANT
from blklab.md.log_events import LogEvent, find_events
from blklab.md.model import (
    FIELDS_NOT_IN_TEXT,
    LIST_NOT_IN_TEXT,
    NOT_IN_TEXT,
    Array,
    ArrayMember,
    DiskHealth,
    Inventory,
    MemberBitmap,
    PhysicalDisk,
)
from blklab.md.pasted import detail, examine
from blklab.md.pasted.bitmap import is_bitmap, read_bitmap
from blklab.md.pasted.blocks import TextBlock, clean_lines, find_blocks
from blklab.md.pasted.firmware import FirmwareDisk, add_firmware_volumes, find_disks, name_containers
from blklab.md.pasted.listed_devices import (
    ListedDevice,
    add_listed_devices,
    describe_unexamined,
    find_devices,
    is_array,
    make_listed_arrays,
)
from blklab.md.pasted.mdstat import StatArray, find_arrays
from blklab.md.pasted.partial import PartialMember, complete_members, is_partial
from blklab.md.pasted.smartctl import find_outputs
from blklab.md.pasted.versions import (
    DetailedArray,
    ExaminedMember,
    ListedStat,
    Place,
    PlacedArray,
    choose_details,
    choose_members,
    choose_stats,
    drop_outdated_details,
    join_names,
)
from blklab.md.superblocks import Superblock

MOST_BYTES = 32 << 20  # Of all texts together
MOST_PATHS = 24  # Disks in a command
DEFAULT_TIMEOUT_S = 30  # drivers/scsi/sd.h, SD_TIMEOUT
NO_SUPERBLOCK = re.compile(r"No (?:md superblock detected|super block found) on (/dev/\S+?)\.?(?: \(.*)?$")
WHOLE_DISK = re.compile(r"/dev/(?:[shv]d[a-z]{1,3}|nvme\d+n\d+)")
DENIED = re.compile(r"mdadm: (?:cannot|failed to) open (?:device )?(/dev/\S+?): Permission denied")
LIST_HEADING = re.compile(r"^\s*Bad-blocks on (\S+?):\s*$")
LIST_ENTRY = re.compile(r"^\s*(\d{1,19}) for (\d{1,6}) sectors\s*$")

EXPECTED = (
    "expected the output of `mdadm --examine` (of each disk), `mdadm --detail` (of each array), /proc/mdstat, lsblk, "
    "blkid or dmesg; "
    "for an image of a disk: --image"
)


@dataclass
class PastedOutputs:
    """The outputs that were found in texts, all of them, in their order."""

    examined: list[ExaminedMember] = field(default_factory=list)
    detailed: list[DetailedArray] = field(default_factory=list)
    stats: list[ListedStat] = field(default_factory=list)
    partial: list[PartialMember] = field(default_factory=list)  # A few fields of mdadm --examine
    foreign: list[ArrayMember] = field(default_factory=list)  # Disks with metadata of firmware
    without_superblock: list[tuple[str, Place]] = field(default_factory=list)  # Paths
    firmware_disks: list[FirmwareDisk] = field(default_factory=list)  # Those of `foreign` with Intel IMSM
    lists: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # Entries of bad-block lists, by path
    partitioned: list[str] = field(default_factory=list)  # Paths of disks with a partition table, by mdadm --examine
    denied: list[str] = field(default_factory=list)  # Paths that mdadm could not open, as a plain user
    bitmaps: dict[str, MemberBitmap] = field(default_factory=dict)  # Of `mdadm --examine-bitmap`, by path
    devices: list[ListedDevice] = field(default_factory=list)  # Of lsblk and blkid
    healths: dict[str, DiskHealth] = field(default_factory=dict)  # Of smartctl, by path; the last one counts
    has_mdstat: bool = False  # Also without an array in it
    notes: list[str] = field(default_factory=list)  # What is not complete, or is there several times
    log: list[LogEvent] = field(default_factory=list)  # Of all texts

    @property
    def is_empty(self) -> bool:
        found = (
            self.examined,
            self.detailed,
            self.stats,
            self.foreign,
            self.without_superblock,
            self.healths,
            self.log,
            self.bitmaps,
            self.denied,
            self.partial,
            [device for device in self.devices if device.is_member or is_array(device)],
        )
        return not any(found) and not self.has_mdstat


def read_texts(texts: Sequence[tuple[str, str]]) -> Inventory:
    """Returns the arrays that texts, with their names, are about. Raises UsageError if there are none."""
    outputs = PastedOutputs()
    for number, (_, text) in enumerate(texts):
        _find_outputs(clean_lines(text[:MOST_BYTES]), number, outputs)
    if outputs.is_empty:
        files = ", ".join(name for name, _ in texts)
        reason = f"; {outputs.notes[0]}" if outputs.notes else ""
        raise UsageError(f"{files}: no array in this text{reason}: {EXPECTED}")
    notes = outputs.notes
    if outputs.partial:
        shown = [output.array for output in outputs.detailed]
        shown += [_array_of_stat(output.stat, {}) for output in outputs.stats]
        outputs.examined += complete_members(outputs.partial, shown, notes)
    chosen = choose_members(outputs.examined, notes)
    members = _add_lists({path: _member(output) for path, output in chosen.items()}, outputs)
    members = _add_bitmaps(members, outputs)
    strays = _find_strays(outputs, chosen, notes)
    arrays = _join_outputs(outputs, chosen, members)
    live_uuids = {array.uuid for array in arrays if array.uuid}
    others = [member for member in members.values() if _uuid(member) not in live_uuids]
    arrays += make_arrays(others)
    names = {array.name for array in arrays}
    for array in arrays:
        names |= {member.name for member in array.members}
    arrays = add_listed_devices([*arrays, *make_listed_arrays(outputs.devices, names)], outputs.devices)
    examined_paths = {*chosen, *(path for path, _ in outputs.without_superblock)}
    unseen = [*dict.fromkeys(notes), *_describe_denied(outputs, chosen), *_describe_missing_outputs(arrays)]
    unseen += describe_unexamined(arrays, outputs.devices, examined_paths)
    if outputs.has_mdstat and not arrays:
        unseen.append("/proc/mdstat: it shows no array; to see disks of arrays that are not assembled: mdadm --examine")
    arrays = [_forget_bitmap(array) for array in arrays]
    arrays = [_add_covered_disks(array, outputs, set(examined_paths)) for array in arrays]
    disks = _disks(arrays, outputs.healths)
    inventory = Inventory(
        _with_unique_names(arrays),
        strays,
        disks=disks if disks else None,
        log=tuple(outputs.log),
        lists_running=outputs.has_mdstat,
    )
    return replace(inventory, unseen=(*unseen, *_describe_outputs_for_log(inventory)))


def _join_outputs(
    outputs: PastedOutputs, chosen: dict[str, ExaminedMember], members: dict[str, ArrayMember]
) -> list[Array]:
    """Returns the arrays of mdadm --detail and /proc/mdstat with the superblocks of their members."""
    notes = outputs.notes
    details = choose_details(outputs.detailed, notes)
    details = drop_outdated_details(details, chosen.values(), notes)
    placed: list[PlacedArray] = []
    listed = choose_stats(outputs.stats, notes)
    joined: list[ListedStat] = []
    for output in details:
        same_name = [stat for stat in listed if stat.stat.name == output.array.name]
        array = output.array
        if same_name:
            joined += same_name
            array = _join_stat(output, same_name[-1], members, notes)
        array = add_geometry_of_superblocks(_with_superblocks(array, members, notes))
        placed.append(PlacedArray(array, output.place, frozenset(stat.copy for stat in same_name)))
    for stat in listed:
        if stat not in joined:
            array = _with_superblocks(_array_of_stat(stat.stat, members), members, notes)
            placed.append(PlacedArray(add_geometry_of_superblocks(array), stat.place, frozenset({stat.copy})))
    arrays = name_containers(join_names(placed, notes))
    return join_containers(add_firmware_volumes(arrays, outputs.firmware_disks))


def _with_unique_names(arrays: list[Array]) -> tuple[Array, ...]:
    """Returns arrays with a number behind names that several have, as those of two hosts."""
    names: dict[str, int] = {}
    unique_arrays = []
    for array in arrays:
        names[array.name] = names.get(array.name, 0) + 1
        count = names[array.name]
        unique_arrays.append(array if count == 1 else replace(array, name=f"{array.name} ({count})"))
    return tuple(unique_arrays)


def _find_strays(
    outputs: PastedOutputs, chosen: dict[str, ExaminedMember], notes: list[str]
) -> tuple[ArrayMember, ...]:
    """Returns disks without a superblock of md; notes those of which another output shows one."""
    strays = list(outputs.foreign)
    for path, place in dict(outputs.without_superblock).items():
        output = chosen.get(path)
        if output is None:
            strays.append(ArrayMember(_short(path), path))
            continue
        order = "a later output" if place > output.place else "an earlier output"
        notes.append(
            f"{path}: {order} shows no superblock on it: if that is the newer state, its superblock is gone, and what "
            "is said of this member here is the past"
        )
    return tuple(strays)


def _find_outputs(lines: list[str], number: int, outputs: PastedOutputs) -> None:
    """Adds the outputs of the text with this number."""
    for block in find_blocks(lines):
        place = (number, block.line)
        if examine.is_superblock(block):
            _add_superblock(block, place, outputs)
        elif "mbr magic" in block.fields and "magic" not in block.fields and block.device:
            outputs.partitioned.append(block.device)
        elif is_partial(block):
            outputs.partial.append(PartialMember(block, place))
        elif is_bitmap(block):
            bitmap = read_bitmap(block)
            if bitmap is not None and block.device:
                outputs.bitmaps[block.device] = bitmap
        elif kind := _foreign_kind(block.fields.get("magic", "")):
            outputs.foreign.append(ArrayMember(_short(block.device), block.device, foreign=(kind,)))
        elif detail.is_array(block):
            array = detail.read_array(block)
            if array is None:
                outputs.notes.append(f"{block.device}: not seen: the output of mdadm --detail is not complete")
                continue
            events = examine.read_events(block.fields.get("events", "")) or 0
            updated = examine.read_date(block.fields.get("update time", ""))
            outputs.detailed.append(DetailedArray(array, events, updated, place))
    outputs.has_mdstat = outputs.has_mdstat or any(line.strip().startswith("Personalities :") for line in lines)
    outputs.stats += [ListedStat(stat, (number, stat.line)) for stat in find_arrays(lines)]
    for smart_text in find_outputs(lines):
        if smart_text.device:
            outputs.healths[smart_text.device] = smart_text.health
        else:
            outputs.notes.append("smartctl: not seen: the text does not say which disk an output of it is about")
    _find_lists(lines, number, outputs)
    outputs.firmware_disks += find_disks(lines)
    outputs.devices += find_devices(lines)
    outputs.log += find_events(lines)


def _add_superblock(block: TextBlock, place: Place, outputs: PastedOutputs) -> None:
    superblock = examine.read_superblock(block)
    own_paths = [row.device for row in block.rows if row.is_own and row.device]
    path = block.device or next(iter(own_paths), f"member {len(outputs.examined) + 1}")
    if superblock is not None:
        outputs.examined.append(ExaminedMember(path, superblock, place))
        return
    missing = list_names([name for name in examine.NEEDED if name not in block.fields])
    reason = f"it lacks {missing}" if missing else "a line is damaged"
    outputs.notes.append(f"{path}: not seen: its output of mdadm --examine is not complete: {reason}")


def _disks(arrays: Sequence[Array], healths: dict[str, DiskHealth]) -> tuple[PhysicalDisk, ...]:
    """Returns the disks of smartctl's outputs, with the arrays of their partitions."""
    disks = []
    for path, health in healths.items():
        partition = re.compile(rf"{re.escape(path)}(?:p?\d+)?")
        names = []
        for array in arrays:
            if any(partition.fullmatch(member.path) for member in array.members):
                names.append(array.name)
        disks.append(
            PhysicalDisk(_short(path), path, tuple(names), health, timeout=DEFAULT_TIMEOUT_S, timeout_is_default=True)
        )
    return tuple(disks)


def _find_lists(lines: list[str], number: int, outputs: PastedOutputs) -> None:
    """Reads `mdadm --examine-badblocks`, and members without a superblock."""
    entries: list[tuple[int, int]] | None = None
    for line_number, line in enumerate(lines):
        stray = NO_SUPERBLOCK.search(line)
        heading = LIST_HEADING.match(line)
        entry = LIST_ENTRY.match(line)
        denied = DENIED.search(line)
        if denied:
            outputs.denied.append(denied[1])
        if stray:
            outputs.without_superblock.append((stray[1], (number, line_number)))
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


def _short(path: str) -> str:
    return path.rpartition("/")[2] or path


def _uuid(member: ArrayMember) -> str:
    return member.superblock.uuid if member.superblock else ""


def _member(output: ExaminedMember) -> ArrayMember:
    superblock = output.superblock
    if output.is_partial:
        return ArrayMember(
            name=_short(output.path),
            path=output.path,
            slot=superblock.slot,
            superblock=superblock,
            unseen=FIELDS_NOT_IN_TEXT,
        )
    has_unread_list = superblock.bad_blocks is not None and superblock.bad_blocks.active
    return ArrayMember(
        name=_short(output.path), path=output.path, slot=superblock.slot, superblock=superblock,
        data_offset=superblock.data_offset, unseen=LIST_NOT_IN_TEXT if has_unread_list else "",
    )  # fmt: skip


def _add_lists(members: dict[str, ArrayMember], outputs: PastedOutputs) -> dict[str, ArrayMember]:
    """Returns members with the entries of their bad-block lists."""
    for path, entries in outputs.lists.items():
        member = members.get(path)
        if member is None or member.superblock is None or member.superblock.bad_blocks is None:
            outputs.notes.append(
                f"{path}: its bad-block list is in the text, its superblock is not: {command_lines.examine_disk(path)}"
            )
            continue
        document = msgspec.to_builtins(member.superblock)
        document["bad_blocks"]["entries"] = [{"sector": sector, "sectors": length} for sector, length in entries]
        superblock = msgspec.convert(document, Superblock)
        members = {**members, path: replace(member, superblock=superblock, unseen="")}
    return members


def _add_bitmaps(members: dict[str, ArrayMember], outputs: PastedOutputs) -> dict[str, ArrayMember]:
    """Returns members with the outputs of `mdadm --examine-bitmap`."""
    bitmaps = outputs.bitmaps
    for path in bitmaps:
        if path not in members:
            outputs.notes.append(
                f"{path}: its bitmap is in the text, its superblock is not: {command_lines.examine_disk(path)}"
            )
    return {path: replace(member, member_bitmap=bitmaps.get(path)) for path, member in members.items()}


def _with_superblocks(array: Array, members: dict[str, ArrayMember], notes: list[str]) -> Array:
    """Returns an array with the superblocks of its members; those of others of this array are outside of it.

    If the slots of a table and of the superblocks contradict each other, the names of disks have changed between the
    outputs: then a superblock belongs to the row with its slot.
    """
    of_array = [member for member in members.values() if not array.uuid or _uuid(member) == array.uuid]
    by_path = {member.path: member for member in of_array}
    rows = [member for member in array.members if member.slot is not None and member.path in by_path]
    contradictions = [row.name for row in rows if by_path[row.path].slot not in {None, row.slot}]
    if contradictions:
        notes.append(
            f"{array.name}: the slots of {list_names(contradictions)} in the table of mdadm --detail are others than "
            "in the superblocks: the names of disks have changed between the outputs; the superblocks count"
        )
        by_slot = {member.slot: member for member in of_array if member.slot is not None}
        by_path = {row.path: by_slot[row.slot] for row in array.members if row.slot in by_slot}
    joined = []
    for row in array.members:
        examined = by_path.get(row.path)
        if examined is None:
            joined.append(replace(row, unseen=NOT_IN_TEXT))
            continue
        slot = examined.slot if row.slot is None and "spare" not in row.states else row.slot
        joined.append(replace(examined, slot=None if "faulty" in row.states else slot, states=row.states))
    paths = {member.path for member in joined}
    outside = [member for member in of_array if array.uuid and member.path not in paths]
    superblocks = [member.superblock for member in joined if member.superblock]
    return replace(
        array,
        members=tuple(joined),
        outside=tuple(outside),
        uuid=array.uuid or (superblocks[0].uuid if superblocks else ""),
        label=array.label or (superblocks[0].name if superblocks else ""),
    )


def _join_stat(output: DetailedArray, listed: ListedStat, members: dict[str, ArrayMember], notes: list[str]) -> Array:
    """Returns an array of mdadm --detail with what only /proc/mdstat has: how fast a pass is, and replacements.

    If one of them shows it running and the other one does not, the later one in the text counts.
    """
    array, stat = output.array, listed.stat
    if (stat.state == "inactive") != (array.state == "inactive"):
        is_later = listed.place > output.place
        later = "/proc/mdstat" if is_later else "mdadm --detail"
        state = "inactive" if (stat.state == "inactive") == is_later else "running"
        notes.append(
            f"{array.name}: mdadm --detail and /proc/mdstat are of different times: one shows it running, the other "
            f"one inactive; {later} is later in the text, so it counts as {state}"
        )
        if is_later:
            of_stat = _array_of_stat(stat, members)
            return replace(of_stat, uuid=array.uuid, label=array.label)
        return array
    if stat.state == "inactive":
        return array
    flags = {f"/dev/{member.name}": member.states for member in stat.members}
    rows = []
    for member in array.members:
        states = dict.fromkeys((*member.states, *flags.get(member.path, ())))
        rows.append(replace(member, states=tuple(states)))
    return replace(array, members=tuple(rows), sync=array.sync if stat.sync is None else stat.sync)


def _array_of_stat(stat: StatArray, examined_members: dict[str, ArrayMember]) -> Array:
    """Returns an array of /proc/mdstat: slots and UUID are those of the superblocks, if the text has them."""
    members = []
    uuids = set()
    for stat_member in stat.members:
        path = f"/dev/{stat_member.name.replace('!', '/')}"
        examined = examined_members.get(path)
        is_active = not {"faulty", "spare", "journal"}.intersection(stat_member.states)
        is_running = is_active and stat.state != "inactive"
        states = ("in_sync", *stat_member.states) if is_running else stat_member.states
        slot = _slot_of_number(stat, stat_member.number) if is_running else None
        if is_running and examined is not None and examined.slot is not None:
            slot = examined.slot  # After a reshape that added disks, numbers below that of slots may be others
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
        member_sectors=_member_sectors(stat, layout), size=(stat.size_kib << 10) or None, state=stat.state,
        degraded=degraded, sync=stat.sync, bitmap=stat.bitmap,
        reshaping=stat.sync is not None and stat.sync.action == "reshape",
    )  # fmt: skip


def _member_sectors(stat: StatArray, layout: int) -> int:
    """Returns the sectors that an array uses on each member, by its size; 0 if that is not known."""
    disks = stat.raid_disks or 0
    if stat.level == "raid1":
        return 2 * stat.size_kib
    if stat.level in PARITIES and disks > PARITIES[stat.level]:
        return 2 * stat.size_kib // (disks - PARITIES[stat.level])
    copies = (layout & 0xFF) * (layout >> 8 & 0xFF)
    return 2 * stat.size_kib * copies // disks if stat.level == "raid10" and disks else 0


def _slot_of_number(stat: StatArray, number: int) -> int | None:
    """Returns the slot of a working member with a number in brackets; None if it is not known.

    Members that were there when the array was made have the number of their slot; md gives a later one a number that is
    not below the number of slots (drivers/md/md.c, `bind_rdev_to_array`).
    """
    is_slot = number < len(stat.slots) and stat.slots[number] == "U"
    return number if is_slot else None


def _forget_bitmap(array: Array) -> Array:
    """Returns an array that does not run without what only fields would show that the text does not have."""
    is_partial = any(member.unseen == FIELDS_NOT_IN_TEXT for member in array.members)
    return replace(array, bitmap=None) if is_partial and array.state == "inactive" else array


def _add_covered_disks(array: Array, outputs: PastedOutputs, examined_paths: set[str]) -> Array:
    """Returns an array with the disks that may be missing members, whose superblocks a partition table overwrote."""
    slots = {member.superblock.slot for member in (*array.members, *array.outside) if member.superblock}
    has_whole_disk = any(member.superblock and WHOLE_DISK.fullmatch(member.path) for member in array.members)
    if not has_whole_disk or len(slots - {None}) >= array.raid_disks:
        return array
    covered = []
    for path in dict.fromkeys(outputs.partitioned):
        is_used = any(other.startswith(path) for other in examined_paths)
        if WHOLE_DISK.fullmatch(path) and not is_used:
            covered.append(path)
    return replace(array, covered=tuple(covered))


def _describe_denied(outputs: PastedOutputs, chosen: dict[str, ExaminedMember]) -> Iterable[str]:
    """Yields the disks that mdadm could not open, unless another output shows their superblocks."""
    paths = [path for path in dict.fromkeys(outputs.denied) if path not in chosen]
    if paths:
        command = command_lines.examine_disks(paths[:MOST_PATHS])
        yield f"{list_names(paths)}: not seen: permission denied: run mdadm as root: sudo {command}"


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
        count = "superblock of 1 member" if len(paths) == 1 else f"superblocks of {len(paths)} members"
        yield f"{list_names(names)}: the text does not show the {count}: {command}{suffix}"
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
