"""`blklab reproduce`, and experiments with measured figures."""

import json
from pathlib import Path

import click
import pytest

from blklab.cli.reproduce import _ask_for_missing, _parse_devices, _parse_stack
from tests.conftest import Run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FIO = ROOT / "tests/data/imports/devices"
MODELS = "loop0=sm883,loop1=sm883,loop2=sm883,loop3=sm883"


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_fio_results_become_an_experiment_and_are_judged(run: Run, tmp_path: Path) -> None:
    outcome = run("reproduce", FIO, "--devices", MODELS, "--name", "loops")
    assert outcome.status == 0, outcome.err
    assert "Predicted and measured: I/Os a second (iops)" in outcome.out
    assert "loop2  randread-rate_iops800" in outcome.out
    assert "the run took 3.00 s" in outcome.out
    again = run("run", tmp_path / "loops.toml", "--json")
    documents = json.loads(again.out)
    verdicts = {each["labels"]["workload"]: each["judged"][0]["verdict"] for each in documents}
    assert verdicts["randread-rate_iops800"] == "limited", "it is no test"
    assert verdicts["randread"] == "outside", "a loop device is no SM883"


def test_a_file_is_not_overwritten_by_chance(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loops.toml").write_text("mine")
    outcome = run("reproduce", FIO, "--devices", MODELS, "--name", "loops")
    assert (outcome.status, outcome.err) == (
        2,
        "blklab: error: loops.toml: exists; name the experiment with --name or -o\n",
    )
    assert (tmp_path / "loops.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([FIO], "what was loop0? Add --stack loop0=sda, and --devices with the models"),
        ([FIO, "--stack", "loop0=raid1:a,b"], "what was loop1?"),
        ([FIO, "--devices", "loop1=sm883,loop2=sm883,loop3=sm883", "--stack", "loop0=raid1:a,b"], "which disk is a?"),
        ([FIO, "--devices", MODELS, "--stack", "md0=raid1:a,b"], "--stack md0: was not measured; the files have loop0"),
        ([FIO, "--devices", MODELS, "--stack", "loop0"], "--stack 'loop0': expected NAME=DEVICE or NAME=LEVEL:MEMBER"),
        ([FIO, "--devices", "loop0=nosuch"], "--devices 'nosuch'"),
        ([FIO, "--devices", "a b=sm883"], "--devices 'a b=sm883': expected a name of letters"),
        ([FIO, "--devices", "a=sm883,a=pm983"], "--devices 'a=pm983': is named twice"),
        (
            [EXAMPLES / "unbalanced.toml"],
            "unbalanced.toml: expected fio's output; an experiment runs with `blklab run`",
        ),
        ([ROOT / "tests/data/imports/form-iostat-12.txt"], "no results of fio"),
    ],
)
def test_mistakes_have_one_line(words: list[object], message: str, run: Run) -> None:
    outcome = run("reproduce", *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_stacks_are_typed_as_in_the_man_page() -> None:
    assert _parse_stack("fast=nvme") == ("fast", {"device": "nvme"})
    assert _parse_stack("md0=raid1:sda,sdb") == ("md0", {"level": 1, "members": ["sda", "sdb"]})
    assert _parse_stack("far=raid10:a,b,layout=f2,chunk=64k") == (
        "far",
        {"level": 10, "layout": "f2", "chunk": "64k", "members": ["a", "b"]},
    )
    assert _parse_stack("c=lvmcache:origin=hdd,cache=ssd") == (
        "c",
        {"kind": "lvmcache", "origin": "hdd", "cache": "ssd"},
    )


def test_disks_are_typed_as_for_advise() -> None:
    assert _parse_devices(["nvme=pm983,ssd=sm883:10GiB"]) == {
        "nvme": {"model": "pm983"},
        "ssd": {"model": "sm883", "size": str(10 << 30)},
    }
    assert _parse_devices(["hdd=4xhdd-7200", "pm983"]) == {
        "hdd": {"model": "hdd-7200", "count": 4},
        "pm983": {"model": "pm983"},
    }


def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.compare.test_reproduction import measured

    answers = iter(["raid1:sda,sdb", "sm883", "hdd-7200"])
    asked: list[str] = []

    def prompt(text: str, **_: object) -> str:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(click, "prompt", prompt)
    devices, stacks = _ask_for_missing({"md0": measured("md0", 100)}, {}, {})
    assert stacks == {"md0": {"level": 1, "members": ["sda", "sdb"]}}
    assert devices == {"sda": {"model": "sm883"}, "sdb": {"model": "hdd-7200"}}
    assert [text.partition("?")[0] for text in asked] == ["what was md0", "which disk is sda", "which disk is sdb"]


def test_the_articles_have_their_figures(run: Run) -> None:
    mirrors = run("run", EXAMPLES / "article-2019-mirrors.toml", "--only", "stack=fast-raid1", "--set", "max_ios=20000")
    assert mirrors.status == 0, mirrors.err
    assert "iops: 4 of 4 measurements are inside: as expected." in mirrors.out
    spindles = run("run", EXAMPLES / "article-2008-spindles.toml", "--json")
    judged = [row for each in json.loads(spindles.out) for row in each["judged"] if row["metric"] != "write.mean"]
    assert len(judged) == 20
    assert sum(row["verdict"] == "inside" for row in judged) >= 18


def test_measured_figures_of_no_cell_are_an_error(run: Run, tmp_path: Path) -> None:
    text = 'measured = [{ cell = { stack = "raid9" }, read_iops = 1 }]\n' + (EXAMPLES / "unbalanced.toml").read_text()
    (tmp_path / "e.toml").write_text(text)
    outcome = run("run", "e.toml", "--dry-run")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "e.toml: measured[0].cell: no cell has stack=raid9" in outcome.err
    (tmp_path / "e.toml").write_text(text.replace("stack =", "stak ="))
    assert "no label 'stak'; did you mean 'stack'" in run("run", "e.toml", "--dry-run").err
    (tmp_path / "e.toml").write_text(text.replace(", read_iops = 1", ""))
    assert "measured[0]: found neither read_iops nor write_iops" in run("run", "e.toml", "--dry-run").err


def test_a_stack_may_be_called_like_a_device(run: Run, tmp_path: Path) -> None:
    text = (
        (EXAMPLES / "unbalanced.toml")
        .read_text()
        .replace("[stacks.near]", '[stacks.ssd]\ndevice = "ssd"\n\n[stacks.near]')
    )
    (tmp_path / "e.toml").write_text(text)
    outcome = run("run", "e.toml", "--dry-run", "--only", "workload=randread", "--json")
    labels = {each["labels"]["stack"] for each in json.loads(outcome.out)["cells"]}
    assert labels == {"ssd", "raid1", "near", "far", "offset"}


def test_a_cache_may_be_on_an_array() -> None:
    from tests.compare.test_reproduction import measured

    stacks = dict([_parse_stack("disks=raid1:a,b"), _parse_stack("cached=lvmcache:origin=disks,cache=ssd")])
    devices = _parse_devices(["a=hdd-7200,b=hdd-7200,ssd=sm883"])
    assert _ask_for_missing({"cached": measured("cached", 100)}, devices, stacks) == (devices, stacks)
