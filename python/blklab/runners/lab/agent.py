"""The client of the agent in the guest.

Source of the calls and their replies: crates/agent/src/call.rs.
"""

import itertools
import json
import re
import shlex
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Annotated, Protocol, TypeVar, cast

import msgspec

from blklab.errors import BlklabError
from blklab.runners.fio.process import ending
from blklab.system.child_process import limit_sending
from blklab.text.printing import printable

__all__ = ["Agent", "AgentHello", "ExportedFile", "FileSample", "GuestFailed", "GuestGone", "ProgramExit"]

COMPLAINT = re.compile(  # Matches lines that explain an error, of the programs and kernels that we know
    r"error|cannot|can't|unable|fail|must|support|invalid|no such|denied|busy|too \w+|refus|panic"
    r"|out of memory",
    re.I | re.A,
)

Stream = Callable[[str, str], object]  # Called with "stdout" or "stderr", and the output


TAKE_S = 120.0  # Seconds for which the guest may take no data: one that is emulated is slow
PROTOCOL = 1  # Protocol version of this code; the image is built for it
T = TypeVar("T")
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


LONGEST = 16 << 20  # Bytes of JSON in a frame; neither side takes more
_LENGTH = struct.Struct("<I")

Message = dict[str, object]


class MalformedFrame(BlklabError):
    """The guest's agent violated the protocol."""

    def __init__(self, description: str) -> None:
        super().__init__(f"the guest's agent sent {printable(description)}")


class FrameReceiver(Protocol):
    """The part of a socket that receives."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Returns the number of bytes; 0 when the other side has closed."""


def encode(message: Mapping[str, object]) -> bytes:
    """Returns a message as a frame. Raises BlklabError if it is too long, or not UTF-8."""
    try:
        content = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # a file's name that was not UTF-8, say
        text = printable(error.object[max(0, error.start - 20) : error.end + 20])
        raise BlklabError(f"a request to the guest is not UTF-8: {text}") from None
    if len(content) > LONGEST:
        raise BlklabError(f"a request to the guest has {len(content)} bytes, expected at most {LONGEST}")
    return _LENGTH.pack(len(content)) + content


def receive(connection: FrameReceiver) -> Message | None:
    """Returns the next message; None when the stream ends between frames.

    Raises MalformedFrame, and OSError as the socket does.
    """
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = cast("tuple[int]", _LENGTH.unpack(head))
    if length > LONGEST:
        raise MalformedFrame(f"a frame of {length} bytes, expected at most {LONGEST}")
    content = _exactly(connection, length)
    if content is None:
        raise MalformedFrame("an incomplete frame")
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"a frame that is not JSON: {error}") from None
    return whole(message)


def _exactly(connection: FrameReceiver, length: int) -> bytes | None:
    """Returns exactly `length` bytes; None if the stream ends before the first. Raises MalformedFrame in the middle."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    got = 0
    while got < length:
        some = connection.recv_into(view[got:])
        if not some:
            if got:
                raise MalformedFrame("an incomplete frame")
            return None
        got += some
    return bytes(buffer)


def whole(value: object) -> Message:
    """Returns a JSON object. Raises MalformedFrame for anything else."""
    if not isinstance(value, dict):
        raise MalformedFrame(f"{_shorten_repr(value)}, expected an object")
    return cast("Message", value)


def convert_value(value: object, kind: type[T]) -> T:
    """Returns a value as what it must be. Raises MalformedFrame."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise MalformedFrame(f"{_shorten_repr(value)}: {error}") from None


def _shorten_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


class GuestGone(BlklabError):
    """The connection to the guest is lost."""


class AgentRefused(BlklabError):
    """The agent reports an error."""


@dataclass(frozen=True)
class AgentHello:
    """The agent's greeting: itself and its kernel; `notes` are what failed at boot."""

    protocol: Int64
    agent: str
    kernel: str
    machine: str
    notes: tuple[str, ...]


@dataclass
class AgentCall:
    """A call in progress, and its messages."""

    id: int
    answers: SimpleQueue[Message | GuestGone] = field(default_factory=SimpleQueue)


