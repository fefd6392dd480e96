"""`blklab run`, from the command line to what is printed."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blklab.errors import UsageError
from tests.cli.test_signals import until
from tests.conftest import Run

EXAMPLES = Path(__file__).parents[2] / "examples"
UNBALANCED = EXAMPLES / "unbalanced.toml"


def test_a_fio_job_says_what_to_type(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.fio").write_text("[global]\ndirect=1\n[a]\nrw=randread\nbs=4k\nsize=1m\n")
    outcome = run("run", "one.fio")
    assert outcome.status == 2
    assert "blklab: error: one.fio: this is a fio job, which an experiment names with `job_file`" in outcome.err
    command = outcome.err.strip().partition("with the model of your disk: ")[2]
    command, _, experiment_command = command.partition(" && ")
    subprocess.run(["sh", "-c", command], check=True)
    words = experiment_command.split()
    assert words[0] == "blklab"
    assert run(*words[1:], "--dry-run").status == 0


def test_a_dry_run_shows_the_cells(run: Run) -> None:
    outcome = run("run", UNBALANCED, "--dry-run", "--only", "stack=near,workload=rand4*")
    assert (outcome.status, outcome.err) == (0, "")
    assert "An SSD and an NVMe, mirrored four ways: 2 cells" in outcome.out
    assert "near: md RAID-10 n2 512K [nvme ssd]" in outcome.out
    assert "10 GiB" in outcome.out
    words = " ".join(outcome.out.split())
    assert "rand40read: rw=randrw rwmixread=40 bs=4k" in words
    assert "iodepth=32 numjobs=4 size=2g runtime=60s" in words


def test_what_is_varied_has_a_column(run: Run) -> None:
    outcome = run("run", EXAMPLES / "article-2008-spindles.toml", "--dry-run", "--set", "numjobs=[2, 7]")
    assert outcome.status == 0
    assert "Ten disks behind a RAID controller, RAID-10 far 2, 2008: 4 cells" in outcome.out
    assert "numjobs=7" in outcome.out


REPEATED = """repeats = 4
[devices.a]
model = "sm883"
size = "10GiB"
[stacks.one]
device = "a"
[workloads.r]
rw = "randrw"
size = "1g"
runtime = "100ms"
[matrix]
iodepth = [1, 8]
"""


def test_repeats_of_a_cell_share_a_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "repeated.toml").write_text(REPEATED)
    lines = run("run", tmp_path / "repeated.toml", "--dry-run").out.splitlines()
    rows = [line.split() for line in lines if "rw=randrw" in line]
    assert [row[:3] for row in rows] == [["1", "to", "4"], ["5", "to", "8"]]
    assert [row[-1] for row in rows] == ["4", "4"]
    assert "8 cells" in "\n".join(lines)
    assert len(json.loads(run("run", tmp_path / "repeated.toml", "--dry-run", "--json").out)["cells"]) == 8


def test_more_columns_can_be_asked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "repeated.toml").write_text(REPEATED)
    words = ("run", tmp_path / "repeated.toml", "--no-store", "--set", "repeats=1")
    lines = run(*words, "--columns", "read.max,stddev,cores").out.splitlines()
    heading = next(line for line in lines if "read IOPS" in line)
    assert all(name in heading.split() for name in ("read.max", "stddev", "cores"))
    row = next(line for line in lines if line.startswith("1 "))
    assert row.count(" / ") == 1, "the standard deviation of reads and of writes"
    refused = run(*words, "--columns", "read.longest")
    assert (refused.status, refused.out) == (2, "")
    assert "no metric 'read.longest'" in refused.err


def test_a_replay_is_shown(run: Run) -> None:
    outcome = run("run", EXAMPLES / "replay.toml", "--dry-run")
    assert "replay of md127, 17,929 I/Os" in outcome.out


def test_a_dry_run_prints_the_cells_as_json(run: Run) -> None:
    outcome = run(
        "run", UNBALANCED, "--dry-run", "--json", "--seed", 9, "--set", "kernel=6.1",
        "--set", "stack=far", "--only", "workload=seqread",
    )  # fmt: skip
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    (cell,) = document["cells"]
    assert cell["labels"] == {"stack": "far", "workload": "seqread", "repeat": "1"}
    assert (cell["cell"]["seed"], cell["cell"]["kernel"]) == (9, "6.1")
    assert cell["capacity_bytes"] == 10 << 30


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ([], "Missing argument 'EXPERIMENT'"),
        (["nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
        ([UNBALANCED, "--only", "stack"], "'stack': expected LABEL=PATTERN, such as stack=raid1"),
        ([UNBALANCED, "--only", "stak=x"], "no label 'stak'; did you mean 'stack'?"),
        ([UNBALANCED, "--only", "stack=x"], "--only stack=x: no such stack;"),
        ([UNBALANCED.parent / "directory.toml", "--on", "host"], "targets: is missing: add --target /srv, with the"),
        ([UNBALANCED, "--set", "x"], "--set 'x': expected KEY=VALUE: write x=VALUE, as in iodepth=8"),
        ([UNBALANCED, "--set", "kernel=x"], "--set kernel: invalid kernel 'x'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_status_2(run: Run, arguments: list[object], output: str) -> None:
    outcome = run("run", *arguments, "--dry-run")
    assert (outcome.status, outcome.out) == (2, "")
    assert output in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("examples/unbalanced.toml --target near=/srv", "--target: sim uses no directory or device of this host"),
        ("examples/unbalanced.toml --on lab --target near=/srv", "only --on host or fleet takes it"),
        ("examples/unbalanced.toml --set repeat=3", "--set repeat: no such key: set repeats"),
        ("examples/unbalanced.toml --interleave", "--interleave: expected several experiments, found one"),
        ("examples/unbalanced.toml examples/unbalanced.toml", "several experiments: add --interleave"),
    ],
)
def test_options_without_effect_are_refused(run: Run, arguments: str, message: str) -> None:
    refused = run("run", *arguments.split(), "--dry-run")
    assert (refused.status, refused.out, message in refused.err) == (2, "", True), refused.err


def test_the_schema_is_printed(run: Run) -> None:
    outcome = run("run", "--schema")
    assert outcome.status == 0
    assert json.loads(outcome.out)["title"] == "blklab experiment"


def test_pydantic_is_imported_when_needed() -> None:
    script = (
        "import sys; from blklab.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


SMALL = """
title = "Two mirrors"
seed = 1

