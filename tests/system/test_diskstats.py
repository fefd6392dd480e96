"""/proc/diskstats of old and new kernels, and counters that run over."""

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.system import diskstats
from blklab.system.diskstats import WRAP, CpuTimes, DeviceActivity, DeviceCounters, difference
from tests.system.machine import Machine

# The examples of Documentation/admin-guide/iostats.rst; the last is of a 6.18 machine.
OLD = "   3 0 hda 446216 784926 9550688 4382310 424847 312726 5922052 19310380 0 3376340 23705160"
PARTITION = "   3    1   hda1 35486 38030 38030 38030"
WITH_DISCARDS = OLD + " 1 2 3 4"
WITH_FLUSHES = (
    " 254       0 vda 1603944 83813 95882122 1996606 315882 197907 62694560 204930 0 107296 2217222"
    " 112343 70 34588312 12485 44448 3198"
)


def parse_line(line: str) -> DeviceCounters:
    [counters] = diskstats.parse(line).values()
    assert counters is not None
    return counters


def counting(line: str, field: str, value: int) -> DeviceCounters:
    changed: dict[str, Any] = {field: value}
    return replace(parse_line(line), **changed)


def test_every_generation_of_the_format() -> None:
    old = parse_line(OLD)
    assert (old.number, old.name, old.reads, old.write_ticks) == ("3:0", "hda", 446216, 19310380)
    assert (old.in_flight, old.busy, old.queue) == (0, 3376340, 23705160)
    assert (old.discards, old.flushes) == (None, None)
    assert parse_line(WITH_DISCARDS) == replace(old, discards=1, discard_merges=2, discard_sectors=3, discard_ticks=4)
    new = parse_line(WITH_FLUSHES)
    assert (new.discard_ticks, new.flushes, new.flush_ticks) == (12485, 44448, 3198)
    assert parse_line(WITH_FLUSHES + " 7 8") == new


def test_partitions_of_old_kernels_are_refused_when_asked_for() -> None:
    counters = diskstats.parse(f"{OLD}\n{PARTITION}\n")
    assert diskstats.of(counters, "hda").reads == 446216
    with pytest.raises(BlklabError, match=r"hda1: this kernel .* counts only 4 fields"):
        diskstats.of(counters, "hda1")
    with pytest.raises(BlklabError, match="sda: not in /proc/diskstats"):
        diskstats.of(counters, "sda")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("8 0 sda 1 2 3", "line 1: sda has 3 fields, expected 11, 15 or 17"),
        ("8 0 sda" + " 1" * 16, "sda has 16 fields"),
        ("8 0", "found '8 0', expected numbers"),
        ("8 0 sda" + " 1" * 10 + " x", "expected numbers"),
        ("8 0 sda" + " 1" * 10 + " -1", "expected numbers"),
    ],
)
def test_what_is_no_diskstats(line: str, message: str) -> None:
    with pytest.raises(BlklabError, match=message):
        diskstats.parse(line)


def test_a_machine_without_diskstats(machine: Machine) -> None:
    with pytest.raises(EnvironmentLacks, match=r"diskstats: No such file"):
        diskstats.read(machine.roots)


def test_differences_are_in_nanoseconds() -> None:
    before = parse_line(WITH_FLUSHES)
    after = replace(
        before,
        reads=before.reads + 10,
        write_sectors=before.write_sectors + 64,
        read_ticks=before.read_ticks + 3,
        busy=before.busy + 900,
        queue=before.queue + 5,
        flushes=44450,
        flush_ticks=3200,
        discards=112344,
        in_flight=7,
    )
    did = difference(before, after, 1.0)
    assert did == DeviceActivity((10, 0), (0, 0), (0, 64), (3000000, 0), 900000000, 5000000, 1, 2, 2000000)
    assert did.counts()["sectors"] == [0, 64]
    assert (did + did).ticks_ns == (6000000, 0)
    assert (did + replace(did, flushes=None)).flushes is None
    assert difference(parse_line(OLD), parse_line(OLD), 1.0).flushes is None


@given(
    start=st.integers(0, WRAP - 1),
    grown=st.integers(0, 65536 * 1000),
    field=st.sampled_from(["read_ticks", "write_ticks", "queue", "flush_ticks"]),
)
def test_times_that_run_over(start: int, grown: int, field: str) -> None:
    before = counting(WITH_FLUSHES, field, start)
    after = counting(WITH_FLUSHES, field, (start + grown) % WRAP)
    did = difference(before, after, 1.0)
    result = {
        "read_ticks": did.ticks_ns[0],
        "write_ticks": did.ticks_ns[1],
        "queue": did.queue_ns,
        "flush_ticks": did.flush_ns,
    }
    assert result.pop(field) == grown * 1_000_000
    assert set(result.values()) == {0}


