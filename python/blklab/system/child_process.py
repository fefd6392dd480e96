"""Start programs that end with blklab, and ask programs for their versions."""

import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors
from blklab.text.printing import printable

Process = subprocess.Popen[bytes]


def lines_of(buffer: bytearray, chunk: bytes) -> list[bytearray]:
    """Returns the lines that end in a chunk. `buffer` has the line before it, and gets the one behind it.

    Only a chunk is searched: a line may have many.
    """
    buffer += chunk
    if b"\n" not in chunk:
        return []
    *lines, buffer[:] = buffer.split(b"\n")
    return lines


WRITE_SLICE_MS = 100  # How soon a write sees that it is over


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all data. A pipe takes 64 KiB at a time, and the rest of `bytes` would be copied each time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_while_taken(
    descriptor: int, data: bytes, patience: float, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Writes all data to a pipe that does not block, or what was written until `is_over`.

    Raises TimeoutError if the reader takes nothing for `patience` seconds.
    """
    view = memoryview(data)
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    until = time.monotonic() + patience
    while view and not is_over():
        if poll.poll(WRITE_SLICE_MS):
            with suppress(BlockingIOError):
                view = view[os.write(descriptor, view) :]
                until = time.monotonic() + patience
        elif time.monotonic() > until:
            raise TimeoutError(f"took no data for {patience:g} s")


def limit_sending(connection: socket.socket, seconds: float) -> None:
    """Makes `send` raise BlockingIOError if the other end takes nothing for so long; receiving still has no limit."""
    timeout = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def command(arguments: Sequence[str], *, death_signal: str = "KILL") -> list[str]:
    """Returns the command that runs `arguments` and gets a signal from the kernel when blklab ends.

    setpriv sets PR_SET_PDEATHSIG, which exec keeps, and becomes the program. The signal comes when the *thread* that
    started the process ends (prctl(2)): start it in the thread that waits for its end.
    """
    setpriv = shutil.which("setpriv") or shutil.which("setpriv", path=os.defpath)
    if setpriv is None:
        raise EnvironmentLacks("setpriv is not installed", "install it: apt-get install util-linux")
    return [setpriv, "--pdeathsig", death_signal, "--", *arguments]


def find(name: str, package: str) -> str:
    """Returns a program's path, also in sbin. Raises EnvironmentLacks, with the package that has it."""
    program = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))
    if program is None:
        raise EnvironmentLacks(f"{name} is not installed", f"install it: apt-get install {package}")
    return program


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Calls the handlers of SIGINT, SIGTERM and SIGHUP after the block.

    A handler that raises within `Thread.start` leaves a lock taken, and blklab waits for ever; within `Popen`, it
    leaves a process that nothing ends. It is not enough to block the signals in this thread: the kernel then gives them
    to another one, and Python calls the handler here.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {}
    for number in numbers:
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # Python calls them in the main thread only
    came: list[signal.Signals] = []
    try:
        for number in handlers:
            signal.signal(number, lambda number, _frame: came.append(signal.Signals(number)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            handlers[number](number, None)


@contextmanager
def start_process(
    arguments: Sequence[str],
    directory: Path,
    *,
    separate_stderr: bool = False,
    stdin: int = subprocess.DEVNULL,
    descriptors: Sequence[int] = (),
) -> Iterator[tuple[Process, list[int]]]:
    """Runs a command during the block, in a new session, and stops it if the block ends early.

    Gives the process and the pipes of its output: one for stdout and stderr, or two if `separate_stderr`. The
    process inherits `descriptors`, under the same numbers. Raises BlklabError if it cannot be started.
    """
    pipes = [os.pipe() for _ in range(1 + separate_stderr)]
    try:
        try:
            with SystemErrors(BlklabError, f"{printable(arguments[0])}: cannot be started"):
                process = subprocess.Popen(
                    command(arguments),
                    cwd=directory,
                    stdin=stdin,
                    stdout=pipes[0][1],
                    stderr=pipes[-1][1],
                    start_new_session=True,
                    pass_fds=descriptors,
                )
        finally:
            for _, write_end in pipes:
                os.close(write_end)
        try:
            yield process, [read_end for read_end, _ in pipes]
        finally:
            stop(process)
    finally:
        for read_end, _ in pipes:
            os.close(read_end)


def has_ended(process: Process) -> bool:
    """Tells whether a process has ended; its pid stays reserved until `stop`."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def fatal_signal(process: Process) -> int | None:
    """Returns the signal that ended a process, or None; call it before `stop`."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with suppress(ChildProcessError):
        status = os.waitid(os.P_PID, process.pid, options)
        if status is not None and status.si_code in {os.CLD_KILLED, os.CLD_DUMPED}:
            return status.si_status
    return None


def stop(process: Process) -> None:
    """Ends a process and the rest of its session, with SIGTERM first.

    Kills it at once if blklab itself is interrupted meanwhile, and raises that on.
    """
    try:
        for number, patience in ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0)):
            until = time.monotonic() + patience
            if not has_ended(process):
                _signal(process, number)
            while not has_ended(process) and time.monotonic() < until:
                time.sleep(0.02)
    finally:
        _signal(process, signal.SIGKILL)
        # What waits for a disk that does not answer ends when that does.
        with suppress(subprocess.TimeoutExpired):
            process.wait(2.0)


def _signal(process: Process, number: int) -> None:
    if process.returncode is None:  # its number may be another's by then
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def run(arguments: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a program without stdin to its end; its output is text. The options are those of subprocess.run."""
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}
    return subprocess.run(arguments, check=False, text=True, **{**usual, **options})


def version(path: str, remedy: str, *, timeout: float = 30) -> tuple[str, str]:
    """Returns a program's output of --version, on stdout and on stderr.

    Raises EnvironmentLacks if it does not run, or takes longer than `timeout` seconds.
    """
    try:
        result = run([path, "--version"], timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacks(f"{path} does not run: {error}", remedy) from None
    return result.stdout, result.stderr
