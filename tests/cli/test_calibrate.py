"""`blklab calibrate`: what was put into a device is found again from what fio would measure."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

ROOT = Path(__file__).parents[2]
IOSTAT = ROOT / "tests" / "data" / "imports" / "form-iostat-12.txt"

WORKLOADS: dict[str, dict[str, Any]] = {
    "small": {"rw": "randread", "bs": "4k", "iodepth": 32, "numjobs": 4, "size": "1g"},
    "large": {"rw": "randread", "bs": "64k", "iodepth": 32, "numjobs": 1, "size": "1g"},
}

TRUTH = {"read_command_ns": 4_000, "read_bandwidth": 450_000_000}


@pytest.fixture(autouse=True)
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("blklab.calibrate.fit.ENOUGH_IOS", 10_000)


def as_json(measured: dict[str, float]) -> str:
    jobs = [
        {
            "jobname": name,
            "groupid": group,
            "job options": {key: str(value) for key, value in WORKLOADS[name].items()},
            "read": {"iops": iops, "runtime": 10_000},
            "write": {"iops": 0.0},
        }
        for group, (name, iops) in enumerate(measured.items())
    ]
    return json.dumps({"fio version": "fio-3.33", "jobs": jobs})


def as_text(measured: dict[str, float]) -> str:
    headers, results = [], []
    for group, (name, iops) in enumerate(measured.items()):
        asked = WORKLOADS[name]
        size = {"4k": "4096B", "64k": "64.0KiB"}[asked["bs"]]
        headers.append(
            f"{name}: (g={group}): rw={asked['rw']}, bs=(R) {size}-{size}, (W) {size}-{size},"
            f" (T) {size}-{size}, ioengine=libaio, iodepth={asked['iodepth']}"
        )
        shown = f"{iops / 1000:.1f}k" if iops >= 10_000 else f"{iops:.0f}"
        results += [
            f"{name}: (groupid={group}, jobs={asked['numjobs']}): err= 0: pid=1: Sat Nov 21 2026",
            f"  read: IOPS={shown}, BW=1MiB/s (1MB/s)(1MiB/1msec)",
        ]
    return "\n".join([*headers, "fio-3.33", "Starting 5 processes", "", *results, "Run status group 0 (all jobs):", ""])


@pytest.fixture
def measured(run: Run) -> dict[str, float]:
    """Returns the IOPS of a SATA SSD with the true parameters."""
    tables = "\n".join(
        f"{name} = {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in table.items())} }}"
        for name, table in WORKLOADS.items()
    )
    truth = "\n".join(f"{key} = {value}" for key, value in TRUTH.items())
    Path("truth.toml").write_text(
        f'[devices.d]\nmodel = "sm883"\nsize = "1GiB"\n{truth}\n'
        '[stacks]\none = { device = "d" }\n'
        f"[workloads]\n{tables}\n[settings]\nmax_ios = 10_000\n"
    )
    results = json.loads(run("run", "truth.toml", "--json").out)
    return {item["labels"]["workload"]: item["read"]["iops"] for item in results}


@pytest.mark.parametrize("form", [as_json, as_text])
def test_parameters_are_found_again(run: Run, measured: dict[str, float], form: Any) -> None:
    Path("fio.out").write_text(form(measured))
    outcome = run("calibrate", "fio.out", "--model", "sm883", "--size", "1GiB", "-o", "my.toml", "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    assert document["fitted"].keys() == TRUTH.keys()
    for name, value in TRUTH.items():
        assert document["fitted"][name]["after"] == pytest.approx(value, rel=0.05)
        assert document["device"][name] == document["fitted"][name]["after"]
        assert document["fitted"][name]["interval"] is None  # as many parameters as runs
    for item in document["residuals"]:
        assert abs(item["error"]) < 0.02
        assert item["measured"]["read_iops"] == pytest.approx(measured[item["run"]], rel=0.01)
    # What says nothing of writes leaves their parameters alone.
    assert document["device"]["write_command_ns"] == 3898

    assert document["device"]["uncertainty"]["read"] == pytest.approx(0.087 / 3**0.5, rel=0.05)  # two exact runs more
    assert document["device"]["uncertainty"]["write"] == 0.087
    unknown = document["unknown"]
    assert set(unknown) >= {"write_command_ns", "write_bandwidth", "program_ns", "suspend_ns", "flush_ns"}
    assert not set(unknown) & TRUTH.keys()
    assert outcome.err.splitlines() == [
        "fitting read_command_ns, read_bandwidth to small, large",
        f"unknown, because no run depends on it: {', '.join(unknown)}",
    ]
    assert document["residuals"][1]["load"] == {"rw": "randread", "bs": document["residuals"][1]["load"]["bs"],
                                                "iodepth": "32", "numjobs": "1"}  # fmt: skip
    text = Path("my.toml").read_text()
    assert "write_command_ns = 3_898  # unknown: from sm883\n" in text
    assert re.search(r"^#   small rw=randread bs=4\w+ iodepth=32 numjobs=4: \d+, measured \d+ \(", text, re.M)
    written = tomllib.loads(text)["device"]
    assert written["source"] == "calibrated from sm883 on fio.out"
    assert written | {"source": ""} == document["device"] | {"source": ""}

    Path("exp.toml").write_text(
        '[devices.mine]\ncalibrated = "my.toml"\nsize = "1GiB"\n'
        '[stacks]\nalone = { device = "mine" }\n'
        '[workloads]\nsmall = { rw = "randread", iodepth = 32, numjobs = 4 }\n'
        "[settings]\nmax_ios = 10_000\n"
    )
    (result,) = json.loads(run("run", "exp.toml", "--json").out)
    assert result["read"]["iops"] == pytest.approx(measured["small"], rel=0.02)


def test_flushes_are_found_again(run: Run) -> None:
    jobs = [
        {"jobname": name, "groupid": group, "read": {"iops": 0.0}, "write": {"iops": iops},
         "job options": {"rw": "randwrite", "bs": "4k", "size": "1g", "iodepth": "1", **options}}
        for group, (name, iops, options) in enumerate(
            [("plain", 40_000.0, {}), ("flush", 800.0, {"fdatasync": "1"}), ("forced", 170.0, {"sync": "1"})]
        )
    ]  # fmt: skip
    Path("fio.json").write_text(json.dumps({"fio version": "fio-3.33", "jobs": jobs}))
    outcome = run("calibrate", "fio.json", "--model", "nvme-consumer", "--size", "2GiB", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    # A 990 PRO: a flush takes 1 / 800 s less what a plain write takes, forced unit access 1 / 170 s less.
    assert document["device"]["flush_ns"] == pytest.approx(1e9 / 800 - 25_000, rel=0.05)
    assert document["device"]["fua_ns"] == pytest.approx(1e9 / 170 - 25_000, rel=0.05)
    # Rates of the states that were measured are replaced; nothing was read.
    assert not any(key.startswith(("sustained_write", "cached_write")) for key in document["device"])
    assert "sustained_read_command_ns" in document["device"]
    assert {"flush_ns", "fua_ns", "write_latency_ns"} <= document["fitted"].keys()


@pytest.mark.parametrize(("iops", "model", "warns"), [(50_000, "pm983", True), (12_000, "pm983", False)])
def test_reads_of_blocks_that_were_never_written(
    run: Run, monkeypatch: pytest.MonkeyPatch, iops: float, model: str, *, warns: bool
) -> None:
    monkeypatch.setitem(WORKLOADS, "alone", {"rw": "randread", "bs": "4k", "iodepth": 1, "numjobs": 1, "size": "1g"})
    for form in (as_json, as_text):
        Path("fio.out").write_text(form({"alone": iops}))
        outcome = run("calibrate", "fio.out", "--model", model, "--size", "1GiB")
        assert outcome.status == 0, outcome.err
        assert ("warning: alone: a read took 20 µs, and flash takes longer" in outcome.err) is warns


def test_a_directory_has_a_file_for_each_load(run: Run, measured: dict[str, float]) -> None:
    for name, iops in measured.items():
        path = Path("bench") / WORKLOADS[name]["bs"] / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text(as_json({name: iops}))
    outcome = run("calibrate", "bench", "--model", "sm883", "--size", "1GiB", "--json")
    assert outcome.status == 0, outcome.err
    residuals = {item["run"]: item["error"] for item in json.loads(outcome.out)["residuals"]}
    assert residuals.keys() == {"result small", "result large"}
    Path("empty").mkdir()
    assert run("calibrate", "empty", "--model", "sm883").status == 2


def test_a_table_says_what_was_fitted(run: Run, measured: dict[str, float]) -> None:
    Path("fio.json").write_text(as_json({"small": measured["small"]}))
    outcome = run("calibrate", "fio.json", "--model", "sm883", "--size", "1GiB")
    assert outcome.status == 0
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    # One run tells one parameter.
    assert lines[1:3] == ["Fitted", "parameter before after 90 % interval"]
    assert lines[3].startswith("read_command_ns 3,209 ")
    assert "read_bandwidth" not in outcome.out
    assert lines[5:7] == ["Residuals, IOPS", "run rw bs depth jobs measured predicted error"]
    assert lines[7].startswith("small randread 4k 32 4 ")
    assert lines[7].endswith("%")


def test_a_hostile_name_stays_in_its_comment(run: Run) -> None:
    name = 'x\n[device]\n"\x1b[2J'
    text = as_json({"small": 90_000.0}).replace('"small"', json.dumps(name))
    Path("fio.json").write_text(text)
    outcome = run("calibrate", "fio.json", "--model", "sm883", "--size", "1GiB", "-o", "my.toml")
    assert outcome.status == 0, outcome.err
    assert "\x1b" not in outcome.out + outcome.err + Path("my.toml").read_text()
    assert tomllib.loads(Path("my.toml").read_text())["device"]["kind"] == "ssd"


CALIBRATED = """\
[device]
kind = "ssd"
capacity = "1TiB"
"""


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["no.json", "--model", "sm883"], "no.json: cannot be read: No such file or directory"),
        (["fio.json", "--model", "sm88"], "--model: there is no stock model 'sm88'; did you mean"),
        (["fio.json", "--model", "no.toml"], "no.toml: cannot be read: No such file or directory"),
        (["fio.json", "--model", "empty.toml"], "empty.toml: no table [device]"),
        (["fio.json", "--model", "part.toml"], "part.toml: device.read_command_ns: is missing"),
        (["fio.json", "--model", "kindless.toml"], "kindless.toml: device"),
        (["fio.json", "--model", "sm883", "--size", "9"], "fio.json: "),
        (["fio.json", "--model", "sm883", "--kernel", "x"], "invalid kernel 'x'"),
        (["part.toml", "--model", "sm883"], "part.toml: no fio results"),
        (["fio.json"], "--model: expected a model like the disk"),
        ([], "expected one of INPUT, --device and --directory"),
        (["--directory", "", "--model", "virtual"], "--directory"),
        (["--directory", ".", "--model", "virtual", "--time", "1s"], "--time: expected 10s or more"),
        (["--directory", ".", "--model", "virtual", "--kernel", "foo"], "foo"),
        (["--directory", ".", "--model", "virtual", "-o", "no/such/file"], "no/such"),
        (["--device", "no", "--size", "1g", "--model", "virtual"], "--size: not with --device"),
    ],
)
def test_mistakes_are_one_line_and_status_2(run: Run, arguments: list[str], output: str) -> None:
    Path("fio.json").write_text(as_json({"small": 90_000.0}))
    Path("empty.toml").write_text("")
    Path("part.toml").write_text(CALIBRATED)
    Path("kindless.toml").write_text("[device]\nunits = 1\n")
    outcome = run("calibrate", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert output in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_whole_device_unless_said_otherwise(run: Run) -> None:
    Path("fio.json").write_text(as_json({"small": 90_000.0}))
    outcome = run("calibrate", "fio.json", "--model", "sm883", "--json")
    assert outcome.status == 0, outcome.err
    assert "size" not in json.loads(outcome.out)["device"]


def test_a_bad_fit_is_said(run: Run) -> None:
    Path("fio.out").write_text(as_json({"small": 5_000.0, "large": 50_000.0}))
    outcome = run("calibrate", "fio.out", "--model", "sm883", "--size", "1GiB", "--json")
    assert outcome.status == 0
    residuals = json.loads(outcome.out)["residuals"]
    worst = max(residuals, key=lambda item: abs(item["error"]))
    assert abs(worst["error"]) > 0.25
    assert outcome.err.splitlines()[-1] == (
        f"blklab: warning: the model fits badly: its error for {worst['run']!r} is {100 * worst['error']:+.0f} %"
    )


def test_files_directories_and_runs_of_the_store_are_fitted_together(run: Run, measured: dict[str, float]) -> None:
    Path("small.json").write_text(as_json({"small": measured["small"]}))
    Path("dir/64k").mkdir(parents=True)
    Path("dir/64k/large.json").write_text(as_json({"large": measured["large"]}))
    assert run("import", "small.json", "--store", "s.db").status == 0
    for stored in ("run:1", "campaign:1"):
        outcome = run(
            *("calibrate", "small.json", "dir", stored, "--store", "s.db"),
            *("--model", "sm883", "--size", "1GiB", "--json"),
        )
        assert outcome.status == 0, outcome.err
        document = json.loads(outcome.out)
        assert [item["run"] for item in document["residuals"]] == ["run 1 small", "small", "large"]
        # The repeat of the first load leaves one degree of freedom: there is an interval.
        assert document["fitted"]["read_bandwidth"]["interval"] is not None
        for name, value in TRUTH.items():
            assert document["fitted"][name]["after"] == pytest.approx(value, rel=0.05)


def test_only_mixed_runs_fit_what_they_can(run: Run) -> None:
    options = {"rw": "randrw", "rwmixread": "70", "bs": "4k", "iodepth": "32", "size": "1g"}
    jobs = [
        {"jobname": f"mixed{jobs}", "groupid": group, "job options": {**options, "numjobs": jobs},
         "read": {"iops": 0.7 * iops}, "write": {"iops": 0.3 * iops}}
        for group, (jobs, iops) in enumerate([("1", 61_000.0), ("4", 60_000.0)])
    ]  # fmt: skip
    Path("fio.json").write_text(json.dumps({"fio version": "fio-3.33", "jobs": jobs}))
    outcome = run("calibrate", "fio.json", "--model", "sm883", "--size", "1GiB", "-o", "my.toml", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["fitted"].keys() == {"read_command_ns", "write_command_ns"}
    assert all(abs(item["error"]) < 0.03 for item in document["residuals"])
    text = Path("my.toml").read_text()
    for name in ("read_latency_ns", "write_latency_ns", "flush_ns"):
        assert name in document["unknown"]
        assert re.search(rf"^{name} = [\d_]+  # unknown: from sm883$", text, re.M)


def test_small_random_reads_show_no_bandwidth(run: Run) -> None:
    options = {"rw": "randread", "bs": "4k", "numjobs": "1", "size": "1g"}
    jobs = [
        {"jobname": f"depth{depth}", "groupid": group, "job options": {**options, "iodepth": depth},
         "read": {"iops": iops}, "write": {"iops": 0}}
        for group, (depth, iops) in enumerate([("8", 50_000.0), ("32", 62_000.0), ("64", 62_000.0)])
    ]  # fmt: skip
    Path("fio.json").write_text(json.dumps({"fio version": "fio-3.33", "jobs": jobs}))
    outcome = run("calibrate", "fio.json", "--model", "sm883", "--size", "1GiB", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["fitted"].keys() == {"read_command_ns"}
    assert "write_command_ns" in document["unknown"]
    assert abs(document["residuals"][-1]["error"]) < 0.1


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["run:99"], "no run 99 in store s.db"),
        (["run:x"], "run:x: expected the number of a run, such as run:42"),
        (["campaign:9"], "no campaign 9 in store s.db"),
        (["small.json", "dir"], "dir/cut.json: fio's JSON is invalid: it ends in line 1"),
        (["run:2"], "run 2: was not measured with fio (sim); expected a measured run"),
    ],
)
def test_damaged_inputs_are_one_line(run: Run, words: list[str], output: str) -> None:
    Path("small.json").write_text(as_json({"small": 90_000.0}))
    Path("dir").mkdir()
    Path("dir/cut.json").write_text(as_json({"large": 9_000.0})[:-9])
    Path("e.toml").write_text(
        '[devices.d]\nmodel = "sm883"\nsize = "1GiB"\n[stacks]\none = { device = "d" }\n'
        '[workloads]\nw = { rw = "read" }\nv = { rw = "write" }\n[settings]\nmax_ios = 10\n'
    )
    assert run("run", "e.toml", "--store", "s.db").status == 0
    outcome = run("calibrate", *words, "--store", "s.db", "--model", "sm883")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome.err
    assert output in outcome.err


HOST_EXPERIMENT = """
[devices.d]
model = "pm983"
[stacks]
one = { device = "d" }
[workloads]
r = { rw = "randread", iodepth = 32, numjobs = 4 }
[settings]
max_ios = 1000
[settings.host]
calibrated = "host.toml"
wake_ns = 5
"""


def host_results(name: str) -> None:
    """Writes results of fio whose I/Os take 5.1 µs of processor time each."""
    job = {"jobname": "j", "job options": {"name": "j", "ioengine": "libaio", "direct": "1", "rw": "randread"}}
    job |= {"read": {"total_ios": 100_000, "io_bytes": 409_600_000, "bw_bytes": 1, "runtime": 1_000}}
    Path(name).write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job | {"usr_cpu": 11.0, "sys_cpu": 40.0}]}))


def test_host_is_fitted_and_used(run: Run) -> None:
    host_results("fio.json")
    outcome = run("calibrate", "--host", "fio.json", "-o", "host.toml", "--json")
    assert json.loads(outcome.out)["host"] == {"submit_ns": 3_300, "reap_ns": 1_800}
    assert "The interval is unknown" in run("calibrate", "--host", "fio.json").out
    Path("exp.toml").write_text(HOST_EXPERIMENT)
    hosts = [
        json.loads(run("run", "exp.toml", "--dry-run", "--json", *more).out)["cells"][0]["cell"]["host"]
        for more in ((), ("--set", "host.reap_ns=7"), ("--this-host",), ("--this-host", "--set", "host.cores=3"))
    ]
    own = {"submit_ns": 3_300, "reap_ns": 1_800, "wake_ns": 5}
    cpus = len(os.sched_getaffinity(0))
    expected = [own, own | {"reap_ns": 7}, own | {"cores": cpus}, own | {"cores": 3}]
    assert all(prices.items() <= host.items() for prices, host in zip(expected, hosts, strict=True))
    assert hosts[0]["md_ns"] == pytest.approx(600 * 5_100 / 3_400), "all prices of the processor follow"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[host]", "host.toml: no times in a table [host]: expected a file that `blklab calibrate --host` wrote"),
        ("[device]", "host.toml: no times in a table [host]: expected a file that `blklab calibrate --host` wrote"),
        ("[host]\nsubmit = 3", "host.toml: host.submit: no such key; did you mean 'submit_ns'?"),
        ("[host]\nsubmit_ns = -1", "host.toml: host.submit_ns: -1 is out of range: expected 0 to 2^63 - 1"),
        ("[host", "host.toml: line 1, at the end: expected ']' at the end of a table declaration"),
        (None, "host.toml: cannot be read: No such file or directory"),
    ],
)
def test_file_of_a_host_is_checked(run: Run, content: str | None, message: str) -> None:
    Path("exp.toml").write_text(HOST_EXPERIMENT)
    if content is not None:
        Path("host.toml").write_text(content)
    outcome = run("run", "exp.toml", "--dry-run")
    assert (outcome.status, outcome.err.strip()) == (2, f"blklab: error: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--host: expected INPUT: results of fio, run:42 or campaign:3"),
        (("fio.json", "--model", "pm983"), "--model: not with --host, which takes results of fio"),
        (("nix.json",), "nix.json: cannot be read: No such file or directory"),
        ((IOSTAT,), f"{IOSTAT}: no fio results; expected JSON or text output of fio"),
        (("empty",), "empty: no JSON files of fio; expected results of fio"),
    ],
)
def test_inputs_of_a_host_are_checked(run: Run, arguments: tuple[Any, ...], message: str) -> None:
    host_results("fio.json")
    Path("empty").mkdir()
    outcome = run("calibrate", "--host", *arguments)
    assert (outcome.status, outcome.err.strip()) == (2, f"blklab: error: {message}")


def test_jobs_on_different_disks_are_of_a_host_but_of_no_device(run: Run) -> None:
    host_results("fio.json")
    document = json.loads(Path("fio.json").read_text())
    (job,) = document["jobs"]
    document["jobs"] = [
        job | {"jobname": name, "job options": job["job options"] | {"name": name, "filename": f"/dev/{name}"}}
        for name in ("sda", "sdb")
    ]
    Path("fio.json").write_text(json.dumps(document))
    assert json.loads(run("calibrate", "--host", "fio.json", "--json").out)["io_ns"] == pytest.approx(5_100)
    outcome = run("calibrate", "fio.json", "--model", "pm983")
    expected = "fio.json: sda+sdb: jobs on /dev/sda and /dev/sdb ran at the same time; expected one disk"
    assert (outcome.status, outcome.err.strip()) == (2, f"blklab: error: {expected}")


@pytest.mark.parametrize("command", [["calibrate"], ["calibrate", "--host"], ["import"], ["reproduce"]])
@pytest.mark.parametrize("text", ["[global]\nbs=4k\n", "# Six tests\n\n; of a disk\r\n  [job1] \r\nrw=read\r\n"])
def test_a_job_file_is_not_its_results(run: Run, tmp_path: Path, command: list[str], text: str) -> None:
    path = tmp_path / "disk.fio"
    path.write_text(text)
    outcome = run(*command, path)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        f"blklab: error: {path}: is a job file of fio, expected fio's results:"
        f" `fio --output-format=json --output=disk.json {path}` makes them\n"
    )


def test_a_model_is_asked_for_with_an_example(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "disk.json"
    path.write_text(as_json({"small": 1e5}))
    outcome = run("calibrate", path)
    assert outcome.status == 2
    assert "a model like the disk, such as --model pm983: see `blklab devices list`" in outcome.err
