"""The client with a guest that sends what it likes."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.runners.lab.agent import Agent, GuestGone
from blklab.runners.lab.frames import encode, receive

HELLO = {"protocol": 1, "agent": "0.1.0", "kernel": "6.1", "machine": "x86_64", "notes": []}


@contextmanager
def connected() -> Iterator[tuple[Agent, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, Agent(ours) as agent:
        yield agent, theirs


def test_another_protocol() -> None:
    with connected() as (agent, guest):
        guest.sendall(encode({"hello": {**HELLO, "protocol": 2}}))
        with pytest.raises(BlklabError, match="speaks protocol 2, this blklab 1: `blklab lab"):
            agent.hello(30)


def test_no_hello() -> None:
    with connected() as (agent, guest):
        with pytest.raises(GuestGone, match=r"not there after 0\.01 s"):
            agent.hello(0.01)
        assert not agent.alive(0.01)
        guest.sendall(encode({"hello": {**HELLO, "notes": ["\x1b[2J"]}}))
        assert agent.hello(30).notes == ("\\x1b[2J",)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        struct.pack("<I", 2) + b"[]",
        encode({"hello": 1}),
        encode({"hello": {**HELLO, "kernel": 6}}),
        encode({"id": 1, "ok": {}}),
    ],
)
def test_no_proper_hello(sent: bytes) -> None:
    with connected() as (agent, guest):
        guest.sendall(sent)
        with pytest.raises(BlklabError, match="the guest's agent sent"):
            agent.hello(30)


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1, "ok": None},
        {"id": 1, "ok": {}},
        {"id": 1, "ok": {"files": []}},
        {"id": 1, "ok": {"files": {"/a": 1}}},
        {"id": 1, "error": {}},
        {"id": 1},
        {"id": "1", "ok": {"files": {}}},
        {"id": None, "error": "\x1b[2J"},
    ],
)
def test_no_proper_answer(answer: dict[str, object]) -> None:
    def answers(guest: socket.socket) -> None:
        assert receive(guest) == {"id": 1, "call": "read", "paths": ["/a"]}
        guest.sendall(encode({"id": 99, "ok": {}}) + encode(answer))  # the first is nobody's

    with connected() as (agent, guest):
        guest.sendall(encode({"hello": HELLO}))
        guesting = threading.Thread(target=answers, args=[guest])
        guesting.start()
        with pytest.raises(BlklabError, match="the guest's agent sent") as caught:
            agent.read(["/a"])
        assert str(caught.value).isprintable()
        guesting.join()


@given(st.binary(max_size=60))
def test_whatever_comes_is_an_error_of_ours(sent: bytes) -> None:
    with connected() as (agent, guest):
        guest.sendall(encode({"hello": HELLO}) + sent)
        guest.shutdown(socket.SHUT_WR)
        with pytest.raises(BlklabError):
            agent.run(["true"])
