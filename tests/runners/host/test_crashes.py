"""`kill -9` at any instant of a campaign: nothing done is lost or counted twice, nothing is left.

`make proof` kills a few; BLKLAB_CRASHES=200 as often as that.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from blklab.store import query
from blklab.store.campaigns import Store
from tests.runners.host.conftest import Loops

CRASHES = int(os.environ.get("BLKLAB_CRASHES", "12"))

LONGEST = 2.2
"""Seconds that a process lives at most: some cells are done in that, but never all."""

EXPERIMENT = """
title = "Killed again and again"
repeats = {repeats}
destroy = ["{id}"]

[targets.disk]
device = "{device}"

[targets.directory]
directory = "{directory}"

[workloads]
reads = {{ rw = "randread", iodepth = 4, size = "4MiB" }}
writes = {{ rw = "randwrite", iodepth = 4, size = "4MiB" }}

[settings]
runtime = "200ms"

[sweep]
read_ahead_kb = [64]
"""


def state(device: str) -> str:
    return Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").read_text()


def made(directories: list[Path], device: str) -> list[Path]:
    """Returns what blklab made in directories of ours, and the nodes that it made of our device."""
    nodes = [
        path for path in Path("/dev").glob(".blklab-*/device") if path.stat().st_rdev == Path(device).stat().st_rdev
    ]
    return [*nodes, *(path for directory in directories for path in directory.iterdir())]


def done(where: str) -> dict[int, Any]:
    """Returns what every run that is done measured, by its number."""
    store = Store(where)
    return {
        run.id: (run.labels, run.outcome, run.started)
        for campaign in query.all_campaigns(store)
        for run in query.runs_of(store, campaign.number)
        if run.state == "done"
    }


@pytest.mark.proof
@pytest.mark.parametrize("crashes", [CRASHES])
def test_killed_at_any_instant(crashes: int, tmp_path: Path, loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    backing = loops.file("disk", 16 << 20)
    device = loops.attach(backing)
    directory, temporary = tmp_path / "directory", tmp_path / "tmp"
    for each in (directory, temporary):
        each.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    experiment = tmp_path / "crashes.toml"
    repeats = max(1, crashes // 8)
    experiment.write_text(EXPERIMENT.format(id=f"file:{backing}", device=device, directory=directory, repeats=repeats))
    where = str(tmp_path / "store.db")
    result = state(device)
    command = [
        *(sys.executable, "-m", "blklab.cli", "run", str(experiment), "--on", "host"),
        *("--resume", "--json", "--store", where, "--force", "device-busy"),
        *("--yes-destroy", f"file:{backing}"),
    ]
    generator = random.Random(crashes)
    kept: dict[int, Any] = {}
    killed = 0
    while killed < crashes:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(generator.uniform(0, LONGEST))
            os.kill(process.pid, signal.SIGKILL)
            assert process.stderr is not None
            output = process.stderr.read()
        assert process.returncode in {-signal.SIGKILL, 0}, output
        killed += 1
        now = done(where) if Path(where).exists() else {}
        assert kept.items() <= now.items(), "what was done is lost, or was done again"
        kept = now
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    results = json.loads(ended.stdout)
    assert [item["number"] for item in results] == list(range(1, 8 * repeats + 1))
    assert len({json.dumps(item["labels"]) for item in results}) == 8 * repeats
    store = Store(where)
    (campaign,) = query.all_campaigns(store)
    assert campaign.states == {"planned": 0, "running": 0, "done": 8 * repeats, "failed": 0}
    assert kept.items() <= done(where).items()
    assert all(query.points(store, run.id) for run in query.runs_of(store, campaign.number))
    assert state(device) == result
    assert made([directory, temporary], device) == []
    journals = Path(os.environ["BLKLAB_STATE"]).glob("journal-*")
    assert list(journals) == []
    assert str(directory) not in subprocess.run(
        ["pgrep", "-a", "fio"], check=False, capture_output=True, text=True
    ).stdout  # fmt: skip
