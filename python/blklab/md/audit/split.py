"""Finds arrays whose members were written to apart from each other: two halves with the same UUID."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from blklab.diagnostic import Diagnostic
from blklab.grouping import by_key
from blklab.md.audit.rule import list_names, moment_text
from blklab.md.model import Array, ArrayMember, Inventory


@dataclass(frozen=True)
class Half:
    """A part of the members of an array, which have the same history."""

    name: str  # Of the array, or of the members if they are in none
    members: tuple[ArrayMember, ...]

    @property
    def events(self) -> int:
        return max((member.superblock.events for member in self.members if member.superblock), default=0)

    @property
    def updated(self) -> int:
        return max((member.superblock.updated for member in self.members if member.superblock), default=0)


@dataclass(frozen=True)
class Split:
    """Two halves of one array, and the assembled arrays that they are in."""

    arrays: tuple[str, ...]  # Names; the finding is about the first
    uuid: str
    first: Half
    second: Half

    @property
    def is_diverged(self) -> bool:
        """Whether both were written to without the other, as far as their superblocks tell."""
        return any(exclude_each_other(one, other) for one in self.first.members for other in self.second.members)


def check_split(inventory: Inventory) -> Iterator[Diagnostic]:
    """Members of one array were written to apart from each other: adding one half to the other mixes them."""
    for split in find_splits(inventory):
        yield Diagnostic("split", "critical", split.arrays[0], _describe_split(split), _split_lines(split))


def _describe_split(split: Split) -> str:
    first = split.first
    second = split.second
    newer = max((first, second), key=lambda half: (half.events, half.updated))
    older = second if newer is first else first
    clause = ", and each was written to without the other" if split.is_diverged else ""
    if newer.events:
        order = (
            f"Newer by events: {newer.name} ({newer.events:,} events, last written {moment_text(newer.updated)}); "
            f"{older.name} has {older.events:,}, last written {moment_text(older.updated)}"
        )
    else:
        order = "Which is newer is not known: run blklab as root"
    since = ". They have differed since a time before that" if split.is_diverged and newer.events else ""
    return (
        f"{first.name} and {second.name} are parts of the same array (UUID {split.uuid}){clause}: do not add a member "
        f"of one to the other, because md may mix them without a word. {order}{since}"
    )


def _split_lines(split: Split) -> tuple[str, ...]:
    if not split.is_diverged:
        return (f"# Find out why {split.second.name} is not in {split.first.name}, and which has the right files.",)
    return (
        "# Decide which half is right, by its files. Mount the other read-only, and copy what only it has.",
        "# Only then can the other half be wiped and added. Back up both first.",
    )


def find_splits(inventory: Inventory) -> Iterator[Split]:
    """Yields the pairs of halves in an inventory: of two arrays, of an array and its members outside, of images."""
    array_uuids = [(array, array.uuid) for array in inventory.arrays if array.uuid and not array.external]
    for uuid, arrays in by_key((uuid, array) for array, uuid in array_uuids).items():
        for first, second in combinations(arrays, 2):
            names = (first.name, second.name)
            yield Split(names, uuid, Half(first.name, first.members), Half(second.name, second.members))
    for array, uuid in array_uuids:
        halves = list(_halves_outside(array, inventory.unassembled))
        halves += _halves_within(array)
        for half in halves:
            members = tuple(member for member in array.members if member not in half.members)
            name = array.name if array.live else list_names([member.name for member in members])
            yield Split((array.name,), uuid, Half(name, members), half)


def _halves_outside(array: Array, other_arrays: Sequence[Array]) -> Iterator[Half]:
    """Yields members outside of an array that are newer than it, or that were written to without it."""
    outside = list(array.outside)
    for other in other_arrays:
        if other.uuid == array.uuid:
            outside += [member for member in other.members if member not in outside]
    array_half = Half(array.name, array.members)
    newer = []
    for member in outside:
        superblock = member.superblock
        if superblock is None or not superblock.accepted or superblock.slot is None:
            continue
        is_known = any(inside.superblock for inside in array.members)  # A text may not show the superblocks inside
        has_newer = superblock.events > array_half.events + 1 or superblock.updated > array_half.updated > 0
        has_newer = has_newer and is_known
        if has_newer or any(exclude_each_other(member, inside) for inside in array.members):
            newer.append(member)
    if newer:
        yield Half(list_names([member.path for member in newer]), tuple(newer))


def _halves_within(array: Array) -> Iterator[Half]:
    """Yields the members of an array that does not run which were written to without its newest member."""
    if array.live and array.state != "inactive":
        return
    members = [member for member in array.distinct if member.superblock and member.superblock.accepted]
    newest = max(members, key=lambda member: member.superblock.events if member.superblock else 0, default=None)
    diverged_members = [member for member in members if newest is not None and exclude_each_other(member, newest)]
    if diverged_members:
        yield Half(list_names([member.name for member in diverged_members]), tuple(diverged_members))


def exclude_each_other(one: ArrayMember, other: ArrayMember) -> bool:
    """Whether each of two members says that the other is missing: both were written to without the other.

    A member that failed does not say so: md does not write to it any more.
    """
    return _says_missing(one, other) and _says_missing(other, one)


def _says_missing(member: ArrayMember, other: ArrayMember) -> bool:
    if member.superblock is None or other.superblock is None:
        return False
    slot = other.superblock.slot
    present = member.superblock.present
    return slot is not None and slot < len(present) and not present[slot]
