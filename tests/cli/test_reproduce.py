"""`blklab reproduce`, and experiments with measured figures."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import click
import pytest

from blklab.cli.reproduce import _find_missing, _parse_devices, _parse_stack, _parse_workload
from blklab.compare.reproduction import MeasuredRun, as_experiment
from blklab.errors import UsageError
from blklab.outcome import DeviceResult
from tests.compare.test_reproduction import measured
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
        ([FIO], "which disks are loop0 to loop3? Say it, for example: `blklab reproduce "),
        ([FIO, "--devices", "loop1=sm883,loop2=sm883,loop3=sm883", "--stack", "loop0=raid1:a,b"], "which disk is a?"),
        ([FIO, "--devices", "3xsm883"], "--devices sm883: found 3, expected 4 for loop0"),
        ([FIO, "--devices", MODELS, "--stack", "loop0=raid1:0*a"], "0*a: expected 2 to 256 disks, such as 4*a"),
        (
            [FIO, "--devices", MODELS, "--workload", "rv=read"],
            "found 'rv=read', expected rw=read,bs=256k; did you mean",
        ),
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


class Terminal:
    """A terminal at which answers are typed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
        self.answers = list(answers)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setattr(click, "prompt", self.prompt)

    def prompt(self, _text: str, default: str, **_: object) -> str:
        return self.answers.pop(0) or default


def disks_of(run: MeasuredRun, *names: str, array: str = "", ticks: tuple[int, ...] = ()) -> MeasuredRun:
    """Returns a run with fio's disk statistics of these disks, and of the array above them."""
    devices = [DeviceResult(array, [4000, 0], ticks_ns=[10**9, 0], kind="md", leaf=False)] if array else []
    for number, name in enumerate(names):
        device_ticks = ticks[number] if ticks else 10**9
        devices.append(DeviceResult(name, [1000, 0], ticks_ns=[device_ticks, 0], kind="disk", leaf=True))
    return replace(run, labels={"workload": "load"}, outcome=replace(run.outcome, devices=devices))


def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(monkeypatch, "raid1:sda,sdb", "sda=sm883,sdb=hdd-7200")
    devices, stacks = _find_missing({"md0": measured("md0", 100)}, {}, {})
    assert stacks == {"md0": {"level": 1, "members": ["sda", "sdb"]}}
    assert devices == {"sda": {"model": "sm883"}, "sdb": {"model": "hdd-7200"}}
    assert not terminal.answers
    shown = capsys.readouterr().err
    assert "what was md0? Type a number, or a disk's model, or LEVEL:MEMBER,...,KEY=VALUE; q ends." in shown
    assert "  1  hdd-7200         A rotating disk of 7,200 rpm, 8 TB\n" in shown


def test_the_first_guess_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    Terminal(monkeypatch, "", "")
    run = disks_of(measured("x", 100), "nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", array="md0")
    devices, stacks = _find_missing({run.place: run}, {}, {})
    members = ["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"]
    assert stacks == {"md0": {"level": 10, "members": members}}
    assert devices == {name: {"model": "nvme-consumer"} for name in members}


def test_questions_have_an_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = disks_of(measured("x", 100), "nvme0n1")
    Terminal(monkeypatch, "17", "nosuch", "q")
    with pytest.raises(click.Abort):
        _find_missing({run.place: run}, {}, {})
    shown = capsys.readouterr().err
    assert "17: expected a number from 1 to 3\n" in shown
    assert "--devices 'nosuch': no such disk is known" in shown
    Terminal(monkeypatch, *["nosuch"] * 9)
    with pytest.raises(UsageError, match=r"which disk is nvme0n1.* No answer is valid; add --devices"):
        _find_missing({run.place: run}, {}, {})


@pytest.mark.parametrize(
    ("names", "array", "devices", "remedy"),
    [
        (["nvme0n1"], "", [], "--devices nvme0n1=nvme-consumer"),
        (["sda"], "", [], "--devices sda=hdd-7200"),
        (["vda"], "", [], "--devices vda=aws-gp3"),
        (["sda", "sdb"], "md0", [], "--stack md0=raid1:2xsda --devices hdd-7200"),
        (["sda", "sdb", "sdc"], "md0", ["sm883"], "--stack md0=raid5:3xsda"),
        ([], "md0", ["sm883"], "--stack md0=raid1:2xhdd-7200"),
    ],
)
def test_an_error_has_a_command_that_can_be_typed(
    names: list[str], array: str, devices: list[str], remedy: str
) -> None:
    run = disks_of(measured("x", 100), *names, array=array)
    with pytest.raises(UsageError) as caught:
        _find_missing({run.place: run}, _parse_devices(devices), {}, ["blklab", "reproduce", "a b.json"])
    assert f"Say it, for example: `blklab reproduce 'a b.json' {remedy}`; " in str(caught.value)


def test_a_model_without_a_name_is_that_of_all_unknown_disks() -> None:
    run = disks_of(measured("x", 100), "nvme0n1")
    devices, stacks = _find_missing({run.place: run}, _parse_devices(["pm983:100GiB"]), {})
    assert stacks == {"nvme0n1": {"device": "nvme0n1"}}
    assert devices == {"nvme0n1": {"model": "pm983", "size": str(100 << 30)}}
    stack = dict([_parse_stack("md0=raid1:sda,sdb")])
    devices, _ = _find_missing({"md0": measured("md0", 100)}, _parse_devices(["sda=sm883,pm983"]), stack)
    assert devices == {"sda": {"model": "sm883"}, "sdb": {"model": "pm983"}}


