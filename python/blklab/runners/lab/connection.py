"""The connection to the guest's agent: matches replies to calls, and handles its loss."""

import itertools
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TypeVar

from blklab.errors import BlklabError
from blklab.runners.lab.frames import MalformedFrame, Message, encode, item, receive, whole
from blklab.text import printable

PROTOCOL = 1  # Protocol version of this code; the image is built for it
T = TypeVar("T")
_POLL = 0.2  # Seconds between checks for Ctrl-C during a wait


class GuestGone(BlklabError):
    """The connection to the guest is lost."""


class AgentRefused(BlklabError):
    """The agent reports an error."""


@dataclass(frozen=True)
class AgentHello:
    """The agent's greeting: itself and its kernel; `notes` are what failed at boot."""

    protocol: int
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

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(None)
        self._socket = connected
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

    def answered(self, call: AgentCall, timeout: float) -> bool:
        """Tells whether there is an answer within `timeout` seconds."""
        answer = _await(call.answers, timeout)
        return answer is not None and not isinstance(answer, GuestGone)

    def next(self, call: AgentCall) -> Message:
        """Returns the next message for a call. Raises the agent's error for it."""
        answer = None
        while answer is None:
            answer = _await(call.answers, 3600)
        if isinstance(answer, GuestGone):
            raise answer
        if "error" in answer:
            raise AgentRefused(f"in the guest: {printable(item(answer, 'error', str))}")
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
            raise MalformedFrame(f"an error: {item(message, 'error', str)}")
        with self._lock:
            call = self._calls.get(item(message, "id", int))
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
    """Returns the next item within `timeout` seconds; handles Ctrl-C meanwhile."""
    until = time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        with suppress(Empty):
            return queue.get(timeout=max(0.0, min(left, _POLL)))
        if left <= 0:
            return None


def _greeting(hello: Message) -> AgentHello:
    protocol = item(hello, "protocol", int)
    if protocol != PROTOCOL:  # which may well greet with something else
        raise BlklabError(
            f"the guest's agent speaks protocol {protocol}, expected {PROTOCOL}: rebuild the "
            "image with `blklab lab build`"
        )
    notes = item(hello, "notes", list)
    return AgentHello(
        protocol=protocol,
        agent=printable(item(hello, "agent", str)),
        kernel=printable(item(hello, "kernel", str)),
        machine=printable(item(hello, "machine", str)),
        notes=tuple(printable(str(note)) for note in notes),
    )
