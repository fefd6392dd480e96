"""The client of the agent in the guest, which does there what it is asked.

Source of the calls and their answers: crates/agent/src/call.rs.
"""

import re
import shlex
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Self

from blklab.errors import BlklabError
from blklab.runners.lab.connection import AgentConnection, AgentHello, AgentRefused, GuestGone
from blklab.runners.lab.frames import Message, item, items, texts
from blklab.text import printable

__all__ = [
    "Agent",
    "AgentHello",
    "ExportedFile",
    "FileSample",
    "GuestFailed",
    "GuestGone",
    "ProgramExit",
    "RunningProgram",
    "RunningSampler",
]

COMPLAINT: Final = re.compile(
    r"error|cannot|can't|unable|fail|must|support|invalid|no such|denied|busy|too \w+|refus|panic"
    r"|out of memory",
    re.I | re.A,
)
"""What a line that says what is wrong has in it, of the programs and kernels that were seen."""

Stream = Callable[[str, str], object]
"""Is told "stdout" or "stderr", and what came."""


class GuestFailed(BlklabError):
    """A program in the guest failed, or could not be run; `ran` is what it did, if it ended."""

    def __init__(self, message: str, ran: "ProgramExit | None" = None) -> None:
        super().__init__(message)
        self.ran = ran


@dataclass(frozen=True)
class ProgramExit:
    """What a program did: its status is negative for a signal; `truncated` beyond 4 MiB."""

    status: int
    stdout: str
    stderr: str
    truncated: bool
    wall_ns: int


@dataclass(frozen=True)
class FileSample:
    """Files at an instant of the guest's CLOCK_MONOTONIC, in nanoseconds; None: not readable."""

    t_ns: int
    files: dict[str, str | None]


@dataclass(frozen=True)
class ExportedFile:
    """Where a file is on the device, in bytes."""

    path: str
    offset: int
    bytes: int


@dataclass
class RunningProgram:
    """A program under way; `ran` is what it did, when it is over."""

    ran: ProgramExit | None = None


@dataclass
class RunningSampler:
    """A sampling under way; `samples` are there when it is over, at least two."""

    samples: list[FileSample] = field(default_factory=list)


