"""Bad weather, from the command line: every refusal leaves the disk as it was, byte for byte."""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blklab.store import query
from blklab.store.campaigns import Store
from tests.conftest import Run
from tests.runners.host.conftest import Loops
from tests.runners.host.signatures import signed

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")

EXPERIMENT = """
destroy = {destroy}
[targets.disk]
{target}
[workloads.writes]
rw = "randwrite"
iodepth = 4
size = "{size}"
[settings]
runtime = "{runtime}"
"""

HOST = ("--on", "host", "--force", "device-busy")


def experiment(tmp_path: Path, target: str, destroy: list[str], *, size: str = "4MiB", runtime: str = "300ms") -> Path:
    path = tmp_path / "weather.toml"
    path.write_text(EXPERIMENT.format(target=target, destroy=json.dumps(destroy), size=size, runtime=runtime))
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["swap", "ext4", "linux_raid_member", "LVM2_member", "dos"])
def test_a_signature_saves_a_disk(run: Run, tmp_path: Path, loops: Loops, kind: str) -> None:
    backing = loops.file("disk", 16 << 20)
    signed(kind, backing)
    device = loops.attach(backing)
    before = digest(backing)
    path = experiment(tmp_path, f'device = "{device}"', [f"file:{backing}"])
    refused = run("run", path, *HOST)
    assert (refused.status, refused.out) == (1, "")
    assert f"--yes-destroy file:{backing}" in refused.err
    assert refused.err.count("\n") == 1
    assert digest(backing) == before
    assert run("run", path, *HOST, "--yes-destroy", f"file:{backing}").status == 0
    assert digest(backing) != before


@pytest.mark.parametrize(
    ("destroy", "output"),
    [
        ([], "the run would overwrite it, but `destroy` does not name it"),
        (["wwn-0x5000c500a1b2c3d4"], "the run would overwrite it, but `destroy` does not name it"),
        (["{device}"], "is a name that can change at the next boot"),
        (["file:{backing}/../other"], "the run would overwrite it, but `destroy` does not name it"),
    ],
)
def test_a_disk_that_is_not_named_by_its_stable_name(
    run: Run, tmp_path: Path, loops: Loops, destroy: list[str], output: str
) -> None:
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    before = digest(backing)
    names = [name.format(device=device, backing=backing) for name in destroy]
    refused = run("run", experiment(tmp_path, f'device = "{device}"', names), *HOST)
    assert refused.status == 2
    assert output in refused.err
    assert f"file:{backing}" in refused.err
    assert digest(backing) == before


@pytest.mark.parametrize("kind", ["fill", "random"])
def test_preparing_is_writing(run: Run, tmp_path: Path, loops: Loops, kind: str) -> None:
    """A workload that only reads, on a disk outside `destroy`: its preparation would write."""
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    before = digest(backing)
    path = experiment(tmp_path, f'device = "{device}"', [])
    path.write_text(path.read_text() + f'[host]\nprecondition = "{kind}"\n')
    refused = run("run", path, *HOST, "--set", "rw=randread")
    assert refused.status == 2
    assert "the run would overwrite it, but `destroy` does not name it" in refused.err
    assert digest(backing) == before
    named = experiment(tmp_path, f'device = "{device}"', [f"file:{backing}"])
    named.write_text(named.read_text() + f'[host]\nprecondition = "{kind}"\n')
    dry = run("run", named, *HOST, "--set", "rw=randread", "--dry-run")
    assert "would be OVERWRITTEN" in dry.out
    assert digest(backing) == before
    assert run("run", named, *HOST, "--set", "rw=randread").status == 0
    assert digest(backing) != before


def test_what_is_mounted(run: Run, tmp_path: Path, loops: Loops) -> None:
    backing = loops.file("disk", 16 << 20)
    signed("ext4", backing)
    device = loops.attach(backing)
    (tmp_path / "mnt").mkdir()
    subprocess.run(["mount", device, tmp_path / "mnt"], check=True)
    try:
        path = experiment(tmp_path, f'device = "{device}"', [f"file:{backing}"])
        refused = run("run", path, *HOST, "--yes-destroy", f"file:{backing}")
    finally:
        subprocess.run(["umount", tmp_path / "mnt"], check=True)
    assert refused.status == 1
    assert "in use, so blklab does not write to" in refused.err
    assert "mnt" in refused.err


