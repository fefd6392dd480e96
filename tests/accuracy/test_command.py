"""`accuracy/run` as developers type it."""

import subprocess
from pathlib import Path

import pytest

from accuracy.command import COMMANDS
from tests.conftest import Run

PROGRAM = Path(__file__).parents[2] / "accuracy/run"


def test_it_runs_in_any_directory(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit(9)\n")  # Modules there are not imported
    done = subprocess.run([PROGRAM, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: accuracy/run COMMAND")
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(judge: Run, name: str) -> None:
    outcome = judge(name, "--help")
    assert outcome.status == 0
    assert outcome.out.startswith(f"Usage: accuracy/run {name} [OPTIONS]")


def test_unknown_commands_are_refused(judge: Run) -> None:
    outcome = judge("publish")
    assert outcome.status == 2
    assert outcome.err.startswith("blklab: error: no command 'publish'; did you mean 'published'?")
