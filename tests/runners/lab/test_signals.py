"""blklab is told to end, or killed, while a guest runs: nothing is left, and --resume goes on."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blklab.store import query
from blklab.store.campaigns import Store
from tests.runners.lab.conftest import guests, left
from tests.throttled_pair import THROTTLED_MIRROR

CRASHES = max(2, int(os.environ.get("BLKLAB_CRASHES", "12")) // 4)

LONGEST = 14.0
"""Seconds that a process lives at most: one of the cells may be done in that."""

EXPERIMENT = (
    THROTTLED_MIRROR
    + """[workloads.reads]
rw = "randread"
iodepth = 4
time_based = true
runtime = "1s"
size = "32MiB"
[settings]
filesystem = "ext4"
[matrix]
iodepth = [1, 2]
"""
)

pytestmark = pytest.mark.guest


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT)
    return path


def states() -> list[str]:
    (campaign,) = query.all_campaigns(Store())
    return [run.state for run in query.runs_of(Store(), campaign.number)]


@pytest.mark.parametrize(
    ("moment", "number"),
    [("boot", signal.SIGINT), ("build", signal.SIGTERM), ("fill", signal.SIGINT), ("measure", signal.SIGTERM)],
)
def test_told_to_end(cache: Path, experiment: Path, moment: str, number: int) -> None:
    command = [sys.executable, "-m", "tests.runners.lab.moments", "run", str(experiment)]
    with subprocess.Popen(
        [*command, "--on", "lab"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line == f"at: {moment}\n":
                break
        if moment == "boot":
            while not guests(cache):
                assert process.poll() is None, "it ended before it booted a guest"
                time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    progress = re.compile(r"at: |blklab: \d+ of \d+ cells")
    output = [line for line in err.splitlines() if not progress.match(line)]
    interrupted = (
        "blklab: interrupted: finished cells are stored; repeat the command with --resume to measure the others"
    )
    assert output == [interrupted if number == signal.SIGINT else "blklab: ended by SIGTERM"]
    assert (process.returncode, out) == (128 + number, "")
    assert guests(cache) == []
    assert left(cache) == []
    assert states() == ["planned", "planned"]


def test_killed_at_any_instant(cache: Path, experiment: Path) -> None:
    command = [sys.executable, "-m", "blklab.cli", "run", str(experiment), "--on", "lab"]
    generator = random.Random(CRASHES)
    done = 0
    for _ in range(CRASHES):
        with subprocess.Popen([*command, "--resume"], stderr=subprocess.PIPE) as process:
            time.sleep(generator.uniform(0, LONGEST))
            process.kill()
            process.communicate()
        assert process.returncode in {-signal.SIGKILL, 0}
        deadline = time.monotonic() + 600  # the kernel is told to kill QEMU, not to wait for it
        while guests(cache) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert guests(cache) == []
        if query.all_campaigns(Store()):
            assert done <= states().count("done"), "what was done is lost"
            done = states().count("done")
    ended = subprocess.run([*command, "--resume", "--json"], check=True, capture_output=True, text=True)
    assert [item["number"] for item in json.loads(ended.stdout)] == [1, 2]
    assert states() == ["done", "done"]
    assert guests(cache) == []
    assert left(cache) == []
