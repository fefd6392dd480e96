import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import blklab
from blklab.runners.lab.agent import Agent

BINARY = Path(str(blklab.__file__)).with_name("_agent")


@pytest.fixture
def serving() -> Iterator[Callable[[], tuple[subprocess.Popen[bytes], socket.socket]]]:
    """Starts the guest's agent as an ordinary process."""
    if not BINARY.is_file():
        pytest.skip("the guest's agent is not built: scripts/setup")
    started: list[tuple[subprocess.Popen[bytes], socket.socket]] = []

    def serve() -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [str(BINARY), "--stdio"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
            )
        started.append((process, ours))
        return process, ours

    yield serve
    for process, ours in started:
        ours.close()
        process.communicate(timeout=30)


@pytest.fixture
def agent(
    serving: Callable[[], tuple[subprocess.Popen[bytes], socket.socket]],
) -> Iterator[Agent]:
    """A client of such an agent, greeted."""
    with Agent(serving()[1]) as client:
        client.hello(30)
        yield client
