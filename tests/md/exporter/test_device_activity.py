"""What members did: counters that never decrease, even if the kernel's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.md.exporter.activity import READ_INTERVAL_S, ActivityCounter, ActivitySinceBoot
from blklab.system import diskstats
from blklab.system.diskstats import WRAP, DeviceCounters
from tests.md.conftest import Arrays
from tests.md.exporter.conftest import Clock, Exported, stats
from tests.md.exporter.test_metrics import SDA, SDB


def test_counting_begins_when_the_process_does(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    assert exported.series("member_reads_completed_total", **SDA) == 0
    exported.clock.now += 15
    stats(mirrored, ["8 0 sda 160 0 1280 80 210 0 1680 100 0 200 180", "8 16 sdb 50 0 400 1005 200 0 1600 90 0 60 95"])
    assert exported.series("member_reads_completed_total", **SDA) == 60
    assert exported.series("member_writes_completed_total", **SDA) == 10
    assert exported.series("member_read_bytes_total", **SDA) == 480 * 512
    assert exported.series("member_written_bytes_total", **SDA) == 80 * 512
    assert exported.series("member_read_time_seconds_total", **SDA) == 0.03
    assert exported.series("member_write_time_seconds_total", **SDA) == 0.03
    assert exported.series("member_io_time_seconds_total", **SDA) == 0.1
    assert exported.series("member_io_time_weighted_seconds_total", **SDA) == 0.06
    # The slow member of the mirror is seen.
    assert exported.series("member_read_time_seconds_total", **SDB) == 1


def test_times_that_run_over(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    stats(mirrored, [f"8 0 sda 1 0 8 {WRAP - 10} 1 0 8 {WRAP - 1} 0 {WRAP - 1} {WRAP - 1000}"])
    exported.scrape()
    exported.clock.now += READ_INTERVAL_S
    stats(mirrored, ["8 0 sda 2 0 16 490 2 0 16 999 0 999 0"])
    assert exported.series("member_read_time_seconds_total", **SDA) == 0.5
    assert exported.series("member_write_time_seconds_total", **SDA) == 1
    assert exported.series("member_io_time_seconds_total", **SDA) == 1
    assert exported.series("member_io_time_weighted_seconds_total", **SDA) == 1


def test_the_interval_is_one_that_differences_are_sure_of() -> None:
    item = diskstats.parse("8 0 sda " + "1 " * 17)["sda"]
    assert item is not None
    diskstats.difference(item, item, READ_INTERVAL_S + 1)


def test_what_cannot_be_told_is_not_counted(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    exported.scrape()
    exported.clock.now += 10
    stats(mirrored, ["8 0 sda 110 0 880 60 200 0 1600 70 0 110 130"])
    assert exported.series("member_reads_completed_total", **SDA) == 10
    # Another device took its name, and has done less.
    stats(mirrored, ["8 0 sda 5 0 40 1 0 0 0 0 0 1 1"])
    assert exported.series("member_reads_completed_total", **SDA) == 10
    assert "not counted: sda: reads went back from 110 to 5" in exported.log[-1]
    stats(mirrored, ["8 0 sda 7 0 56 1 0 0 0 0 0 1 1"])
    assert exported.series("member_reads_completed_total", **SDA) == 12
    # Stopped for longer than a counter takes to run over unnoticed.
    exported.clock.now += 100
    stats(mirrored, ["8 0 sda 9 0 72 1 0 0 0 0 0 1 1"])
    assert exported.series("member_reads_completed_total", **SDA) == 12
    assert "read it more often" in exported.log[-1]


def test_names_with_slashes(machine: Arrays) -> None:
    stats(machine, ["104 0 cciss/c0d0 1 0 8 1 0 0 0 0 0 1 1"])
    source = ActivitySinceBoot(machine.roots)
    assert source.read() == []
    result = source.of("cciss!c0d0")
    assert result is not None
    assert result.ios == (1, 0)


def test_since_boot_is_what_the_kernel_says(mirrored: Arrays) -> None:
    exported = Exported(mirrored, activity=lambda machine, _: ActivitySinceBoot(machine.roots))
    assert exported.series("member_reads_completed_total", **SDA) == 100
    assert exported.series("member_write_time_seconds_total", **SDA) == 0.07
    assert exported.series("member_written_bytes_total", **SDB) == 1600 * 512


BUSY = st.tuples(
    st.integers(0, 31),  # seconds
    st.integers(0, 1000),  # reads
    st.integers(0, 60_000_000),  # ms of them
)


@given(start=st.integers(0, WRAP - 1), steps=st.lists(BUSY, max_size=20))
def test_sums_are_true_however_often_a_counter_runs_over(start: int, steps: list[tuple[int, int, int]]) -> None:
    clock, reads, ticks = Clock(), 0, start

    def now(_roots: object) -> dict[str, DeviceCounters | None]:
        return diskstats.parse(f"8 0 sda {reads} 0 0 {ticks % WRAP} 0 0 0 0 0 0 {ticks % WRAP}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diskstats, "read", now)
        tally = ActivityCounter(None, clock)  # type: ignore[arg-type]  # it is not asked
        assert tally.read() == []
        last = -1
        for seconds, many, time in steps:
            clock.now += seconds
            reads, ticks = reads + many, ticks + time
            assert tally.read() == []
            result = tally.of("sda")
            assert result is not None
            assert result.ticks_ns[0] // diskstats.MS == ticks - start
            assert result.ios[0] == reads >= last
            last = reads
