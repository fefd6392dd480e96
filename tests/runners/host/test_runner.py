"""The runner `host`: experiments on a directory, a filesystem and a raw device, with real fio."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blklab.diagnostic import Diagnostic
from blklab.experiment.cells import plan
from blklab.experiment.host_cell import FORM
from blklab.runners.host.journal import lock, release
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.system.roots import Roots
from tests.conftest import Run
from tests.runners.host.conftest import Loops
from tests.trace.test_documented import documented_fields, fields

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")

EXPERIMENT = """
title = "Here"
destroy = {destroy}
[targets.here]
{target}
[workloads]
mixed = {{ rw = "randrw", rwmixread = 70, iodepth = 4, size = "8MiB", numjobs = 2 }}
[settings]
runtime = "1s"
"""


def write(tmp_path: Path, target: str, more: str = "", destroy: str = "[]") -> Path:
    path = tmp_path / "here.toml"
    path.write_text(EXPERIMENT.format(target=target, destroy=destroy) + more)
    return path


def measured(run: Run, path: Path, *more: str) -> Any:
    outcome = run("run", path, "--on", "host", "--force", "device-busy", "--json", *more)
    assert outcome.status == 0, outcome.err
    return json.loads(outcome.out)


def test_a_directory(run: Run, tmp_path: Path) -> None:
    (result,) = measured(run, write(tmp_path, f'directory = "{tmp_path}"'))
    assert result["runner"] == "host"
    assert result["read"]["total_ios"] > result["write"]["total_ios"] > 0
    assert result["read"]["clat_ns"]["p99"] > 0
    assert sum(point["ios"][0] for point in result["series"]) == pytest.approx(result["read"]["total_ios"], abs=2)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".blklab")] == []
    assert 0.99 < sum(result["cpu"].values()) < 1.01
    (kept,) = query.runs_of(Store(), 1)
    environment = dict(kept.environment)
    assert environment["kernel"]["release"] == os.uname().release
    assert environment["programs"]["fio"]
    assert '"clat_ns"' in query.raw(Store(), kept.id)


def test_every_field_is_documented(run: Run, tmp_path: Path) -> None:
    more = "[host.steady]\nround = '0.2s'\nrounds = 3\nlimit = '1s'\n[sweep]\n'vm.swappiness' = [61]\n"
    result = measured(run, write(tmp_path, f'directory = "{tmp_path}"', more))[-1]
    result |= {"labels": {}}
    result["fio"] |= {"options": {}, "disk_util": {}}
    assert set(fields(result)) - documented_fields("outcome", "result", "host result") == set()


def test_a_raw_device_and_who_served_it(run: Run, tmp_path: Path, loops: Loops) -> None:
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    name = Path(device).name
    path = write(tmp_path, f'device = "{device}"', destroy=f'["file:{backing}"]')
    (result,) = measured(run, path)
    disks = {disk["name"]: disk for disk in result["devices"]}
    assert disks[name]["kind"] == "loop"
    assert disks[name]["id"] == f"file:{backing}"
    total = result["read"]["total_ios"] + result["write"]["total_ios"]
    assert sum(disks[name]["ios"]) == pytest.approx(total, rel=0.05)
    sources = {point.source for point in query.points(Store(), 1)}
    assert {"jobs", name} <= sources


def test_a_mounted_filesystem_and_a_mount_that_is_missing(run: Run, tmp_path: Path, loops: Loops) -> None:
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("e2fsprogs are not installed: apt-get install e2fsprogs")
    device = loops.attach(loops.file("disk", 64 << 20))
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    point = tmp_path / "mnt"
    point.mkdir()
    path = write(tmp_path, f'filesystem = "{point}"')
    refused = run("run", path, "--on", "host")
    assert refused.status == 2
    assert f"{point}: found a directory" in refused.err
    assert "expected a mounted filesystem" in refused.err
    command = "[workloads.ls]\ncommand = ['ls']\n[matrix]\nworkload = ['ls']"
    refused = run("run", write(tmp_path, f'filesystem = "{point}"', command), "--on", "host")
    assert refused.status == 2
    assert "expected a mounted filesystem" in refused.err
    path = write(tmp_path, f'filesystem = "{point}"')
    subprocess.run(["mount", device, point], check=True)
    try:
        (result,) = measured(run, path)
        assert Path(device).name in {disk["name"] for disk in result["devices"]}
        assert [entry.name for entry in point.iterdir()] == ["lost+found"]
    finally:
        subprocess.run(["umount", point], check=True)


def test_a_sweep_changes_settings_and_puts_them_back(run: Run, tmp_path: Path, loops: Loops) -> None:
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    file = Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb")
    result = file.read_text()
    path = write(tmp_path, f'device = "{device}"', "[sweep]\nread_ahead_kb = [64]\n", destroy=f'["file:{backing}"]')
    baseline, swept = measured(run, path)
    assert file.read_text() == result
    assert baseline["settings"] == []
    changed = {(item["where"], item["key"]): item["set"] for item in swept["settings"]}
    assert changed[(Path(device).name, "read_ahead_kb")] == "64"
    tuned = json.loads(run("tune", "here@host", "--json").out)
    assert [item["setting"] for item in tuned["tunings"][0]["effects"]] == ["read_ahead_kb"]


def test_a_command(run: Run, tmp_path: Path) -> None:
    more = "[workloads.copy]\ncommand = ['cp', 'a', 'b']\ntimes = 3\n[matrix]\nworkload = ['copy']"
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    (result,) = measured(run, write(tmp_path, f'directory = "{tmp_path}"', more))
    assert [item["status"] for item in result["command"]["runs"]] == [0, 0, 0]
    assert all(item["wall_ns"] > 0 for item in result["command"]["runs"])
    assert (tmp_path / "b").stat().st_size == 1 << 20
    table = run("runs", "show", "here@host")
    assert table.status == 0


def test_a_command_with_a_figure_of_its_own(run: Run, tmp_path: Path) -> None:
    more = (
        "[workloads.bench]\ncommand = ['sh', '-c', 'echo warm-up: tps = 5; echo tps = 1,812.5 of pgbench']\ntimes = 2\n"
        "figure = 'tps = ([0-9.,]+)'\n[matrix]\nworkload = ['bench']"
    )
    path = write(tmp_path, f'directory = "{tmp_path}"', more)
    (result,) = measured(run, path)
    assert [item["figure"] for item in result["command"]["runs"]] == [1812.5, 1812.5]
    table = run("runs", "show", "here@host", "--csv")
    assert table.status == 0
    path.write_text(path.read_text().replace("tps = ([0-9.,]+)", "tpm = ([0-9]+)"))
    done = run("run", path, "--on", "host", "--force", "device-busy")
    assert done.status == 1
    assert "command 'sh': its output has no number that figure = 'tpm = ([0-9]+)' finds" in done.err


def test_a_cell_that_fails_is_told_and_the_others_are_measured(run: Run, tmp_path: Path) -> None:
    more = "[workloads.no]\ncommand = ['false']\ntimes = 1\n"
    path = write(tmp_path, f'directory = "{tmp_path}"', more)
    outcome = run("run", path, "--on", "host", "--force", "device-busy", "--json")
    assert outcome.status == 1
    assert len(json.loads(outcome.out)) == 1
    assert "cell 2 (stack=here workload=no repeat=1): " in outcome.err
    assert outcome.err.count("\n") == 1
    (campaign,) = query.all_campaigns(Store())
    assert campaign.states == {"planned": 0, "running": 0, "done": 1, "failed": 1}


@pytest.mark.parametrize(
    ("target", "status", "output"),
    [
        ('directory = "/nowhere"', 2, "/nowhere: No such file or directory"),
        ('directory = "/etc/passwd"', 2, "/etc/passwd: not a directory"),
        ('device = "/etc/passwd"', 2, "/etc/passwd"),
        ('device = "/dev/null"', 2, "/dev/null"),
        ('device = "/dev/nowhere"', 2, "/dev/nowhere"),
    ],
)
def test_targets_that_are_none(run: Run, tmp_path: Path, target: str, status: int, output: str) -> None:
    outcome = run("run", write(tmp_path, target), "--on", "host")
    assert (outcome.status, outcome.out) == (status, "")
    assert output in outcome.err
    assert outcome.err.count("\n") == 1
    assert query.all_campaigns(Store()) == []


def test_what_one_runner_has_and_the_other_has_not(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path, f'directory = "{tmp_path}"')
    for words, output in (
        (("--jobs", "2"), "--jobs: other runners measure one cell at a time"),
        (("--force", "everything"), "--force 'everything': expected one of array-syncing"),
        (("--explain",), "--explain: measurements have no explanation"),
    ):
        outcome = run("run", path, "--on", "host", *words)
        assert outcome.status == 2
        assert output in outcome.err
    assert run("run", path, "--force", "device-busy").status == 2


def test_ctrl_c_leaves_a_campaign_that_can_be_resumed(tmp_path: Path, run: Run) -> None:
    text = "[matrix]\niodepth = [1, 2]\n"
    path = write(tmp_path, f'directory = "{tmp_path}"', text)
    words = ["run", str(path), "--on", "host", "--force", "device-busy", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "blklab.cli", *words, "--set", "runtime=1s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            campaigns = query.all_campaigns(Store())
            if campaigns and campaigns[0].states["running"] and campaigns[0].states["done"]:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: finished cells are stored; repeat the command with --resume" in err
    assert out == ""
    (campaign,) = query.all_campaigns(Store())
    assert campaign.states == {"planned": 1, "running": 0, "done": 1, "failed": 0}
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".blklab")] == []
    results = measured(run, path, "--set", "runtime=1s", "--resume")
    assert [result["labels"]["iodepth"] for result in results] == ["1", "2"]
    assert len(query.all_campaigns(Store())) == 1


def test_the_same_file_is_simulated_and_measured(run: Run, tmp_path: Path) -> None:
    models = '[devices]\nssd = { model = "sm883" }\n[stacks]\nhere = { device = "ssd" }\n'
    path = write(tmp_path, f'directory = "{tmp_path}"', models)
    assert run("run", path).status == 0
    measured(run, path)
    compared = run("compare", "here@sim", "here@host", "--json")
    document = json.loads(compared.out)
    assert document["sides"] == ["here@sim", "here@host"]
    (row,) = (row for row in document["rows"] if row["metric"] == "iops")
    assert all(value["mean"] > 0 for value in row["values"])
    assert "the runs come from different runners: host and sim" in document["notes"]


def test_one_host_is_measured_on_by_one(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, f'directory = "{tmp_path}"')
    held = lock("host", Roots())
    monkeypatch.setenv("BLKLAB_STATE", str(tmp_path / "another state"))
    try:
        for more in ((), ("--resume",), ("--no-store",)):
            refused = run("run", path, "--on", "host", "--force", "device-busy", *more)
            assert (refused.status, refused.out) == (1, "")
            assert refused.err.startswith(
                "blklab: error: another blklab is measuring on this host: wait until it ends ("
            )
            assert refused.err.count("\n") == 1
        assert query.all_campaigns(Store()) == []
        assert run("run", path, "--on", "host", "--dry-run").status == 0
    finally:
        release(held)
    measured(run, path)


def test_a_dry_run_changes_nothing(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path, f'directory = "{tmp_path}"', "[settings.host]\n")
    outcome = run("run", path, "--on", "host", "--dry-run")
    assert outcome.status == 0
    assert "here: directory" in outcome.out
    assert "rw=randrw" in outcome.out
    assert "8 MiB would be written below" in outcome.out
    assert query.all_campaigns(Store()) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["here.toml"]


@pytest.mark.parametrize(("busy_checks", "refused"), [(3, False), (99, True)])
def test_wait_measures_once_the_devices_are_idle(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_checks: int, refused: bool
) -> None:
    finding = Diagnostic("device-busy", "critical", "sda", "found 900 I/Os a second", ())
    clock = [0.0]
    checks = []

    def check(*_arguments: object, **_named: object) -> list[Diagnostic]:
        checks.append(clock[0])
        clock[0] += 2.0
        return [finding] if len(checks) <= busy_checks else []

    monkeypatch.setattr("blklab.runners.host.conditions.check", check)
    timer = SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr("blklab.runners.host.runner.time", timer)
    path = write(tmp_path, f'directory = "{tmp_path}"', "[host]\nwait = '20s'\n")
    outcome = run("run", path, "--on", "host")
    assert outcome.status == refused
    assert ("found 900 I/Os a second" in outcome.err) == refused
    assert len(checks) == (10 if refused else 4)


def test_dry_run_states_time_and_bytes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    path.write_text(
        f"""
