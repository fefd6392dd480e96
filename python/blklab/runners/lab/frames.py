"""Frames to and from the guest's agent: a u32, little-endian, then that many bytes of JSON.

Source: crates/agent/src/frame.rs. What a guest sends is not trusted.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, cast

from blklab.errors import BlklabError
from blklab.text import printable

LONGEST = 16 << 20
"""Bytes of JSON in a frame; neither side takes more."""

_LENGTH = struct.Struct("<I")

Message = dict[str, object]
T = TypeVar("T")


class MalformedFrame(BlklabError):
    """The guest's agent sent what is not of the protocol."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the guest's agent sent {printable(what)}")


class FrameReceiver(Protocol):
    """The part of a socket that is read from."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Returns how many bytes there were; 0 when the other side has closed."""


def encode(message: Mapping[str, object]) -> bytes:
    """Returns a message as a frame. Raises BlklabError if it is too long, or no UTF-8."""
    try:
        content = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # a file's name that was not UTF-8, say
        text = printable(error.object[max(0, error.start - 20) : error.end + 20])
        raise BlklabError(f"a request to the guest with {text}, which is not UTF-8") from None
    if len(content) > LONGEST:
        raise BlklabError(f"a request to the guest of {len(content)} bytes; at most {LONGEST}")
    return _LENGTH.pack(len(content)) + content


def receive(connection: FrameReceiver) -> Message | None:
    """Returns the next message; None when the stream ends where one would begin.

    Raises Malformed, and OSError as the socket does.
    """
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = cast("tuple[int]", _LENGTH.unpack(head))
    if length > LONGEST:
        raise MalformedFrame(f"a frame of {length} bytes; at most {LONGEST} were expected")
    content = _exactly(connection, length)
    if content is None:
        raise MalformedFrame("a frame cut short")
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"a frame that is no JSON: {error}") from None
    return whole(message)


def _exactly(connection: FrameReceiver, length: int) -> bytes | None:
    """Returns so many bytes; None if there is none at all, though some were to be expected."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    got = 0
    while got < length:
        some = connection.recv_into(view[got:])
        if not some:
            if got:
                raise MalformedFrame("a frame cut short")
            return None
        got += some
    return bytes(buffer)


def whole(value: object) -> Message:
    """Returns an object of JSON. Raises Malformed if it is something else."""
    if not isinstance(value, dict):
        raise MalformedFrame(f"{_shown(value)} where an object was expected")
    return cast("Message", value)


def item(message: Message, key: str, kind: type[T]) -> T:
    """Returns what a message has under a key. Raises Malformed if it is not of this kind."""
    value = message.get(key)
    # A bool is an int to Python, and not to us.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise MalformedFrame(f"{_shown(value)} as {key}, where a {kind.__name__} was expected")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise MalformedFrame(f"{_shown(value)} as {key}, where a number of 64 bits was expected")
    return value


def items(message: Message, key: str, make: Callable[[Message], T]) -> tuple[T, ...]:
    """Returns a list of objects, each made into something. Raises Malformed."""
    return tuple(make(whole(each)) for each in item(message, key, list))


def texts(message: Message, key: str) -> dict[str, str | None]:
    """Returns a table of texts, of which some are missing. Raises Malformed."""
    table = whole(message.get(key))
    for value in table.values():
        if value is not None and not isinstance(value, str):
            raise MalformedFrame(f"{_shown(value)} in {key}, where a text was expected")
    return cast("dict[str, str | None]", table)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
