"""Chooses among several outputs about one member or one array, as of different times, and says that there are several.

A text often has outputs from before and after an accident, or of two hosts. Nothing is dropped without a word: event
counts and dates decide, then the place in the text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from blklab.grouping import by_key
from blklab.md.audit.rule import list_names, moment_text
from blklab.md.model import Array
from blklab.md.pasted.mdstat import StatArray
from blklab.md.superblocks import Superblock

Place = tuple[int, int]
"""Where an output is: the number of the text, and of the line."""


@dataclass(frozen=True)
class ExaminedMember:
    """An output of `mdadm --examine`."""

    path: str
    superblock: Superblock
    place: Place
    is_partial: bool = False  # The text shows only some of its fields

    @property
    def age(self) -> tuple[int, int, Place]:
        """What sorts outputs about one member, the newest last."""
        return self.superblock.events, self.superblock.updated, self.place


@dataclass(frozen=True)
class DetailedArray:
    """An output of `mdadm --detail`."""

    array: Array
    events: int
    updated: int  # Seconds since 1970, without time zone
    place: Place

    @property
    def age(self) -> tuple[int, int, Place]:
        """What sorts outputs about one array, the newest last."""
        return self.updated, self.events, self.place


@dataclass(frozen=True)
class ListedStat:
    """An array of a copy of /proc/mdstat."""

    stat: StatArray
    place: Place

    @property
    def copy(self) -> Place:
        """The number of the text, and of the copy of /proc/mdstat in it."""
        return self.place[0], self.stat.copy


def choose_members(examined: Sequence[ExaminedMember], notes: list[str]) -> dict[str, ExaminedMember]:
    """Returns the newest output of each member, by its path; adds what must be known about the others to `notes`."""
    newest: list[ExaminedMember] = []
    repeated = []
    for outputs in by_key((_identity(output), output) for output in examined).values():
        last = max(outputs, key=lambda output: output.age)
        newest.append(last)
        paths = dict.fromkeys(output.path for output in outputs)
        if len(paths) > 1:
            notes.append(
                f"{list_names(list(paths))}: the same member by its device UUID: the names of disks have changed "
                f"between the outputs; the one with the most events counts, as {last.path}"
            )
        if len({output.superblock.events for output in outputs}) > 1:
            repeated.append(last.path)
    if repeated:
        notes.append(f"{list_names(repeated)}: several outputs of different times: the one with the most events counts")
    chosen: dict[str, ExaminedMember] = {}
    for output in sorted(newest, key=lambda candidate: (candidate.superblock.created, candidate.age)):
        older = chosen.get(output.path)
        if older is not None:
            notes.append(_describe_older(older, output))
        chosen[output.path] = output
    return chosen


def _identity(output: ExaminedMember) -> tuple[str, str]:
    return output.superblock.uuid, output.superblock.device or output.path


def _describe_older(older: ExaminedMember, output: ExaminedMember) -> str:
    """Returns what a superblock says that another output of the same disk does not have any more."""
    superblock = older.superblock
    slot = "no slot" if superblock.slot is None else f"slot {superblock.slot}"
    facts = (
        f"{superblock.level_name} of {superblock.raid_disks}, UUID {superblock.uuid}, made "
        f"{moment_text(superblock.created)}, {superblock.events:,} events, {slot}"
    )
    if superblock.uuid == output.superblock.uuid:
        return f"{output.path}: another output with this name is about another member of the array ({facts})"
    return (
        f"{output.path}: another output shows a superblock of an older array ({facts}). If someone used --create, keep "
        "that output: it has the level, the order and the data offset of the data"
    )


def choose_details(detailed: Sequence[DetailedArray], notes: list[str]) -> list[DetailedArray]:
    """Returns the newest output of each array: arrays of one path with other UUIDs are those of other hosts."""
    groups = by_key(((output.array.path, output.array.uuid), output) for output in detailed)
    newest = [max(outputs, key=lambda output: output.age) for outputs in groups.values()]
    for path, outputs in by_key((output.array.path, output) for output in newest).items():
        if len(outputs) > 1:
            uuids = list_names([output.array.uuid or "unknown" for output in outputs])
            notes.append(f"{path}: outputs about several arrays with this name (UUIDs {uuids}): of several hosts?")
    return newest


def choose_stats(listed: Sequence[ListedStat], notes: list[str]) -> list[ListedStat]:
    """Returns the last copy of each array of /proc/mdstat; one with other disks is an array of another host."""
    chosen: list[ListedStat] = []
    for output in sorted(listed, key=lambda candidate: candidate.place):
        same_name = [other for other in chosen if other.stat.name == output.stat.name]
        replaced = [other for other in same_name if _have_common_disk(other.stat, output.stat)]
        if same_name and not replaced:
            notes.append(f"{output.stat.name}: /proc/mdstat shows it with other disks too: of several hosts?")
        chosen = [other for other in chosen if other not in replaced]
        chosen.append(output)
    return chosen


def _have_common_disk(first: StatArray, second: StatArray) -> bool:
    names = {member.name for member in first.members}
    return not names or not second.members or bool(names & {member.name for member in second.members})


def drop_outdated_details(
    details: Iterable[DetailedArray], members: Iterable[ExaminedMember], notes: list[str]
) -> list[DetailedArray]:
    """Returns the outputs of `mdadm --detail` that are not older than the superblocks of the array."""
    kept = []
    superblocks = [member.superblock for member in members]
    for output in details:
        later = [
            superblock
            for superblock in superblocks
            if superblock.uuid == output.array.uuid and superblock.events > output.events + SLACK_EVENTS
        ]
        if later and output.updated and max(superblock.updated for superblock in later) > output.updated:
            notes.append(
                f"{output.array.path}: the output of mdadm --detail ({output.events:,} events) is older than the "
                f"superblocks ({max(superblock.events for superblock in later):,} events): the superblocks count"
            )
        else:
            kept.append(output)
    return kept


SLACK_EVENTS = 2
"""Events by which outputs of a running array differ because they are printed one after the other."""


@dataclass(frozen=True)
class PlacedArray:
    """An array that runs, or is assembled, and where the text shows it."""

    array: Array
    place: Place
    copies: frozenset[Place] = frozenset()  # Of /proc/mdstat: the number of the text, and that of the copy in it


def join_names(arrays: Sequence[PlacedArray], notes: list[str]) -> list[Array]:
    """Returns arrays of which each has one name: the later one in the text, if an array got another name.

    mdadm gives an array another name (md127) if mdadm.conf does not name it, as after a restart. Arrays that one copy
    of /proc/mdstat shows together are several arrays.
    """
    joined: list[PlacedArray] = []
    for entry in sorted(arrays, key=lambda candidate: candidate.place):
        older = next((other for other in joined if _is_same_array(other, entry)), None)
        if older is None:
            joined.append(entry)
            continue
        uuid = entry.array.uuid or older.array.uuid
        identity = f" (UUID {uuid})" if uuid else ""
        notes.append(
            f"{older.array.name}, {entry.array.name}: one array{identity} under two names at different times: "
            f"{entry.array.name} is the later one in the text, and counts"
        )
        joined[joined.index(older)] = PlacedArray(
            _fill_array(entry.array, older.array), entry.place, older.copies | entry.copies
        )
    return [entry.array for entry in joined]


def _is_same_array(older: PlacedArray, later: PlacedArray) -> bool:
    first = older.array
    second = later.array
    if first.name == second.name or older.copies & later.copies or first.external or second.external:
        return False
    first_names = {member.name for member in first.members}
    second_names = {member.name for member in second.members}
    if first.uuid and second.uuid:
        return first.uuid == second.uuid and bool(first_names & second_names)
    return bool(first_names) and first_names == second_names


def _fill_array(array: Array, older: Array) -> Array:
    """Returns an array with what only an older output shows: an output of an inactive array has hardly a field."""
    if array.raid_disks:
        return replace(array, uuid=array.uuid or older.uuid, label=array.label or older.label)
    slots = {member.path: member.slot for member in older.members}
    members = []
    for member in array.members:
        slot = slots.get(member.path) if member.slot is None and member.superblock is None else member.slot
        members.append(replace(member, slot=slot))
    return replace(
        array,
        uuid=array.uuid or older.uuid,
        label=array.label or older.label,
        level=older.level,
        layout=older.layout,
        chunk=older.chunk,
        raid_disks=older.raid_disks,
        member_sectors=array.member_sectors or older.member_sectors,
        size=older.size,
        bitmap=older.bitmap if array.bitmap is None else array.bitmap,
        members=tuple(members),
    )
