"""fio's process: watched, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.fio import output
from blklab.runners.fio import process
from blklab.runners.fio.process import FioProgress
from blklab.system import child_process

JOB = """[slow]
thread=1
filename=data
size=1m
rw={rw}
rate_iops=200
time_based=1
runtime={runtime}
"""


def children(parent: int) -> list[int]:
    """Returns the fio processes that `parent` started."""
    result = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition(") ")
        except OSError:
            continue
        if name.endswith("(fio") and int(rest.split()[1]) == parent:
            result.append(int(path.parent.name))
    return result


def runs(number: int) -> bool:
    """Tells whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def awaited(what: Callable[[], object]) -> object:
    """Waits until something is the case."""
    until = time.monotonic() + 60
    while not (result := what()) and time.monotonic() < until:
        time.sleep(0.02)
    return result


def test_a_run_tells_how_far_it_is_and_leaves_nothing(work: Path) -> None:
    fio, version = process.find_fio()
    facts: list[FioProgress] = []
    ran = process.run(fio, JOB.format(rw="randrw", runtime="2s"), work, seconds=2, progress=facts.append)
    outcome = output.outcome(output.parse_document(ran.output))
    assert outcome.fio is not None and outcome.fio.version == version
    assert outcome.read.total_ios > 0
    assert ran.command == ["fio", "--output-format=json+", "job.fio"]
    assert "Jobs:" not in ran.messages
    assert facts
    assert facts[-1].total_seconds == 2
    assert [live.seconds for live in facts] == sorted(live.seconds for live in facts)
    assert list(work.iterdir()) == []


def test_fio_killed_by_others_is_said(work: Path) -> None:
    fio, _ = process.find_fio()

    def kill(_live: FioProgress) -> None:
        for number in children(os.getpid()):
            os.kill(number, signal.SIGKILL)

    with pytest.raises(BlklabError, match=r"^fio did not finish: it was killed by SIGKILL$"):
        process.run(fio, JOB.format(rw="read", runtime="60s"), work, progress=kill)
    assert list(work.iterdir()) == []


def test_fio_interrupted_by_others_is_no_result(work: Path) -> None:
    fio, _ = process.find_fio()
    interrupted: list[int] = []

    def interrupt(_live: FioProgress) -> None:
        if not interrupted:  # A second signal would kill fio before it says why it ends
            interrupted.extend(children(os.getpid()))
            for number in interrupted:
                os.kill(number, signal.SIGINT)

    with pytest.raises(BlklabError, match="fio failed: fio: terminating on signal 2"):
        process.run(fio, JOB.format(rw="read", runtime="60s"), work, progress=interrupt)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_stops_fio_and_is_raised_on(work: Path, error: type[BaseException]) -> None:
    fio, _ = process.find_fio()
    seen = []

    def interrupt(_live: FioProgress) -> None:
        seen.extend(children(os.getpid()))
        raise error

    with pytest.raises(error):
        process.run(fio, JOB.format(rw="read", runtime="60s"), work, progress=interrupt)
    assert len(seen) == 1
    assert not runs(seen[0])
    assert list(work.iterdir()) == []


def test_no_fio_survives_blklab(work: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from blklab.runners.fio import process\n"
        "process.run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))\n"
    )
    fio, _ = process.find_fio()
    job = JOB.format(rw="read", runtime="60s")
    with subprocess.Popen([sys.executable, "-c", script, fio, job, str(work)]) as blklab:
        try:
            assert awaited(lambda: children(blklab.pid))
            (number,) = children(blklab.pid)
            assert runs(number)
        finally:
            blklab.kill()
    assert awaited(lambda: not runs(number))


def fake(work: Path, script: str) -> str:
    """Returns the path of a program that pretends to be fio."""
    path = work.parent / "fio"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_fio_that_hangs_is_stopped(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0)
    fio = fake(work, "echo hello\nsleep 1000 & wait")
    with pytest.raises(BlklabError, match="fio was still running 0 s after its expected end, and was stopped"):
        process.run(fio, "", work, seconds=0.1)
    assert list(work.iterdir()) == []


def test_one_that_does_not_mind_is_killed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0)
    # It ignores SIGINT and SIGTERM, and so do the processes it starts.
    fio = fake(work, "trap '' INT TERM\nwhile :; do sleep 0.1; done")
    with pytest.raises(BlklabError, match="still running"):
        process.run(fio, "", work, seconds=0.1)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'fio: first direct IO errored' >&2; exit 1", "fio failed: fio: first direct IO"),
        ("exit 3", "fio failed: it ended with status 3 without a message"),
        ("printf 'a\\033[31mb\\n'; exit 1", r"fio failed: a\\x1b\[31mb"),
        ("exit 0", "fio failed: it ended with status 0 without a message"),
    ],
)
def test_why_fio_failed_is_one_line(work: Path, script: str, words: str) -> None:
    with pytest.raises(BlklabError, match=words) as error:
        process.run(fake(work, script), "", work)
    assert "\n" not in str(error.value)


def test_a_job_that_fio_refuses(work: Path) -> None:
    fio, _ = process.find_fio()
    with pytest.raises(BlklabError, match="fio failed: Bad option <blah=1>"):
        process.run(fio, "[x]\nblah=1\n", work)
    with pytest.raises(BlklabError, match="fio failed: fio: pid=0, err=22/"):
        process.run(fio, "[x]\nfilename=nothing\nrw=read\n", work, readonly=True)


def test_what_is_missing_is_said(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(work.parent))
    with pytest.raises(EnvironmentLacks, match="fio is not installed; install it: apt-get"):
        process.find_fio()
    for version, words in (("fio-3.1", "is fio-3.1, too old; fio 3.12 or newer"), ("x", "not fio")):
        fake(work, f"echo {version}")
        with pytest.raises(EnvironmentLacks, match=words):
            process.find_fio()
    fake(work, "echo fio-3.36-12-gabc")
    assert process.find_fio() == (str(work.parent / "fio"), "fio-3.36-12-gabc")
    monkeypatch.setattr(os, "defpath", str(work))
    with pytest.raises(EnvironmentLacks, match="setpriv is not installed"):
        child_process.command(["true"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Jobs: 3 (f=3), 0-3003 IOPS: [m(2),r(1)][75.0%][r=8034KiB/s,w=4000KiB/s][r=2004,w=1000 IOPS][eta 00m:01s]",
            (2004, 1000),
        ),
        ("Jobs: 1 (f=1): [w(1)][50.0%][w=1.2GiB/s][w=301k IOPS][eta 00m:01s]", (0, 301_000)),
        ("Jobs: 1 (f=1): [r(1)][-.-%][r=2000KiB/s][r=1.25M IOPS][eta 00m:00s]", (1.25e6, 0)),
        ("Jobs: 1 (f=1): [d(1)][50.0%][t=4KiB/s][t=1 IOPS][eta 00m:01s]", (0, 0)),
        ("Jobs: 3 (f=2), 0-3000 IOPS", None),
        ("fio: [r=., IOPS]", None),
    ],
)
def test_the_line_of_progress(line: str, expected: tuple[float, float] | None) -> None:
    assert process.iops(line) == expected


@given(st.text(alphabet="[]rwt=0123456789.kM, IOPS", max_size=40))
def test_no_line_of_progress_is_a_mistake(line: str) -> None:
    result = process.iops(f"[{line} IOPS]")
    assert result is None or min(result) >= 0
