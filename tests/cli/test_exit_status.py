"""How a command ends when it does not end well."""

import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from blklab.cli.exit_status import run_safely
from blklab.errors import BlklabError, EnvironmentLacks, UsageError


class Panic(BaseException):
    """As pyo3's PanicException: not an Exception."""


def raises(error: BaseException) -> Callable[[], int]:
    def fail() -> int:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (BlklabError("md4: no events"), 1, "blklab: error: md4: no events\n"),
        (UsageError("nothing to do"), 2, "blklab: error: nothing to do\n"),
        (
            EnvironmentLacks("blktrace is not installed", "apt-get install blktrace"),
            3,
            "blklab: error: blktrace is not installed; apt-get install blktrace\n",
        ),
        (
            FileNotFoundError(2, "No such file or directory", "md4"),
            1,
            "blklab: error: md4: No such file or directory\n",
        ),
        (
            PermissionError(1, "Operation not permitted", b"a", None, b"b"),
            1,
            "blklab: error: a -> b: Operation not permitted\n",
        ),
        (OSError("odd"), 1, "blklab: error: odd\n"),
        (MemoryError(), 1, "blklab: error: out of memory\n"),
        (click.UsageError("no"), 2, "blklab: error: no\n"),
        (click.FileError("f", "gone"), 1, "blklab: error: Could not open file 'f': gone\n"),
        (BlklabError("two\nlines \x1b[31m"), 1, "blklab: error: two lines \\x1b[31m\n"),
        (KeyboardInterrupt(), 130, "blklab: interrupted\n"),
        (KeyboardInterrupt("use --resume"), 130, "blklab: interrupted: use --resume\n"),
        (click.Abort(), 130, "blklab: interrupted\n"),
    ],
)
def test_one_line_and_a_status(
    error: BaseException, status: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BLKLAB_DEBUG", raising=False)
    assert run_safely(raises(error)) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", line)


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), Panic("index out of bounds")])
def test_a_bug_asks_for_a_report(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BLKLAB_DEBUG", raising=False)
    assert run_safely(raises(error)) == 70
    message = capsys.readouterr().err
    assert message.startswith(f"blklab: error: a bug in blklab: {type(error).__name__}: ")
    assert "BLKLAB_DEBUG=1" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("error", [BlklabError("x"), ZeroDivisionError("x")])
def test_debugging_shows_the_traceback_and_keeps_the_status(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLKLAB_DEBUG", "1")
    assert run_safely(raises(error)) == (1 if isinstance(error, BlklabError) else 70)
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_success_is_passed_on() -> None:
    assert run_safely(lambda: 0) == 0
    assert run_safely(lambda: 1) == 1


def test_a_closed_pipe_is_silent() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        outcome = subprocess.run(
            [sys.executable, "-m", "blklab.cli", "--help"], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (outcome.returncode, outcome.stderr) == (141, b"")
