"""QEMU's monitor, played by a thread."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.machine import qemu
from blklab.runners.lab.machine.qemu import QmpConnection

GREETING: dict[str, Any] = {"QMP": {"version": {}, "capabilities": []}}

Answers = Callable[[dict[str, Any]], list[Any] | None]
Connect = Callable[[Answers], QmpConnection]


@pytest.fixture
def heard() -> list[Any]:
    return []


@pytest.fixture
def connect(heard: list[Any]) -> Iterator[Connect]:
    """Returns a function that connects to a QEMU which answers each command so; None: it ends."""
    made: list[tuple[QmpConnection, threading.Thread]] = []

    def connect(answers: Answers) -> QmpConnection:
        ours, theirs = socket.socketpair()

        def play() -> None:
            with theirs, theirs.makefile("rw") as stream:
                stream.write(json.dumps(GREETING) + "\r\n")
                stream.flush()
                for line in stream:
                    output = answers(json.loads(line))
                    if output is None:
                        return
                    for item in output:
                        stream.write((item if isinstance(item, str) else json.dumps(item)) + "\r\n")
                    stream.flush()

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        made.append((QmpConnection(ours, heard.append), thread))
        return made[-1][0]

    yield connect
    for each, thread in made:
        each.close()
        thread.join()


def test_a_command_and_its_answer(connect: Connect, heard: list[Any]) -> None:
    asked = []

    def answers(command: dict[str, Any]) -> list[Any]:
        asked.append(command)
        return [{"event": "RTC_CHANGE"}, {"return": {"n": len(asked)}}]

    connected = connect(answers)
    assert connected.call("block_set_io_throttle", id="disk0", iops=7) == {"n": 2}
    assert connected.call("stop") == {"n": 3}
    assert [item["execute"] for item in asked] == ["qmp_capabilities", "block_set_io_throttle", "stop"]
    assert asked[1]["arguments"] == {"id": "disk0", "iops": 7}
    assert [item["event"] for item in heard] == ["RTC_CHANGE"] * 3


def test_a_refusal_is_in_qemus_words(connect: Connect) -> None:
    connected = connect(
        lambda command: [
            {"return": {}}
            if command["execute"] == "qmp_capabilities"
            else {"error": {"class": "GenericError", "desc": "Device 'x'\x1b not found"}}
        ]
    )
    with pytest.raises(BlklabError, match=r"QEMU refused stop: Device 'x'\\x1b not found"):
        connected.call("stop")


def test_qemu_that_ends(connect: Connect) -> None:
    connected = connect(lambda command: None if command["execute"] == "stop" else [{"return": {}}])
    with pytest.raises(BlklabError, match="QEMU has ended: it did not answer stop"):
        connected.call("stop")
    with pytest.raises(BlklabError, match="QEMU has ended"):
        connected.call("stop")


@pytest.mark.parametrize("output", ["not JSON", "[]", "7", '{"return"'])
def test_nonsense_is_the_end(connect: Connect, output: str) -> None:
    connected = connect(lambda _: [output])
    with pytest.raises(BlklabError, match="QEMU has ended"):
        connected.call("stop")


def test_qemu_that_does_not_answer(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "QMP_PATIENCE", 0.05)
    connected = connect(lambda _: [])
    with pytest.raises(BlklabError, match=r"qmp_capabilities within 0\.05 s"):
        connected.call("stop")
