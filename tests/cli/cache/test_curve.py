"""`blklab cache curve`, end to end."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Returns a trace in a table: a hot region that is read again and again, and a scan that is written once."""
    path = tmp_path / "volume.csv"
    hot = [f"{at * 0.01:.2f},R,{at * 7 % 64 * 128 + 8 * (at % 16)},4096" for at in range(4000)]
    scan = [f"{40 + at * 0.01:.2f},W,{1_024_000 + at * 128},65536" for at in range(1000)]
    path.write_text("\n".join(["time,op,sector,size", *hot, *scan]) + "\n")
    return path


COLUMNS = ("--columns", "time=time,op=op,sector=sector,size=size")


def test_a_curve_has_floor_hits_and_interval_of_each_policy(run: Run, trace: Path) -> None:
    done = run(
        "cache", "curve", trace, *COLUMNS, "--sizes", "1MiB,4MiB,64MiB", "--policy", "lru", "--policy", "opt", "--json"
    )
    assert done.status == 0, done.err
    document = json.loads(done.out)
    (block,) = document["blocks"]
    assert (document["requests"], document["reads"]) == (5000, 4000)
    # 64 blocks are read, 1,000 are written once.
    assert block["footprint_bytes"] == 1064 * 65536
    assert block["read_first_touch_ratio"] == pytest.approx(64 / 4000)
    assert block["write_first_touch_ratio"] == pytest.approx(1)
    lru, opt = block["curves"]
    assert [point["cache_bytes"] for point in lru["points"]] == [1 << 20, 1 << 22, 1 << 26]
    # 7 is prime to 64: a block is read again after all others, so that LRU needs all 64, and OPT does not.
    assert [point["read_hit_ratio"] for point in lru["points"]] == pytest.approx([0, 3936 / 4000, 3936 / 4000])
    assert 0.15 < opt["points"][0]["read_hit_ratio"] < 0.25
    assert lru["error"] == opt["error"] == 0


def test_smq_and_bcache_are_simulated(run: Run, trace: Path) -> None:
    done = run("cache", "curve", trace, *COLUMNS, "--sizes", "512MiB", "--json")
    assert done.status == 0, done.err
    curves = {curve["policy"]: curve["points"][0] for curve in json.loads(done.out)["blocks"][0]["curves"]}
    assert list(curves) == ["smq", "bcache", "lru", "opt"]
    assert 0.5 < curves["smq"]["read_hit_ratio"] < curves["opt"]["read_hit_ratio"]
    # bcache caches the 4 KiB that were read: 64 blocks × the pages that were read before.
    assert 0.2 < curves["bcache"]["hit_ratio"] <= 1
    assert curves["bcache"]["write_hit_ratio"] is None
    assert curves["smq"]["low"] < curves["smq"]["hit_ratio"] < curves["smq"]["high"]
    for exact in ("bcache", "lru", "opt"):
        assert curves[exact]["low"] == curves[exact]["hit_ratio"] == curves[exact]["high"]
    shown = run("cache", "curve", trace, *COLUMNS, "--sizes", "512MiB", "--policy", "smq", "--policy", "lru").out
    half = 50 * (curves["smq"]["high"] - curves["smq"]["low"])
    assert f"{100 * curves['smq']['hit_ratio']:.1f} % ±{half:.1f}" in shown


def test_the_terminal_says_what_no_cache_serves(run: Run, trace: Path) -> None:
    done = run("cache", "curve", trace, *COLUMNS, "--sizes", "1MiB,4MiB,1GiB", "--policy", "lru")
    assert "21 % of the accesses (1.6 % of reads, 100 % of writes) are the first" in " ".join(done.out.split())
    assert "Hit ratio by cache size, blocks of 64 KiB" in done.out
    assert "a cache of 1 GiB is larger than the 66.5 MiB that the trace touches" in done.err


def test_bcache_has_no_figures_where_the_kernel_refuses_it(run: Run, trace: Path) -> None:
    done = run("cache", "curve", trace, *COLUMNS)
    assert "bcache has no figures below 256.5 MiB: the kernel refuses 512 buckets" in " ".join(done.out.split())
    assert "bcache" not in done.out.split("Hit ratio by cache size")[1]