class AgentConnection:
    """A connected socket with the agent at its other end. Several threads may call at once."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        limit_sending(connection, TAKE_S)
        self._socket = connection
        self._sending = threading.Lock()
        self._calls: dict[int, AgentCall] = {}
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._greeting: SimpleQueue[AgentHello | GuestGone] = SimpleQueue()
        self._hello: AgentHello | None = None
        self._lost: str | None = None
        self._reader = threading.Thread(target=self._read_all, name="guest", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Closes the connection; calls that wait are told."""
        self._lose("the connection to the guest is closed")
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()

    @property
    def connected(self) -> bool:
        """Whether the connection is there, as far as is known."""
        return self._lost is None

    def hello(self, timeout: float) -> AgentHello:
        """Returns the agent's greeting, waiting for at most `timeout` seconds.

        Raises GuestGone if there is none, or if the agent speaks another protocol.
        """
        if self._hello is not None:
            return self._hello
        answer = _await(self._greeting, timeout)
        if answer is None:
            raise GuestGone(f"the guest's agent did not answer within {timeout:g} s")
        if isinstance(answer, GuestGone):
            raise answer
        self._hello = answer
        return answer

    def begin(self, name: str, **arguments: object) -> AgentCall:
        """Sends a request. Raises GuestGone, and BlklabError if it cannot be encoded."""
        with self._lock:
            if self._lost is not None:
                raise GuestGone(self._lost)
            call = AgentCall(next(self._ids))
            self._calls[call.id] = call
        try:
            self._send({"id": call.id, "call": name, **arguments})
        except BaseException:
            self.forget(call)
            raise
        return call

    def tell(self, name: str, **arguments: object) -> None:
        """Sends a request without waiting for a reply; a failure is ignored."""
        with suppress(BlklabError):
            self._send({"id": next(self._ids), "call": name, **arguments})

    def _send(self, message: Message) -> None:
        frame = encode(message)
        with self._sending:
            try:
                self._socket.sendall(frame)
            except BaseException as error:
                # Half a frame may have been sent: nothing that follows would be understood.
                self._lose("the connection to the guest is lost")
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                if isinstance(error, OSError):
                    raise GuestGone("the connection to the guest is lost") from None
                raise

    def forget(self, call: AgentCall) -> None:
        """Discards later messages for this call."""
        with self._lock:
            self._calls.pop(call.id, None)

    def next(self, call: AgentCall) -> Message:
        """Returns the next message for a call. Raises the agent's error for it."""
        answer = call.answers.get()
        if isinstance(answer, GuestGone):
            raise answer
        if "error" in answer:
            raise AgentRefused(f"in the guest: {printable(convert_value(answer['error'], str))}")
        return answer

    def reply(self, call: AgentCall, on_event: Callable[[Message], None]) -> Message:
        """Returns a call's reply; `on_event` gets the events before it, in this thread."""
        try:
            while True:
                message = self.next(call)
                if "ok" in message:
                    return whole(message["ok"])
                on_event(whole(message.get("event")))
        finally:
            self.forget(call)

    def _read_all(self) -> None:
        try:
            first = receive(self._socket)
            if first is not None:
                self._greeting.put(_greeting(whole(first.get("hello"))))
                while (message := receive(self._socket)) is not None:
                    self._deliver(message)
            self._lose("the guest closed its connection: it powered off or died")
        except BlklabError as error:
            self._lose(str(error))
        except OSError as error:
            self._lose(f"the connection to the guest is lost: {error.strerror}")

    def _deliver(self, message: Message) -> None:
        if message.get("id", 0) is None:
            raise MalformedFrame(f"an error: {convert_value(message.get('error'), str)}")
        with self._lock:
            call = self._calls.get(convert_value(message.get("id"), Int64))
        if call is not None:  # otherwise the call was abandoned
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


def _await(queue: SimpleQueue[T], timeout: float) -> T | None:
    """Returns the next item within `timeout` seconds."""
    with suppress(Empty):
        return queue.get(timeout=timeout)
    return None


def _greeting(hello: Message) -> AgentHello:
    if (protocol := hello.get("protocol")) != PROTOCOL:  # which may well greet with something else
        raise BlklabError(
            f"the guest's agent speaks protocol {protocol}, expected {PROTOCOL}: "
            "rebuild the image with `blklab lab build`"
        )
    greeting = convert_value(hello, AgentHello)
    agent, kernel, machine = map(printable, (greeting.agent, greeting.kernel, greeting.machine))
    return AgentHello(PROTOCOL, agent, kernel, machine, tuple(map(printable, greeting.notes)))


class GuestFailed(BlklabError):
    """A program in the guest failed, or could not be run."""


@dataclass(frozen=True)
class ProgramExit:
    """How a program ended: a negative status is a signal; `truncated` if it printed over 4 MiB."""

    status: Int64
    stdout: str
    stderr: str
    truncated: bool
    wall_ns: Int64


@dataclass(frozen=True)
class FileSample:
    """Files at one time of the guest's CLOCK_MONOTONIC, in nanoseconds; None: not readable."""

    t_ns: Int64
    files: dict[str, str | None]


@dataclass(frozen=True)
class ExportedFile:
    """Position of a file on the device, in bytes."""

    path: str
    offset: Int64
    bytes: Int64


