"""The client of the agent in the guest, which does there what it is asked.

Source of the calls and their answers: crates/agent/src/call.rs.
"""

import itertools
import shlex
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from blklab.errors import BlklabError
from blklab.runners.lab.frames import Malformed, Message, encode, item, items, receive, texts, whole
from blklab.text import printable

PROTOCOL = 1
"""Which one is spoken here; the image is built for it."""

T = TypeVar("T")

_POLL = 0.2
"""Seconds after which a wait looks whether Ctrl-C was pressed."""

Stream = Callable[[str, str], object]
"""Is told "stdout" or "stderr", and what came."""


class GuestGone(BlklabError):
    """The connection to the guest is lost, and with it whatever was asked."""


class GuestFailed(BlklabError):
    """A program in the guest failed, or could not be run; `ran` is what it did, if it ended."""

    def __init__(self, message: str, ran: "Ran | None" = None) -> None:
        super().__init__(message)
        self.ran = ran


@dataclass(frozen=True)
class Hello:
    """What the agent says of itself and its kernel; `notes` are what it missed at boot."""

    protocol: int
    agent: str
    kernel: str
    machine: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """What a program did: its status is negative for a signal; `truncated` beyond 4 MiB."""

    status: int
    stdout: str
    stderr: str
    truncated: bool
    wall_ns: int


@dataclass(frozen=True)
class Sample:
    """Files at an instant of the guest's CLOCK_MONOTONIC, in nanoseconds; None: not readable."""

    t_ns: int
    files: dict[str, str | None]


@dataclass(frozen=True)
class Exported:
    """Where a file is on the device, in bytes."""

    path: str
    offset: int
    bytes: int


@dataclass
class Sampling:
    """A sampling under way; `samples` are there when it is over, at least two."""

    samples: list[Sample] = field(default_factory=list)


@dataclass
class _Call:
    id: int
    name: str
    answers: SimpleQueue[Message | GuestGone] = field(default_factory=SimpleQueue)


