"""Frames to and from the guest's agent: a u32, little-endian, then that many bytes of JSON.

Source: crates/agent/src/frame.rs. What a guest sends is not trusted.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, cast

from blklab.errors import BlklabError
from blklab.text import printable

LONGEST = 16 << 20  # Bytes of JSON in a frame; neither side takes more
_LENGTH = struct.Struct("<I")

Message = dict[str, object]
T = TypeVar("T")


class MalformedFrame(BlklabError):
    """The guest's agent violated the protocol."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the guest's agent sent {printable(what)}")


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
    """Returns exactly `length` bytes; None at the end of the stream, also in the middle."""
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
        raise MalformedFrame(f"{_shown(value)}, expected an object")
    return cast("Message", value)


def item(message: Message, key: str, kind: type[T]) -> T:
    """Returns the value of a key. Raises MalformedFrame if it is not of this kind."""
    value = message.get(key)
    # A bool is an int to Python, and not to us.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise MalformedFrame(f"{_shown(value)} as {key}, expected a {kind.__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise MalformedFrame(f"{_shown(value)} as {key}, expected a number of 64 bits")
    return value


def items(message: Message, key: str, make: Callable[[Message], T]) -> tuple[T, ...]:
    """Returns a list of objects, each converted by `make`. Raises MalformedFrame."""
    return tuple(make(whole(each)) for each in item(message, key, list))


def texts(message: Message, key: str) -> dict[str, str | None]:
    """Returns an object of texts, some of which may be null. Raises MalformedFrame."""
    table = whole(message.get(key))
    for value in table.values():
        if value is not None and not isinstance(value, str):
            raise MalformedFrame(f"{_shown(value)} in {key}, expected a text")
    return cast("dict[str, str | None]", table)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
