"""What limits the storage: recordings of the lab whose cause is known, and healthy ones."""

import json
import random
import struct
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from blklab import _core
from blklab.trace.causes import causes
from blklab.trace.profile import characterise
from blklab.trace.view import ProfileView
from tests.conftest import Run
from tests.trace.generated import COMPLETED, ISSUED, QUEUED, READ, WRITE, C, D, Q, Record, process, write_trace

REMAP = 15  # An I/O that came from another device
RECORDINGS = Path(__file__).parents[2] / "accuracy" / "causes" / "recordings"
NAMED = {  # The largest cause of each recording in `truth.toml`
    "unequal-mixed": "slow-member",
    "single-bursts": "bursts",
    "raid5-small-writes": "read-modify-write",
    "checked-readers": "md-sync",
    "raid0-shifted": "split-by-chunks",
    "disk-streams": "broken-stream",
    "cached-passing": "cache-bypass",
    "flushed-commits": "flushes",
    "single-behind": "behind-writeback",
    "six-table": "slow-member",
    "twofold-pages": "read-modify-write",
    "replaced-lookups": "md-sync",
    "volume-tenants": "deep-queue",
    "remote-walk": "tiny-io",
    "mirror-mailboxes": "flushes",
    "missed-everywhere": "cache-misses",
    "large-scattered": "cache-misses",
    "parity-records": "slow-member",
    "twins-queues": "fsync-storm",
    "commits-storm": "fsync-storm",
    "blocks-storm": "fsync-storm",
    "logged-storm": "fsync-storm",
    "copied-restore": "behind-writeback",
    "parts-guests": "deep-queue",
    "volumes-guests": "deep-queue",
    "sector63-pages": "unaligned",
    "rows63-stripes": "read-modify-write",
}
SAID = {  # Words of the sentence about recordings of several programs
    "blocks-storm": "fsyncs of mysqld (through jbd2/vda1-8) make redis wait",
    "logged-storm": "fsyncs of mysqld make redis wait",
    "copied-restore": "makes postgres wait",
    "parts-guests": "dovecot on 254,50 waits behind them",
    "volumes-guests": "dovecot on dm-1 waits behind them",
    "sector63-pages": "begins at sector 63 of vdf",
    "rows63-stripes": "begins at sector 63 of md0",
}


@pytest.mark.parametrize("recording", sorted(RECORDINGS.glob("*/*")), ids=lambda path: path.name)
def test_the_cause_of_a_recording_is_named_and_healthy_ones_have_none(recording: Path) -> None:
    truth = tomllib.loads((RECORDINGS.parent / "truth.toml").read_text(encoding="utf-8"))
    has_cause = recording.name in truth.get(recording.parent.name, {})
    assert has_cause == (recording.name in NAMED)
    found = causes(ProfileView(characterise([str(recording)], _core.Filter())))
    assert (found[0].code if found else None) == NAMED.get(recording.name)
    if found:
        assert 0.3 <= found[0].weight <= 1
        assert found[0].remedy
        assert SAID.get(recording.name, "") in found[0].message


@pytest.mark.parametrize(
    ("recording", "device"),
    [
        ("first/cached-hot", "bcache0"),
        ("first/flushed-commits", "dm-0"),
        ("second/six-table", "md0"),
        ("third/large-scattered", "bcache0"),
        ("third/missed-everywhere", "dm-0"),
        ("third-programs/parts-guests", "vdd"),
    ],
)
def test_the_device_that_all_io_passes_through_is_looked_at_first(recording: str, device: str) -> None:
    """Neither bcache nor the hidden volumes of dm-cache trace remaps: the recording says what is above what."""
    assert ProfileView(characterise([str(RECORDINGS / recording)], _core.Filter())).focus.label == device


