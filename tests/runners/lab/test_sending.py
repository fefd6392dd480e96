"""A guest that takes no data does not hold a thread without end."""

import socket

import pytest

from blklab.runners.lab import agent
from blklab.runners.lab.agent import AgentConnection, GuestGone


def test_a_guest_that_takes_no_data_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "TAKE_S", 0.05)
    ours, theirs = socket.socketpair()
    with theirs:
        connection = AgentConnection(ours)
        with pytest.raises(GuestGone, match="the connection to the guest is lost"):
            for _ in range(10):
                connection.begin("run", text="x" * (1 << 20))
        connection.close()
