"""Which bad ranges have a good copy: compared with a count of each sector's copies, and the recipes that follow."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.md.audit import find_problems
from blklab.md.good_copies import (
    find_lost_ranges,
    find_only_copies,
    find_ranges_only_outside,
    find_rewritable_pages,
    has_garbage_list,
    subtract_ranges,
)
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember, Inventory, merge_ranges
from blklab.md.recipes import NEW_DISK, entries_recipes
from blklab.md.superblocks import SectorRange
from tests.md.crafted import make_superblock

SECTORS, OFFSET = 192, 2048  # Sectors of a member for data, and the first of them
CHUNK = 16  # Sectors
SHAPES = [
    ("raid1", 0, 2), ("raid1", 0, 3), ("raid10", 0x102, 4), ("raid10", 0x102, 3), ("raid10", 0x201, 4),
    ("raid10", 0x10201, 3), ("raid5", 2, 3), ("raid5", 0, 4), ("raid6", 2, 4), ("raid4", 0, 3),
]  # fmt: skip
Entries = dict[int, list[tuple[int, int]]]  # Slot: first sectors without the data offset, and lengths


def array_of(level: str, layout: int, disks: int, entries: Entries, missing: Iterable[int] = ()) -> Array:
    members = tuple(
        ArrayMember(
            name=f"sd{slot}",
            path=f"/dev/sd{slot}",
            slot=slot,
            states=("in_sync",),
            data_offset=OFFSET,
            listed=tuple(SectorRange(OFFSET + first, length) for first, length in entries.get(slot, ())),
        )
        for slot in range(disks)
        if slot not in set(missing)
    )
    chunk = 0 if level == "raid1" else CHUNK * 512
    return Array(
        "md0", "/dev/md0", "", level, layout, chunk, disks, "1.2", True, members, SECTORS, state="clean",
        degraded=disks - len(members),
    )  # fmt: skip


def sectors(ranges: Iterable[SectorRange]) -> set[int]:
    return {sector for at in ranges for sector in range(at.sector, at.end)}


def place_of(array: Array, slot: int, at: int) -> int | None:
    """Returns the array's sector for a member's, None for parity."""
    pieces = array.map_pieces(slot, SectorRange(at, 1))
    assert pieces is not None
    return pieces[0].sector if pieces else None


@pytest.mark.parametrize("layout", [0, 0x100, 0x001, 0x101, 0x505, 3 << 17 | 0x102])
def test_unknown_layouts_have_no_map(layout: int) -> None:
    array = array_of("raid10", layout, 4, {}, set())
    assert (array.sector_map, array.map_pieces(0, SectorRange(0, 1))) == (None, None)


def lost_one_by_one(array: Array) -> set[int]:
    """Returns the array's sectors without a copy, by looking at each sector of each member."""
    good: dict[int, list[int]] = {}
    for member in array.members:
        bad = sectors(member.ranges)
        if array.level in PARITIES:
            bad = {OFFSET + page * 8 + at for page in {(sector - OFFSET) // 8 for sector in bad} for at in range(8)}
        good[member.slot or 0] = [at for at in range(SECTORS) if OFFSET + at not in bad]
    every, present = defaultdict[int, int](int), defaultdict[int, int](int)
    listed = defaultdict[int | None, int](int)
    for slot in range(array.raid_disks):
        held = set(good.get(slot, ()))
        for at in range(SECTORS):
            if array.level in PARITIES:
                place = place_of(array, slot, at)
                enough = sum(at in good.get(other, ()) for other in range(array.raid_disks))
                readable = at in held or enough >= array.raid_disks - PARITIES[array.level]
            else:
                place = place_of(array, slot, at)
                readable = at in held
            if place is not None:
                every[place] += 1
                present[place] += readable
                listed[place] += slot in good and at not in held
    if array.level in PARITIES:
        rows = {at for slot in good for at in range(SECTORS) if at not in good[slot]}
        listed = defaultdict(int)
        for slot in range(array.raid_disks):
            for at in rows:
                listed[place_of(array, slot, at)] += 1
    # Only places with bad blocks count: what is lost because members are missing is another finding.
    return {place for place in every if not present[place] and listed[place]}


@pytest.mark.parametrize(("level", "layout", "disks"), SHAPES)
@given(data=st.data())
def test_lost_ranges_are_those_without_a_copy(level: str, layout: int, disks: int, data: st.DataObject) -> None:
    entry = st.tuples(st.integers(0, SECTORS - 1), st.integers(1, 40))
    entries = data.draw(st.dictionaries(st.integers(0, disks - 1), st.lists(entry, max_size=4)))
    tolerated = PARITIES.get(level, disks - 1 if level == "raid1" else 1)
    missing = data.draw(st.sets(st.integers(0, disks - 1), max_size=tolerated))
    array = array_of(level, layout, disks, entries, missing)
    lost = find_lost_ranges(array)
    assert sectors(lost) == lost_one_by_one(array)
    for member in array.members:
        without = array_of(level, layout, disks, entries, {*missing, member.slot or 0})
        assert sectors(find_only_copies(array, member)) == lost_one_by_one(without) - sectors(lost)
    assert not {sector // 8 for sector in sectors(lost)} & find_rewritable_pages(array).keys()


@given(*[st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6)] * 2)
def test_subtracted_ranges(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    ranges, minus = (merge_ranges(tuple(SectorRange(*at) for at in given)) for given in (first, second))
    assert sectors(subtract_ranges(ranges, minus)) == sectors(ranges) - sectors(minus)


def test_sectors_behind_the_data_are_not_rewritable() -> None:
    # What is left of an entry across the end of the data, which is within a page, and a lost sector.
    array = array_of("raid1", 0, 2, {0: [(SECTORS - 4, 4), (0, 1)], 1: [(0, 1)]})
    assert not find_rewritable_pages(replace(array, member_sectors=SECTORS - 4))


def lines_of(array: Array, *, adding_fails: bool = False) -> list[str]:
    return [line for recipe in entries_recipes(array, adding_fails=adding_fails) for line in recipe.lines]


def test_two_lists_forbid_to_take_a_member_out() -> None:
    array = array_of("raid1", 0, 2, {0: [(64, 8)], 1: [(128, 8)]})
    lines = lines_of(array)
    commands = [line for line in lines if line[0] != "#"]
    assert not [line for line in commands if "--fail" in line or "--zero-superblock" in line]
    assert commands[0] == "blklab md fix entries /dev/md0"
    assert [*find_rewritable_pages(array)] == [8, 16]
    assert any("taking /dev/sd0 out loses sectors 128 to 135 of /dev/md0" in line for line in lines)
    assert any("taking /dev/sd1 out loses sectors 64 to 71 of /dev/md0" in line for line in lines)
    # A replacement while the old disk is connected reads each sector from a good copy.
    assert f"blklab md fix replace /dev/md0 /dev/sd0 {NEW_DISK}" in commands
    assert not [line for line in commands if "fix remove" in line or "fix rebuild" in line]


def test_one_list_permits_to_take_the_member_out_after_the_rewrite() -> None:
    commands = [line for line in lines_of(array_of("raid1", 0, 2, {0: [(64, 8)]})) if line[0] != "#"]
    assert commands.index("blklab md fix entries /dev/md0") < commands.index("blklab md fix remove /dev/md0 /dev/sd0")
    assert not [line for line in commands if "rebuild" in line]  # no redundancy would be left
    commands = [line for line in lines_of(array_of("raid1", 0, 3, {0: [(64, 8)]})) if line[0] != "#"]
    assert "blklab md fix rebuild /dev/md0 0" in commands


def test_a_member_that_cannot_be_read_forbids_a_rebuild() -> None:
    array = array_of("raid1", 0, 2, {0: [(64, 8)]})
    first, second = array.members
    lines = lines_of(replace(array, members=(first, replace(second, unseen="permission denied"))))
    assert not [line for line in lines if line[0] != "#" and ("--fail" in line or "--zero-superblock" in line)]


def test_a_degraded_array_keeps_its_members() -> None:
    commands = lines_of(array_of("raid6", 2, 4, {0: [(64, 8)]}, missing=[3]))
    assert not [line for line in commands if line[0] != "#" and "--fail" in line]
    assert any("Do not remove /dev/sd0: /dev/md0 is degraded" in line for line in commands)


def test_a_disk_that_cannot_be_added_again_stays() -> None:
    lines = lines_of(array_of("raid1", 0, 2, {0: [(64, 8)]}), adding_fails=True)
    assert not [line for line in lines if line[0] != "#" and ("--fail" in line or "--add" in line)]
    assert any("needs mdadm 4.5" in line for line in lines)


def messages(array: Array) -> dict[str, str]:
    return {
        f"{finding.code} {finding.member}".strip(): finding.message for finding in find_problems(Inventory((array,)))
    }


def test_no_good_copy_is_promised_that_does_not_exist() -> None:
    texts = messages(array_of("raid1", 0, 2, {0: [(64, 8)], 1: [(64, 8)]}))
    for name in ("sd0", "sd1"):
        assert texts[f"bbl-entries {name}"].endswith("md can read the data there from no member: see bbl-copied")
    assert texts["bbl-lost"].startswith("md refuses to read array sectors 64-71: whether the disks can read them is")
    texts = messages(array_of("raid1", 0, 2, {0: [(64, 8)], 1: [(64, 9)]}))
    assert texts["bbl-entries sd0"].endswith("no member has a good copy there: see bbl-lost")
    assert texts["bbl-lost"].startswith("no member has a good copy of array sectors 64-71: reads there fail")
    texts = messages(array_of("raid1", 0, 2, {0: [(64, 8)], 1: [(128, 8)]}))
    assert "bbl-lost" not in texts
    assert texts["bbl-entries sd0"].endswith("the only good copy is on sd1")
    assert texts["bbl-entries sd1"].endswith("the only good copy is on sd0")
    texts = messages(array_of("raid1", 0, 3, {0: [(64, 8), (96, 8)], 1: [(64, 8)], 2: [(64, 8), (128, 8)]}))
    assert texts["bbl-entries sd0"].endswith("but of some sectors there is none: see bbl-copied")
    texts = messages(array_of("raid1", 0, 2, {0: [(64, 8)]}, missing=[1]))
    assert "a missing member may have a good copy: connect it again, and do not wipe it" in texts["bbl-lost"]


def member_outside(slot: int, *listed: SectorRange, **values: object) -> ArrayMember:
    superblock = make_superblock(slot=slot, events=90, **values)
    return ArrayMember("sdx", "/dev/sdx", superblock=superblock, listed=listed or None)


@pytest.mark.parametrize(("level", "layout", "disks"), SHAPES)
def test_lost_sectors_that_a_member_outside_may_hold(level: str, layout: int, disks: int) -> None:
    entry = SectorRange(OFFSET + 64, 8)
    array = array_of(level, layout, disks, {0: [(64, 8)]}, missing=[1])
    if level == "raid6":
        array = array_of(level, layout, disks, {0: [(64, 8)]}, missing=[1, 3])
    lost = find_lost_ranges(array)
    others = replace(array, outside=(member_outside(1),))
    assert find_ranges_only_outside(array) == ()
    assert find_ranges_only_outside(others) == lost
    # Its slot is that of its superblock, also while md has it as faulty.
    faulty = replace(member_outside(1), states=("faulty",))
    assert find_ranges_only_outside(replace(array, members=(*array.members, faulty))) == lost
    # Without a list: the range was measured.
    measured = array_of(level, layout, disks, {}, missing=[1, 3] if level == "raid6" else [1])
    unreadable = {"/dev/sd0": (entry,)}
    assert find_ranges_only_outside(replace(measured, outside=(member_outside(1),)), unreadable) == lost
    # It helps nothing if it was never complete, is of another slot, or cannot be read there either.
    for useless in (member_outside(1, recovery_offset=8), member_outside(0), member_outside(0, refusal_reasons=[])):
        assert find_ranges_only_outside(replace(array, outside=(useless,))) == ()
    if level == "raid1" and disks == 2:
        assert find_ranges_only_outside(replace(array, outside=(member_outside(1, entry),))) == ()


def test_garbage_is_no_list() -> None:
    end = OFFSET + SECTORS
    superblock = make_superblock()
    listed = (SectorRange(OFFSET, 8),)
    real = ArrayMember("sd0", "/dev/sd0", 0, ("in_sync",), superblock=superblock, data_offset=OFFSET, listed=listed)
    assert not has_garbage_list(real)
    assert not has_garbage_list(replace(real, superblock=None, listed=(SectorRange(end, 8),)))
    garbage = replace(real, listed=(SectorRange(OFFSET, 8), SectorRange(end, 8)))
    assert has_garbage_list(garbage)
    assert not has_garbage_list(replace(garbage, size=(end + 8) * 512))
    array = array_of("raid1", 0, 2, {1: [(0, 8)]})
    assert find_lost_ranges(replace(array, members=(garbage, array.members[1]))) == ()
    assert find_lost_ranges(replace(array, members=(real, array.members[1])))
