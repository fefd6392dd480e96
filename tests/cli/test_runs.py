"""Results are kept: `blklab runs` and `blklab compare`, from the command line."""

import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from blklab.store.campaigns import Store
from blklab.store.series import FinishedRun
from tests.campaigns import made
from tests.conftest import Run
from tests.store.conftest import OUTCOME, make_plan

SMALL = """
title = "Two mirrors"
[devices]
nvme = { model = "pm983", size = "1GiB" }
ssd = { model = "sm883", size = "1GiB" }
[stacks]
raid1 = { level = 1, members = ["nvme", "ssd"] }
near = { level = 10, members = ["nvme", "ssd"] }
[workloads]
randread = { rw = "randread", iodepth = 32, numjobs = 4 }
[settings]
kernel = "4.19"
max_ios = 20_000
"""


UNBALANCED = Path(__file__).parents[2] / "examples/unbalanced.toml"


@pytest.fixture
def small(tmp_path: Path, run: Run) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    assert run("run", path).status == 0
    return path


def test_the_load_that_saturates_is_below_the_table(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(SMALL.replace(", iodepth = 32, numjobs = 4", "") + "[matrix]\niodepth = [1, 16, 256]\n")
    assert run("run", path, "--only", "stack=raid1").status == 0
    (line,) = [line for line in run("runs", "show", "1").out.splitlines() if line.startswith("· ")]
    assert "in flight" in line
    assert "saturated from 256" in line


@pytest.mark.usefixtures("small")
def test_what_was_run_is_kept_and_shown(run: Run) -> None:
    listed = run("runs", "list")
    assert "1 campaign" in listed.out
    assert "small" in listed.out
    (campaign,) = json.loads(run("runs", "list", "--json").out)
    assert campaign["states"] == {"planned": 0, "running": 0, "done": 2, "failed": 0}
    shown = run("runs", "show", "small@sim")
    assert "Campaign 1: Two mirrors, on sim" in shown.out
    (near,) = json.loads(run("runs", "show", "1:stack=near", "--json").out)
    assert near["labels"]["stack"] == "near"
    assert near["read"]["total_ios"] == 20_000
    assert near["environment"]["blklab"]


@pytest.mark.usefixtures("small")
def test_export(run: Run, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("runs", "export", "1", "--as", "csv").out)))
    assert [row["stack"] for row in rows] == ["raid1", "near"]
    assert float(rows[0]["iops"]) > float(rows[1]["iops"])
    assert float(rows[0]["nvme read share"]) + float(rows[0]["ssd read share"]) == 1
    path = tmp_path / "series.parquet"
    assert run("runs", "export", "1", "--as", "series", "-o", path).status == 0
    frame = polars.read_parquet(path)
    assert frame["read_ios"].sum() == 40_000
    assert sorted(set(frame["run"])) == [1, 2]
    assert [item["run"] for item in json.loads(run("runs", "export", "1").out)] == [1, 2]


@pytest.mark.usefixtures("small")
def test_removing(run: Run) -> None:
    assert run("runs", "rm", "1:stack=near", "--yes").status == 0
    assert len(json.loads(run("runs", "show", "1", "--json").out)) == 1
    assert run("runs", "rm", "small", "--yes").status == 0
    assert json.loads(run("runs", "list", "--json").out) == []
    assert run("runs", "rm", "small", "--yes").status == 2


def test_resuming_a_complete_campaign_runs_nothing(run: Run, small: Path) -> None:
    first = json.loads(run("runs", "show", "1", "--json").out)
    again = json.loads(run("run", small, "--resume", "--json").out)
    assert [item["run"] for item in again] == [1, 2]
    assert [item["read"] for item in again] == [item["read"] for item in first]
    assert sum(point["ios"][0] for point in again[0]["series"]) == 20_000
    assert len(json.loads(run("runs", "list", "--json").out)) == 1


def test_resuming_what_was_never_begun_says_so(run: Run, small: Path) -> None:
    outcome = run("run", small, "--resume", "--seed", 99)
    assert outcome.status == 0
    assert "no campaign of exactly these cells was started before: this is a new one" in outcome.err


