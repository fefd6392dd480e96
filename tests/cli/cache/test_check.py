"""`blklab cache check`, end to end."""

import json
from pathlib import Path
from typing import Any

import pytest

from blklab import _core
from blklab.caches import expected
from tests.conftest import Run

RECORDED = Path(__file__).parents[2] / "data" / "caches"

COLUMNS = ("--columns", "time=time,op=op,sector=sector,size=size")

ZERO = dict.fromkeys(("read_hits", "read_misses", "write_hits", "write_misses", "promotions", "demotions"), 0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Returns a trace of 20 s that reads 64 chunks again and again, 100 times a second."""
    path = tmp_path / "volume.csv"
    reads = [f"{at * 0.01:.2f},R,{at * 7 % 64 * 128 + 8 * (at % 16)},4096" for at in range(2000)]
    path.write_text("\n".join(["time,op,sector,size", *reads]) + "\n")
    return path


def status(path: Path, *, used: int = 0, **counters: int) -> Path:
    """Writes a document of `cache status --json` with a dm-cache of 64 MiB."""
    cache: dict[str, Any] = {
        "kind": "dm-cache", "name": "dm-3", "title": "vg0-data", "identity": "LVM-a", "mode": "writethrough",
        "policy": "smq", "size": 64 << 20, "used": used, "dirty": 0, "block": 1 << 16, "origin_size": 1 << 30,
        "settings": {}, "counters": ZERO | counters,
    }  # fmt: skip
    path.write_text(json.dumps({"kernel": "6.1.0-18-amd64", "caches": [cache]}))
    return path


def check(run: Run, trace: Path, *, used: int = 0, **counters: int) -> Any:
    before, after = status(trace.parent / "before", used=used), status(trace.parent / "after", **counters)
    return run("cache", "check", trace, *COLUMNS, "--before", before, "--after", after, "--json")


def test_counters_of_an_empty_cache_are_as_smq_makes_them(run: Run, trace: Path) -> None:
    first = json.loads(check(run, trace, read_misses=2000).out)
    expected = {figure["name"]: figure["low"] for figure in first["figures"]}
    # All 64 chunks fit, so that most reads hit; each chunk is promoted once.
    assert expected["read_hits"] > 0.9
    assert expected["promotions"] == 64
    assert (first["empty_at_first"], first["as_expected"]) == (True, False)
    hits = round(expected["read_hits"] * 2000)
    done = check(run, trace, read_hits=hits, read_misses=2000 - hits, promotions=64)
    assert (done.status, json.loads(done.out)["as_expected"]) == (0, True)


def test_what_a_cache_in_use_held_widens_the_range(run: Run, trace: Path) -> None:
    (hits, *_) = json.loads(check(run, trace, used=64 << 20, read_hits=2000).out)["figures"]
    assert hits["low"] < hits["high"] == 1.0
    assert hits["holds"] is True


def test_the_terminal_gives_a_verdict(run: Run, trace: Path) -> None:
    before, after = status(trace.parent / "before"), status(trace.parent / "after", read_misses=2000)
    done = run("cache", "check", trace, *COLUMNS, "--before", before, "--after", after)
    assert done.status == 1
    assert "vg0-data: 64 MiB, writethrough, smq of Linux 6.1" in done.out
    assert "The cache works NOT as its policy should." in done.out


@pytest.mark.parametrize(
    ("counters", "message", "exit_status"),
    [
        ({"read_misses": 500}, "it counted 500 accesses, but the trace has 2,000", 1),
        ({"read_misses": -1}, "caches.0.counters.read_misses: expected the output", 2),
    ],
)
def test_counters_of_another_trace_are_refused(
    run: Run, trace: Path, counters: dict[str, int], message: str, exit_status: int
) -> None:
    done = check(run, trace, **counters)
    assert (done.status, done.err.count("\n")) == (exit_status, 1)
    assert message in done.err


def test_a_file_that_is_no_status_is_refused(run: Run, trace: Path) -> None:
    done = run("cache", "check", trace, *COLUMNS, "--before", trace, "--after", trace)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "expected the output of `blklab cache status --json`" in done.err


def test_a_recorded_cache_counted_what_its_policy_does(run: Run) -> None:
    files = ("--before", RECORDED / "before.json", "--after", RECORDED / "after.json")
    done = run("cache", "check", RECORDED / "smq.tar.zst", *files, "--json")
    assert done.status == 0, done.err
    for figure in json.loads(done.out)["figures"]:
        slack = 0.005 if figure["name"].endswith("hits") else 0.05 * figure["high"]
        assert figure["low"] - slack <= figure["counted"] <= figure["high"] + slack, figure


def test_in_one_phase_of_the_second_a_replay_counts_the_same() -> None:
    before, kernel = expected.read_status(str(RECORDED / "before.json"), None)
    after, _ = expected.read_status(str(RECORDED / "after.json"), None)
    description: dict[str, Any] = {
        key: getattr(before, key) for key in ("kind", "policy", "mode", "size", "used", "block")
    } | {
        "origin": before.origin_size, "kernel": kernel, "sequential_cutoff": 0, "writeback_percent": 10
    }  # fmt: skip
    counted = after.counters
    replays = _core.cache_check([str(RECORDED / "smq.tar.zst")], description)
    close = [
        replay
        for replay in replays
        if abs(replay["read_hits"] - counted["read_hits"]) <= 0.005 * 7200
        and abs(replay["write_hits"] - counted["write_hits"]) <= 0.005 * 1800
        and replay["promotions"] == pytest.approx(counted["promotions"], rel=0.05)
    ]
    assert close, replays


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"used": 10**18, "size": 2**60}, "a cache of 17592186044416 blocks: expected 1 to 16777216"),
        ({"block": 0}, "block of 0 bytes: expected 32768 to 1073741824"),
        ({"block": 511}, "block of 511 bytes"),
        ({"size": 0}, "a cache of 0 blocks"),
        ({"size": -1}, "caches.0.size: expected the output of `blklab cache status --json`"),
        ({"size": "1"}, "caches.0.size: expected"),
        ({"mode": "x"}, 'mode "x": unknown to dm-cache'),
        ({"policy": None}, "caches.0.policy: expected"),
        ({"kind": "foo"}, "caches.0.kind: expected"),
        ({"counters": {"read_hits": "a"}}, "caches.0.counters.read_hits: expected"),
        ({"settings": []}, "caches.0.settings: expected"),
    ],
)
def test_impossible_caches_are_one_line(run: Run, trace: Path, changes: dict[str, Any], message: str) -> None:
    path = status(trace.parent / "status", read_misses=1)
    document = json.loads(path.read_text())
    document["caches"][0] |= changes
    path.write_text(json.dumps(document))
    done = run("cache", "check", trace, *COLUMNS, "--before", path, "--after", path)
    assert (done.status, done.err.count("\n")) == (2, 1), done.err
    assert message in done.err


def test_another_cache_is_refused(run: Run, trace: Path) -> None:
    before, after = status(trace.parent / "before"), status(trace.parent / "after", read_misses=2000)
    after.write_text(after.read_text().replace("LVM-a", "LVM-b"))
    done = run("cache", "check", trace, *COLUMNS, "--before", before, "--after", after)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "its identity was 'LVM-a' before and is 'LVM-b' after" in done.err


def test_counters_that_fell_are_refused(run: Run, trace: Path) -> None:
    before, after = status(trace.parent / "before", read_misses=9), status(trace.parent / "after", read_misses=8)
    done = run("cache", "check", trace, *COLUMNS, "--before", before, "--after", after)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "the counters began at 0 again" in done.err
