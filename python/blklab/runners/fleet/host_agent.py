"""Measures cells on one host of a fleet, as the runner `host` does; `runner` sends it there.

Requests are JSON lines on stdin, answers JSON lines on stdout; each has a `kind`. fio's server listens on a socket
that only this user can reach, because its protocol has no authentication. If the connection is lost, this program
stops fio, releases devices, restores settings and ends. A second process watches it, and does so if it is killed.
"""

import json
import os
import queue
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict, cast

from blklab import __version__
from blklab.errors import BlklabError
from blklab.experiment.documents import HostCellDocument, writes
from blklab.runners.fio import process
from blklab.runners.fio.process import FioExit, FioProgress, complaint
from blklab.runners.host import conditions
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.restore import restore
from blklab.runners.host.runner import HostRunner
from blklab.runners.host.scratch_directory import scratch
from blklab.store.series import FinishedRun
from blklab.system import child_process
from blklab.system.identity import of_node
from blklab.system.remote_program import SIGNALS, run_with_children
from blklab.system.roots import Roots
from blklab.text.printing import printable

SILENCE = 30.0  # Seconds without a line from blklab after which the connection is lost
LISTENING = 10.0  # Seconds that fio's server may take to start
SOCKETS = Path("/tmp")  # noqa: S108  # Its socket is in a private directory there, with the name `fio`
SOCKET = "fio"


class Message(TypedDict, total=False):
    """One line of the protocol, in either direction."""

    kind: str
    number: int  # Of a cell, or of a ping
    cells: list[tuple[int, HostCellDocument]]
    directory: str  # Name of the directory of fio's socket
    force: list[str]
    yes_destroy: list[str]
    message: str
    status: int  # Exit status of an error
    environment: Any
    written: dict[str, list[str]]  # Ids of disks, by target
    job: str  # fio's job file
    seconds: float | None
    total_seconds: float | None
    phase: str
    output: str  # As in `FioExit`
    messages: str
    logs: dict[str, str]
    clock_ns: int
    outcome: dict[str, Any]
    points: list[list[Any]]  # The fields of `SeriesPoint`


class _ConnectionLost(BaseException):
    """blklab is gone, or a signal came."""


@dataclass(frozen=True)
class SentCell:
    """What the runner `host` needs of a `spec.cells.Cell`."""

    number: int
    turn: int
    document: HostCellDocument


@dataclass(frozen=True)
class SentPlan:
    """What the runner `host` needs of a `spec.cells.ExperimentPlan`."""

    cells: Sequence[SentCell]


def line(kind: str, **values: object) -> bytes:
    """Returns a message as it is sent."""
    return (json.dumps({"kind": kind, **values}) + "\n").encode()


class Peer:
    """The connection to blklab, which must send a line every few seconds."""

    def __init__(self) -> None:
        """Takes stdin and stdout; what anything else prints goes to stderr."""
        self._requests: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._output = os.dup(1)
        os.dup2(2, 1)
        threading.Thread(target=self._read, name="blklab-peer", daemon=True).start()

    def send(self, kind: str, **values: object) -> None:
        with self._lock:
            child_process.write_all(self._output, line(kind, **values))

    def receive(self) -> Message:
        """Waits for the next request."""
        return self._requests.get()

    def _read(self) -> None:
        remainder = bytearray()
        with suppress(OSError, ValueError, KeyError):
            while select.select([0], [], [], SILENCE)[0] and (chunk := os.read(0, 1 << 16)):
                for request in map(json.loads, child_process.lines_of(remainder, chunk)):
                    if request["kind"] == "ping":
                        self.send("pong", number=request["number"], clock_ns=time.time_ns())
                    else:
                        self._requests.put(request)
                    if request["kind"] == "end":
                        return  # the end of the connection is expected
        signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGTERM)


