"""The guardian: a process that restores the settings if the tuning process dies or hangs.

The tuning process starts it before the first change, with a pipe as its stdin, and writes a byte to the pipe every few
seconds. The end of the pipe means that the tuning process died. Silence means that it hangs, or was stopped: the
guardian then kills it. In both cases it undoes the journal of that process. It is a session by itself, so Ctrl-C and a
closed terminal do not end it, and it ignores SIGTERM: a service manager sends that to all processes of a unit.
"""

import json
import os
import select
import signal
import subprocess
import sys
import syslog
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.host.journal import HostJournal, read
from blklab.runners.host.restore import RestoreReport, restore
from blklab.system.child_process import signals_held_back
from blklab.system.process import start_of
from blklab.system.roots import Roots

SILENCE_S = 20.0  # Without a heartbeat for so long, the tuning process hangs
START_TIMEOUT_S = 60.0  # Time for the guardian to start; nothing is changed yet
END_TIMEOUT_S = 10.0  # Time for it to end when all is done
KILL_S = 600.0  # Time for a killed process to end: one that waits for a disk ends when the disk answers
RESTORE_S = 60.0  # Time for attempts to restore
POLL_S = 0.05

BEAT = b"."
DONE = b"q"
READY = b"ready\n"

PYTHON: tuple[str, ...] = (sys.executable,)  # The command that runs a Python program
LAUNCH = "import sys; sys.path.insert(0, sys.argv[1]); from blklab.runners.host.live.guardian import main; main()"
PACKAGES = Path(__file__).parents[4]  # The directory of the package blklab


class Guardian:
    """The guardian of a journal, while a `with` block runs."""

    def __init__(self, journal: HostJournal, silence_s: float = SILENCE_S) -> None:
        """Nothing is started before the `with` block."""
        self._journal = journal
        self._silence_s = silence_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def __enter__(self) -> Self:
        """Starts it, and waits until it has loaded all that it needs. Raises EnvironmentLacks."""
        roots = self._journal.roots
        request = {
            "roots": {name: str(path) for name, path in asdict(roots).items()},
            "journal": str(self._journal.path),
            "pid": os.getpid(),
            "start": start_of(os.getpid(), roots) or 0,
            "silence_s": self._silence_s,
        }
        read_end, self._pipe = os.pipe()
        try:
            with signals_held_back():
                self._process = subprocess.Popen(
                    [*PYTHON, "-I", "-S", "-c", LAUNCH, str(PACKAGES), json.dumps(request)],
                    stdin=read_end,
                    stdout=subprocess.PIPE,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            self._end()
            raise EnvironmentLacks(f"{PYTHON[0]}: {error.strerror}", "check the installation of Python") from None
        finally:
            os.close(read_end)
        output = self._process.stdout
        if output is None or not select.select([output], [], [], START_TIMEOUT_S)[0] or output.readline() != READY:
            self._process.kill()
            self._end()
            raise EnvironmentLacks(
                f"the process that restores the settings after a crash does not start ({' '.join(PYTHON)})",
                "nothing was changed; check the installation of blklab",
            )
        return self

    def beat(self) -> None:
        """Tells it that this process works. Raises BlklabError if the guardian has ended."""
        try:
            os.write(self._pipe, BEAT)
        except BrokenPipeError:
            raise BlklabError(
                "the process that restores the settings after a crash has ended: something killed it"
            ) from None

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Ends it; if a setting is not restored, it tries that when this process has ended."""
        self._end()

    def _end(self) -> None:
        is_all_restored = not self._journal.list_changed_owners()
        if is_all_restored:
            with suppress(BrokenPipeError):
                os.write(self._pipe, DONE)
        os.close(self._pipe)
        if self._process is None:
            return
        if self._process.stdout is not None:
            self._process.stdout.close()
        if is_all_restored:
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


# --- in the guardian ----------------------------------------------------------------------------------


def main() -> None:
    """Runs as the guardian; the request is the second argument, as JSON."""
    request = json.loads(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError), open("/proc/self/comm", "w") as name:  # noqa: PTH123
        name.write("blklab-guardian")  # With another name, `killall python3` does not end it
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
        score.write("-1000")  # Without memory, the kernel ends other processes first; only root may say so
    syslog.openlog("blklab")
    os.write(1, READY)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)
    sys.exit(guard(request))


def guard(request: Any) -> int:
    """Watches the pipe on stdin until it ends; returns the exit status, 1 if a setting is not restored."""
    journal = Path(request["journal"])
    roots = Roots(**_paths(request))
    silence_s = request["silence_s"]
    while True:
        if not select.select([0], [], [], silence_s)[0]:
            if not is_changed(journal):
                continue  # It may wait for the store: nothing is changed meanwhile
            kill(request["pid"], request["start"], roots)
            status, messages = undo(journal, roots)
            messages.insert(
                0, f"process {request['pid']} (blklab tune --live) showed no life for {silence_s:g} s: killed"
            )
            break
        received = os.read(0, 1 << 16)
        if DONE in received:
            return 0
        if not received:
            status, messages = undo(journal, roots)
            break
    for message in messages:  # Last: a terminal or a log that takes no more must not delay the restoring
        say(message)
    return status


def is_changed(journal: Path) -> bool:
    """Tells whether a journal lists changes that are not undone."""
    try:
        return bool(read(journal).entries)
    except BlklabError:
        return journal.exists()


def _paths(request: Any) -> dict[str, Path]:
    return {name: Path(path) for name, path in request["roots"].items()}


def kill(pid: int, start: int, roots: Roots) -> None:
    """Kills the process, and waits until it has ended: before, it could change a setting again."""
    until = time.monotonic() + KILL_S
    while start_of(pid, roots) == start and time.monotonic() < until:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def undo(journal: Path, roots: Roots) -> tuple[int, list[str]]:
    """Restores what a journal lists; returns the exit status, 1 if a value is not restored, and messages.

    It waits for the owner of the journal as long as that lives: a process that waits for a disk ends when the disk
    answers. Then it tries again for a minute, because a device can be busy.
    """
    until = time.monotonic() + RESTORE_S
    report = RestoreReport()
    while journal.exists():
        try:
            report = restore(roots, only=journal)
        except BlklabError as error:
            report = RestoreReport(problems=[str(error)])
        if report.running:
            until = time.monotonic() + RESTORE_S
        if journal.exists() and time.monotonic() > until:
            return 1, [f"{problem}; run `blklab restore`" for problem in report.problems]
        time.sleep(POLL_S)
    messages = [f"blklab tune --live ended early: {line}" for line in report.done]
    return (1 if report.problems else 0), [*messages, *report.problems]


def say(message: str) -> None:
    """Prints on stderr, if the terminal is still there, and writes to the system's log."""
    with suppress(OSError):
        os.write(2, f"blklab: {message}\n".encode(errors="replace"))
    with suppress(OSError):
        syslog.syslog(syslog.LOG_WARNING, message)