def test_a_run_that_is_not_kept(run: Run, small: Path) -> None:
    (item, _) = json.loads(run("run", small, "--no-store", "--json").out)
    assert item["run"] is None
    assert len(json.loads(run("runs", "list", "--json").out)) == 1


@pytest.fixture
def repeated(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "repeated.toml"
    path.write_text(f"repeats = 2\n{SMALL}")
    assert run("run", path).status == 0


@pytest.mark.usefixtures("repeated")
def test_comparing_stacks(run: Run) -> None:
    outcome = run("compare", "repeated", "--between", "stack", "--metric", "iops")
    assert outcome.status == 0
    assert "I/Os a second (iops)" in outcome.out
    assert "stack=raid1" in outcome.out
    assert "worse" in outcome.out
    document = json.loads(run("compare", "repeated", "--between", "stack", "--json").out)
    assert [row["metric"] for row in document["rows"]] == ["iops", "read.mean", "read.p99"]
    chosen = run("compare", "repeated:stack=raid1", "repeated:stack=near", "--metric", "iops")
    assert "worse" in chosen.out


@pytest.mark.usefixtures("repeated")
def test_a_failed_comparison_has_status_1(run: Run) -> None:
    words = ("compare", "repeated", "--between", "stack", "--fail-if")
    failed = run(*words, "iops < 0.95*baseline", "--sure")
    assert failed.status == 1
    assert failed.err == "blklab: error: stack=near: iops < 0.95*baseline\n"
    assert run(*words, "iops < 0.01*baseline").status == 0
    assert run(*words, "iops <> 1").status == 2


@pytest.mark.usefixtures("repeated")
def test_a_cell_that_vanished_has_status_2(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fewer.toml"
    path.write_text(f"repeats = 2\n{SMALL}")
    assert run("run", path, "--only", "stack=raid1").status == 0
    words = ("compare", "repeated", "fewer", "--fail-if", "iops < 0.9*baseline", "--json")
    missing = run(*words)
    assert missing.status == 2
    assert "iops: stack=near: not measured on fewer" in missing.err
    document = json.loads(missing.out)
    assert document["failed"] == []
    assert document["unjudged"] == ["iops: stack=near: not measured on fewer"]
    assert run(*words, "--allow-missing").status == 0
    other = run("compare", "fewer", "repeated", *words[3:])
    assert (other.status, json.loads(other.out)["unjudged"]) == (0, [])


@pytest.mark.usefixtures("small")
def test_of_one_run_nothing_is_sure(run: Run) -> None:
    words = ("compare", "small", "--between", "stack")
    shown = run(*words, "--metric", "iops").out
    assert "SIMULATED: I/Os a second (iops)" in shown
    assert re.search(r"iops: 1 (worse|cannot tell \(measure\))\.", shown)
    alone = run(*words, "--plain")
    assert (alone.status, alone.out) == (2, "")
    assert "--plain needs a condition: --fail-if" in alone.err


@pytest.mark.usefixtures("small")
def test_an_empty_store(run: Run) -> None:
    assert run("runs", "rm", "small", "--yes").status == 0
    outcome = run("compare", "a", "b")
    assert outcome.status == 2
    assert "it is empty" in outcome.err
    listed = run("runs", "list", "--store", os.environ["BLKLAB_STORE"])
    assert listed.status == 0
    assert " ".join(listed.out.split()) == (
        f"no campaigns in {os.environ['BLKLAB_STORE']}: create one with `blklab run EXPERIMENT`"
    )


@pytest.mark.parametrize(
    "words", [("runs", "list"), ("runs", "show", "1"), ("runs", "export", "1"), ("runs", "rm", "1"),
              ("tune", "1"), ("report", "1")]
)  # fmt: skip
def test_a_mistyped_store_is_not_made(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "deep" / "stroe.db"
    outcome = run(*words, "--store", path)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"{path}: store not found" in outcome.err
    assert outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("runs", "list"), ("run", UNBALANCED)])
def test_the_kernels_files_cannot_be_a_store(run: Run, words: tuple[object, ...]) -> None:
    outcome = run(*words[:2], "--store", "/proc/x")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.endswith("/proc/x cannot be a store: /proc has no files of users; name another with --store\n")


@pytest.mark.usefixtures("small")
def test_failures_of_the_store_are_no_answer(run: Run, tmp_path: Path) -> None:
    """For `git bisect`, 1 would mean that the condition held."""
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 400)
    words = ("compare", "small", "--between", "stack", "--fail-if", "iops < 0.01*baseline")
    unreachable = "postgresql://127.0.0.1:1/none"
    for where in (tmp_path / "broken.db", unreachable):
        outcome = run(*words, "--store", where)
        assert (outcome.status, outcome.out) == (3, "")
        assert outcome.err.count("\n") == 1