def test_blocks_that_dm_cache_refuses_have_no_smq(run: Run, trace: Path) -> None:
    done = run("cache", "curve", trace, *COLUMNS, "--block", "4k,64k", "--sizes", "1MiB,512MiB", "--policy", "smq")
    reason = "smq has no figures for blocks of 4 KiB: dm-cache's chunks are multiples of 32 KiB"
    assert reason in done.err
    done = run("cache", "curve", trace, *COLUMNS, "--block", "4k", "--json")
    assert (done.status, reason in done.err) == (0, True)
    (block,) = json.loads(done.out)["blocks"]
    assert (block["block_bytes"], block["accesses"]) == (4096, 4000 + 1000 * 16)
    points = {curve["policy"]: len(curve["points"]) for curve in block["curves"]}
    assert (points["smq"], points["bcache"]) == (0, 0)
    assert points["lru"] == points["opt"] == 11
    assert not run("cache", "curve", trace, *COLUMNS, "--block", "4k", "--policy", "lru").err


def test_times_of_one_second_are_spread_and_equal_ones_are_a_band(run: Run, trace: Path) -> None:
    def smq(pattern: str, to: str) -> tuple[dict[str, float], str]:
        path = trace.with_name("other.csv")
        path.write_text(re.sub(pattern, to, trace.read_text(), flags=re.M))
        done = run(
            "cache", "curve", path, *COLUMNS, "--policy", "smq", "--sizes", "2MiB", *("--volume-size", "1TiB"), "--json"
        )
        return json.loads(done.out)["blocks"][0]["curves"][0]["points"][0], done.err

    exact, doubt = smq("^$", "")
    assert "times" not in doubt
    spread, doubt = smq(r"^(\d+)\.\d+", r"\1")
    assert "the times are multiples of 1 s: I/Os of one time are spread over it" in doubt
    assert exact["low"] <= spread["hit_ratio"] <= exact["high"]
    equal, doubt = smq(r"^\d+\.\d+", "7")
    assert "all I/Os have the same time, but smq promotes by misses a second: its figures are a band" in doubt
    assert equal["low"] < equal["high"]


def test_one_read_at_the_end_of_the_volume_changes_nothing(run: Run, trace: Path) -> None:
    def smq(*arguments: str) -> tuple[dict[str, float], str]:
        done = run("cache", "curve", trace, *COLUMNS, "--policy", "smq", "--sizes", "2MiB", *arguments, "--json")
        assert done.status == 0, done.err
        return json.loads(done.out)["blocks"][0]["curves"][0]["points"][0], done.err

    known, _ = smq("--volume-size", "8TiB")
    unknown, doubt = smq()
    assert "smq depends on the size of the volume, which is not known: its figures are a band between 562 MiB" in doubt
    assert "1 GiB or more: give `cache curve` --volume-size" in doubt
    with trace.open("a") as file:
        file.write("50.00,R,8589934584,4096\n")
    more, doubt = smq("--volume-size", "8TiB")
    assert more["hit_ratio"] == pytest.approx(known["hit_ratio"], abs=0.001)
    assert smq()[0]["hit_ratio"] == more["hit_ratio"], "the last sector shows that the volume is large"
    assert not doubt
    assert unknown["low"] <= known["low"] < known["high"] <= unknown["high"]


