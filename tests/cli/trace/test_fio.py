"""`blklab trace fio`, with the real fio."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of 4,000 I/Os: 75 % reads of 4 and 16 KiB, writes of 8 KiB, a skewed 16 MiB."""
    chance = random.Random(7)
    lines = ["fio version 3 iolog", "1 disk add", "2 disk open"]
    for at in range(4000):
        block = int(2048 * chance.random() ** 3)
        if chance.random() < 0.75:
            line = f"read {block * 8192} {16384 if chance.random() < 0.2 else 4096}"
        else:
            line = f"write {block * 8192} 8192"
        lines.append(f"{3 + at * 1000} disk {line}")
    path = tmp_path / "recorded.iolog"
    path.write_text("\n".join([*lines, "4001000 disk close", ""]))
    return path


def test_fio_prints_a_job(run: Run, trace: Path) -> None:
    outcome = run("trace", "fio", trace)
    assert (outcome.status, outcome.err) == (0, "")
    assert "[global]" in outcome.out
    assert "rw=randrw" in outcome.out
    assert "rwmixread=75" in outcome.out or "rwmixread=74" in outcome.out
    assert "\nfilename_format=blklab.fio\n" in outcome.out


def test_a_job_uses_only_the_file_given_to_fio(run: Run, trace: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    job = (
        run("trace", "fio", trace, "--closed")
        .out.replace("direct=1", "direct=0")
        .replace("time_based=1", "number_ios=9")
    )
    (tmp_path / "job.fio").write_text(job)
    command = ["fio", f"--filename={work / 'given'}", str(tmp_path / "job.fio")]
    subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)
    assert [path.name for path in work.iterdir()] == ["given"]


def test_fio_writes_a_job(run: Run, trace: Path, tmp_path: Path) -> None:
    outcome = run("trace", "fio", trace, "-o", tmp_path / "job.fio", "--filename", "/scratch/x")
    assert (outcome.status, outcome.out) == (0, "")
    assert "filename=/scratch/x" in (tmp_path / "job.fio").read_text()
    document = json.loads(run("trace", "fio", trace, "--json", "--closed").out)
    assert document["loop"] == "closed"
    assert "rate" not in document["job"]


def test_an_iolog_has_the_same_ios(run: Run, trace: Path, tmp_path: Path) -> None:
    log = tmp_path / "replay.iolog"
    outcome = run("trace", "fio", trace, "--since", "1s", "--iolog", log)
    assert (outcome.status, outcome.out) == (0, "")
    assert "3,000 I/Os" in outcome.err
    wanted, written = trace.read_text().splitlines(), log.read_text().splitlines()
    ios = [line.split()[2:] for line in wanted if len(line.split()) == 5][-3000:]
    assert [line.split()[2:] for line in written if len(line.split()) == 5] == ios
    again = run("trace", "fio", trace, "--iolog", log)
    assert (again.status, "exists; use --overwrite" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "{}/none/job"), "no such directory"),
        (("-o", "{}"), "is a directory"),
        (("--iolog", "{}/none/log"), "no such directory"),
        (("-o", "{}/old"), "exists; use --overwrite"),
        (("--iolog", "{}/old"), "exists; use --overwrite"),
        (("--verify", "--directory", "{}/none"), "No such file or directory"),
        (("-o", "{}/new", "--iolog", "{}/./new"), "expected two files"),
        (("-o", "-", "--iolog", "/dev/stdout"), "expected two files"),
        (("-o", "-", "--json"), "print to stdout; name a file"),
        (("--iolog", "-", "--verify"), "print to stdout; name a file"),
        (("--runtime", "0"), "must be from 1 s to 20d"),
        (("--runtime", "200ms"), "must be from 1 s to 20d"),
        (("--runtime", "21d"), "must be from 1 s to 20d"),
    ],
)
def test_outputs_are_checked_before_the_trace_is_read(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "old").write_text("old")
    given = [argument.format(tmp_path) for argument in arguments]
    outcome = run("trace", "fio", tmp_path / "no-such-trace", *given)
    assert (outcome.status, outcome.out) == (2, "")
    assert words in outcome.err
    assert "no-such-trace" not in outcome.err
    assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_leaves_the_old_job(run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tmp_path / "job.fio"
    job.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = run("trace", "fio", trace, "-o", job, "--overwrite")
    assert outcome.status == 1
    assert outcome.err == f"blklab: error: {job}: No space left on device\n"
    assert job.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [job, trace]


@pytest.mark.parametrize("loop", ["--closed", "--open"])
def test_the_real_fio_agrees(run: Run, trace: Path, tmp_path: Path, loop: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    arguments = ("trace", "fio", trace, loop, "--verify", "--runtime", "2s", "--directory", work)
    outcome = run(*arguments, "--verify-size", "64m", "--json")
    assert outcome.status == 0, outcome.out + outcome.err
    document = json.loads(outcome.out)
    assert document["passed"]
    judged = {row["metric"] for row in document["rows"] if row["passed"] is not None}
    assert judged == {"reads of all I/O", "writes of all I/O", "read sizes, largest gap", "write sizes, largest gap"}
    assert list(work.iterdir()) == []


def test_the_table(run: Run, trace: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outcome = run("trace", "fio", trace, "--closed", "--verify", "--runtime", "2s", "--directory", work)
    assert outcome.status == 0, outcome.out + outcome.err
    assert "The mix and the sizes agree." in outcome.out


def test_a_job_that_is_off_fails(run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blklab.trace.fio import plan
    from blklab.trace.fio.plan import SizeShare

    monkeypatch.setattr(plan, "split", lambda _counts: (SizeShare(4096, 100),))
    outcome = run("trace", "fio", trace, "--closed", "--verify", "--runtime", "2s", "--directory", tmp_path)
    assert outcome.status == 1
    assert "OFF" in outcome.out


def test_what_cannot_be_verified(run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = run("trace", "fio", trace, "--verify", "--directory", tmp_path / "nowhere")
    assert gone.status == 2
    assert "nowhere" in gone.err
    small = run("trace", "fio", trace, "--verify", "--verify-size", "4k", "--directory", tmp_path)
    assert small.status == 2
    assert "use a larger --size" in small.err
    file = run("trace", "fio", trace, "--verify", "--directory", trace)
    assert file.status == 2
    monkeypatch.setattr(Path, "is_block_device", lambda path: str(path) == "/dev/sdx")
    device = run("trace", "fio", trace, "--verify", "--filename", "/dev/sdx")
    assert device.status == 2
    assert "is a block device" in device.err
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = run("trace", "fio", trace, "--verify", "--directory", tmp_path)
    assert missing.status == 3
    assert "apt-get install fio" in missing.err


def test_a_fio_that_fails(run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "fio"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent))
    for version, words, status in (
        ("fio-3.33", "fio failed: fio: first direct IO errored", 1),
        ("fio-2.2", "too old", 3),
        ("hello", "is not fio", 3),
    ):
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo {version} && exit\n'
            'echo "note: x"\necho "fio: first direct IO errored." >&2\nexit 1\n'
        )
        program.chmod(0o755)
        outcome = run("trace", "fio", trace, "--verify", "--directory", tmp_path)
        assert (outcome.status, words in outcome.err) == (status, True), outcome.err
