"""Causes that name who makes whom wait, each with a healthy twin; and what a trace without a cause says."""

import heapq
import json
import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab import _core
from blklab.diagnostic import Diagnostic
from blklab.trace.causes import causes, summary
from blklab.trace.causes.waiting import part_text
from blklab.trace.profile import characterise
from blklab.trace.tables.devices import overview
from blklab.trace.view import ProfileView
from tests.conftest import Run
from tests.trace.generated import (
    COMPLETED,
    FLUSH,
    ISSUED,
    QUEUED,
    READ,
    SYNC,
    WRITE,
    C,
    D,
    Q,
    Record,
    process,
    write_trace,
)

DISK, PARTITION, HOME, LOGS = 8 << 20, (8 << 20) + 1, 253 << 20, (253 << 20) + 1
REMAP = 15
NAMES = (
    process(2, b"postgres"), process(3, b"jbd2/sda1-8"), process(4, b"nginx"), process(5, b"kworker/u8:1"),
    process(6, b"backup"),
)  # fmt: skip
DB, JOURNAL, WEB, FLUSHER, BACKUP = 2, 3, 4, 5, 6
MS = 1_000_000
PLACES = random.Random(7)


@dataclass(frozen=True, order=True)
class Io:
    """An I/O of a program: when it is queued, and how long the disk works on it, in ns."""

    time: int
    pid: int
    category: int = READ
    work: int = MS // 5
    sector: int = 0
    size: int = 4096
    source: int = 0
    """The device from which it is remapped to the disk; 0 for none."""


def place() -> int:
    return 8 * PLACES.randrange(1 << 24)


