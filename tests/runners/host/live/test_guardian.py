"""The guardian restores what a tuning process leaves that is killed or hangs."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.live import guardian as guardians
from blklab.runners.host.live.guardian import Guardian
from tests.runners.host.live.conftest import Load, link_process, value_of
from tests.system.machine import Machine

PATIENCE_S = 60.0  # Longer than any machine needs


def wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def tuning(machine: Machine, *, silence_s: float = 60.0) -> Iterator["subprocess.Popen[str]"]:
    """Runs a tuning process in its second value: read_ahead_kb is 128, and its guardian watches it."""
    process = subprocess.Popen(
        [
            sys.executable, "-m", "tests.runners.host.live.tuned", str(machine.root), "read_ahead_kb", "128", "200",
            str(silence_s),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: value_of(machine, "md0/queue/read_ahead_kb") == "128" or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def is_restored(machine: Machine) -> bool:
    """Whether the value is restored, and the journal is gone: the guardian's work is done."""
    journals = list(machine.roots.state.glob("journal-*"))
    return value_of(machine, "md0/queue/read_ahead_kb") == "1024" and not journals


def test_killed(array: Machine, load: Load) -> None:
    assert load.names
    with tuning(array) as process:
        process.kill()
        _, messages = process.communicate()  # The guardian has this pipe as well, until it ends
        wait_until(lambda: is_restored(array))
    assert "blklab tune --live ended early: md0: restored read_ahead_kb=1024" in messages


def test_killed_with_its_group(array: Machine, load: Load) -> None:
    """As by Ctrl-C's SIGINT to the group of the terminal, but by a signal that nothing can handle."""
    assert load.names
    with tuning(array) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        wait_until(lambda: is_restored(array))


def test_stopped(array: Machine, load: Load) -> None:
    assert load.names
    with tuning(array, silence_s=1.0) as process:
        os.kill(process.pid, signal.SIGSTOP)
        _, messages = process.communicate()
        assert process.returncode == -signal.SIGKILL
        wait_until(lambda: is_restored(array))
    assert f"process {process.pid} (blklab tune --live) showed no life for 1 s: killed" in messages


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(array: Machine, load: Load, number: signal.Signals) -> None:
    assert load.names
    with tuning(array) as process:
        os.killpg(process.pid, number)
        process.communicate()
        assert is_restored(array)


def test_a_guardian_that_is_gone_ends_the_tuning(array: Machine, load: Load) -> None:
    assert load.names
    with tuning(array) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        with open(children) as listing:  # noqa: PTH123
            (guardian,) = map(int, listing.read().split())
        os.kill(guardian, signal.SIGKILL)
        output, messages = process.communicate()
        assert is_restored(array)
    assert "the process that restores the settings after a crash has ended" in output + messages


def test_silence_without_changes_is_no_reason_to_kill(array: Machine) -> None:
    link_process(array.roots, os.getpid())
    with HostJournal(array.roots) as journal, Guardian(journal, silence_s=0.05) as guardian:
        time.sleep(0.5)
        guardian.beat()
    assert list(array.roots.state.glob("journal-*")) == []


def test_a_guardian_that_does_not_start(array: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    link_process(array.roots, os.getpid())
    monkeypatch.setattr(guardians, "PYTHON", ("/bin/true",))
    with (
        HostJournal(array.roots) as journal,
        pytest.raises(EnvironmentLacks, match="nothing was changed"),
        Guardian(journal),
    ):
        pass
    monkeypatch.setattr(guardians, "PYTHON", ("/nonexistent",))
    with HostJournal(array.roots) as journal, pytest.raises(BlklabError, match="No such file"), Guardian(journal):
        pass


def test_a_terminal_that_takes_no_more_does_not_delay_the_restoring(array: Machine, load: Load) -> None:
    assert load.names
    with tuning(array, silence_s=1.0) as process:
        assert process.stderr is not None
        pipe = os.open(f"/proc/self/fd/{process.stderr.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pipe, b"x" * 4096)
        os.close(pipe)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: is_restored(array))
