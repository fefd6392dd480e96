"""The client with a guest that sends what it likes."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.runners.lab import guest_files, runner
from blklab.runners.lab.agent import Agent, GuestGone, encode, receive
from blklab.runners.lab.guest_facts import describe_guest
from blklab.runners.lab.io_cost import measure_io_cost
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.rates import DiskRates
from blklab.runners.lab.stacks import bcache, lvm, md
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack
from tests.runners.lab.stacks import recording
from tests.runners.lab.stacks.recording import Recorder

HELLO = {"protocol": 1, "agent": "0.1.0", "kernel": "6.1", "machine": "x86_64", "notes": []}


@contextmanager
def connected() -> Iterator[tuple[Agent, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, closing(Agent(ours)) as agent:
        yield agent, theirs


def test_another_protocol() -> None:
    with connected() as (agent, guest):
        guest.sendall(encode({"hello": {**HELLO, "protocol": 2}}))
        with pytest.raises(BlklabError, match="speaks protocol 2, expected 1: rebuild the image with `blklab lab"):
            agent.hello(30)


def test_no_hello() -> None:
    with connected() as (agent, guest):
        with pytest.raises(GuestGone, match=r"not answer within 0\.01 s"):
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
        guest.sendall(encode({"id": 99, "ok": {}}) + encode(answer))  # the first has no caller

    with connected() as (agent, guest):
        guest.sendall(encode({"hello": HELLO}))
        guesting = threading.Thread(target=answers, args=[guest])
        guesting.start()
        with pytest.raises(BlklabError, match="the guest's agent sent") as caught:
            agent.read(["/a"])
        assert str(caught.value).isprintable()
        guesting.join()


@contextmanager
def answering(**answers: object) -> Iterator[Agent]:
    """An agent that answers calls by their names, and anything else with nothing."""

    def answer(guest: socket.socket) -> None:
        while (asked := receive(guest)) is not None:
            ok = answers.get(str(asked["call"]), {})
            guest.sendall(encode({"id": asked["id"], "ok": ok}))

    with connected() as (agent, guest):
        guest.sendall(encode({"hello": HELLO}))
        guesting = threading.Thread(target=answer, args=[guest])
        guesting.start()
        try:
            yield agent
        finally:
            agent.close()
            guesting.join()


def ran(stdout: str) -> dict[str, object]:
    return {"status": 0, "stdout": stdout, "stderr": "", "truncated": False, "wall_ns": 1}


NOTHING: dict[str, object] = {"files": {}}
STRANGE: dict[str, object] = {"files": {"": "", "/": "1", "x/y": None, "/sys/block/md0/dm/name": "vg0-data"}}


@pytest.mark.parametrize("output", [NOTHING, STRANGE])
def test_files_are_those_that_were_asked_for(output: dict[str, object]) -> None:
    with answering(read=output) as agent:
        assert agent.read(["/a", "/sys/block/vd*/serial"]) == {"/a": None}
    files = {"/a": "1", "/b": "2", "/sys/vda/x": "3", "/sys/vda/y/x": "4", "/sys/vda": "5"}
    with answering(read={"files": files}) as agent:
        assert agent.read(["/a", "/sys/vd*/x"]) == {"/a": "1", "/sys/vda/x": "3"}


@pytest.mark.parametrize("text", [NOTHING, STRANGE])
@pytest.mark.parametrize("output", ["", "1", "x" * 5000, "9" * 5000, "\u00b2", "0 8 cache 8 1/2 8 1/²"])
def test_every_caller_gets_an_answer_or_a_blklab_error(
    text: dict[str, object], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.runners.lab.stacks.guest.PATIENCE", 0.05)
    monkeypatch.setattr(bcache, "TICK", 0.0)
    table = {"name": "b", "metadata": None, "chunk": 1, "mode": "writeback"}
    table |= {"policy": "smq", "migration_threshold": None, "block": 512, "bucket": 1 << 19}
    wanted = DiskRates(1.0, [], [])
    with answering(read=text, run=ran(output)) as agent:
        guest = GuestStack(agent)
        guest.layers += [GuestLayer("a", "disk", "vda"), GuestLayer("b", "disk", "vdb")]
        machine: Any = SimpleNamespace(agent=agent, accel="tcg", hello=agent.hello(30), io_cost=None)
        machine.results = SimpleNamespace(clear=lambda: None)
        paths = {"backing": ["/dev/vda"], "cache": ["/dev/vdb"]}
        callers: list[Callable[[], object]] = [
            lambda: guest.find_dm_name("vg0-data"),
            lambda: guest.layer("vdz"),
            lambda: md.report(guest, "m", "md0", ["/dev/vda", None]),
            lambda: lvm.create_cache(guest, table, {"origin": ["/dev/vda"], "cache": ["/dev/vdb"]}),
            lambda: lvm.status(guest, "x"),
            lambda: bcache.create(guest, table, paths),
            lambda: bcache.buckets(guest, "b"),
            lambda: bcache._statistics(guest, "/sys/x", "b"),
            lambda: guest_files.fetch(machine, ["/x"]),
            lambda: measure_io_cost(machine),
            lambda: runner._is_clean(machine),
            lambda: GuestMachine._uptime(machine),
            lambda: describe_guest(machine, guest, cast(Any, {"devices": []}), wanted, None),
        ]
        for caller in callers:
            with suppress(BlklabError):
                caller()


def test_more_than_one_bcache_at_once() -> None:
    of_two = {"/sys/block/bcache0/size": "1", "/sys/block/bcache1/size": "1"}
    recorder = Recorder(on={"/sys/fs/bcache/register": of_two})
    table = {"name": "b", "block": 512, "bucket": 1 << 19}
    paths = {"backing": ["/dev/vda"], "cache": ["/dev/vdb"]}
    with pytest.raises(BlklabError, match=r"2 new /sys/block/bcache\*/size, expected one"):
        bcache.create(recording.guest(recorder), table, paths)


@given(st.binary(max_size=60))
def test_any_message_is_a_blklab_error(sent: bytes) -> None:
    with connected() as (agent, guest):
        guest.sendall(encode({"hello": HELLO}) + sent)
        guest.shutdown(socket.SHUT_WR)
        with pytest.raises(BlklabError):
            agent.run(["true"])