@pytest.mark.usefixtures("small")
def test_copied_store_is_complete(run: Run, tmp_path: Path) -> None:
    copied, (original, copy) = tmp_path / "copied.db", (tmp_path / "a.csv", tmp_path / "b.csv")
    with sqlite3.connect(os.environ["BLKLAB_STORE"]) as connection:
        connection.execute("vacuum into ?", (str(copied),))
    assert run("runs", "export", "small", "--as", "series", "-o", original).status == 0
    assert run("runs", "export", "small", "--as", "series", "-o", copy, "--store", copied).status == 0
    assert original.read_bytes() == copy.read_bytes()


def test_what_a_dead_process_was_at_is_interrupted(run: Run, small: Path) -> None:
    code = (
        "import sys; from blklab.store.campaigns import Store\n"
        "from tests.store.conftest import make_plan\n"
        "store = Store(); (run, *_) = store.begin(make_plan()).waiting.values()\n"
        "store.claim(run, {})\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}/python:{root}"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=small.parent, env=environment)
    assert "3 planned, 1 interrupted" in run("runs", "list").out
    campaign = json.loads(run("runs", "list", "--json").out)[-1]
    assert campaign["states"] == {
        "planned": 3, "running": 0, "done": 0, "failed": 0, "interrupted": 1
    }  # fmt: skip
    shown = json.loads(run("runs", "show", "exp@host", "--json").out)
    assert [item["state"] for item in shown] == ["interrupted", "planned", "planned", "planned"]
    assert run("runs", "rm", "exp", "--yes").status == 0


def test_doubtful_runs_are_marked(run: Run) -> None:
    store = Store()
    plan = make_plan(3)
    outcomes = [
        replace(OUTCOME, forced=["device-busy"], warnings=["sda: \x1b[1mhot"]),
        replace(OUTCOME, warnings=["sda: \x1b[1mhot"]),
        OUTCOME,
    ]
    finished = {cell.key: FinishedRun(item, 1) for cell, item in zip(plan.cells, outcomes, strict=True)}
    store.add(plan, finished, {})
    shown = run("runs", "show", "exp").out
    assert shown.count("done *") == 2
    assert "\n* run 1: measured with --force device-busy\n" in shown
    assert "\n* runs 1, 2: sda: \\x1b[1mhot\n" in shown


JOBS = """
title = "Two jobs"
[devices]
ssd = { model = "sm883", size = "1GiB" }
[stacks]
disk = { device = "ssd" }
[workloads.both.jobs]
deep = { rw = "randread", iodepth = 16 }
shallow = { rw = "randread", iodepth = 1 }
[settings]
max_ios = 20_000
"""