class _RemoteLedger:
    """Waits until blklab begins a cell on all hosts, and sends its result."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._next: int | None = None  # The number of the cell that blklab has begun; 0 at the end

    def begin(self, cell: SentCell) -> bool:
        if self._next is None:
            self._next = int(self._peer.receive().get("number", 0))
        begun = self._next == cell.number
        if begun:
            self._next = None
        return begun

    def end(self, _cell: SentCell, finished_run: FinishedRun) -> None:
        points = [astuple(point) for point in finished_run.points]
        self._peer.send(
            "finished", outcome=finished_run.outcome.as_document(), points=points, seconds=finished_run.seconds
        )

    def fail(self, _cell: SentCell, message: str) -> None:
        self._peer.send("failed", message=message)


class _FioServer:
    """Runs fio's server for one cell, as `process.run` runs fio."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.socket = Path()

    def run(
        self,
        fio: str,
        job: str,
        directory: Path,
        *,
        target: Path,
        seconds: float | None,
        readonly: bool,
        begin: Callable[[], object],
        **_ours: object,
    ) -> FioExit:
        """Serves the job to blklab's fio and returns what that received. Raises BlklabError."""
        self.socket.unlink(missing_ok=True)
        command = [fio, f"--server=sock:{self.socket}"]
        if readonly:
            command.append("--readonly")
        with tempfile.TemporaryDirectory(dir=directory, prefix="fio-") as name:
            (Path(name) / process.LINK).symlink_to(target.absolute())
            descriptors = process.descriptors(target)
            with child_process.start_process(command, Path(name), descriptors=descriptors) as (server, pipes):
                self._wait(server, pipes[0])
                self._peer.send("ready", job=job, seconds=seconds)
                answer = self._peer.receive()
                if answer["kind"] == "go":
                    begin()
                    answer = self._peer.receive()
        if answer["kind"] != "measured":
            raise BlklabError(str(answer["message"]))
        return FioExit(answer["output"], answer["messages"], answer["logs"], command)

    def _wait(self, server: child_process.Process, pipe: int) -> None:
        """Waits until the server listens. Raises BlklabError."""
        until = time.monotonic() + LISTENING
        while not _listens(self.socket):
            if child_process.has_ended(server):
                output = os.read(pipe, 1 << 12).decode(errors="replace")
                raise BlklabError(f"fio failed: {printable(complaint(output, server.wait()))}")
            if time.monotonic() > until:
                raise BlklabError(f"fio --server does not listen after {LISTENING:.0f} s")
            time.sleep(0.02)


def _listens(socket: Path) -> bool:
    """Tells whether a process listens on a socket (net/unix/af_unix.c, unix_seq_show: __SO_ACCEPTCON)."""
    sockets = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    return any(line.endswith(f" {socket}") and line.split()[3] == "00010000" for line in sockets)


def main() -> None:
    """Serves blklab until it is gone; leaves nothing running."""
    status = run_with_children(_work)
    restore(Roots())  # if it was killed, or interrupted while it cleaned up
    sys.exit(status)


def _work() -> int:
    for number in SIGNALS:
        signal.signal(number, _handle_signal)
    peer = Peer()
    try:
        _serve(peer)
    except _ConnectionLost:
        return 1
    except BlklabError as error:
        peer.send("error", message=str(error), status=error.exit_code)
        return error.exit_code
    return 0


def _handle_signal(_number: int, _frame: FrameType | None) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # no other signal interrupts the clean-up
    raise _ConnectionLost


def _serve(peer: Peer) -> None:
    peer.send("hello", version=__version__)
    request = peer.receive()
    server = _FioServer(peer)
    runner = HostRunner(
        force=request["force"],
        yes_destroy=request["yes_destroy"],
        warn=lambda message: peer.send("note", message=message),
        execute=server.run,
    )
    runner.progress = lambda _cell, live: _send_progress(peer, live)
    cells = [SentCell(number, turn, document) for turn, (number, document) in enumerate(request["cells"])]
    roots = Roots()
    with runner.session():
        runner.check(cast(Any, SentPlan(cells)))
        peer.send("checked", environment=runner.environment(), written=_list_written_ids(cells, roots))
        with HostJournal(roots) as journal, scratch(SOCKETS, journal, size=0, name=request["directory"]) as private:
            server.socket = private.path / SOCKET
            runner.run(cast(Any, cells), cast(Any, _RemoteLedger(peer)))
    peer.send("end")


def _send_progress(peer: Peer, live: FioProgress) -> None:
    peer.send("progress", seconds=live.seconds, total_seconds=live.total_seconds, phase=live.phase)


def _list_written_ids(cells: Sequence[SentCell], roots: Roots) -> dict[str, list[str]]:
    """Returns the ids of each device that cells write to, and of the disks below it.

    Without names that users give, which several hosts may use.
    """
    ids: dict[str, list[str]] = {}
    for cell in cells:
        target = cell.document["target"]
        if "device" in target and writes(cell.document) and target["name"] not in ids:
            layers = conditions.layers_of(target, roots)
            nodes = [layer.node for layer in layers if layer.node is not None and (layer.leaf or not layer.above)]
            node_ids = [disk_id for node in nodes for disk_id in of_node(node, roots).ids]
            ids[target["name"]] = [
                disk_id for disk_id in node_ids if not disk_id.startswith(("file:", "md-name-", "dm-name-"))
            ]
    return ids