class Agent:
    """The agent at the other end of a connected socket, which is closed with this.

    Several threads may call at once. Every call raises GuestGone when the guest is gone, and
    BlklabError when the agent says that it could not be done.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        self._connection = connection
        self._sending = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._greeting: SimpleQueue[Hello | GuestGone] = SimpleQueue()
        self._hello: Hello | None = None
        self._lost: str | None = None
        self._reader = threading.Thread(target=self._read_all, name="guest", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; a guest powers off then."""
        self._lose("the connection to the guest is closed")
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._connection.close()

    def hello(self, timeout: float) -> Hello:
        """Returns what the agent says when it is there, within so many seconds.

        Raises GuestGone if it does not, BlklabError if it speaks another protocol.
        """
        if self._hello is not None:
            return self._hello
        answer = _await(self._greeting, timeout)
        if answer is None:
            raise GuestGone(f"the guest's agent is not there after {timeout:g} s")
        if isinstance(answer, GuestGone):
            raise answer
        if answer.protocol != PROTOCOL:
            raise BlklabError(
                f"the guest's agent speaks protocol {answer.protocol}, this blklab {PROTOCOL}:"
                " `blklab lab build` makes the image again"
            )
        self._hello = answer
        return answer

    @property
    def connected(self) -> bool:
        """Whether the connection is there, as far as is known."""
        return self._lost is None

    def alive(self, timeout: float) -> bool:
        """Tells whether the agent answers within so many seconds."""
        try:
            call = self._begin("ping")
            try:
                return _await(call.answers, timeout) is not None and self._lost is None
            finally:
                self._forget(call)
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
    ) -> Ran:
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
        call = self._begin("run", **arguments)
        try:
            reply = self._reply(call, lambda event: _told(event, stream))
        except GuestGone:
            raise
        except _Refused as error:
            raise GuestFailed(str(error)) from None
        except BaseException:
            self._tell("signal", target=call.id, signal=int(signal.SIGKILL))
            raise
        ran = Ran(
            status=item(reply, "status", int),
            stdout=item(reply, "stdout", str),
            stderr=item(reply, "stderr", str),
            truncated=item(reply, "truncated", bool),
            wall_ns=item(reply, "wall_ns", int),
        )
        if check and ran.status != 0:
            raise GuestFailed(_failure(argv, ran), ran)
        return ran

    @contextmanager
    def running(self, argv: Sequence[str], *, cwd: str | None = None) -> Iterator[None]:
        """Runs a program for as long as the block takes, then interrupts it and waits for its end.

        Raises GuestFailed if it has failed.
        """
        arguments: Message = {"argv": list(argv), "stream": False}
        if cwd is not None:
            arguments["cwd"] = cwd
        call = self._begin("run", **arguments)
        try:
            yield
        except BaseException:
            self._forget(call)
            self._tell("signal", target=call.id, signal=int(signal.SIGKILL))
            raise
        self._tell("signal", target=call.id, signal=int(signal.SIGINT))
        try:
            reply = self._reply(call, lambda _: None)
        except _Refused as error:
            raise GuestFailed(str(error)) from None
        if item(reply, "status", int) not in {0, -signal.SIGINT}:
            words = item(reply, "stderr", str).strip().splitlines()
            raise GuestFailed(f"in the guest: {argv[0]}: {printable(words[-1] if words else '?')}")

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Returns files' contents, up to 4 MiB of each; None for what cannot be read.

        A path may have `*` within a component; what it matches are keys of their own.
        """
        return texts(self._ask("read", paths=list(paths)), "files")

    def write(self, path: str, text: str) -> None:
        """Writes a file in one system call, as sysfs needs it."""
        self._ask("write", path=path, text=text)

    def export(self, paths: Sequence[str], device: str) -> tuple[Exported, ...]:
        """Puts files, which may be given with `*`, onto a raw block device."""
        reply = self._ask("export", paths=list(paths), device=device)
        return items(
            reply,
            "files",
            lambda file: Exported(
                item(file, "path", str), item(file, "offset", int), item(file, "bytes", int)
            ),
        )

    @contextmanager
    def sampling(self, interval_ms: int, paths: Sequence[str]) -> Iterator[Sampling]:
        """Reads files at an interval for as long as the block takes, and once more at its end."""
        call = self._begin("sample", interval_ms=interval_ms, paths=list(paths))
        sampling = Sampling()

        def sampled(message: Message) -> None:
            sampling.samples.extend(items(message, "samples", _sample))

        try:
            self._next(call)  # the first has been taken, or it has failed
            yield sampling
        except BaseException:
            self._forget(call)
            self._tell("finish", target=call.id)
            raise
        # The reply says whether it went well, so that this one's does not matter.
        self._tell("finish", target=call.id)
        sampled(self._reply(call, sampled))

    def poweroff(self) -> None:
        """Has the guest write back what it has in memory, and power off."""
        with suppress(GuestGone):  # which is what was asked for
            self._ask("poweroff")

    # --- how calls and answers meet ---

    def _ask(self, name: str, **arguments: object) -> Message:
        return self._reply(self._begin(name, **arguments), lambda _: None)

    def _begin(self, name: str, **arguments: object) -> _Call:
        with self._lock:
            if self._lost is not None:
                raise GuestGone(self._lost)
            call = _Call(next(self._ids), name)
            self._calls[call.id] = call
        try:
            self._send({"id": call.id, "call": name, **arguments})
        except BaseException:
            self._forget(call)
            raise
        return call

    def _tell(self, name: str, **arguments: object) -> None:
        """Asks for something, and does not wait; if it fails, it fails."""
        with suppress(BlklabError):
            self._send({"id": next(self._ids), "call": name, **arguments})

    def _send(self, message: Message) -> None:
        frame = encode(message)
        with self._sending:
            try:
                self._connection.sendall(frame)
            except BaseException as error:
                # Half a frame may have been sent: nothing that follows would be understood.
                self._lose("the connection to the guest is lost")
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
                if isinstance(error, OSError):
                    raise GuestGone("the connection to the guest is lost") from None
                raise

    def _forget(self, call: _Call) -> None:
        with self._lock:
            self._calls.pop(call.id, None)

    def _next(self, call: _Call) -> Message:
        """Returns the next message for a call. Raises what the agent says is wrong with it."""
        answer = None
        while answer is None:
            answer = _await(call.answers, 3600)
        if isinstance(answer, GuestGone):
            raise answer
        if "error" in answer:
            raise _Refused(f"in the guest: {printable(item(answer, 'error', str))}")
        return answer

    def _reply(self, call: _Call, told: Callable[[Message], None]) -> Message:
        """Returns a call's reply; `told` gets the events before it, in this thread."""
        try:
            while True:
                message = self._next(call)
                if "ok" in message:
                    return whole(message["ok"])
                told(whole(message.get("event")))
        finally:
            self._forget(call)

    def _read_all(self) -> None:
        try:
            first = receive(self._connection)
            if first is not None:
                self._greeting.put(_greeting(whole(first.get("hello"))))
                while (message := receive(self._connection)) is not None:
                    self._deliver(message)
            self._lose("the guest has closed its connection: it has powered off or died")
        except BlklabError as error:
            self._lose(str(error))
        except OSError as error:
            self._lose(f"the connection to the guest is lost: {error.strerror}")

    def _deliver(self, message: Message) -> None:
        if message.get("id", 0) is None:
            raise Malformed(f"an error: {item(message, 'error', str)}")
        with self._lock:
            call = self._calls.get(item(message, "id", int))
        if call is not None:  # else nobody waits for it any more
            call.answers.put(message)

    def _lose(self, why: str) -> None:
        with self._lock:
            if self._lost is not None:
                return
            self._lost = why
            calls = list(self._calls.values())
        self._greeting.put(GuestGone(why))
        for call in calls:
            call.answers.put(GuestGone(why))


class _Refused(BlklabError):
    """The agent says that something could not be done."""


def _await(queue: SimpleQueue[T], timeout: float) -> T | None:
    """Returns what comes within so many seconds; Ctrl-C is seen meanwhile."""
    until = time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        with suppress(Empty):
            return queue.get(timeout=max(0.0, min(left, _POLL)))
        if left <= 0:
            return None


def _greeting(hello: Message) -> Hello:
    notes = item(hello, "notes", list)
    return Hello(
        protocol=item(hello, "protocol", int),
        agent=printable(item(hello, "agent", str)),
        kernel=printable(item(hello, "kernel", str)),
        machine=printable(item(hello, "machine", str)),
        notes=tuple(printable(str(note)) for note in notes),
    )


def _sample(message: Message) -> Sample:
    return Sample(item(message, "t_ns", int), texts(message, "files"))


def _told(event: Message, stream: Stream | None) -> None:
    for name in ("stdout", "stderr"):
        if stream is not None and name in event:
            stream(name, item(event, name, str))


def _failure(argv: Sequence[str], ran: Ran) -> str:
    """Returns one line about a program that failed."""
    if ran.status < 0:
        try:
            ended = f"was killed by {signal.Signals(-ran.status).name}"
        except ValueError:
            ended = f"was killed by signal {-ran.status}"
    else:
        ended = f"ended with status {ran.status}"
    lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    why = f": {lines[-1]}" if lines else ""
    return printable(f"in the guest: {shlex.join(argv)} {ended}{why}")
