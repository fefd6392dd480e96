"""`blklab cache advise` with loads for which the truth is known."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blklab.advise import samples
from tests.conftest import Run
from tests.trace.generated import COMPLETED, QUEUED, READ, SYNC, WRITE, C, Q, Record, write_trace

TRACE = "tests/data/traces/pgbench-raid1"
MIB = 1 << 20
IOS = 6_000
EVERY = 15_000  # Microseconds between I/Os
SLOW = "2xhdd-7200:1TiB"


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def written(direction: str, offsets: Iterator[int], size: int = 4096) -> Path:
        path = tmp_path / "load.iolog"
        lines = [
            f"{at * EVERY} disk {direction} {offset} {size}" for at, offset in zip(range(IOS), offsets, strict=False)
        ]
        path.write_text("\n".join(["fio version 3 iolog", "0 disk add", "0 disk open", *lines, ""]))
        return path

    return written


def pages(below: int, seed: int = 1) -> Iterator[int]:
    draw = random.Random(seed)
    while True:
        yield draw.randrange(below // 4096) * 4096


def answer(run: Run, *words: object) -> dict[str, Any]:
    done = run("cache", "advise", *words, "--json")
    assert done.status == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def test_there_is_no_verdict_on_latencies_that_are_not_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (TRACE, "--device", "md127", "--slow", SLOW, "--fast", "pm983")
    monkeypatch.setattr(samples, "NOT_KNOWN", 1.0)
    done = run("cache", "advise", *words)
    assert done.status == 0, done.err
    text = " ".join(done.out.split())
    assert "is worth it is not known: nine of ten measurements of the mean latency are " in text
    assert "Yes: " not in text and "Mean latency of" not in text and "the 99th percentile is" not in text
    (row,) = [line for line in done.out.splitlines() if line.startswith("none ")][:1]
    assert row.count("not known") == 3, row
    document = answer(run, *words)
    assert (document["known"], document["certain"], document["without"]["today"][0]["known"]) == (False, False, False)


def test_a_database_on_rotating_disks_gains(run: Run) -> None:
    words = (TRACE, "--device", "md127", "--slow", SLOW, "--fast", "pm983")
    document = answer(run, *words)
    best = document["caches"][document["best"]]
    assert document["worth_it"]
    assert document["certain"]
    assert best["failures"] == document["without"]["failures"] == 1
    today, before = best["today"][0], document["without"]["today"][0]
    assert today["mean_ns"] < before["mean_ns"] / 2
    assert best["later_ns"] < today["mean_ns"]
    hits = document["warm_up"]["hit_ratios"]
    assert len(hits) == 8
    assert hits[0] < hits[-1]
    assert document["warm_up"]["first_p99_without_ns"] > 0
    # All kinds are next to each other, and only those that hold data have dirty data and survive no failure.
    levels = {row["words"].partition(", behind a ")[2].partition(" on ")[0]: row for row in document["caches"]}
    assert set(levels) == {
        "dm-cache (writethrough)", "dm-cache (writeback)", "bcache (writethrough)", "bcache (writeback)",
        "dm-writecache",
    }  # fmt: skip
    for words_of, row in levels.items():
        assert (row["dirty_bytes"] > 0) == (row["failures"] == 0) == ("writethrough" not in words_of)
    assert any(line.startswith("lvconvert") for line in document["script"])
    printed = run("cache", "advise", *words)
    assert printed.out.startswith("Answer")
    assert "cache check" in printed.out


def test_the_size_is_that_of_the_hot_data(run: Run, load: Any) -> None:
    hot = load("read", pages(32 * MIB))
    document = answer(run, hot, "--slow", SLOW, "--fast", "pm983")
    best = document["caches"][document["best"]]
    assert document["worth_it"]
    assert 32 * MIB <= best["bytes"] <= 128 * MIB
    assert best["hit_ratio"] > 0.9
    limited = answer(run, hot, "--slow", SLOW, "--fast", "pm983", "--budget", "16MiB")
    assert {row["bytes"] for row in limited["caches"]} <= {8 * MIB, 16 * MIB}
    assert limited["caches"][limited["best"]]["hit_ratio"] < best["hit_ratio"]


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("slow", [SLOW, "4xhdd-7200", "raid5:5xhdd-7200"])
def test_what_is_read_once_gains_nothing(run: Run, load: Any, scan: bool, slow: str) -> None:
    """A cache that divides the I/Os of a scan makes it faster: that is no reason to buy one."""
    trace = load("read", iter(range(0, IOS << 18, 1 << 18)), 1 << 18) if scan else load("read", pages(100 << 30))
    words = (trace, "--slow", slow, "--fast", "ssd-consumer", "--budget", "512MiB")
    document = answer(run, *words)
    assert not document["worth_it"]
    assert document["answer"].startswith("No: ")
    assert document["read_first_touch_ratio"] > 0.95
    assert "lvconvert" not in run("cache", "advise", *words).out


def test_times_are_needed_and_a_slower_disk_does_not_help(run: Run, load: Any, tmp_path: Path) -> None:
    trace = load("read", pages(32 * MIB))
    slower = answer(run, trace, "--slow", "2xpm983", "--fast", "hdd-7200")
    assert "is slower" in slower["answer"]
    without = tmp_path / "without.iolog"
    lines = ["fio version 2 iolog", "disk add", "disk open", *[f"disk read {at * 4096} 4096" for at in range(IOS)]]
    without.write_text("\n".join([*lines, "disk close", ""]))
    refused = run("cache", "advise", without, "--slow", SLOW, "--fast", "pm983")
    assert refused.status == 2, refused.out
    assert "expected the times of its I/Os" in refused.err


def test_writeback_is_nobodys_latency(run: Run, tmp_path: Path) -> None:
    """Reads of hot pages, and every second a burst of 100 scattered writes."""

    def advise(name: str, category: int) -> str:
        reads = zip(range(0, 20_000_000_000, 20_000_000), pages(32 * MIB), strict=False)
        ios = [(time, READ, offset) for time, offset in reads]
        scattered = pages(64 << 30)
        for second in range(1, 20):
            ios += [(second * 1_000_000_000 + number, category, next(scattered)) for number in range(100)]
        records = []
        for time, flags, offset in ios:
            records.append(Record(time, Q, QUEUED | flags, offset // 512, 4096))
            records.append(Record(time + 100_000, C, COMPLETED | flags, offset // 512, 4096))
        trace = write_trace(tmp_path / name, sorted(records, key=lambda record: record.time))
        done = run("cache", "advise", trace, "--slow", SLOW, "--fast", "pm983", "--json")
        assert done.status == 0, done.err
        return done.out

    waited = json.loads(advise("waited", WRITE | SYNC))["without"]["today"][0]["mean_ns"]
    background = json.loads(advise("background", WRITE))["without"]["today"][0]["mean_ns"]
    assert background < 0.5 * waited
    shown = run("cache", "advise", tmp_path / "background", "--slow", SLOW, "--fast", "pm983")
    assert "do not include 1,900 writes of the trace for which no program waits" in " ".join(shown.out.split())


def test_kinds_can_be_left_out(run: Run) -> None:
    words = (TRACE, "--device", "md127", "--slow", SLOW, "--fast", "pm983", "--budget", "512MiB")
    document = answer(run, *words, "--exclude", "bcache,writeback")
    kinds = {row["words"].partition(", behind a ")[2].partition(" on ")[0] for row in document["caches"]}
    assert kinds == {"dm-cache (writethrough)", "dm-writecache"}
    refused = run("cache", "advise", *words, "--exclude", "bcache,dm-cache,dm-writecache")
    assert (refused.status, "--exclude: leaves no kind of cache" in refused.err) == (2, True)


def test_a_cache_that_wears_out_soon_is_said(run: Run) -> None:
    words = ("--device", "md127", "--slow", SLOW, "--fast", "870-evo:4GiB", "--exclude", "dm-cache,dm-writecache")
    document = answer(run, TRACE, *words)
    best = document["caches"][document["best"]]
    assert best["rated_years"] < 1
    assert f"rated for after {best['rated_years'] * 365:.0f} days" in document["answer"]


def test_a_cache_of_writes_needs_a_mirror(run: Run, load: Any) -> None:
    trace = load("write", pages(2 << 30))
    single = answer(run, trace, "--slow", SLOW, "--fast", "pm983")
    assert not single["worth_it"]
    assert single["answer"].startswith("Not with 1 fast disk")
    mirrored = answer(run, trace, "--slow", SLOW, "--fast", "2xpm983")
    best = mirrored["caches"][mirrored["best"]]
    assert mirrored["worth_it"]
    assert best["failures"] == 1
    assert "writecache" in best["words"]
    assert any(line.startswith("mdadm --create /dev/md/cache") for line in mirrored["script"])


@pytest.mark.parametrize(
    ("slow", "fast", "message"),
    [
        ("2xhdd-7200", "hdd-7200", "--fast 'hdd-7200': is the model of --slow"),
        ("2xhdd-720", "pm983", "--slow '2xhdd-720': "),
        ("hdd-7200", "pm98", "--fast 'pm98': "),
        ("raid6:3xhdd-7200", "pm983", "raid6 of 3 × hdd-7200: not possible; expected raid0, raid1, raid5, raid10"),
        ("raid1:hdd-7200", "pm983", "raid1 of 1 × hdd-7200: not possible; expected no level"),
        ("2xhdd-7200:512MiB", "pm983", "beyond the end of stack"),
    ],
)
def test_disks_that_cannot_be_used_are_one_line(run: Run, slow: str, fast: str, message: str) -> None:
    done = run("cache", "advise", TRACE, "--device", "md127", "--slow", slow, "--fast", fast)
    assert done.status == 2, done.out
    assert message in done.err
    assert done.err.count("\n") == 1


def test_levels_are_those_that_were_asked_for(run: Run) -> None:
    few = (TRACE, "--device", "md127", "--fast", "pm983:64GiB", "--budget", "512MiB")
    for slow, words in {"hdd-7200": "a single", "4xhdd-7200": "RAID-10", "raid6:4xhdd-7200": "RAID-6"}.items():
        assert answer(run, *few, "--slow", slow)["without"]["words"].startswith(words)


def test_a_load_with_a_rate_needs_no_trace(run: Run) -> None:
    words = ("--load", "vm:2", "--slow", "2xhdd-7200:1TiB", "--fast", "2xpm983:64GiB", "--exclude", "bcache")
    document = json.loads(run("cache", "advise", *words, "--json").out)
    assert document["worth_it"]
    best = document["caches"][document["best"]]
    assert best["bytes"] >= 2 * 19.4e9, "the cache holds what both machines use"
    assert best["failures"] == 1
    assert "2 virtual machines" in document["load"][0]
    assert document["answer"].startswith("No cache is needed: all 36.1 GiB fit on the fast disks. ")
    single = [*words[:-3], "pm983:64GiB", *words[-2:]]
    alone = json.loads(run("cache", "advise", *single, "--json").out)
    assert "No cache is needed" not in alone["answer"], "a single fast disk is no place for data without a copy"
    terminal = " ".join(run("cache", "advise", *words).out.split())
    assert "Assumed 2 virtual machines with 74.2 I/Os per second" in terminal


def test_data_that_are_read_once_need_no_cache(run: Run) -> None:
    words = ("--load", "media:3", "--slow", "4xhdd:8TB", "--fast", "2xpm983:960GB")
    done = run("cache", "advise", *words)
    assert done.out.startswith("Answer")
    assert "No: even " in done.out
    assert "only reads ahead, since this load reads its data once." in " ".join(done.out.split())
    assert "lvconvert" not in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no load: give a TRACE, --load or --load-from"),
        (["--load", "vm:2", TRACE], "more than one load: expected a TRACE, --load or --load-from"),
        (["--load", "vm:2", "--device", "md0"], "--device: is the device of a trace"),
        ([TRACE, "--working-set", "8g"], "--working-set: a trace says what it uses"),
        (["--load", "vn:2"], "--load 'vn:2': no such load; did you mean 'vm'?"),
    ],
)
def test_the_load_is_said_once(run: Run, words: list[str], message: str) -> None:
    refused = run("cache", "advise", *words, "--slow", "2xhdd-7200", "--fast", "pm983")
    assert (refused.status, refused.out) == (2, "")
    assert message in refused.err