def test_a_link_in_the_path_and_a_hostile_directory(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "a b;$(touch x)"
    directory.mkdir()
    (tmp_path / "link").symlink_to(directory)
    name = f"{tmp_path}/link/../link"
    path = experiment(tmp_path, f"directory = {json.dumps(name)}", [])
    outcome = run("run", path, *HOST)
    assert outcome.status == 0, outcome.err
    assert list(directory.iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_a_disk_whose_end_is_gone(tmp_path: Path, loops: Loops) -> None:
    """I/O errors in the middle of a run, as of a disk that dies."""
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    path = experiment(tmp_path, f'device = "{device}"', [f"file:{backing}"], size="12MiB", runtime="20s")
    with subprocess.Popen(
        [sys.executable, "-m", "blklab.cli", "run", str(path), *HOST,
         "--set", "rw=randread", "--set", "time_based=true"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        until_running()
        time.sleep(1)
        os.truncate(backing, 4096)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cell 1 (stack=disk workload=writes repeat=1): " in err
    assert "Traceback" not in err + out
    (campaign,) = query.all_campaigns(Store())
    assert campaign.states["failed"] == 1


def until_running() -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        campaigns = query.all_campaigns(Store())
        if campaigns and campaigns[0].states["running"]:
            return
        time.sleep(0.05)
    raise AssertionError("it does not run")


def test_fio_is_killed(tmp_path: Path, run: Run) -> None:
    path = experiment(tmp_path, f'directory = "{tmp_path}"', [], runtime="30s")
    with subprocess.Popen(
        [sys.executable, "-m", "blklab.cli", "run", str(path), *HOST, "--set", "time_based=true"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        until_running()
        os.kill(lasting_fio(process.pid), signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "fio did not finish" in err
    assert [entry.name for entry in tmp_path.iterdir()] == ["weather.toml"]
    assert run("runs", "show", "weather").status == 0


def lasting_fio(parent: int) -> int:
    """Returns the fio that measures; the one that lays the file out is over in a moment."""
    seen: dict[str, float] = {}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in children:
            if "job.fio" in cmdline(pid):
                seen.setdefault(pid, time.monotonic())
                if time.monotonic() - seen[pid] > 1.5:
                    return int(pid)
        time.sleep(0.05)
    raise AssertionError("there is no fio")


def cmdline(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def fake(directory: Path, output: str) -> str:
    """Puts a program called fio first in PATH; returns the PATH."""
    directory.mkdir()
    program = directory / "fio"
    program.write_text(f"#!/bin/sh\necho {output}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{directory}:{os.environ['PATH']}"


@pytest.mark.parametrize(("version", "output"), [("fio-2.1.11", "too old"), ("unknown", "is not fio")])
def test_fio_that_will_not_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, output: str
) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", version))
    outcome = run("run", experiment(tmp_path, f'directory = "{tmp_path}"', []), *HOST)
    assert outcome.status == 3
    assert output in outcome.err
    assert outcome.err.count("\n") == 1


def test_without_fio(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run("run", experiment(tmp_path, f'directory = "{tmp_path}"', []), *HOST)
    assert outcome.status == 3
    assert "fio is not installed; install it: apt-get install fio" in outcome.err


def test_the_stores_disk_is_full(run: Run, tmp_path: Path, loops: Loops) -> None:
    device = loops.attach(loops.file("disk", 4 << 20))
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    point = tmp_path / "mnt"
    point.mkdir()
    subprocess.run(["mount", device, point], check=True)
    try:
        path = experiment(tmp_path, f'directory = "{tmp_path}"', [])
        where = ("--store", str(point / "store.db"))
        assert run("run", path, *HOST, *where).status == 0
        filler = point / "filler"
        with filler.open("wb") as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        full = run("run", path, *HOST, *where)
        assert full.status == 3
        assert full.err.count("\n") == 1
        assert "store.db: the disk is full: found" in full.err
        assert run("runs", "list", *where).status == 0  # what is there can be read all the same
        filler.unlink()
        assert run("run", path, *HOST, *where, "--resume").status == 0
        kept = query.all_campaigns(Store(where[1]))
        assert [campaign.states["done"] for campaign in kept][-1] == 1
        assert kept[0].states["done"] == 1
    finally:
        subprocess.run(["umount", point], check=True)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".blklab")] == []


@pytest.mark.parametrize(
    ("sweep", "output"),
    [
        ("scheduler = ['cfq-2']", "scheduler: found 'cfq-2', expected one of"),
        ("stripe_cache_size = [512]", "stripe_cache_size: not found on"),
        ("'vm.drop_caches' = [3]", "found 'vm.drop_caches', expected one of"),
        ("'vm.no_such_thing' = [3]", "this kernel has no /proc/sys/vm/no_such_thing"),
    ],
)
def test_a_setting_that_is_none_is_told_before_anything_runs(
    run: Run, tmp_path: Path, loops: Loops, sweep: str, output: str
) -> None:
    device = loops.attach(loops.file("disk", 16 << 20))
    path = experiment(tmp_path, f'device = "{device}"', [])
    path.write_text(path.read_text().replace("randwrite", "randread") + f"[sweep]\n{sweep}\n")
    refused = run("run", path, *HOST)
    assert refused.status == 2
    assert output in refused.err
    assert query.all_campaigns(Store()) == []


def test_two_targets_on_one_disk_are_told_before_anything_runs(run: Run, tmp_path: Path, loops: Loops) -> None:
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    path = experiment(tmp_path, f'device = "{device}"', [f"file:{backing}"])
    path.write_text(path.read_text() + f'[targets.again]\ndevice = "{device}"\n')
    refused = run("run", path, *HOST)
    assert refused.status == 1
    assert "in use, so blklab does not write to" in refused.err
    assert query.all_campaigns(Store()) == []


def test_a_share_of_a_device(run: Run, tmp_path: Path, loops: Loops) -> None:
    device = loops.attach(loops.file("disk", 16 << 20))
    path = experiment(tmp_path, f'device = "{device}"', [], size="50%")
    outcome = run("run", path, *HOST, "--set", "rw=randread", "--json")
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)[0]["read"]["total_ios"] > 0


def test_no_room_for_the_file(run: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, f'directory = "{tmp_path}"', [], size="900TiB")
    outcome = run("run", path, *HOST)
    assert outcome.status == 3
    assert "found space for" in outcome.err