def test_the_first_screen_has_30_lines_of_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    bundled_trace = Path("tests/data/traces/pgbench-raid1")
    for recording in (
        RECORDINGS / "first" / "unequal-mixed",
        RECORDINGS / "second" / "replaced-lookups",
        bundled_trace,
    ):
        lines = run("trace", "stat", recording).out.splitlines()
        assert len(lines) <= 30
        assert max(len(line) for line in lines if str(recording) not in line) <= 80
        assert any(line.startswith("Cause ") for line in lines)


def test_several_directories_have_a_row_each(run: Run) -> None:
    names = ["unequal-mixed", "mirror-light-mixed", "flushed-commits"]
    out = run("trace", "stat", *(RECORDINGS / "first" / name for name in names)).out
    rows = [line.split() for line in out.splitlines() if line.startswith(tuple(names))]
    assert [row[0] for row in rows] == names
    assert [rows[0][-1], rows[2][-1]] == ["slow-member", "flushes"]


def test_a_recording_that_is_given_twice_is_refused(run: Run, tmp_path: Path) -> None:
    records = [Record(1000, Q, QUEUED | WRITE, 8, 4096), Record(2000, C, COMPLETED | WRITE, 8, 4096)]
    write_trace(tmp_path / "a", records)
    write_trace(tmp_path / "b", records)
    refused = run("trace", "stat", tmp_path)
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.endswith("begin with the same event: give this recording once\n")


