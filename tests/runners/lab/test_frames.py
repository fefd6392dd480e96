"""Framing, against what a guest may send."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.runners.lab.agent import LONGEST, Int64, MalformedFrame, ProgramExit, convert_value, encode, receive, whole

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Bytes:
    """A connection on which these bytes come, a few at a time."""

    def __init__(self, content: bytes, at_once: int = 7) -> None:
        self.content = content
        self.at_once = at_once

    def recv_into(self, buffer: memoryview) -> int:
        some = self.content[: min(self.at_once, len(buffer))]
        buffer[: len(some)] = some
        self.content = self.content[len(some) :]
        return len(some)


@given(st.lists(st.dictionaries(TEXT, JSON, max_size=4), max_size=4), st.integers(1, 9))
def test_what_is_encoded_is_received(messages: list[dict[str, object]], at_once: int) -> None:
    connection = Bytes(b"".join(encode(message) for message in messages), at_once)
    assert [receive(connection) for _ in messages] == messages
    assert receive(connection) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_an_end_or_malformed(content: bytes) -> None:
    connection = Bytes(content)
    try:
        while receive(connection) is not None:
            pass
    except MalformedFrame as error:
        assert str(error).isprintable()


@given(st.binary(max_size=40))
def test_any_content_is_a_message_or_malformed(content: bytes) -> None:
    try:
        message = receive(Bytes(struct.pack("<I", len(content)) + content))
        assert isinstance(message, dict)
    except MalformedFrame as error:
        assert str(error).isprintable()


@given(JSON)
def test_any_shape_is_as_expected_or_malformed(value: object) -> None:
    for check in (lambda: whole(value), lambda: convert_value(value, ProgramExit), lambda: convert_value(value, Int64)):
        try:
            check()
        except MalformedFrame as error:
            assert str(error).isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (struct.pack("<I", LONGEST + 1), f"a frame of {LONGEST + 1} bytes"),
        (b"\1", "an incomplete frame"),
        (struct.pack("<I", 9) + b"{}", "an incomplete frame"),
        (struct.pack("<I", 2), "an incomplete frame"),
        (struct.pack("<I", 1) + b"{", "a frame that is not JSON"),
        (struct.pack("<I", 4) + b"\xff\xff\xff\xff", "a frame that is not JSON"),
        (struct.pack("<I", 90_000) + b"[" * 90_000, "a frame that is not JSON"),
        (struct.pack("<I", 2) + b"[]", "expected an object"),
    ],
)
def test_malformed(content: bytes, message: str) -> None:
    with pytest.raises(MalformedFrame, match=message):
        receive(Bytes(content, LONGEST))


def test_a_bool_is_no_number() -> None:
    with pytest.raises(MalformedFrame, match="True: Expected `int`, got `bool`"):
        convert_value(True, Int64)
    with pytest.raises(MalformedFrame, match="Expected `int` <="):
        convert_value(2**63, Int64)


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(BlklabError, match="at most"):
        encode({"text": "x" * LONGEST})
    with pytest.raises(BlklabError, match=r"not UTF-8: .*\\udcff"):
        encode({"path": "/tmp/\udcff"})
    assert json.loads(encode({"text": "é\n"})[4:]) == {"text": "é\n"}
