"""Records on several hosts at the same time, over ssh, and copies their traces here."""

import json
import os
import re
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, UsageError
from blklab.system import child_process, remote_program, ssh
from blklab.text.printing import printable
from blklab.trace.record.blktrace import RecordingOptions

MODULES = (
    *("errors", "output", "text.printing"),
    *("system.child_process", "system.remote_program"),
    *(f"system.{name}" for name in ("environment", "identity", "layers", "mounts", "roots")),
    *(f"trace.record.{name}" for name in ("blktrace", "checks", "on_host", "recording")),
)
OPTIONS = (*ssh.LASTING, "ClearAllForwardings=yes")
TAKE = 30.0  # Seconds without progress after which a host that takes no data has failed
CONNECT = 60.0  # Seconds that a host may take to answer
HEARTBEAT = 5.0  # Seconds between two lines to each host
PLACE = "/dev/shm"  # noqa: S108  # Where hosts keep the trace until it is copied: no recorded disk


@dataclass
class HostRecording:
    host: str
    directory: Path  # Of its files, here
    files: list[str] = field(default_factory=list)
    failure: str = ""  # Why there is none
    status: int = 0  # Exit status of the failure


class _RecordingHost:
    """A host, connected by ssh. Its thread reads what it sends."""

    def __init__(self, result: HostRecording, pipes: list[int], stdin: int, tell: Callable[[str], object]) -> None:
        self.result = result
        self.ready = threading.Event()  # It has answered, or has failed
        self.done = threading.Event()
        """At the end. A signal in `Thread.join` would mark the thread as ended (bpo-45274)."""

        self._pipes = pipes
        self._stdin = stdin
        self._tell = tell
        self._errors = bytearray()
        self.thread = threading.Thread(target=self._read, name=f"blklab-{result.host}", daemon=True)

    def write(self, data: bytes) -> None:
        """Sends data; a host that does not take it has failed."""
        try:
            child_process.write_while_taken(self._stdin, data, TAKE, self.done.is_set)
        except TimeoutError as error:
            self.fail(f"the host {error}")
        except OSError:
            return  # the connection is lost, which the reader says

    def fail(self, reason: str) -> None:
        """Gives the host up."""
        self.result.failure = reason
        self.result.status = 3
        self.ready.set()
        self.done.set()

    def _read(self) -> None:
        reader = threading.Thread(target=self._read_errors, daemon=True)
        reader.start()
        try:
            self.write(remote_program.program(MODULES, "trace.record.on_host"))
            with os.fdopen(os.dup(self._pipes[0]), "rb") as stream:
                self._line(stream, "clock_ns")
                self.ready.set()
                answer = self._line(stream, "error")
                if answer["error"]:
                    self.result.failure = printable(str(answer["error"]))
                    self.result.status = int(answer["status"])
                else:
                    self._unpack(stream)
                while stream.read(1 << 16):  # the host closes it after it has removed its files
                    pass
        except (OSError, ValueError, KeyError, TypeError, tarfile.TarError):
            reader.join(1)
            if not self.done.is_set():
                self.result.failure = printable(ssh.last_line(self._errors)) or "the connection was lost"
                self.result.status = 3
        finally:
            self.ready.set()
            self.done.set()

    def _read_errors(self) -> None:
        with suppress(OSError):
            while chunk := os.read(self._pipes[1], 1 << 12):
                self._errors[:] = (self._errors + chunk)[-4096:]

    def _line(self, stream: Any, key: str) -> Any:
        """Returns the next line of the program; others are a shell's greeting."""
        while line := stream.readline(1 << 16):
            with suppress(ValueError, TypeError):
                message = json.loads(line)
                if "note" in message:
                    self._tell(f"{self.result.host}: {message['note']}")
                if key in message:
                    return message
        raise ValueError("no answer")

    def _unpack(self, stream: Any) -> None:
        """Writes the files of the trace; their names can lead nowhere else."""
        self.result.directory.mkdir()
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or not re.fullmatch(r"[\w!-][\w.!-]*", member.name, re.A):
                    raise ValueError("not a trace")
                with (self.result.directory / member.name).open("xb") as file:
                    shutil.copyfileobj(content, file)
                self.result.files.append(member.name)


def record_on_hosts(
    hosts: Mapping[str, str],
    devices: Sequence[str],
    directory: Path,
    options: RecordingOptions,
    tell: Callable[[str], object],
) -> list[HostRecording]:
    """Records devices on all hosts (names, and what ssh calls them) into `directory`/HOST.

    All begin when every host has answered. Ctrl-C ends the recordings, which are then copied. The failure of one host
    does not stop the others. Raises UsageError for names and places that cannot be used.
    """
    for name in hosts:
        if not re.fullmatch(r"[\w@:%\[\]-][\w@.:%\[\]-]*", name):
            raise UsageError(f"host {name!r}: expected a name that can be a directory; use an alias of ssh")
        if (directory / name).exists():
            raise UsageError(f"{directory / name}: exists; choose another -o")
    directory.mkdir(exist_ok=True)
    request = json.dumps({"devices": list(devices), "directory": PLACE, "options": asdict(options)}) + "\n"
    with ExitStack() as stack:
        links = []
        for name, address in hosts.items():
            reading, stdin = os.pipe()
            os.set_blocking(stdin, False)
            stack.callback(os.close, stdin)
            command = ssh.command(address, f"python3 {remote_program.COMMAND}", *OPTIONS)
            _, pipes = stack.enter_context(
                child_process.start_process(command, directory, separate_stderr=True, stdin=reading)
            )
            os.close(reading)
            links.append(_RecordingHost(HostRecording(name, directory / name), pipes, stdin, tell))
            links[-1].thread.start()
        until = time.monotonic() + CONNECT
        for link in links:
            if not link.ready.wait(max(0.0, until - time.monotonic())):
                link.fail(f"no answer within {CONNECT:.0f} s")
        if any(link.result.failure for link in links):
            tell("some hosts do not answer: the others are recorded")
        for link in links:
            link.write(request.encode())
        _wait(links)
    return [link.result for link in links]


def _wait(links: Sequence[_RecordingHost]) -> None:
    """Waits for all hosts; Ctrl-C ends their recordings, a second one the copying."""
    line = b"\n"
    is_stopping = False
    while waiting := [link for link in links if not link.done.is_set()]:
        for link in waiting:
            link.write(line)
        line = b"\n"
        until = time.monotonic() + HEARTBEAT
        try:
            for link in waiting:
                link.done.wait(max(0.0, until - time.monotonic()))
        except KeyboardInterrupt:
            if is_stopping:
                raise
            line = b"stop\n"
            is_stopping = True


def check_all_recorded(recordings: Sequence[HostRecording]) -> None:
    """Raises BlklabError for hosts without a trace."""
    if lacking := [recording for recording in recordings if recording.failure]:
        error = BlklabError("; ".join(f"{recording.host}: {recording.failure}" for recording in lacking))
        error.exit_code = max(recording.status for recording in lacking)
        raise error
