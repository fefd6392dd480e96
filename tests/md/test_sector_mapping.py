"""Members' sectors and the array's: of RAID-10 (the lab's tests ask the kernel itself)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.md.model import Array
from blklab.md.sector_mapping import map_raid10

ARRAY = Array(
    name="md0", path="", uuid="", level="raid10", layout=0x102, chunk=4096, raid_disks=4,
    metadata="1.2", live=False, members=(), member_sectors=64,
)  # fmt: skip


@given(
    disks=st.integers(1, 9), near=st.integers(1, 4), far=st.integers(1, 4), offset=st.booleans(),
    mode=st.integers(0, 2), chunks=st.integers(1, 40),
)  # fmt: skip
def test_every_sector_of_the_array_has_all_its_copies_on_disks_of_their_own(
    disks: int, near: int, far: int, offset: bool, mode: int, chunks: int
) -> None:
    layout = near | far << 8 | offset << 16 | mode << 17
    array = replace(ARRAY, layout=layout, raid_disks=disks, member_sectors=chunks * 8)
    copies: dict[int, set[int]] = {}
    for disk in range(disks):
        for sector in range(0, chunks * 8, 8):
            at = map_raid10(array, disk, sector)
            if at is None:
                return
            if at >= 0:
                copies.setdefault(at, set()).add(disk)
    assert sorted(copies) == list(range(0, 8 * (chunks // far * disks // near), 8))
    # Copies that wrap around within their own set, in the tail of far sets, may meet.
    assert all(len(where) == near * far for where in copies.values()) or mode


@pytest.mark.parametrize("layout", [0, 0x100, 0x001, 0x505, 3 << 17 | 0x102])
def test_layouts_that_are_none(layout: int) -> None:
    assert map_raid10(replace(ARRAY, layout=layout), 0, 0) is None