def test_freezes_of_a_disk_are_named_although_they_are_the_99th_percentile(tmp_path: Path) -> None:
    rng = random.Random(5)
    records, now = [], 0.0
    while now < 60e9:  # 200 IOPS of 1 ms; after 8 of each 10 s, the disk stops for 2 s
        now += rng.expovariate(200 / 1e9)
        ended, sector = now + 1e6 * rng.uniform(0.5, 1.5), 8 * rng.randrange(1 << 24)
        if ended % 10e9 >= 8e9:
            ended = (ended // 10e9 + 1) * 10e9 + rng.uniform(0, 1e6)
        records.append(Record(int(now), Q, QUEUED | READ, sector, 4096))
        records.append(Record(int(ended), C, COMPLETED | READ, sector, 4096))
    trace = write_trace(tmp_path / "sdb", sorted(records, key=lambda record: record.time))
    view = ProfileView(characterise([str(trace)], _core.Filter()))
    (cause,) = causes(view)
    assert (cause.code, cause.subject) == ("stalls", "sdb")
    assert "6 times, 20 % of the time" in cause.message
    assert len(view.focus.data.slow.stalls) == 6


def test_a_sidecar_gives_devices_their_names_and_damage_in_it_is_harmless(run: Run, tmp_path: Path) -> None:
    dm, md = (253 << 20) + 1, 9 << 20
    remap = struct.pack(">IIQ", dm, md, 8)
    records = [
        Record(500, REMAP, QUEUED | READ, 8, 4096, device=md, pdu=remap),
        Record(1000, Q, QUEUED | READ, 8, 4096, device=md),
        Record(2000, C, COMPLETED | READ, 8, 4096, device=md),
    ]
    write_trace(tmp_path / "md0", records)
    layers = [
        {"number": "253:1", "name": "dm-1", "label": "vg0/home", "kind": "dm", "above": [], "role": None},
        {"number": "9:0", "name": "md0", "label": "md0", "kind": "md", "above": ["dm-1"], "role": None},
    ]
    sidecar = tmp_path / "md0.blklab.json"
    sidecar.write_text(json.dumps({"stack": layers}))
    assert "vg0/home" in " ".join(run("trace", "stat", tmp_path / "md0", "--full").out.split())
    for damaged in (
        '{"stack": 7}',
        "[",
        '{"stack": [{"number": 1}]}',
        json.dumps({"stack": [{"above": ["dm-1"]}] * 2}),
    ):
        sidecar.write_text(damaged)
        assert run("trace", "stat", tmp_path / "md0").status == 0


MD, A, B = 9 << 20, 8 << 20, (8 << 20) + 16


def life(time: float, took: float, device: int, sector: int, pid: int = 1, category: int = READ) -> list[Record]:
    """Returns the events of an I/O of 4 KiB, dispatched 1 µs after it was queued; md has no dispatch."""
    events = [(0.0, Q, QUEUED), (1000.0, D, ISSUED), (took, C, COMPLETED)]
    return [
        Record(int(time + after), code, of | category, sector, 4096, pid, device)
        for after, code, of in events
        if (code, device) != (D, MD)
    ]


def below(time: float, member: int, sector: int, pid: int) -> Record:
    return Record(
        int(time), REMAP, QUEUED | READ, sector, 4096, pid, member, pdu=struct.pack(">IIQ", MD, member, sector)
    )


def found(directory: Path, records: list[Record], *names: Record, process: str | None = None) -> list[str]:
    trace = write_trace(directory / "t", [*names, *sorted(records, key=lambda record: record.time)])
    chosen = _core.Filter(processes=[process]) if process else _core.Filter()
    return [cause.code for cause in causes(ProfileView(characterise([str(trace)], chosen)))]


def mirror(reads: int) -> list[Record]:
    """Returns reads of a mirror: process 1 reads from one member, process 2 from the other."""
    records: list[Record] = []
    for number in range(reads):
        at, sector, side = 1e6 * number, 8000 * number, number % 2
        records += [*life(at, 3e5, MD, sector, 1 + side), below(at + 10, (A, B)[side], sector, 1 + side)]
        records += life(at + 20, 2e5, (A, B)[side], sector, 1 + side)
    return records


def test_a_filter_that_leaves_one_member_is_no_array(tmp_path: Path) -> None:
    names = process(1, b"fio"), process(2, b"postgres")
    assert found(tmp_path, mirror(200), *names) == []
    assert found(tmp_path, mirror(200), *names, process="fio") == []


def test_an_array_with_parity_that_is_only_read(tmp_path: Path) -> None:
    rebuilt = [record for number in range(6) for record in life(3e8 + 1e6 * number, 2e5, B, 80 * number, 3)]
    assert found(tmp_path, mirror(200) + rebuilt, process(3, b"md0_raid5")) == []


def test_one_lost_completion_is_neither_a_stall_nor_writeback(tmp_path: Path) -> None:
    healthy = [record for n in range(3000) for record in life(2e7 * n, 8e4, A, 8000 * n)]
    for category in (READ, WRITE):
        lost = life(1000, 1, A, 8 * 10**7, 2, category)[:2]
        assert found(tmp_path, healthy + lost) == []


def test_background_writes_during_quick_reads_are_no_cause(tmp_path: Path) -> None:
    reads = [record for n in range(3000) for record in life(2e5 * n, 8e4, A, 8000 * n)]
    writes = [record for n in range(600) for record in life(1e6 * n, 9.9e5, A, 4000 + 8000 * n, 2, WRITE)]
    assert found(tmp_path, reads + writes, process(2, b"kworker/u8:1")) == []


def test_errors_come_first(run: Run, tmp_path: Path) -> None:
    records = [record for n in range(100) for record in life(1e6 * n, 1e5, A, 8000 * n)]
    failed = [replace(record, error=5) if record.code == C and record.sector < 80000 else record for record in records]
    write_trace(tmp_path / "t", failed)
    out = run("trace", "stat", tmp_path / "t").out
    assert "Errors  t: 10 I/Os failed: look into the kernel's log first" in out


def test_names_of_processes_are_quoted_in_commands(run: Run, tmp_path: Path) -> None:
    slow = [record for n in range(60) for record in life(4e6 * n, 3e6, A, 8000 * n, 1)]
    quick = [record for n in range(60) for record in life(4e6 * n + 3.2e6, 1e5, A, 8000 * n + 800, 2)]
    names = process(1, b";reboot;#"), process(2, b"fio")
    write_trace(tmp_path / "t", [*names, *sorted(slow + quick, key=lambda record: record.time)])
    assert "--process ';reboot;#'" in " ".join(run("trace", "stat", tmp_path / "t").out.split())