class Agent:
    """The agent at the other end of a connected socket, which is closed with this.

    Several threads may call at once. Every call raises GuestGone when the guest is gone, and
    BlklabError when the agent says that it could not be done.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._connection = AgentConnection(connected)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; a guest powers off then."""
        self._connection.close()

    def hello(self, timeout: float) -> AgentHello:
        """Returns what the agent says when it is there, within so many seconds.

        Raises GuestGone if it is not, or if it speaks another protocol.
        """
        return self._connection.hello(timeout)

    @property
    def connected(self) -> bool:
        """Whether the connection is there, as far as is known."""
        return self._connection.connected

    def alive(self, timeout: float) -> bool:
        """Tells whether the agent answers within so many seconds."""
        try:
            call = self._connection.begin("ping")
            try:
                return self._connection.answered(call, timeout)
            finally:
                self._connection.forget(call)
        except GuestGone:
            return False

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        stream: Stream | None = None,
        check: bool = True,
    ) -> ProgramExit:
        """Runs a program to its end, or for `timeout` seconds; `stream` is told its output.

        It is killed if this is interrupted. Raises GuestFailed if it could not be run or was too
        slow, and, with `check`, if its status is not 0.
        """
        arguments: Message = {"argv": list(argv), "stream": stream is not None}
        if stdin is not None:
            arguments["stdin"] = stdin
        if cwd is not None:
            arguments["cwd"] = cwd
        if timeout is not None:
            arguments["timeout_ms"] = round(timeout * 1000)
        call = self._connection.begin("run", **arguments)
        try:
            reply = self._connection.reply(call, lambda event: _report_event(event, stream))
        except GuestGone:
            raise
        except AgentRefused as error:
            raise GuestFailed(str(error)) from None
        except BaseException:
            self._connection.tell("signal", target=call.id, signal=int(signal.SIGKILL))
            raise
        ran = _ran(reply)
        if check and ran.status != 0:
            raise GuestFailed(_failure(argv, ran), ran)
        return ran

    @contextmanager
    def running(self, argv: Sequence[str], *, cwd: str | None = None) -> Iterator[RunningProgram]:
        """Runs a program for as long as the block takes, then interrupts it and waits for its end.

        Raises GuestFailed if it has failed.
        """
        arguments: Message = {"argv": list(argv), "stream": False}
        if cwd is not None:
            arguments["cwd"] = cwd
        call = self._connection.begin("run", **arguments)
        running = RunningProgram()
        try:
            yield running
        except BaseException:
            self._connection.forget(call)
            self._connection.tell("signal", target=call.id, signal=int(signal.SIGKILL))
            raise
        self._connection.tell("signal", target=call.id, signal=int(signal.SIGINT))
        try:
            reply = self._connection.reply(call, lambda _: None)
        except AgentRefused as error:
            raise GuestFailed(str(error)) from None
        running.ran = ran = _ran(reply)
        if ran.status not in {0, -signal.SIGINT}:
            words = ran.stderr.strip().splitlines()
            raise GuestFailed(f"in the guest: {argv[0]}: {printable(words[-1] if words else '?')}")

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Returns files' contents, up to 4 MiB of each; None for what cannot be read.

        A path may have `*` within a component; what it matches are keys of their own. There are no
        other keys, and each path without `*` is one.
        """
        texts_read = texts(self._ask("read", paths=list(paths)), "files")
        by_path: dict[str, str | None] = {path: None for path in paths if "*" not in path}
        globs = [_matching(path) for path in paths if "*" in path]
        for path, text in texts_read.items():
            if path in by_path or any(glob.fullmatch(path) for glob in globs):
                by_path[path] = text
        return by_path

    def write(self, path: str, text: str) -> None:
        """Writes a file in one system call, as sysfs needs it."""
        self._ask("write", path=path, text=text)

    def export(self, paths: Sequence[str], device: str) -> tuple[ExportedFile, ...]:
        """Puts files, which may be given with `*`, onto a raw block device."""
        reply = self._ask("export", paths=list(paths), device=device)
        return items(
            reply,
            "files",
            lambda file: ExportedFile(
                item(file, "path", str), item(file, "offset", int), item(file, "bytes", int)
            ),
        )

    @contextmanager
    def sampling(self, interval_ms: int, paths: Sequence[str]) -> Iterator[RunningSampler]:
        """Reads files at an interval for as long as the block takes, and once more at its end."""
        call = self._connection.begin("sample", interval_ms=interval_ms, paths=list(paths))
        sampling = RunningSampler()

        def sampled(message: Message) -> None:
            sampling.samples.extend(items(message, "samples", _sample))

        try:
            self._connection.next(call)  # the first has been taken, or it has failed
            yield sampling
        except BaseException:
            self._connection.forget(call)
            self._connection.tell("finish", target=call.id)
            raise
        # The reply says whether it went well, so that this one's does not matter.
        self._connection.tell("finish", target=call.id)
        sampled(self._connection.reply(call, sampled))

    def poweroff(self) -> None:
        """Has the guest write back what it has in memory, and power off."""
        with suppress(GuestGone):  # which is what was asked for
            self._ask("poweroff")

    def _ask(self, name: str, **arguments: object) -> Message:
        return self._connection.reply(self._connection.begin(name, **arguments), lambda _: None)


def _ran(reply: Message) -> ProgramExit:
    return ProgramExit(
        status=item(reply, "status", int),
        stdout=item(reply, "stdout", str),
        stderr=item(reply, "stderr", str),
        truncated=item(reply, "truncated", bool),
        wall_ns=item(reply, "wall_ns", int),
    )


def _matching(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _sample(message: Message) -> FileSample:
    return FileSample(item(message, "t_ns", int), texts(message, "files"))


def _report_event(event: Message, stream: Stream | None) -> None:
    for name in ("stdout", "stderr"):
        if stream is not None and name in event:
            stream(name, item(event, name, str))


def _failure(argv: Sequence[str], ran: ProgramExit) -> str:
    """Returns one line about a program that failed."""
    if ran.status < 0:
        try:
            ended = f"was killed by {signal.Signals(-ran.status).name}"
        except ValueError:
            ended = f"was killed by signal {-ran.status}"
    else:
        ended = f"ended with status {ran.status}"
    lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    # Notes come before what is wrong, and how to use the program after it.
    wrong = [line for line in lines if COMPLAINT.search(line)] or lines[-1:]
    why = f": {wrong[0]}" if wrong else ""
    return printable(f"in the guest: {shlex.join(argv)} {ended}{why}")
