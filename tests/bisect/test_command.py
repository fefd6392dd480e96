"""`blklab bisect` from the command line: on the simulator, killed and resumed, and with wrong requests."""

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from blklab.bisect.request import KernelTree, LabOptions, SimulatedKernels, TreeEnds
from blklab.bisect.source import work_directory
from blklab.cli import common
from blklab.store.campaigns import Store
from tests.bisect.md_history import git
from tests.cli.test_signals import until
from tests.conftest import Run

EXPERIMENT = """
[devices]
nvme = {{ model = "pm983", size = "1GiB" }}
ssd = {{ model = "sm883", size = "1GiB" }}
[stacks.far]
level = 10
layout = "f2"
members = ["ssd", "nvme"]
[workloads.randread]
rw = "randread"
iodepth = 32
numjobs = 4
runtime = "{runtime}"
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def experiment(directory: Path, runtime: str = "50ms") -> Path:
    path = directory / "far.toml"
    path.write_text(EXPERIMENT.format(runtime=runtime))
    return path


def test_the_simulator_bisects_its_steps(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    outcome = run(
        *("bisect", experiment(tmp_path), "--on", "sim", "--good", "6.1", "--bad", "4.20"),
        *("--fail-if", "iops < 0.9*baseline", "--log", log, "--json"),
    )
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["culprit"]["short"] == "5.3"
    assert "idlest copy" in document["culprit"]["message"]
    assert (document["fixes"], document["confirmed"], document["kind"]) == (True, True, "kernel")
    assert [each["verdict"] for each in document["check"]] == ["bad", "good"]
    assert "git bisect fixed" in log.read_text()
    shown = run("report", document["campaign"], "--as", "markdown", "-o", "-")
    assert "5.3 is the first fixed kernel" in shown.out
    assert "Both sides again" in shown.out


def test_a_table_without_json(run: Run, tmp_path: Path) -> None:
    outcome = run(
        *("bisect", experiment(tmp_path), "--on", "sim", "--good", "5.3", "--bad", "5.2"),
        *("--fail-if", "iops < 0.9*baseline"),
    )
    assert outcome.status == 0, outcome.err
    assert "5.3 is the first fixed kernel: RAID-10 reads from the idlest copy" in outcome.out
    assert "Verdicts: iops < 0.9*baseline" in outcome.out
    assert "5.2" in outcome.out


def test_a_bisection_has_its_own_name_and_tells_who_waits(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    opened = Store.__init__

    def recorded(store: Store, *words: str, reading: bool = False, warn: Callable[[str], object] = str) -> None:
        told.append(reading or warn is common.warn)
        opened(store, *words, reading=reading, warn=warn)

    monkeypatch.setattr(Store, "__init__", recorded)
    words = ("--on", "sim", "--good", "5.3", "--bad", "5.2", "--fail-if", "iops < 0.9*baseline")
    assert run("bisect", experiment(tmp_path), *words).status == 0
    assert run("run", experiment(tmp_path)).status == 0
    assert all(told)
    assert len(told) >= 2
    names = [campaign["name"] for campaign in json.loads(run("runs", "list", "--json").out)]
    assert names == ["far-bisection", "far"]


@pytest.mark.proof
def test_the_fix_of_dm_cache_is_found_among_the_commits(run: Run, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples/article-2017-caches.toml").read_text()
    (tmp_path / "caches.toml").write_text(text.replace('runtime = "15m"', 'runtime = "5m"'))
    outcome = run(
        *("bisect", tmp_path / "caches.toml", "--on", "sim", "--good", "4.12", "--bad", "4.11"),
        *("--fail-if", "iops < 0.6*baseline", "--json"),
    )
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)["culprit"]["short"].startswith("4.12-rc1")


def test_a_killed_bisection_continues(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.db"
    monkeypatch.setenv("BLKLAB_STORE", str(store))
    words = ["bisect", str(experiment(tmp_path, runtime="5s")), "--on", "sim", "--good", "6.1", "--bad", "4.2"]
    words += ["--fail-if", "iops < 0.9*baseline"]
    process = subprocess.Popen([sys.executable, "-m", "blklab.cli", *words], stderr=subprocess.DEVNULL)
    until(lambda: len(done(store)) >= 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = done(store)
    outcome = run(*words, "--resume", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert (document["culprit"]["short"], document["campaign"]) == ("5.3", 1)
    after = done(store)
    assert before.items() <= after.items(), "finished runs are measured once"
    assert Counter(after.values()).most_common(1)[0][1] == 1
    again = json.loads(run(*words, "--resume", "--json").out)
    assert {**again, "campaign": 1} == document, "all runs come from the store"
    assert done(store) == after


def done(store: Path) -> dict[int, str]:
    """Returns the labels of the finished runs by their number in the store."""
    if not store.exists():
        return {}
    with closing(sqlite3.connect(store)) as connection:
        try:
            rows = connection.execute("select id, labels from runs where state = 'done'").fetchall()
        except sqlite3.OperationalError:  # The tables are being made
            return {}
    return dict(rows)


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["--good", "6.1", "--bad", "6.1"], 2, "--good and --bad are the same kernel, 6.1"),
        (["--good", "6.1", "--bad", "nine"], 2, "invalid kernel 'nine'"),
        (["--good", "6.1", "--bad", "5.14"], 2, "expected a condition that is true for the bad end only"),
        (["--good", "6.1", "--bad", "5.2", "--module", "raid10"], 2, "--build, --module and --patch need --tree"),
        (["--good", "6.1"], 2, "expected --bad KERNEL or COMMIT, or --patch FILE, but not both"),
        (["--good", "6.1", "--bad", "5.2", "--tree", "."], 2, "--tree needs either --module NAME or --build COMMAND"),
        (["--good", "6.1", "--bad", "5.2", "--tree", ".", "--module", "raid10"], 2, "the simulator has no sources"),
        (["--good", "6.1", "--bad", "5.2", "--sure", "2"], 2, "expected a share between 0 and 100 %"),
        (["--good", "6.1", "--bad", "5.2", "--log", "/no/such/log"], 2, "/no/such/log: cannot be written"),
    ],
)
def test_wrong_requests(run: Run, tmp_path: Path, words: list[str], status: int, output: str) -> None:
    outcome = run("bisect", experiment(tmp_path), "--on", "sim", *words, "--fail-if", "iops < 0.9*baseline")
    assert (outcome.status, outcome.out) == (status, "")
    assert output in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--module", "raid11"], "--module raid11: expected one of md-mod, raid0"),
        (["--module", "raid10", "--good", "v7"], "v7: no such commit in"),
        (["--build", "make 'all"], "--build: No closing quotation"),
        (["--build", " "], "--build: expected a command"),
    ],
)
def test_wrong_trees(run: Run, tmp_path: Path, words: list[str], output: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "first")
    outcome = run(
        *("bisect", experiment(tmp_path), "--good", "HEAD", "--bad", "HEAD", "--tree", tree),
        *(*words, "--fail-if", "iops < 0.9*baseline"),
    )
    assert outcome.status == 2
    assert output in outcome.err


def test_another_process_bisects_the_same(run: Run, tmp_path: Path) -> None:
    words = ["bisect", experiment(tmp_path), "--on", "sim", "--good", "6.1", "--bad", "5.2"]
    words += ["--fail-if", "iops < 0.9*baseline"]
    directory = work_directory("sim", "6.1", "5.2")
    directory.mkdir(parents=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        outcome = run(*words)
    finally:
        os.close(descriptor)
    assert outcome.status == 1
    assert "another blklab bisects the same" in outcome.err


def test_resume_after_the_runs_were_removed(run: Run, tmp_path: Path) -> None:
    words = ["bisect", experiment(tmp_path), "--on", "sim", "--good", "5.3", "--bad", "5.2"]
    words += ["--fail-if", "iops < 0.9*baseline"]
    first = run(*words, "--resume")
    assert "no bisection with this good end was started before on this machine" in first.err
    assert run("runs", "rm", "1:stack=far", "--yes").status == 0
    again = run(*words, "--resume")
    assert again.status == 0, again.err
    assert "5.3 is the first fixed kernel" in again.out


def test_runs_of_another_machine_are_not_continued(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["bisect", experiment(tmp_path), "--on", "sim", "--good", "5.3", "--bad", "5.2"]
    words += ["--fail-if", "iops < 0.9*baseline", "--resume"]
    campaigns = []
    for host in ("first", "second", "first"):
        monkeypatch.setattr(SimulatedKernels, "host", host)
        campaigns.append(json.loads(run(*words, "--json").out)["campaign"])
    assert campaigns == [1, 2, 1]


def test_another_configuration_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.bisect.request.LabRunner", lambda **words: words["kernel"].vmlinuz)
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "first")
    for config in ("CONFIG_A=y", "CONFIG_B=y"):
        (tree / ".config").write_text(config)
        command = """sh -c 'cp .config "$INSTALL_PATH/vmlinuz-1"'"""
        source = KernelTree(tree, [command], TreeEnds("HEAD", "HEAD"), tmp_path / "w", LabOptions(None, print))
        lock = tmp_path / "w/tree/.git/index.lock"
        built = cast(Path, source.runner(source.good))
        assert built.read_text() == config
        lock.touch()  # Of a git that was killed
