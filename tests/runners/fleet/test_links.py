"""The connection to a host, without a host: lines, pings, and a host that takes no data."""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from blklab.runners.fleet import host_link
from blklab.runners.fleet.host_link import ROUND_TRIPS, HostLink, Inbox, connect_host
from blklab.system import child_process
from blklab.system.child_process import lines_of

PIPE = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        with suppress(OSError):
            os.close(descriptor)


def ping(link: HostLink, times: int) -> None:
    for _ in range(times):
        link.ping()


def link_to(stdin: int) -> HostLink:
    return HostLink("alpha", 0, "directory", None, [], stdin)  # type: ignore[arg-type]


class CountedRest(bytearray):
    """What was read; counts the bytes that are searched for the ends of lines."""

    searched = 0

    def split(self, *words: Any) -> list[bytearray]:
        CountedRest.searched += len(self)
        return super().split(*words)


def test_a_long_line_is_not_searched_for_each_chunk() -> None:
    rest = CountedRest()
    for _ in range(200):
        assert lines_of(rest, b"x" * 1000) == []
    assert (len(rest), CountedRest.searched) == (200_000, 0)
    assert lines_of(rest, b"y\n\nz") == [b"x" * 200_000 + b"y", b""]
    assert CountedRest.searched == 200_004
    assert lines_of(rest, b"\n") == [b"z"]
    assert rest == b""


def test_a_long_message_is_not_copied_for_each_part(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []
    write = os.write

    def some(descriptor: int, data: bytes | memoryview) -> int:
        kinds.append(type(data))
        return write(descriptor, data[:10])

    monkeypatch.setattr(os, "write", some)
    child_process.write_all(pipe[1], b"0123456789" * 5)
    assert os.read(pipe[0], 100) == b"0123456789" * 5
    assert kinds == [memoryview] * 5


def test_each_ping_has_a_number_of_its_own() -> None:
    numbers: list[int] = []
    reading, writing = os.pipe()
    link = link_to(writing)
    drained = threading.Thread(target=lambda: numbers.extend(_numbers(reading)))
    drained.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ping, args=[link, 5000]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        os.close(writing)
        drained.join()
        os.close(reading)
    assert numbers == list(range(len(numbers)))
    assert numbers


def _numbers(reading: int) -> Iterator[int]:
    with os.fdopen(os.dup(reading)) as stream:
        for line in stream:
            yield json.loads(line)["number"]


def test_answered_pings_are_forgotten(pipe: tuple[int, int]) -> None:
    link = link_to(pipe[1])
    inbox: Inbox = SimpleQueue()
    link.ping()
    for number in range(2 * ROUND_TRIPS):
        line = json.dumps({"kind": "pong", "number": number, "clock_ns": 0}).encode()
        if number >= ROUND_TRIPS:
            link.ping()
        assert link._take(line, inbox, False)
    assert link._sent == {}
    assert not link._take(b'{"kind": "pong", "number": 3, "clock_ns": 0}', inbox, False)
    assert link.clock is not None


def test_a_host_that_takes_no_data_does_not_delay_the_pings_of_others(pipe: tuple[int, int]) -> None:
    link = link_to(pipe[1])
    fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, PIPE)
    os.write(pipe[1], b"x" * PIPE)
    pinged = threading.Thread(target=ping, args=[link, 3], daemon=True)
    pinged.start()
    pinged.join(60)
    assert not pinged.is_alive()
    assert link._sent == {}
    assert os.read(pipe[0], PIPE) == b"x" * PIPE
    with link._lock:
        link.ping()  # another thread writes a message
    link.ping()
    assert json.loads(os.read(pipe[0], PIPE)) == {"kind": "ping", "number": 0}


@pytest.fixture
def silent_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces ssh by a program that neither reads nor writes, nor ends by itself."""
    monkeypatch.setattr("blklab.system.ssh.command", lambda *_words: [sys.executable, "-c", SILENT])


SILENT = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(1000)"
LONG = b"x" * 400_000  # More than a pipe takes


@pytest.mark.usefixtures("silent_ssh")
def test_a_host_that_takes_no_data_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_link, "TAKE", 0.2)
    inbox: Inbox = SimpleQueue()
    with connect_host("alpha", "alpha", 0, "python3", tmp_path, LONG, inbox) as link:
        lost_link, message = inbox.get(timeout=60)
        assert lost_link is link
        assert message == {"kind": "lost", "message": "the host took no data for 0.2 s"}
        link.send("cells", cells=[])  # does nothing, and does not wait


@pytest.mark.usefixtures("silent_ssh")
def test_the_end_does_not_wait_for_a_write(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    inbox: Inbox = SimpleQueue()
    with pytest.raises(SystemExit), connect_host("alpha", "alpha", 0, "python3", tmp_path, LONG, inbox) as link:
        while not link._lock.locked():
            time.sleep(0.01)
        raise SystemExit(143)
    assert [thread.name for thread in threading.enumerate() if "alpha" in thread.name] == []
    assert capfd.readouterr().err == ""