@given(
    start=st.integers(0, WRAP - 1),
    grown=st.integers(0, 20_000_000),
    field=st.sampled_from(["reads", "writes", "read_merges", "read_sectors", "write_sectors"]),
)
def test_counts_that_run_over_on_32_bits(start: int, grown: int, field: str) -> None:
    before = counting(OLD, field, start)
    after = counting(OLD, field, (start + grown) % WRAP)
    did = difference(before, after, 1.0, bits=32)
    assert sum(did.ios) + sum(did.merges) + sum(did.sectors) == grown
    if start + grown >= WRAP:
        with pytest.raises(BlklabError, match="went back"):
            difference(before, after, 1.0, bits=64)


@given(start=st.integers(0, 1 << 62), grown=st.integers(0, 1 << 40))
def test_counts_of_64_bits_do_not_run_over(start: int, grown: int) -> None:
    before = replace(parse_line(OLD), read_sectors=start)
    after = replace(parse_line(OLD), read_sectors=start + grown)
    assert difference(before, after, 60.0).sectors == (grown, 0)


@given(pieces=st.lists(st.integers(0, 60_000 * 65536 % WRAP), max_size=8), start=st.integers(0, WRAP))
def test_short_intervals_add_up_to_more_than_the_counter_holds(pieces: list[int], start: int) -> None:
    at = replace(parse_line(OLD), queue=start % WRAP)
    total = DeviceActivity((0, 0), (0, 0), (0, 0), (0, 0), 0, 0, None, None, None)
    for piece in pieces:
        after = replace(at, queue=(at.queue + piece) % WRAP)
        total, at = total + difference(at, after, 60.0), after
    assert total.queue_ns == sum(pieces) * 1_000_000


def test_an_interval_too_long_is_no_guess() -> None:
    with pytest.raises(BlklabError, match="may have wrapped more than once"):
        difference(parse_line(OLD), parse_line(OLD), 65.0)
    assert difference(parse_line(OLD), parse_line(OLD), 3600.0, most_in_flight=128).queue_ns == 0
    fifty_days = 50 * 86400.0
    with pytest.raises(BlklabError, match="busy has 32 bits"):
        difference(parse_line(OLD), parse_line(OLD), fifty_days, most_in_flight=0)
    with pytest.raises(BlklabError, match="sectors has 32 bits"):
        difference(parse_line(OLD), parse_line(OLD), 60.0, bits=32)


def test_a_kernel_with_64_bits_shows_itself() -> None:
    before = replace(parse_line(OLD), read_sectors=WRAP + 5)
    after = replace(parse_line(OLD), read_sectors=WRAP + 4)
    with pytest.raises(BlklabError, match="read_sectors went back"):
        difference(before, after, 1.0, bits=32)


def test_a_device_that_was_replaced() -> None:
    before = parse_line(WITH_FLUSHES)
    with pytest.raises(BlklabError, match=r"vda: found 254:16, expected vda 254:0"):
        difference(before, replace(before, number="254:16"), 1.0)
    with pytest.raises(BlklabError, match="which is impossible"):
        difference(before, replace(before, busy=before.busy - 1), 1.0)


def test_this_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def machine(name: str) -> int:
        real = os.uname()
        changed = os.uname_result((*real[:4], name))
        monkeypatch.setattr(os, "uname", lambda: changed)
        bits = diskstats.long_bits()
        monkeypatch.undo()
        return bits

    names = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "i686", "armv7l")
    assert [machine(name) for name in names] == [64, 64, 64, 64, 64, 32, 32]


def test_cpu_shares(machine: Machine) -> None:
    machine.proc("stat", "cpu  100 5 30 1000 20 1 2 3 40 0\ncpu0 1 2 3")
    first = diskstats.cpu(machine.roots)
    assert first == CpuTimes(user=105, system=30, iowait=20, irq=3, idle=1000, steal=3)
    later = CpuTimes(user=155, system=55, iowait=19, irq=3, idle=1015, steal=13)
    shares = first.shares(later)
    assert shares == {"user": 0.5, "system": 0.25, "iowait": 0.0, "irq": 0.0, "idle": 0.15, "steal": 0.1}
    assert set(first.shares(first).values()) == {0.0}


@pytest.mark.parametrize("content", ["", "cpu 1 2 3", "cpu a b c d e f g", "intr 1 2 3 4 5 6 7 8"])
def test_what_is_no_stat(machine: Machine, content: str) -> None:
    machine.proc("stat", content)
    with pytest.raises(BlklabError, match="expected"):
        diskstats.cpu(machine.roots)