repeats = 2
[targets.here]
directory = "{tmp_path}"
size = "128MiB"
[workloads]
fill = {{ rw = "write", bs = "1MiB", io_size = "10GiB" }}
mixed = {{ rw = "randrw", rwmixread = 75, size = "64MiB", numjobs = 2 }}
ended = {{ rw = "randwrite", runtime = "1m", time_based = true, ramp_time = "5s" }}
limit = {{ rw = "randread", runtime = "1s", rate = "ramp", p99_below = "5ms" }}
"""
    )
    outcome = run("run", path, "--on", "host", "--dry-run")
    assert outcome.status == 0, outcome.err
    assert "128 MiB would be written below" in outcome.out
    # Two repeats of 10 GiB, and of a quarter of 2 × 64 MiB.
    assert "the jobs of all cells would write at most 20.1 GiB" in outcome.out
    assert "jobs that end by time would write as much as the device takes" in outcome.out
    # The ramp runs once without a limit, at nine rates, and four times to search.
    assert "4 of the cells would take 2m 38s, without preparation" in outcome.out
    assert "rate=ramp p99_below=5ms" in outcome.out


def test_random_order_measures_each_cell_once_per_repeat(tmp_path: Path) -> None:
    path = tmp_path / "order.toml"
    path.write_text(
        EXPERIMENT.format(target=f'directory = "{tmp_path}"', destroy="[]").replace(
            "title", 'order = "random"\nrepeats = 3\ntitle'
        )
        + "[matrix]\niodepth = [1, 2, 3, 4, 5, 6, 7, 8]\n"
    )

    def order(seed: int) -> list[tuple[str, str]]:
        cells = plan(path, seed=seed, form=FORM).cells
        measured = sorted(cells, key=lambda cell: cell.turn)
        return [(cell.labels["repeat"], cell.labels["iodepth"]) for cell in measured]

    assert [repeat for repeat, _ in order(1)] == ["1"] * 8 + ["2"] * 8 + ["3"] * 8
    depths = [depth for _, depth in order(1)]
    rounds = [depths[at : at + 8] for at in (0, 8, 16)]
    assert all(sorted(depths_of_round) == list("12345678") for depths_of_round in rounds)
    assert len({tuple(depths_of_round) for depths_of_round in rounds}) == 3
    assert order(1) == order(1) != order(2)
