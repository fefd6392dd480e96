"""Standard output and error that are closed, full or without a reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = str(Path(__file__).parents[1] / "data" / "traces" / "scsi-errors")
PRINTING = [
    ["--help"],
    ["--version"],
    ["trace", "stat", TRACE],
    ["trace", "stat", TRACE, "--json"],
    ["trace", "hist", TRACE],
    ["trace", "fio", TRACE],
    ["trace", "fio", TRACE, "--iolog", "-"],
    ["trace", "report", TRACE, "-o", "-"],
    ["trace", "events", TRACE],
    ["trace", "events", TRACE, "--json"],
    ["trace", "convert", TRACE, "--to", "iolog", "-o", "-"],
    ["trace", "convert", TRACE, "-o", "{}/x.parquet"],
]
printing = pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)


def shell(redirection: str, arguments: list[str], directory: Path) -> "subprocess.CompletedProcess[str]":
    given = [argument.format(directory) for argument in arguments]
    command = f'exec "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "blklab.cli", *given],
        capture_output=True,
        text=True,
        check=False,
    )


@printing
def test_a_pipe_without_a_reader_is_silent(arguments: list[str], tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        outcome = subprocess.run(
            [sys.executable, "-m", "blklab.cli", *(part.format(tmp_path) for part in arguments)],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (141, "")


@printing
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("redirection", "words"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_stdout_that_takes_nothing_is_a_write_error(
    arguments: list[str],
    tmp_path: Path,
    redirection: str,
    words: str,
    *,
    unbuffered: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    outcome = shell(redirection, arguments, tmp_path)
    assert outcome.returncode == 1, outcome.stderr
    assert outcome.stderr == f"blklab: error: standard output: {words}\n"


@printing
def test_a_closed_stderr_is_no_output(arguments: list[str], tmp_path: Path) -> None:
    outcome = shell("2>&-", arguments, tmp_path)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout


def test_failures_with_nowhere_to_say_so(tmp_path: Path) -> None:
    for redirection in ("2>&-", ">&- 2>&-", ">&- 2>&- <&-", "2>/dev/full"):
        outcome = shell(redirection, ["trace", "stat", "{}/none"], tmp_path)
        assert (outcome.returncode, outcome.stdout, outcome.stderr) == (2, "", "")


def test_what_prints_nothing_needs_no_stdout(tmp_path: Path) -> None:
    outcome = shell(">&-", ["trace", "fio", TRACE, "-o", "{}/job"], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "[global]" in (tmp_path / "job").read_text()