def test_the_size_of_the_volume_is_that_of_the_recording(run: Run, tmp_path: Path) -> None:
    recorded = Path("tests/data/traces/pgbench-raid1")
    for file in recorded.glob("md127.blktrace.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for bytes_, expected in ((1 << 40, 1 << 40), (1 << 20, None)):
        stack = [{"number": "9:127", "name": "md127", "kind": "md", "bytes": bytes_}]
        (tmp_path / "md127.blklab.json").write_text(json.dumps({"stack": stack}))
        done = run("cache", "curve", tmp_path / "md127", "--policy", "smq", "--sizes", "64MiB", "--json")
        assert json.loads(done.out)["volume_bytes"] == expected


def test_two_sizes_have_no_knee(run: Run, trace: Path) -> None:
    two = run("cache", "curve", trace, *COLUMNS, "--sizes", "1MiB,4MiB", "--policy", "lru").out
    assert "knee" not in two
    assert "lru: 4 MiB serves" in two
    assert "no knee" in run("cache", "curve", trace, *COLUMNS, "--sizes", "4MiB,8MiB,16MiB", "--policy", "lru").out


def test_a_page_has_a_chart_for_each_block_size(run: Run, trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "curve.html"
    done = run(
        "cache", "curve", trace, *COLUMNS, "--block", "64k,256k", "--policy", "smq", "-o", page, "--title", "<b>"
    )
    assert done.status == 0, done.err
    html = page.read_text()
    assert '"hit-ratio-64k"' in html
    assert '"hit-ratio-256k"' in html
    assert "<title>&lt;b&gt;</title>" in html


def test_a_trace_without_times_gives_a_band(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = ["fio version 2 iolog", "/dev/sda add", "/dev/sda open"]
    lines += [f"/dev/sda read {at * 7 % 640 * 65536} 4096" for at in range(20_000)]
    path.write_text("\n".join(lines) + "\n")
    done = run("cache", "curve", path, "--policy", "smq", "--json")
    assert "no times, but smq promotes by misses a second: its figures are a band between 100 and 10,000" in done.err
    document = json.loads(done.out)
    assert document["span_ns"] is None
    assert any(point["low"] < point["high"] for point in document["blocks"][0]["curves"][0]["points"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--block", "6k"], "--block 6 KiB: expected a multiple of 4 KiB from 4 KiB to 1 GiB"),
        (["--block", "48k", "--policy", "smq"], "--block 48 KiB: smq expects a multiple of 32 KiB, as dm-cache does"),
        (["--sizes", "32k"], "--sizes 32 KiB: less than one block of 64 KiB; give another size or --block"),
        (["--sizes", "256MiB"], "--sizes 256 MiB: the kernel refuses bcache with 512 buckets or fewer: give 256.5 MiB"),
        (["--volume-size", "1MiB"], "--volume-size 1 MiB: expected 576000 KiB or more: the trace reaches so far"),
        (["--kernel", "3.2"], "--kernel 3.2: expected a version from 4.2 on, such as 6.1, or a commit"),
        (["--sample", "200%"], "'200%': expected a share of the blocks, such as 1% or 0.01"),
    ],
)
def test_impossible_options_are_one_line(run: Run, trace: Path, arguments: list[str], message: str) -> None:
    done = run("cache", "curve", trace, *COLUMNS, *arguments)
    assert done.status == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_pipe_cannot_be_read_twice(run: Run) -> None:
    done = run("cache", "curve", "-")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "the trace is read twice for smq and bcache" in done.err


def test_the_answer_comes_first_and_the_axis_ends_where_the_figures_end(run: Run, trace: Path, tmp_path: Path) -> None:
    sizes = ("--sizes", "1MiB,4MiB,64MiB", "--policy", "lru")
    shown = run("cache", "curve", trace, *COLUMNS, *sizes).out
    answer = " ".join(shown.split("First touch")[0].split())
    assert (
        "Answer Worth it: a cache that keeps the latest blocks (LRU) of 4 MiB answers about 98 % of the reads" in answer
    )
    assert "larger does not help; 2 % are the first to their block" in answer

    scan = tmp_path / "scan.csv"
    lines = [f"{at * 0.01:.2f},R,{at * 128},4096" for at in range(2000)]
    lines += [f"{20 + at * 0.01:.2f},R,{at * 128},4096" for at in range(200)]
    scan.write_text("\n".join(["time,op,sector,size", *lines]) + "\n")
    page = tmp_path / "curve.html"
    assert run("cache", "curve", scan, *COLUMNS, "--sizes", "1MiB,256MiB", "--policy", "lru", "-o", page).status == 0
    html = re.sub(r"</?b>|\xa0", lambda tag: " " if tag[0] == "\xa0" else "", page.read_text())
    assert "Hardly worth it" in html
    assert '"scale":{"domain":[0,0.1' in html


def test_of_several_devices_that_of_trace_stat_counts(run: Run) -> None:
    recorded = Path("tests/data/traces/pgbench-raid1")
    focus = json.loads(run("trace", "stat", recorded, "--json").out)["focus"]
    chosen = run("cache", "curve", recorded, "--policy", "lru", "--json", "--device", focus)
    done = run("cache", "curve", recorded, "--policy", "lru", "--json")
    assert json.loads(done.out) == json.loads(chosen.out)
    assert "the device is md127, through which the whole workload passes; --device chooses another" in done.err
    assert "through which the whole workload passes" not in chosen.err
