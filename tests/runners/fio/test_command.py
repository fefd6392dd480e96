"""Commands as a workload."""

import os
import signal
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.runners.fio import cell
from blklab.runners.fio.process import FioProgress


def test_what_a_command_takes(tmp_path: Path) -> None:
    calls = []
    script = "import os\nx = sum(range(3_000_000))\nopen('made', 'a').write('x' * 3)\nprint('x' * 10**6)"
    runs = cell.run(["python3", "-c", script], tmp_path, 2, before=lambda: calls.append(len(calls)))
    assert (tmp_path / "made").read_text() == "xxxxxx"
    assert calls == [0, 1]
    for item in runs:
        assert item.status == 0
        assert item.user_ns > 10**6
        assert item.wall_ns > 0


def test_the_time_of_children_counts(tmp_path: Path) -> None:
    burn = "python3 -c 'sum(range(3_000_000))'"
    (item,) = cell.run(["sh", "-c", f"{burn}; true"], tmp_path, 1)
    assert item.user_ns > 10**6


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(BlklabError, match=r"command 'sh' failed: it ended with status 3: last one$"):
        cell.run(["sh", "-c", "echo first >&2; echo last one >&2; exit 3"], tmp_path, 5)
    with pytest.raises(BlklabError, match=r"command 'sh' failed: it was killed by SIGTERM$"):
        cell.run(["sh", "-c", "kill $$"], tmp_path, 1)


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    for argv in (["no-such-program-at-all"], ["./plain"], ["./nothing"], [], [""]):
        with pytest.raises(UsageError, match="command"):
            cell.run(argv, tmp_path, 1)
    with pytest.raises(UsageError, match="no such directory"):
        cell.run(["true"], tmp_path / "nowhere", 1)


def test_a_program_in_the_directory(tmp_path: Path) -> None:
    program = tmp_path / "own"
    program.write_text("#!/bin/sh\npwd > where\n")
    program.chmod(0o755)
    cell.run(["./own"], tmp_path, 1)
    assert (tmp_path / "where").read_text().strip() == os.path.realpath(tmp_path)


def test_an_interrupt_stops_the_command(tmp_path: Path) -> None:
    def interrupt(_live: FioProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cell.run(["sh", "-c", "echo $$ > pid; sleep 1000"], tmp_path, 1, progress=interrupt)
    number = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! > left; echo done >&2"
    (result,) = cell.run(["sh", "-c", script], tmp_path, 1)
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert result.status == 0
    assert result.wall_ns < 300 * 10**9
