"""The worked example of docs/howto/measure.md: `git bisect run` finds the commit that was slow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENT = """
repeats = 3
devices.disk = {{ model = "sm883", size = "1GiB", queue_depth = {depth} }}
stacks.one = {{ device = "disk" }}
workloads.randread = {{ rw = "randread", iodepth = 32 }}
settings.max_ios = 5_000
# {number}
"""

SCRIPT = """#!/bin/sh
{blklab} run regression.toml >&2 || exit 125
{blklab} compare {baseline} regression@sim --metric iops {condition} --sure
case $? in 0) exit 0 ;; 1) exit 1 ;; *) exit 125 ;; esac
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Nine commits; the sixth makes the disk's queue short, and with that the disk slow."""
    directory = tmp_path / "repository"
    directory.mkdir()
    git(directory, "init", "-q")
    for number in range(1, 10):
        text = EXPERIMENT.format(depth=32 if number < 6 else 4, number=number)
        (directory / "regression.toml").write_text(text)
        git(directory, "add", "regression.toml")
        git(directory, "commit", "-q", "-m", f"commit {number}")
        git(directory, "tag", f"c{number}")
    return directory


def git(directory: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example", *words],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
    ).stdout


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        ("fast", "slow", "--fail-if 'iops < 0.95*baseline'"),
        pytest.param("slow", "fast", "--fail-if 'iops > 1.05*baseline'", marks=pytest.mark.proof),
    ],
)
def test_bisect_finds_the_commit(repository: Path, old: str, new: str, condition: str) -> None:
    if old == "slow":  # the same history backwards: something became faster
        for number in range(1, 10):
            text = EXPERIMENT.format(depth=4 if number < 6 else 32, number=number)
            (repository / "regression.toml").write_text(text)
            git(repository, "commit", "-q", "-a", "-m", f"commit {number}")
            git(repository, "tag", "-f", f"c{number}")
    blklab = f"{sys.executable} -m blklab.cli"
    git(repository, "checkout", "-q", "c1")
    baseline = [sys.executable, "-m", "blklab.cli", "run", "regression.toml"]
    subprocess.run(baseline, cwd=repository, check=True, stdout=subprocess.DEVNULL)
    script = repository.parent / "changed"
    script.write_text(SCRIPT.format(blklab=blklab, baseline=1, condition=condition))
    script.chmod(0o755)
    git(repository, "bisect", "start", f"--term-old={old}", f"--term-new={new}")
    git(repository, "bisect", new, "c9")
    git(repository, "bisect", old, "c1")
    output = git(repository, "bisect", "run", str(script))
    assert f"is the first {new} commit" in output
    assert "commit 6" in output
