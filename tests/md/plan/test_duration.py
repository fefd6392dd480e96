"""How long a change takes: figures computed by hand from the limits and the sectors."""

from dataclasses import replace

import pytest

from blklab.md.model import Software
from blklab.md.plan.add import judge_add
from blklab.md.plan.change import MemberRates, SyncLimits, Work
from blklab.md.plan.duration import estimate_duration
from blklab.md.plan.grow import judge_grow
from blklab.md.plan.level import NewLevel, judge_level
from blklab.md.plan.reshape import Shape, judge_reshape
from tests.md.plan.arrays import CONDITIONS, SECTORS, disk, make_array

MEMBER_S = 32 * 1024 / 4000
"""Of 32 MiB at 4,000 KiB/s."""


def test_a_recovery_goes_through_a_member() -> None:
    plan = judge_add(make_array("raid5", 3, degraded=1), [disk()], CONDITIONS)
    assert plan.estimate is not None
    assert plan.estimate.at_maximum == pytest.approx(MEMBER_S)
    assert plan.estimate.at_minimum == pytest.approx(4 * MEMBER_S)
    assert plan.work[0].read_sectors == 2 * SECTORS
    assert plan.work[0].written_sectors == SECTORS


def test_a_spare_takes_no_time() -> None:
    assert judge_add(make_array("raid5", 3), [disk()], CONDITIONS).estimate is None


def test_a_grown_array_compares_only_its_new_part() -> None:
    plan = judge_grow(make_array("raid5", 3), 48 * 1024, CONDITIONS)
    assert plan.work[0].sectors == SECTORS // 2


def test_a_degraded_raid_5_compares_nothing() -> None:
    assert not judge_grow(make_array("raid5", 3, degraded=1), None, CONDITIONS).work


def test_a_bitmap_whose_chunk_covers_the_new_part_has_md_compare_nothing() -> None:
    array = make_array("raid1", 2, bitmap=True, bitmap_chunk=64 << 20)
    assert not judge_grow(array, None, CONDITIONS).work
    small = make_array("raid1", 2, bitmap=True, bitmap_chunk=4 << 20)
    assert judge_grow(small, 48 * 1024, CONDITIONS).work[0].sectors == SECTORS // 2


def test_a_resync_of_raid_10_counts_sectors_of_the_array() -> None:
    assert judge_grow(make_array("raid10", 4), 48 * 1024, CONDITIONS).work[0].sectors == SECTORS


def test_a_reshape_of_raid_5_counts_a_member_and_of_raid_10_the_new_array() -> None:
    assert judge_reshape(make_array("raid5", 3, spares=1), Shape(4), CONDITIONS).work[0].sectors == SECTORS
    assert judge_reshape(make_array("raid10", 4, spares=1), Shape(5), CONDITIONS).work[0].sectors == SECTORS * 5 // 2


def test_a_level_change_at_once_takes_no_time() -> None:
    assert judge_level(make_array("raid1", 2), NewLevel("raid5"), CONDITIONS).estimate is None


def test_with_a_backup_file_mdadm_before_4_4_has_md_ignore_sync_speed_max() -> None:
    shape = Shape(chunk=131072, backup_file="/mnt/backup")
    plan = judge_reshape(make_array("raid5", 3, version="0.90"), shape, CONDITIONS)
    assert plan.estimate is not None
    assert plan.estimate.at_maximum == pytest.approx(32 * 1024 / 200_000)
    newer = replace(CONDITIONS, software=Software(kernel=(6, 12), mdadm=(4, 4)))
    plan = judge_reshape(make_array("raid5", 3, version="0.90"), shape, newer)
    assert plan.estimate is not None
    assert plan.estimate.at_maximum == pytest.approx(MEMBER_S)


WORK = Work("recovery", 2_000_000_000, 0, 0, 2_000_000_000)  # 1.02 TB
RATES = MemberRates(100e6, 200e6, "as given")


def test_disks_that_are_slower_than_the_limit_decide() -> None:
    limits = SyncLimits(1000, 10_000_000, are_known=True)
    estimate = estimate_duration([WORK], replace(CONDITIONS, limits=limits, rates=RATES))
    assert estimate is not None
    assert estimate.fastest == pytest.approx(1.024e12 / 200e6)
    assert estimate.likely == pytest.approx(1.024e12 / 150e6 / 0.9)
    assert estimate.slowest == pytest.approx(1.024e12 / 100e6 / 0.7)


def test_limits_that_are_slower_than_the_disks_decide() -> None:
    estimate = estimate_duration([WORK], replace(CONDITIONS, rates=RATES))
    assert estimate is not None
    assert estimate.fastest == estimate.likely == estimate.slowest == 1e9 / 4000


def test_without_rates_there_is_only_a_lower_bound() -> None:
    estimate = estimate_duration([WORK], CONDITIONS)
    assert estimate is not None
    assert (estimate.likely, estimate.slowest) == (None, None)
    assert estimate.fastest == 1e9 / 4000


def test_load_slows_down_to_the_minimum_for_its_share_of_the_time() -> None:
    estimate = estimate_duration([WORK], replace(CONDITIONS, load=0.5))
    assert estimate is not None
    assert estimate.fastest == pytest.approx(1e9 / (0.5 * 4000 + 0.5 * 1000))