def every(step: int, end: int, pid: int, category: int = READ, work: int = MS // 5, start: int = 0) -> Iterator[Io]:
    """Yields an I/O of 4 KiB at a random place every `step` ns."""
    for time in range(start, end, step):
        yield Io(time, pid, category, work, place(), 0 if category & FLUSH and not category & WRITE else 4096)


def serve(ios: Iterable[Io], heads: int = 1) -> list[Record]:
    """Returns the events of a disk that works on `heads` I/Os at a time, first come first served."""
    free = [0] * heads
    records: list[Record] = []
    for io in sorted(ios):
        begin = max(io.time, heapq.heappop(free))
        end = begin + io.work
        heapq.heappush(free, end)
        records += events(io, end)
    return records


def events(io: Io, end: int) -> Iterator[Record]:
    if io.source:
        upper = io.sector
        yield Record(io.time - 3, Q, QUEUED | io.category, upper, io.size, io.pid, io.source)
        pdu = struct.pack(">IIQ", io.source, DISK, upper)
        begin = {HOME: 2048, LOGS: 1 << 27, PARTITION: 63}[io.source]
        io = Io(io.time, io.pid, io.category, io.work, io.sector + begin, io.size, io.source)
        yield Record(io.time - 1, REMAP, QUEUED | io.category, io.sector, io.size, io.pid, DISK, pdu=pdu)
        yield Record(end + 5, C, COMPLETED | io.category, upper, io.size, io.pid, io.source)
    yield Record(io.time, Q, QUEUED | io.category, io.sector, io.size, io.pid, DISK)
    yield Record(io.time + 10, D, ISSUED | io.category, io.sector, io.size, io.pid, DISK)
    yield Record(end, C, COMPLETED | io.category, io.sector, io.size, 0, DISK)


def closed_loop(ios: list[Io], pid: int, source: int, depth: int, work: int, start: int, end: int) -> list[Record]:
    """Returns the events of a serial disk: a process keeps `depth` reads in flight, others read at their times."""
    waiting = sorted(ios)
    queue = [Io(start + number, pid, READ, work, place(), 4096, source) for number in range(depth)]
    records: list[Record] = []
    now = 0
    while queue or waiting:
        queue.sort()
        if waiting and (not queue or waiting[0].time <= max(now, queue[0].time)):
            queue.append(waiting.pop(0))
            continue
        io = queue.pop(0)
        now = max(now, io.time) + io.work
        records += events(io, now)
        if io.pid == pid and now < end:
            queue.append(Io(now + 20, pid, READ, work, place(), 4096, source))
    return records


def view_of(directory: Path, records: Iterable[Record], stack: list[dict[str, object]] | None = None) -> ProfileView:
    base = write_trace(directory / "t", [*NAMES, *sorted(records, key=lambda record: record.time)])
    if stack:
        base.with_name("t.blklab.json").write_text(json.dumps({"stack": stack}))
    return ProfileView(characterise([str(base)], _core.Filter()))


def found(directory: Path, records: Iterable[Record], stack: list[dict[str, object]] | None = None) -> list[Diagnostic]:
    return causes(view_of(directory, records, stack))


def codes(directory: Path, records: Iterable[Record]) -> list[str]:
    return [cause.code for cause in found(directory, records)]


# --- fsync storm


def commits(flush: int) -> list[Io]:
    """Returns 200 commits of a database in 10 s: its log, then the journal's block with a flush before it."""
    log = every(50 * MS, 10_000 * MS, DB, WRITE | SYNC, MS // 5)
    journal = every(50 * MS, 10_000 * MS, JOURNAL, WRITE | SYNC | FLUSH, flush, start=MS)
    return [*log, *journal]


def test_fsync_storm_names_the_program_behind_the_journal_and_who_waits(tmp_path: Path) -> None:
    reads = every(7 * MS, 10_000 * MS, WEB)
    (cause,) = found(tmp_path, serve([*commits(20 * MS), *reads]))
    assert cause.code == "fsync-storm"
    assert "fsyncs of postgres (through jbd2/sda1-8) make nginx wait: 20 commits per second" in cause.message
    assert "each takes 20" in cause.message
    assert 0.5 < cause.weight <= 1


def test_journal_of_a_disk_without_flushes_makes_others_wait(tmp_path: Path) -> None:
    log = every(50 * MS, 10_000 * MS, DB, WRITE | SYNC, MS // 5)
    journal = every(50 * MS, 10_000 * MS, JOURNAL, WRITE | SYNC, 20 * MS, start=MS)
    (cause,) = found(tmp_path, serve([*log, *journal, *every(7 * MS, 10_000 * MS, WEB)]))
    assert cause.code == "fsync-storm"
    assert "fsyncs of postgres (through jbd2/sda1-8) make nginx wait: 20 writes of the journal" in cause.message


def test_quick_commits_are_no_storm(tmp_path: Path) -> None:
    reads = every(7 * MS, 10_000 * MS, WEB)
    assert codes(tmp_path, serve([*commits(MS // 4), *reads])) == []


def test_commits_that_do_not_delay_others_are_no_storm(tmp_path: Path) -> None:
    reads = every(7 * MS, 10_000 * MS, WEB)
    names = codes(tmp_path, serve([*commits(20 * MS), *reads], heads=8))
    assert names == ["flushes"]  # postgres waits for its own


def test_commits_of_a_program_that_is_alone_are_no_storm(tmp_path: Path) -> None:
    assert codes(tmp_path, serve(commits(20 * MS))) == ["flushes"]


def crowd(threads: int = 8, journal: int = WRITE | SYNC | FLUSH) -> list[Io]:
    """Returns the writes of a database whose threads write and commit at the same time, which takes most of a disk."""
    ios: list[Io] = []
    for start in range(0, 10_000 * MS, 50 * MS):
        ios += [Io(start + thread, CROWD[thread], WRITE | SYNC, 4 * MS, place()) for thread in range(threads)]
        ios += [Io(start + 34 * MS + part, JOURNAL, category, 4 * MS, place()) for part, category in
                enumerate([WRITE | SYNC, journal])]  # fmt: skip
    return ios


CROWD = range(20, 28)
CROWD_NAMES = [process(pid, b"postgres") for pid in CROWD]
LOGGER = [Io(start, WEB, WRITE | SYNC, 4 * MS, place()) for start in range(7 * MS, 10_000 * MS, 97 * MS)]


def test_a_program_whose_threads_all_sync_makes_another_wait_all_the_time(tmp_path: Path) -> None:
    (cause,) = found(tmp_path, [*CROWD_NAMES, *serve([*crowd(), *LOGGER])])
    assert cause.code == "fsync-storm"
    assert "fsyncs of postgres (through jbd2/sda1-8) make nginx wait: " in cause.message
    assert "with nothing else in flight" in cause.message
    assert 0.5 < cause.weight <= 1


def test_threads_that_sync_make_each_other_wait(tmp_path: Path) -> None:
    (cause,) = found(tmp_path, [*CROWD_NAMES, *serve(crowd())])
    assert cause.code == "fsync-storm"
    assert "fsyncs of postgres (through jbd2/sda1-8) make each other wait" in cause.message


def test_a_disk_that_serves_many_commits_at_a_time_has_no_storm(tmp_path: Path) -> None:
    assert codes(tmp_path, [*CROWD_NAMES, *serve([*crowd(), *LOGGER], heads=16)]) == []


def test_synchronous_writes_without_commits_are_no_storm(tmp_path: Path) -> None:
    records = serve([io for io in [*crowd(), *LOGGER] if io.pid != JOURNAL])
    assert codes(tmp_path, [*CROWD_NAMES, *records]) == []


# --- a deep queue


def test_deep_queue_of_another_volume_starves_a_program(tmp_path: Path) -> None:
    reads = [Io(time, DB, READ, MS, place(), 4096, LOGS) for time in range(10, 6000 * MS, 40 * MS)]
    records = closed_loop(reads, BACKUP, HOME, 32, MS, 2000 * MS, 6000 * MS)
    cause = found(tmp_path, records)[0]
    assert (cause.code, cause.subject) == ("deep-queue", "t (8,0)")
    assert "backup on t (253,0) keeps 30.8 I/Os in flight on t (8,0) from 2.00 s to 5.99 s, and" in cause.message
    assert "postgres on t (253,1) waits behind them" in cause.message
    assert "100 I/Os took 31.8 ms on average, 1 ms without this queue" in cause.message
    assert cause.weight > 0.9


def test_deep_queue_that_delays_nobody_is_no_cause(tmp_path: Path) -> None:
    deep = [io for start in range(32) for io in every(32 * MS, 6000 * MS, BACKUP, READ, 30 * MS, start=MS * start)]
    reads = every(40 * MS, 6000 * MS, DB, READ, MS)
    assert codes(tmp_path, serve([*deep, *reads], heads=64)) == []


def test_one_user_at_depth_is_not_starved(tmp_path: Path) -> None:
    assert codes(tmp_path, closed_loop([], BACKUP, 0, 32, MS, 0, 6000 * MS)) == []


def test_two_users_at_depth_do_not_starve_each_other(tmp_path: Path) -> None:
    deep = [io for start in range(40) for io in every(42 * MS, 6000 * MS, BACKUP, READ, MS, start=MS * start)]
    other = [io for start in range(20) for io in every(42 * MS, 6000 * MS, DB, READ, MS // 50, start=MS * start + 5)]
    assert "deep-queue" not in codes(tmp_path, serve([*deep, *other]))


# --- writeback


def writeback(count: int, work: int) -> list[Io]:
    """Returns three bursts of writes that the flusher queues at once."""
    ios = []
    for start in (2000 * MS, 5000 * MS, 8000 * MS):
        ios += [Io(start + number, FLUSHER, WRITE, work, place(), 4096) for number in range(count)]
    return ios


def test_writeback_names_the_flusher_who_waits_and_when(tmp_path: Path) -> None:
    reads = every(20 * MS, 10_000 * MS, WEB)
    cause = found(tmp_path, serve([*writeback(400, MS), *reads]))[0]
    assert cause.code == "behind-writeback"
    assert "writeback of kworker/u8:1 (4.69 MiB written) makes nginx wait" in cause.message
    assert "longest at 2.01 s, 5.00 s and 8.02 s" in cause.message


def test_writeback_next_to_reads_that_stay_quick_is_no_cause(tmp_path: Path) -> None:
    reads = every(20 * MS, 10_000 * MS, WEB)
    assert codes(tmp_path, serve([*writeback(400, MS), *reads], heads=500)) == []


def test_burst_of_writeback_that_nobody_waits_for_is_no_cause(tmp_path: Path) -> None:
    reads = every(150 * MS, 1950 * MS, WEB, READ, MS // 2)
    more_reads = every(150 * MS, 4950 * MS, WEB, READ, MS // 2, start=2900 * MS)
    view = view_of(tmp_path, serve([*writeback(400, MS // 2), *reads, *more_reads]))
    assert causes(view) == []
    waits = next(sentence.text for sentence in summary(view, []) if sentence.topic == "Waits")
    assert waits.startswith("nginx for 27 I/Os on t, 500 µs on average (100 % of the waiting)")


def test_burst_of_reads_next_to_writeback_is_named(tmp_path: Path) -> None:
    bursts = [
        Io(start + number, WEB, READ, MS, place()) for start in range(0, 9000 * MS, 1500 * MS) for number in range(96)
    ]
    assert codes(tmp_path, serve([*bursts, *writeback(20, MS // 100)])) == ["bursts"]


# --- a cache


def cached(hits: int, copied: bool) -> list[Record]:
    """Returns 600 reads of a cached volume, of which `hits` of ten come from the cache."""
    cache, backing = DISK, (8 << 20) + 16
    records = []
    for number in range(600):
        time, sector = 10 * MS * number, 8 * number * 97
        hit = number % 10 < hits
        lower, took = (cache, MS // 5) if hit else (backing, 8 * MS)
        pdu = struct.pack(">IIQ", HOME, lower, sector)
        records.append(Record(time, Q, QUEUED | READ, sector, 4096, WEB, HOME))
        records.append(Record(time + 1, REMAP, QUEUED | READ, sector, 4096, WEB, lower, pdu=pdu))
        records.append(Record(time + 2, Q, QUEUED | READ, sector, 4096, WEB, lower))
        records.append(Record(time + took, C, COMPLETED | READ, sector, 4096, 0, lower))
        records.append(Record(time + took + 5, C, COMPLETED | READ, sector, 4096, 0, HOME))
        if copied and not hit:
            pdu = struct.pack(">IIQ", HOME, cache, sector)
            records.append(Record(time + took + 9, REMAP, QUEUED | WRITE, sector, 4096, FLUSHER, cache, pdu=pdu))
            records.append(Record(time + took + 10, Q, QUEUED | WRITE, sector, 4096, FLUSHER, cache))
            records.append(Record(time + took + MS // 5, C, COMPLETED | WRITE, sector, 4096, 0, cache))
            # A promotion reads a whole chunk.
            records.append(Record(time + took + 8, Q, QUEUED | READ, sector // 128 * 128, 65536, FLUSHER, backing))
            records.append(Record(time + took + MS, C, COMPLETED | READ, sector // 128 * 128, 65536, 0, backing))
    return records


CACHE_STACK: list[dict[str, object]] = [
    {"number": "253:0", "name": "dm-0", "label": "vg/srv", "kind": "dm", "above": [], "role": None},
    {"number": "8:0", "name": "sda", "label": "ssd", "kind": "disk", "above": ["dm-0"], "role": "cache"},
    {"number": "8:16", "name": "sdb", "label": "hdd", "kind": "disk", "above": ["dm-0"], "role": "backing"},
]


def test_cache_that_mostly_misses_is_named_with_its_hit_ratio(tmp_path: Path) -> None:
    cause = found(tmp_path, cached(2, copied=True), CACHE_STACK)[0]
    assert cause.code == "cache-misses"
    assert "the cache ssd misses: 20 % of the bytes that nginx reads from vg/srv are hits" in cause.message
    assert "the rest comes from hdd, where a read takes 8.00 ms" in cause.message
    assert "1.88 MiB were copied to the cache" in cause.message


def test_reads_that_are_not_kept_go_past_the_cache(tmp_path: Path) -> None:
    cause = found(tmp_path, cached(2, copied=False), CACHE_STACK)[0]
    assert (cause.code, "that nginx reads go past the cache ssd" in cause.message) == ("cache-bypass", True)


def test_cache_with_hits_is_no_cause(tmp_path: Path) -> None:
    assert found(tmp_path, cached(9, copied=True), CACHE_STACK) == []


# --- alignment


def blocks(sector: int, partition: bool = False) -> list[Record]:
    """Returns writes of blocks to a partition that begins at a sector of the disk."""
    records: list[Record] = []
    for number in range(300):
        start = 80 * ((number * 7919) % 300)
        io = Io(5 * MS * number + 10, DB, WRITE | SYNC, MS, start + (sector - 63), 4096, PARTITION)
        records += [event for event in events(io, io.time + MS) if event.device == DISK or partition]
    return records


def test_partition_at_sector_63_is_to_be_moved(tmp_path: Path) -> None:
    (cause,) = found(tmp_path, blocks(63))
    assert cause.code == "unaligned"
    assert "blocks begin 3.50 KiB (7 sectors) after such a multiple, because 8,1 begins at sector 63" in cause.message
    assert cause.remedy[0].startswith("move 8,1")


def test_partition_that_is_recorded_as_well_is_to_be_moved(tmp_path: Path) -> None:
    (cause,) = found(tmp_path, blocks(63, partition=True))
    assert (cause.code, cause.subject) == ("unaligned", "t (8,0)")
    assert "because t (8,1) begins at sector 63 of t (8,0)" in cause.message


def test_blocks_of_1_kib_on_an_aligned_partition_are_those_of_its_filesystem(tmp_path: Path) -> None:
    records: list[Record] = []
    for number in range(300):
        io = Io(5 * MS * number + 10, DB, WRITE | SYNC, MS, 80 * ((number * 7919) % 300) + 2, 4096, HOME)
        records += [event for event in events(io, io.time + MS) if event.device == DISK]
    (cause,) = found(tmp_path, records)
    assert "blocks begin 1 KiB (2 sectors) after such a multiple, but 253,0 begins at one" in cause.message
    assert cause.remedy[0].startswith("make the filesystem with blocks of 4 KiB")


def test_a_log_that_is_not_aligned_is_written_as_whole_blocks(tmp_path: Path) -> None:
    """What continues the write before needs no read of the disk: three of four writes of this journal."""
    ios = []
    for number in range(400):
        start = 2 * number + 100_000 * (number // 4 % 7)
        ios.append(Io(5 * MS * number + 10, DB, WRITE | SYNC, MS, start, 1024))
    assert codes(tmp_path, serve(ios)) == []


def test_aligned_blocks_of_a_partition_are_no_cause(tmp_path: Path) -> None:
    assert codes(tmp_path, blocks(64)) == []


# --- figures, and facts


def test_parts_of_the_waiting_are_words() -> None:
    shares = [0.02, 0.09, 0.35, 0.52, 0.88, 0.99]
    texts = ["a small part", "about a tenth", "about a third", "about half", "about nine tenths", "nearly all"]
    assert [part_text(share) for share in shares] == texts


def test_trace_without_a_cause_says_who_waits_and_explains_the_longest_stall(pgbench: ProfileView) -> None:
    sentences = {sentence.topic: sentence.text for sentence in summary(pgbench, [])}
    assert list(sentences) == ["Cause", "Waits", "Stall", "Next"]
    assert sentences["Waits"].startswith(
        "fio for 13,561 I/Os on dm-1, 5.60 ms on average (62 % of the waiting); postgres"
    )
    assert "at 44.2 s, md127 completed nothing for 719 ms (the longest of 36)" in sentences["Stall"]
    assert "a write of 512 B by md127_raid1 on vdc at sector 8, md's superblock or bitmap" in sentences["Stall"]
    assert sentences["Next"].startswith("the kernel's log at 20 Nov 2026, 21:05:52 UTC")


def test_trace_of_an_array_without_its_members_says_what_to_record(run: Run, tmp_path: Path) -> None:
    md = 9 << 20
    records = []
    for number in range(200):
        records.append(Record(MS * number, Q, QUEUED | READ, 8 * number * 97, 4096, WEB, md))
        records.append(Record(MS * number + MS // 2, C, COMPLETED | READ, 8 * number * 97, 4096, 0, md))
    write_trace(tmp_path / "md0", [*NAMES, *records])
    out = " ".join(run("trace", "stat", tmp_path / "md0").out.split())
    assert "Next a recording of md0 with the devices below it" in out


def test_devices_are_drawn_below_their_real_parents(tmp_path: Path) -> None:
    records = []
    parents = {(8 << 20) + 16: HOME, (8 << 20) + 32: HOME, DISK: LOGS}
    for number in range(90):
        lower = list(parents)[number % 3]
        upper, sector, time = parents[lower], 800 * number, MS * number
        pdu = struct.pack(">IIQ", upper, lower, sector)
        records.append(Record(time, Q, QUEUED | READ, sector, 4096, WEB, upper))
        records.append(Record(time + 1, REMAP, QUEUED | READ, sector, 4096, WEB, lower, pdu=pdu))
        records.append(Record(time + 2, Q, QUEUED | READ, sector, 4096, WEB, lower))
        records.append(Record(time + 500, C, COMPLETED | READ, sector, 4096, 0, lower))
        records.append(Record(time + 600, C, COMPLETED | READ, sector, 4096, 0, upper))
    view = view_of(tmp_path, records)
    names = ["t (253,0)", "└ t (8,16)", "└ t (8,32)", "t (253,1)", "└ t (8,0)"]
    assert [row[0] for row in overview(view).rows] == names