def test_jobs_are_shown_compared_and_reported_alone(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(JOBS)
    done = run("run", path, "--per-job")
    assert [line.split()[:2] for line in done.out.splitlines() if line.startswith("1  ")][1:] == [
        ["1", "deep"], ["1", "shallow"],
    ]  # fmt: skip
    assert "shallow" in run("runs", "show", "jobs", "--per-job").out
    ((result),) = json.loads(run("runs", "show", "jobs", "--json").out)
    rates = {group["name"]: group["read"]["iops"] for group in result["groups"]}
    compared = json.loads(run("compare", "jobs", "--job", "*", "--between", "job", "--metric", "iops", "--json").out)
    assert compared["sides"] == ["job=deep", "job=shallow"]
    assert [value["mean"] for value in compared["rows"][0]["values"]] == [rates["deep"], rates["shallow"]]
    page = run("report", "jobs", "--job", "shallow", "--as", "markdown", "-o", "-").out
    assert f"{rates['shallow']:,.0f}" in page
    assert f"{rates['deep']:,.0f}" not in page
    wrong = run("compare", "jobs", "jobs", "--job", "shalow")
    assert wrong.status == 2
    assert "--job 'shalow': no run of 'jobs' has this job; its jobs are deep, shallow" in wrong.err
    wrong = run("compare", "jobs", "--metric", "iops,p98")
    assert (wrong.status, wrong.err.count("\n")) == (2, 1)
    assert "no metric 'p98'; did you mean 'p99'?" in wrong.err
    assert "no such campaign" in run("compare", "jobs@host", "jobs").err


def test_tags_and_notes_say_what_they_changed(run: Run) -> None:
    Store(None).begin(make_plan())
    for arguments, said in (
        (("tag", "1", "baseline", "new"), "added tag 'baseline'\ncampaign 1 (exp): added tag 'new'"),
        (("tag", "1", "baseline", "--remove"), "removed tag 'baseline'"),
        (("note", "1", "before the update"), "added note 'before the update'"),
        (("note", "1", "after it"), "added note 'after it'"),
        (("note", "1", "--remove"), "removed 2 notes"),
    ):
        outcome = run("runs", *arguments)
        assert (outcome.status, outcome.out) == (0, "")
        assert outcome.err == f"campaign 1 (exp): {said}\n"


def test_a_plan_says_how_often_to_measure(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    labels = [{"stack": stack, "workload": "randread", "repeat": str(repeat)}
              for stack in ("near", "far") for repeat in (1, 2, 3)]  # fmt: skip
    made.add(Store(str(store)), labels, lambda of: (made.measured(of, 1e5 + 500 * int(of["repeat"])), made.series(1e5)))
    done = run("compare", "--plan", "unbalanced", "--change", "3%", "--store", store, "--json", "--metric", "iops")
    plans = json.loads(done.out)["runs"]
    assert [plan["labels"]["stack"] for plan in plans] == ["near", "far"]
    assert all(plan["runs"] == 3 and plan["repeats"] >= 2 for plan in plans)
    assert {plan["metric"] for plan in plans} == {"iops"}
    shown = run("compare", "--plan", "unbalanced", "--store", store)
    assert "Runs that find a change of iops by 5 %" in shown.out
    assert "Runs that find a change of read.p99 by 5 %" in shown.out
    assert "expected one campaign" in run("compare", "--plan", "unbalanced", "unbalanced", "--store", store).err
    judged = run("compare", "--plan", "unbalanced", "--fail-if", "iops < 5", "--store", store)
    assert (judged.status, judged.out) == (2, "")
    assert "--plan: --fail-if has no effect with it" in judged.err
    for options in ("--between stack", "--job a", "--by stack", "--margin 1%", "--final", "--plain", "--allow-missing"):
        refused = run("compare", "--plan", "unbalanced", *options.split(), "--store", store)
        assert (refused.status, f"{options.split()[0]} has no effect" in refused.err) == (2, True), options
    refused = run("compare", "--plan", "unbalanced", "--change", "0", "--store", store)
    assert (refused.status, "expected a share between 0 and 100 %" in refused.err) == (2, True)
    experiment = ("run", "examples/unbalanced.toml", "--only", "stack=near,workload=randread")
    assert run(*experiment, "--set", "max_ios=2000", "--store", store).status == 0
    simulated = run("compare", "--plan", "unbalanced@sim", "--store", store)
    assert (simulated.status, "repeats do not make predictions surer" in simulated.err) == (2, True)


@pytest.mark.usefixtures("small")
def test_a_number_may_be_that_of_a_run(run: Run) -> None:
    (second,) = json.loads(run("runs", "show", "2", "--json").out)
    assert (second["run"], second["campaign"]) == (2, 1)
    both = run("runs", "show", "1", "--json")
    assert [item["run"] for item in json.loads(both.out)] == [1, 2]
    assert both.err == "blklab: this is campaign 1; for run 1: blklab runs show --run 1\n"
    first = run("runs", "show", "--run", "1", "--json")
    assert ([item["run"] for item in json.loads(first.out)], first.err) == ([1], "")
    for words, message in (("3", "no campaign 3 "), ("--run 3", "no run 3 "), ("--run small", "number of a run")):
        refused = run("runs", "show", *words.split())
        assert (refused.status, message in refused.err) == (2, True)
