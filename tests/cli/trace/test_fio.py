"""`blklab trace fio`: the job has the same I/Os as the trace, also those that the real fio issues."""

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
        (("-o", "{}/new", "--iolog", "{}/./new"), "expected two files"),
        (("-o", "-", "--iolog", "/dev/stdout"), "expected two files"),
        (("-o", "-", "--json"), "prints to stdout; name a file"),
        (("--iolog", "-", "--json"), "prints to stdout; name a file"),
        (("--runtime", "0"), "must be at least 1 s"),
        (("--runtime", "200ms"), "must be at least 1 s"),
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
def test_the_real_fio_issues_the_same_mix_and_sizes(run: Run, trace: Path, tmp_path: Path, loop: str) -> None:
    text = run("trace", "fio", trace, loop).out.replace("direct=1", "direct=0")
    (tmp_path / "job.fio").write_text(text.replace("time_based=1", "number_ios=3000\nio_size=1t"))
    command = ["fio", f"--filename={tmp_path / 'file'}", "--write_iolog=issued.iolog", "job.fio"]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    wanted, issued = (_shares(run, path) for path in (trace, tmp_path / "issued.iolog"))
    # Three standard errors of a half in 3,000 I/Os.
    assert issued == pytest.approx(wanted, abs=0.03)


def _shares(run: Run, path: Path) -> dict[str, float]:
    """Returns the share of each operation and size in the I/Os of a trace."""
    (device,) = json.loads(run("trace", "stat", path, "--json").out)["devices"]
    counts = {
        f"{op} {size['bytes']}": size["count"]
        for op in ("read", "write")
        for size in device["load"]["ops"][op]["sizes"]["exact"]
    }
    return {name: count / sum(counts.values()) for name, count in counts.items()}
