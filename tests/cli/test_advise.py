"""`blklab advise`, end to end."""

import json
import tomllib
from pathlib import Path

import pytest

from blklab.advise import race as racing
from blklab.advise import samples
from tests.conftest import Run

TRACE = "tests/data/traces/pgbench-raid1"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(racing, "LONGEST", 1_024)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_answer_for_a_trace(run: Run, tmp_path: Path) -> None:
    experiment, page = tmp_path / "advice.toml", tmp_path / "advice.html"
    command = (
        "advise", "--trace", TRACE, "--device", "md127", "--devices", "2xpm983:64GiB,2xhdd-7200:1TiB",
        "-o", experiment, "--html", page,
    )  # fmt: skip
    done = run(*command, "--json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    best = document["arrangements"][0]
    assert best["failures"] >= 1
    assert all("pm983" in disk for disk in best["disks"])
    assert document["search"]["ios"] < document["search"]["ios_in_full"]
    assert "mdadm --create" in "\n".join(document["script"])
    assert "Latency and capacity" in page.read_text()
    # The experiment that it wrote has the trace as a job file, which every runner takes.
    planned = run("run", experiment, "--dry-run", "--json")
    assert planned.status == 0, planned.err
    assert len(json.loads(planned.out)["cells"]) == min(4, len(document["arrangements"]))
    again = run(*command, "--json")
    assert json.loads(again.out) == document
    terminal = run(*command, "--full")
    assert terminal.out.startswith("Build")
    assert "None of these is better than another" in terminal.out
    assert "To build it on Debian, as root" in terminal.out
    commands = run(*command, "--script")
    assert "To build it on Debian, as root" in commands.out
    assert "None of these is better than another" not in commands.out


def test_latencies_that_are_not_known_are_not_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "NOT_KNOWN", 1.0)
    page = tmp_path / "advice.html"
    command = ("advise", "--trace", TRACE, "--device", "md127", "--devices", "2xpm983:64GiB", "--html", page)
    done = run(*command, "--full")
    assert done.status == 0, done.err
    words = " ".join(done.out.split())
    assert "The mean latency is not known (nine of ten measurements: " in words
    assert "It serves" not in words
    assert "(nine of ten measurements)." in words
    table = done.out.split("None of these is better")[1]
    (row,) = [line for line in table.splitlines() if line.startswith("1 ")][:1]
    assert row.count("not known") == 3, row  # The mean, the 99th percentile and the headroom
    assert "Latency and capacity" not in page.read_text()
    document = json.loads(run(*command, "--json").out)
    best = document["arrangements"][0]
    assert [sample["known"] for sample in best["today"]] == [False]
    assert best["today"][0]["mean_ns"] > 0


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--load", "database"], 2, "no disks: give --devices"),
        (["--devices", "2xpm983"], 2, "no load: give --trace"),
        (["--load", "databse", "--devices", "2xpm983"], 2, "no such load; did you mean 'database'?"),
        (["--trace", "/absent", "--devices", "2xpm983"], 2, "/absent"),
        (["--load", "backup", "--devices", "1xpm983"], 1, "relax one of these: --failures 0"),
        (["--load", "backup", "--devices", "2xpm983", "--budget", "1"], 2, "--budget: needs the --price of each disk"),
        (["--load", "backup", "--devices", "2xpm983", "--price", "sm883=1"], 2, "--price: no disk 'sm883'"),
        (["--load", "backup", "--devices", "2xpm983", "--growth", "0x"], 2, "expected a factor from 0.001 to 1000"),
        (["--load", "backup", "--devices", "2xpm983,sm883", "--price", "sm883=1"], 2, "--price: none for 'pm983'"),
        (["--load", "backup", "--devices", "2xpm983", "--budget", "nan"], 2, "expected an amount from 0"),
        (["--load", "backup", "--devices", "2xpm983", "--budget", "inf"], 2, "expected an amount from 0"),
        (["--load", "backup", "--devices", "1xpm983,"], 1, "survives 1 failure, as asked"),
        (["--load", "backup", "--devices", "2xpm983", "--growth", "2x"], 2, "--growth: only a load with a rate can"),
        (["--load", "backup", "--devices", "2xpm983", "--device", "md0"], 2, "--device: is the device of a trace"),
        (["--load", "backup", "--devices", "2xpm983", "--exclude", "bcach"], 2, "did you mean 'bcache'?"),
    ],
)
def test_a_question_without_an_answer_is_one_line(run: Run, words: list[str], status: int, message: str) -> None:
    done = run("advise", *words)
    assert done.status == status, done.err
    assert message in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_a_load_with_a_rate_wears_disks_as_it_writes(run: Run) -> None:
    done = run("advise", "--load", "vm:12", "--devices", "2xpm983:480GB", "--json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    best = document["arrangements"][0]
    (today,) = best["today"]
    assert today["iops"] == pytest.approx(445, rel=0.03)
    # 40 % of 445 I/Os are writes of 19.3 KiB: 305 GB a day, and the bitmap.
    written = best["drive_writes_per_day"] * 480e9
    assert 280e9 < written < 400e9
    assert best["headroom"] > 2
    # md limits a rebuild to 200,000 KiB a second: 39 minutes at least. Saturated disks take days.
    assert 2_300 < best["rebuild_seconds"] < 18_000
    assert "12 virtual machines with 445 I/Os per second" in document["assumed"][0]
    terminal = " ".join(run("advise", "--load", "vm:12", "--devices", "2xpm983:480GB", "--full").out.split())
    assert "times this load." in terminal
    assert "Assumed 12 virtual machines" in terminal
    assert "a day are written to the flash disk that is written most" in terminal


def test_a_rate_can_grow(run: Run) -> None:
    words = ("advise", "--load", "postgresql:100tps", "--devices", "2xpm983:480GB", "--json")
    (now,) = json.loads(run(*words).out)["arrangements"][0]["today"]
    (grown,) = json.loads(run(*words, "--growth", "3x").out)["arrangements"][0]["today"]
    assert grown["iops"] == pytest.approx(3 * now["iops"], rel=0.03)


def test_the_experiment_of_a_rate_is_for_every_runner(run: Run, tmp_path: Path) -> None:
    experiment = tmp_path / "advice.toml"
    done = run("advise", "--load", "media:3", "--devices", "2xpm983:480GB", "--growth", "2x", "-o", experiment)
    assert done.status == 0, done.err
    planned = run("run", experiment, "--dry-run", "--json")
    assert planned.status == 0, planned.err
    (workload,) = tomllib.loads(experiment.read_text())["workloads"].values()
    rates = [int(job["rate"]) for job in workload["jobs"].values()]
    assert sum(rates) == pytest.approx(2 * 3 * 32.8e6 / 8, rel=0.001)


def test_the_load_of_a_machine_is_what_iostat_says(run: Run) -> None:
    words = ("advise", "--load-from", "tests/data/activity/iostat-12-xm.txt", "--devices", "2xpm983:480GB")
    done = run(*words)
    assert done.status == 0, done.err
    terminal = " ".join(run(*words, "--full").out.split())
    assert "times today's load. The busiest report has 1.85 times the mean rate." in terminal
    assert "Assumed 86.7 reads per second" in terminal
    vda = json.loads(run(*words, "--device", "vda", "--json").out)
    assert vda["assumed"] != json.loads(run(*words, "--json").out)["assumed"]


def test_a_machine_that_does_nearly_nothing_has_an_answer(run: Run, tmp_path: Path) -> None:
    report = "Device tps kB_read/s kB_wrtn/s kB_read kB_wrtn\nsda 0.01 0.04 0.00 1 1\n"
    (tmp_path / "idle.txt").write_text(report)
    done = run("advise", "--load-from", tmp_path / "idle.txt", "--devices", "2xhdd-7200:1TiB", "--json")
    assert done.status == 0, done.err
    assert any("has a low rate: 64 I/Os" in note for note in json.loads(done.out)["notes"])


def test_data_larger_than_a_cache_can_simulate_are_smaller_in_the_same_ratio(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "CACHED_BYTES", 1 << 30)
    words = ("--load", "vm:4", "--working-set", "8g", "--devices", "2xhdd-7200:1TiB,2xpm983:64GiB")
    document = json.loads(run("advise", *words, "--exclude", "bcache", "--capacity", "500GiB", "--json").out)
    assert any("and a cache in the same ratio" in note for note in document["notes"])


def test_a_trace_of_a_single_io_has_an_answer(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "short.iolog"
    log.write_text("fio version 3 iolog\n0 disk add\n0 disk open\n1000 disk read 0 4096\n2000 disk close\n")
    done = run("advise", "--trace", log, "--devices", "2xpm983", "--json")
    assert done.status == 0, done.err
    assert any("is short: 1 I/O, whose" in note for note in json.loads(done.out)["notes"])


def test_a_search_needs_no_place_for_finished_simulations(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = run("advise", "--load", "database", "--working-set", "1g", "--devices", "2xsm883")
    assert (done.status, done.out.startswith("Build")) == (0, True)
    assert "warning" in done.err
    assert "an interrupted search cannot continue" in done.err


def test_the_cache_of_the_winner_is_explained_as_it_is(run: Run) -> None:
    """Of two fast disks, a cache of copies may use one."""
    words = ("--load", "database", "--working-set", "1g", "--devices", "2xhdd-7200:1TiB,2xpm983:64GiB")
    excluded = ("--exclude", "bcache,dm-writecache,writeback", "--capacity", "500GiB")
    document = json.loads(run("advise", *words, *excluded, "--json").out)
    best, cache = document["arrangements"][0], document["cache"]
    assert best["words"].endswith("behind a dm-cache (writethrough) on a single pm983")
    advised = cache["caches"][cache["best"]]
    assert "of a single pm983" in advised["words"]
    assert cache["without"]["words"] == best["words"].split(", behind a ")[0]
    assert advised["words"].count("behind a") == 1


@pytest.mark.parametrize("words", [["2", "x", "pm983"], ["2x", "pm983"], ["2 x pm983"], ["2", "×", "pm983"]])
def test_a_count_may_stand_apart_from_its_model(run: Run, words: list[str]) -> None:
    result = run("advise", "--devices", *words, "--load", "no-such-load")
    assert "no-such-load" in result.err
    assert "--devices" not in result.err


def test_a_cause_that_a_trace_shows_comes_before_what_to_buy(run: Run) -> None:
    recording = "accuracy/causes/recordings/first/unequal-mixed"
    words = ("advise", "--trace", recording, "--devices", "2xpm983:64GiB")
    done = run(*words)
    assert done.status == 0, done.err
    first, build = (" ".join(done.out.split()).index(word) for word in ("First trace1: vdb", "Build RAID-1"))
    assert first < build
    assert "Try first: " in done.out
    document = json.loads(run(*words, "--json").out)
    assert [line["topic"] for line in document["summary"]][:2] == ["First", "Build"]
    healthy = run("advise", "--trace", TRACE, "--device", "md127", "--devices", "2xpm983:64GiB")
    assert healthy.out.startswith("Build")