class Agent(AgentConnection):
    """The agent at the other end of a connected socket, which is closed with this object.

    Several threads may call at once. Every call raises GuestGone when the guest is gone, and
    BlklabError when the agent reports an error.
    """

    def alive(self, timeout: float) -> bool:
        """Tells whether the agent answers within `timeout` seconds."""
        with suppress(GuestGone):
            call = self.begin("ping")
            try:
                answer = _await(call.answers, timeout)
                return answer is not None and not isinstance(answer, GuestGone)
            finally:
                self.forget(call)
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
        """Runs a program to its end, or for `timeout` seconds; `stream` gets its output.

        It is killed if this call is interrupted. Raises GuestFailed if it could not be run or
        was too slow, and, with `check`, if its status is not 0.
        """
        timeout_ms = None if timeout is None else round(timeout * 1000)
        streams = {"stdin": stdin, "stream": stream is not None}
        call = self.begin("run", argv=list(argv), cwd=cwd, timeout_ms=timeout_ms, **streams)
        try:
            reply = self.reply(call, lambda event: _report_event(event, stream))
        except GuestGone:
            raise
        except AgentRefused as error:
            raise GuestFailed(str(error)) from None
        except BaseException:
            self.tell("signal", target=call.id, signal=int(signal.SIGKILL))
            raise
        ran = convert_value(reply, ProgramExit)
        if check and ran.status != 0:
            raise GuestFailed(_failure(argv, ran))
        return ran

    @contextmanager
    def running(self, argv: Sequence[str], *, cwd: str | None = None) -> Iterator[list[ProgramExit]]:
        """Runs a program during the block, then interrupts it; the list has its exit after the block.

        Raises GuestFailed if it has failed.
        """
        call = self.begin("run", argv=list(argv), stream=False, cwd=cwd)
        exits: list[ProgramExit] = []
        try:
            yield exits
        except BaseException:
            self.forget(call)
            self.tell("signal", target=call.id, signal=int(signal.SIGKILL))
            raise
        self.tell("signal", target=call.id, signal=int(signal.SIGINT))
        try:
            reply = self.reply(call, lambda _: None)
        except AgentRefused as error:
            raise GuestFailed(str(error)) from None
        exits.append(ran := convert_value(reply, ProgramExit))
        if ran.status not in {0, -signal.SIGINT}:
            lines = ran.stderr.strip().splitlines()
            reason = printable(lines[-1] if lines else "?")
            raise GuestFailed(f"in the guest: {argv[0]}: {reason}")

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Returns files' contents, up to 4 MiB of each; None for files that cannot be read.

        A path may have `*` within a component; each match has a key. Each path without `*` has a key.
        """
        texts_read = convert_value(self._ask("read", paths=list(paths)).get("files"), dict[str, str | None])
        by_path: dict[str, str | None] = {path: None for path in paths if "*" not in path}
        globs = ["[^/]*".join(map(re.escape, path.split("*"))) for path in paths if "*" in path]
        for path, text in texts_read.items():
            if path in by_path or any(re.fullmatch(glob, path, re.DOTALL) for glob in globs):
                by_path[path] = text
        return by_path

    def write(self, path: str, text: str) -> None:
        """Writes a file in one system call, as sysfs needs it."""
        self._ask("write", path=path, text=text)

    def export(self, paths: Sequence[str], device: str) -> tuple[ExportedFile, ...]:
        """Writes files, also given with `*`, to a raw block device."""
        reply = self._ask("export", paths=list(paths), device=device)
        return convert_value(reply.get("files"), tuple[ExportedFile, ...])

    @contextmanager
    def sampling(self, interval_ms: int, paths: Sequence[str]) -> Iterator[list[FileSample]]:
        """Reads files at an interval during the block and at its end; the list has all samples after it."""
        call = self.begin("sample", interval_ms=interval_ms, paths=list(paths))
        samples: list[FileSample] = []

        def collect_samples(message: Message) -> None:
            samples.extend(convert_value(message.get("samples"), list[FileSample]))

        try:
            self.next(call)  # the first has been taken, or it has failed
            yield samples
        except BaseException:
            self.forget(call)
            self.tell("finish", target=call.id)
            raise
        # The reply says whether it went well, so that this one's does not matter.
        self.tell("finish", target=call.id)
        collect_samples(self.reply(call, collect_samples))

    def _ask(self, name: str, **arguments: object) -> Message:
        return self.reply(self.begin(name, **arguments), lambda _: None)


def _report_event(event: Message, stream: Stream | None) -> None:
    for name in ("stdout", "stderr"):
        if stream is not None and name in event:
            stream(name, convert_value(event[name], str))


def _failure(argv: Sequence[str], ran: ProgramExit) -> str:
    lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    # Notes come before what is wrong, and how to use the program after it.
    wrong = [line for line in lines if COMPLAINT.search(line)] or lines[-1:]
    why = f": {wrong[0]}" if wrong else ""
    return printable(f"in the guest: {shlex.join(argv)} {ending(ran.status)}{why}")