@pytest.mark.parametrize("times", ["4*", "4x"])
def test_four_of_these_is_one_line(times: str) -> None:
    run = disks_of(measured("x", 100), "sdb", "sdc", "sdd", "sde", array="md0")
    stack = dict([_parse_stack(f"md0=raid10:{times}sdb,layout=f2")])
    devices, stacks = _find_missing({run.place: run}, _parse_devices(["sdb=sm883"]), stack)
    assert stacks["md0"] == {"level": 10, "layout": "f2", "members": ["sdb", "sdc", "sdd", "sde"]}
    assert devices == {name: {"model": "sm883"} for name in stacks["md0"]["members"]}
    # fio named no disks: the next ones, as the kernel counts
    stack = dict([_parse_stack(f"md0=raid10:{times}nvme0n1")])
    devices, stacks = _find_missing({"md0": measured("md0", 100)}, _parse_devices(["nvme0n1=pm983"]), stack)
    assert stacks["md0"]["members"] == ["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"] == list(devices)
    # a model for the disk
    stack = dict([_parse_stack(f"md0=raid10:{times}pm983")])
    devices, stacks = _find_missing({"md0": measured("md0", 100)}, {}, stack)
    assert stacks["md0"]["members"] == ["pm983-1", "pm983-2", "pm983-3", "pm983-4"] == list(devices)


def test_many_disks_have_a_short_name() -> None:
    run = disks_of(measured("x", 100), *(f"nvme{number}n1" for number in (*range(10, 16), *range(10))))
    assert run.place == "16-disks-nvme0n1-to-nvme15n1"
    with pytest.raises(UsageError) as caught:
        _find_missing({run.place: run}, {}, {})
    assert "what was 16-disks-nvme0n1-to-nvme15n1 (on nvme0n1 to nvme15n1)?" in str(caught.value)
    assert f"--stack {run.place}=raid0:16xnvme0n1 --devices nvme-consumer`" in str(caught.value)


@pytest.mark.parametrize("array", ["", "md0"])
def test_equal_disks_that_differ_are_mentioned_once(array: str) -> None:
    run = disks_of(measured("x", 100), "sda", "sdb", "sdc", array=array, ticks=(10**9, 3 * 10**9, 10**9))
    disk = {"kind": "throttled", "iops_total": 1000, "size": "2GiB"}
    stacks = {run.place: {"level": 5, "members": ["sda", "sdb", "sdc"]}}
    warnings: list[str] = []
    as_experiment("x", [run], dict.fromkeys(["sda", "sdb", "sdc"], disk), stacks, {}, warnings.append)
    sentence = "x.json: a read took 3 ms on sdb and 1 ms on sda: equal disks do not differ so much"
    assert warnings == [sentence]
    warnings.clear()
    other_disks: dict[str, dict[str, object]] = {"sda": disk, "sdb": {"model": "hdd-7200"}, "sdc": disk}
    as_experiment("x", [run], other_disks, stacks, {}, warnings.append)
    assert not warnings, "another model may be slower"


def test_options_are_in_the_command_line_above_the_text(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "tests/data/fio/without-header.txt").read_text()
    (tmp_path / "raid.txt").write_text(text)
    words = ["--devices", "hdd-7200", "--stack", "md0=raid5:3*sda,chunk=128k", "--kernel", "5.19"]
    outcome = run("reproduce", "raid.txt", *words)
    assert outcome.status == 0, outcome.err
    tables = tomllib.loads((tmp_path / "raid.toml").read_text())
    assert tables["workloads"]["test"] == {"rw": "read", "bs": "256k", "numjobs": 1}
    assert "doubts" not in tables["measured"][0], "all options are known"
    without_command = text[text.index("test: (groupid") :]
    (tmp_path / "bare.txt").write_text(without_command)
    outcome = run("reproduce", "bare.txt", *words)
    assert outcome.status == 2
    assert "bare.txt:1: fio's options are missing" in outcome.err
    assert "add --workload rw=read,bs=256k, with the options of the job" in outcome.err
    outcome = run("reproduce", "bare.txt", *words, "--workload", "rw=read,bs=128k")
    assert outcome.status == 0, outcome.err
    assert tomllib.loads((tmp_path / "bare.toml").read_text())["workloads"]["test"]["bs"] == "128k"


def test_workloads_are_typed_as_in_fio() -> None:
    assert _parse_workload("readwrite=randrw, bs=4k,8k,rwmixread=70") == {
        "rw": "randrw",
        "bs": "4k,8k",
        "rwmixread": "70",
    }


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
    stacks = dict([_parse_stack("disks=raid1:a,b"), _parse_stack("cached=lvmcache:origin=disks,cache=ssd")])
    devices = _parse_devices(["a=hdd-7200,b=hdd-7200,ssd=sm883"])
    assert _find_missing({"cached": measured("cached", 100)}, devices, stacks) == (devices, stacks)
