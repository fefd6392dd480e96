"""Signals: whenever they come, nothing unfinished is left and the status says which it was."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from blklab.cli import signals
from tests.trace.generated import QUEUED, WRITE, Q, Record

TRACE = Path(__file__).parents[1] / "data" / "traces" / "scsi-errors"
BLKLAB = (sys.executable, "-m", "blklab.cli")


def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def feed(process: "subprocess.Popen[bytes]", *, endless: bool) -> None:
    """Writes a trace to stdin that goes on for ever, or stops in the middle."""
    assert process.stdin is not None
    with suppress(OSError):
        at = 0
        while at < 20 or endless:
            records = range(at * 1000, (at + 1) * 1000)
            process.stdin.write(b"".join(Record(n, Q, QUEUED | WRITE, n * 8, 4096).packed(n + 1) for n in records))
            process.stdin.flush()
            at += 1


@pytest.mark.parametrize("endless", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_unfinished_is_left(tmp_path: Path, number: signal.Signals, *, endless: bool) -> None:
    arguments = ["trace", "convert", "-", "-o", str(tmp_path / "out.parquet")]
    process = subprocess.Popen([*BLKLAB, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    feeder = threading.Thread(target=feed, args=(process,), kwargs={"endless": endless})
    feeder.start()
    try:
        until(lambda: any(tmp_path.iterdir()))
        process.send_signal(number)
        status = process.wait(120)
    finally:
        process.kill()
        feeder.join()
        with process:
            assert process.stderr is not None
            output = process.stderr.read()
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
    assert status == 128 + number
    assert list(tmp_path.iterdir()) == []
    assert b"Traceback" not in output
    word = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert word in output.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with signals.handle_signals():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_handlers_are_as_before() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with signals.handle_signals(), pytest.raises(SystemExit) as end:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    assert end.value.code == 128 + signal.SIGTERM
    assert [signal.getsignal(number) for number in numbers] == before


def test_events_end_on_the_spot() -> None:
    process = subprocess.Popen([*BLKLAB, "trace", "events", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(Record(0, Q, QUEUED | WRITE, 8, 4096).packed(1) * 5000)
        process.stdin.flush()
        process.stdout.read(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == -signal.SIGTERM
        with suppress(OSError):
            process.stdin.close()


SLOW_START = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None
sys.meta_path.insert(0, Interrupting())
sys.argv = ["blklab", "--version"]
from blklab.cli import main
main()
"""


@pytest.mark.parametrize("name", ["click", "click.core", "blklab.errors", "blklab.cli.root", "blklab._core"])
def test_an_interrupt_while_python_imports_is_silent(name: str) -> None:
    outcome = subprocess.run([sys.executable, "-c", SLOW_START.format(name=name)], capture_output=True, check=False)
    assert outcome.returncode == 130
    assert outcome.stdout == b""
    assert outcome.stderr in {b"", b"blklab: interrupted\n"}


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_in_a_finalizer_is_not_lost(
    number: signal.Signals, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(number)

    with pytest.raises(error), signals.handle_signals():
        Finalized()
        until(lambda: False)
    assert capsys.readouterr() == ("", "")


def test_other_errors_of_finalizers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finalized:
        def __del__(self) -> None:
            raise ValueError

    seen: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: seen.append(ignored.exc_value))
    with signals.handle_signals():
        Finalized()
    assert [type(error) for error in seen] == [ValueError]