[devices]
nvme = { model = "pm983", size = "1GiB" }
ssd = { model = "sm883", size = "1GiB" }

[stacks]
raid1 = { level = 1, members = ["nvme", "ssd"] }
near = { level = 10, layout = "n2", members = ["nvme", "ssd"] }

[workloads]
randread = { rw = "randread", iodepth = 32, numjobs = 4 }
randwrite = { rw = "randwrite", iodepth = 32, numjobs = 4 }

[settings]
kernel = "4.19"
max_ios = 20_000
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_results_are_a_table(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    outcome = run("run", small)
    assert (outcome.status, outcome.err) == (0, "")
    figure, time = r"[\d,]+", r"[\d.]+ [µmn]?s"
    lines = [
        "",
        r"Two mirrors: simulated",
        r"\#  stack  workload   read IOPS  write IOPS  ±IOPS +mean +p99  share",
        rf"1  raid1  randread  +{figure} +–  -\d+…\+\d+ % +{time} +{time}  nvme \d+ % ssd \d+ %",
        rf"2  raid1  randwrite +– +{figure}  -\d+…\+\d+ % +{time} +{time}  nvme 50 % ssd 50 %",
        rf"3  near   randread  +{figure} +–  -\d+…\+\d+ % +{time} +{time}  nvme \d+ % ssd \d+ %",
        rf"4  near   randwrite +– +{figure}  -\d+…\+\d+ % +{time} +{time}  nvme 50 % ssd 50 %",
        r"mean and p99: completion latencies\. share: each disk's share of the I/Os\."
        r" ±IOPS: the interval in which nine of ten measurements are expected\.",
        r"Columns hidden \(terminal too narrow\): in queues",
        "",
    ]
    printed = outcome.out.split("\n")
    assert len(printed) == len(lines), outcome.out
    for line, wanted in zip(printed, lines, strict=True):
        assert re.match(wanted, line), line


def test_what_is_varied_is_in_the_table(run: Run, small: Path) -> None:
    outcome = run("run", small, "--only", "stack=raid1", "--set", "iodepth=[1, 8]")
    assert outcome.status == 0
    assert re.search(r"stack +workload +iodepth +read IOPS", outcome.out)
    assert re.search(r"raid1 +randread +8 ", outcome.out)


def test_results_are_json(run: Run, small: Path) -> None:
    outcome = run("run", small, "--json", "--only", "workload=randread")
    assert (outcome.status, outcome.err) == (0, "")
    raid1, near = json.loads(outcome.out)
    assert (raid1["number"], near["number"]) == (1, 3)
    assert near["labels"] == {"stack": "near", "workload": "randread", "repeat": "1"}
    assert near["runner"] == "sim"
    assert near["read"]["total_ios"] == 20_000
    assert near["write"]["total_ios"] == 0
    assert [disk["name"] for disk in near["devices"]] == ["nvme", "ssd"]
    assert near["read"]["iops"] < raid1["read"]["iops"] / 2
    assert "explanation" not in near


def test_results_depend_on_the_seed_and_not_on_the_jobs(run: Run, small: Path) -> None:
    first, again, two = (run("run", small, "--json", "--no-store", "--jobs", jobs).out for jobs in (1, 1, 2))
    assert first == again == two
    assert run("run", small, "--json", "--seed", 2).out != first


def test_max_ios_can_be_set(run: Run, small: Path) -> None:
    outcome = run("run", small, "--json", "--only", "workload=randread", "--set", "max_ios=500")
    assert [item["read"]["total_ios"] for item in json.loads(outcome.out)] == [500, 500]


def test_explanations_say_who_was_saturated_and_chosen(run: Run, small: Path) -> None:
    outcome = run("run", small, "--explain", "--only", "workload=randread")
    text = " ".join(outcome.out.split())
    raid1, near = text.split("stack=near workload=randread repeat=1")
    assert "· Saturated: ssd (its interface 100 % of the time)." in near
    assert re.search(
        r"· Shares of the reads: nvme [\d.]+ % \([\d,]+ per second, [\d.]+ µs each, [\d.]+ in its"
        r" queue\); ssd [\d.]+ % \([\d,]+ per second",
        near,
    )
    assert re.search(
        r"The balancer of near \(kernel 4.19\) chose for 20,\d{3} reads:"
        r" [\d.]+ % went to slot 0 because its head was nearest",
        near,
    )
    assert re.search(r"The balancer of raid1 .* went to slot 0 because it had the fewest I/Os pending", raid1)
    assert re.search(r"All tags \(nr_requests\) of ssd were in use [\d,]+ times", near)


WRITECACHE = """
[devices]
slow = { kind = "throttled", iops_total = 300, size = "1GiB" }
fast = { kind = "throttled", iops_total = 4000, size = "4MiB" }
[stacks.cached]
kind = "writecache"
origin = "slow"
cache = "fast"
[workloads.mixed]
rw = "randrw"
rwmixread = 20
bs = "4k"
size = "128MiB"
iodepth = 8
"""


def test_explanations_say_what_a_writecache_took(run: Run, tmp_path: Path) -> None:
    (tmp_path / "writecache.toml").write_text(WRITECACHE)
    outcome = run("run", tmp_path / "writecache.toml", "--explain", "--no-store", "--set", "settings.max_ios=20000")
    text = " ".join(outcome.out.split())
    assert re.search(r"cached took \d+\.\d % of the blocks that were written\. It wrote [\d,.]+k? back", text)
    assert re.search(r"cached was full: [\d,.]+k? blocks went to the slow device", text)
    # Random I/O visits each block once: no read finds one in the cache.
    assert "cached: 0.0 % of the blocks that were read were in it." in text
    assert re.search(r"Hits over time: \d+\.\d % in the first tenth of the time, .* \d+\.\d % in the last tenth", text)


def test_explanations_are_in_the_json(run: Run, small: Path) -> None:
    outcome = run("run", small, "--explain", "--json", "--only", "stack=raid1,workload=randread")
    (result,) = json.loads(outcome.out)
    assert result["explanation"][0].startswith("Saturated: ssd")
    assert len(result["explanation"]) >= 3


def test_explanations_say_what_md_writes_wait_for(run: Run, small: Path) -> None:
    small.write_text(
        SMALL.replace("max_ios = 20_000", "max_ios = 4_000")
        .replace("pm983", "st5000lm000")
        .replace("sm883", "st5000lm000")
        .replace("[settings]", '[settings]\nfilesystem = "ext4"')
    )
    outcome = run("run", small, "--explain", "--only", "stack=raid1,workload=randwrite")
    text = " ".join(outcome.out.split())
    assert re.search(r"Writeback throttling of nvme is the limit \(flushing \d+ % of the time\)", text)
    assert re.search(r"Writeback throttling of nvme put tasks to sleep [\d,]+ times\. md", text)
    assert re.search(r"ssd spent \d+ % of the time in \d+ flushes, [\d.]+ m?s each, and served nothing", text)


CROWDED = """
[devices]
disk = { kind = "throttled", size = "1GiB", count = 4 }

[stacks]
raid1 = { level = 1, members = ["disk1", "disk2"] }
raid5 = { level = 5, chunk = "64k", members = ["disk"], stripe_cache_size = 4096 }
raid0 = { level = 0, members = ["disk"] }

[workloads]
load = { rw = "randrw", iodepth = 8, numjobs = 32 }

[settings]
kernel = "5.15"
max_ios = 20_000
"""


def test_explanations_say_that_locks_threads_and_processors_are_the_limit(run: Run, tmp_path: Path) -> None:
    (tmp_path / "crowded.toml").write_text(CROWDED)

    def said(stack: str, *changes: str) -> tuple[str, float, float]:
        options = [option for change in changes for option in ("--set", change)]
        done = run("run", tmp_path / "crowded.toml", "--explain", "--json", "--only", f"stack={stack}", *options)
        (result,) = json.loads(done.out)
        low, high = result["interval"]["iops"]
        return result["explanation"][0], low, high

    raid1, low, high = said("raid1")
    assert re.match(r"md limits raid1 \(kernel 5\.15\): wait_barrier is held \d+ % of the time\. ", raid1)
    assert raid1.endswith("Such locks differ by a factor of twelve.")
    assert low < 0.5 and high > 3.5
    raid5, low, high = said("raid5", "settings.host.submit_ns=2200")  # Otherwise a faster host could do more
    assert "the thread of its rows is busy 100 % of the time (`group_thread_cnt` adds threads)" in raid5
    assert high < 1.6
    assert said("raid5", "stacks.raid5.group_thread_cnt=4")[0] != raid5
    assert said("raid0", "settings.host.cores=4", "settings.kernel=6.6")[0].startswith(
        "The CPUs are busy 100 % of the time: jobs and md's threads share them"
    )


def test_a_cell_that_fails_is_one_line(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise UsageError("job randread: it has no sizes")

    monkeypatch.setattr("blklab._core.simulate", fails)
    outcome = run("run", small, "--only", "stack=near")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == (
        "blklab: error: cell 3 (stack=near workload=randread repeat=1): job randread: it has no sizes (and 1 more)\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_long_simulation(small: Path, number: signal.Signals) -> None:
    small.write_text(
        SMALL.replace("max_ios = 20_000", 'runtime = "1000d"').replace(
            "iodepth = 32", "iodepth = 32, time_based = true"
        )
    )
    arguments = [sys.executable, "-m", "blklab.cli", "run", str(small), "--jobs", "2"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:
        try:
            # Two threads simulate when there are three.
            tasks = Path(f"/proc/{process.pid}/task")
            until(lambda: len(list(tasks.iterdir())) >= 3)
            process.send_signal(number)
            assert process.wait(120) == 128 + number
        finally:
            process.kill()
        assert process.stderr is not None
        output = process.stderr.read()
    assert b"Traceback" not in output
    assert output.count(b"\n") <= 1


def test_a_delay_is_a_stack(run: Run) -> None:
    given = run(
        *("run", EXAMPLES / "delay.toml", "--no-store", "--json", "--explain"),
        *("--set", "settings.max_ios=500", "--only", "stack=distant,workload=read"),
    )
    (result,) = json.loads(given.out)
    # 5 ms are two ticks of 4 ms, and the timer fires at the next one: four I/Os each 12 ms.
    assert 320 < result["read"]["iops"] < 340
    (target,) = result["targets"]
    assert (target["kind"], target["name"]) == ("delay", "distant")
    assert target["held"][0] >= 500
    assert any("distant delayed" in sentence for sentence in result["explanation"])
    shown = run("run", EXAMPLES / "delay.toml", "--dry-run")
    assert "mirror: md RAID-1 [near delay read=5ms" in shown.out


def test_only_chooses_among_interleaved_experiments(run: Run, tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / f"{name}.toml").write_text(UNBALANCED.read_text())
    words = ["run", tmp_path / "before.toml", tmp_path / "after.toml", "--interleave", "--dry-run", "--json"]
    outcome = run(*words, "--only", "experiment=aft*,stack=near,workload=randread")
    assert outcome.status == 0, outcome.err
    labels = [cell["labels"] for cell in json.loads(outcome.out)["cells"]]
    assert {(each["experiment"], each["stack"], each["workload"]) for each in labels} == {("after", "near", "randread")}
    refused = run(*words, "--only", "experiment=new")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "--only experiment=new: no such experiment; there are before, after" in refused.err


@pytest.mark.parametrize(
    ("runner", "shown", "hidden"),
    [
        ("sim", "--explain --cluster --this-host", "--target --until-sure --accel --force"),
        ("lab", "--accel --trace-to --until-sure", "--target --explain --cluster --force"),
        ("host", "--target --force --yes-destroy", "--accel --explain --cluster"),
    ],
)
def test_help_shows_the_options_of_a_runner(run: Run, runner: str, shown: str, hidden: str) -> None:
    whole = run("run", "--help").out
    limited = run("run", "--on", runner, "--help")
    assert (limited.status, limited.err) == (0, "")
    assert limited == run("run", "--help", f"--on={runner}")
    options = [set(re.findall(r"(?m)^  (--[a-z-]+)", text.partition("Options:")[2])) for text in (whole, limited.out)]
    assert {*shown.split(), *hidden.split()} < options[0]
    assert {"--dry-run", "--set", "--store", *shown.split()} < options[1]
    assert not options[1] & set(hidden.split())
