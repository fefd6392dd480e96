"""Connects to a host over ssh, on which `host_agent` runs."""

import itertools
import json
import os
import queue
import secrets
import select
import selectors
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blklab.errors import BlklabError
from blklab.outcome import ClockOffset
from blklab.runners.fleet.host_agent import SOCKET, SOCKETS, Message, line
from blklab.runners.host.scratch_directory import PREFIX
from blklab.system import child_process, ssh
from blklab.system.remote_program import COMMAND
from blklab.text.printing import printable

OPTIONS = (*ssh.LASTING, "StreamLocalBindUnlink=yes")
ROUND_TRIPS = 5  # For the clock's offset; the shortest counts
LONGEST = 256 << 20  # Bytes of one message
NOT_FOUND = 127  # Exit status of a shell that does not find a program
PATIENCE = 5.0  # Seconds that ssh may take to end
TAKE = 30.0  # Seconds without progress after which a host that takes no data is lost
CLEAN_UP = 20.0  # Seconds that a host may take to stop fio and restore its settings
Inbox = queue.SimpleQueue[tuple["HostLink", Message]]


class HostLink:
    """A connected host. Its messages go to the inbox; the last one is `lost`."""

    def __init__(
        self, name: str, number: int, remote: str, process: child_process.Process, pipes: list[int], stdin: int
    ) -> None:
        self.name = name  # As the user named it for ssh
        self.socket = f"h{number}"  # Name of the socket of its fio server in the private directory
        self.remote = remote  # Name of the directory of that socket on the host
        self.lost = ""  # Why there is no connection; empty while there is one
        self.clock: ClockOffset | None = None
        self._process = process
        self._pipes = pipes
        self._stdin = stdin
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._has_answered = False
        self._obstacle = ""  # Why blklab ended the connection
        os.set_blocking(stdin, False)
        self._numbers = itertools.count()
        self._sent: dict[int, int] = {}  # Times of the pings without an answer yet, ns

    def send(self, kind: str, **values: object) -> None:
        """Sends a message; does nothing if the connection is lost."""
        self._write(line(kind, **values))

    def ping(self) -> None:
        """Shows the host that blklab is there, and measures the offset of its clock.

        Does nothing while the host takes no data: one that hangs must not delay the pings of the others.
        """
        if not self._lock.acquire(blocking=False):
            return  # a message is being written, which shows the same
        try:
            ready = select.poll()
            ready.register(self._stdin, select.POLLOUT)  # then a pipe has room for 4 KiB
            if ready.poll(0):
                number = next(self._numbers)
                self._sent[number] = time.time_ns()
                os.write(self._stdin, line("ping", number=number))
        except (OSError, ValueError):
            return  # the connection is lost or closed
        finally:
            self._lock.release()

    def _write(self, data: bytes) -> None:
        with self._lock:
            if self._is_over():
                return
            try:
                child_process.write_while_taken(self._stdin, data, TAKE, self._is_over)
            except TimeoutError as error:
                self._obstacle = f"the host {error}"
                self._kill()  # the reader ends then
            except OSError:
                return  # the connection is lost

    def _is_over(self) -> bool:
        return bool(self.lost or self._obstacle or self._is_closing.is_set())

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def read(self, program: bytes, inbox: Inbox) -> None:
        """Sends the program, and puts what the host answers into the inbox until it ends."""
        # A host that writes before it reads must not stop both.
        writer = threading.Thread(target=self._write, args=(program,), name=f"blklab-{self.name}-program", daemon=True)
        writer.start()
        noise = bytearray()
        try:
            noise = self._read_answers(inbox)
        except (OSError, ValueError):
            self._obstacle = self._obstacle or "the connection was closed"
        self.lost = self._obstacle or self._reason(ssh.last_line(noise), self._has_answered)
        with suppress(ProcessLookupError):
            self._process.terminate()  # ends the forwarded connections, so that fio no longer waits for the host
        inbox.put((self, {"kind": "lost", "message": self.lost}))

    def _read_answers(self, inbox: Inbox) -> bytearray:
        """Puts what the host answers into the inbox until it ends; returns the end of what ssh said."""
        noise = bytearray()
        remainder = bytearray()
        with selectors.DefaultSelector() as selector:
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    chunk = os.read(key.fd, 1 << 16)
                    if not chunk:
                        selector.unregister(key.fd)
                    elif key.fd == self._pipes[1]:
                        noise = (noise + chunk)[-4096:]
                    else:
                        for answer in child_process.lines_of(remainder, chunk):
                            self._has_answered = self._take(answer, inbox, self._has_answered)
                if len(remainder) > LONGEST:
                    break
                if self._pipes[0] not in selector.get_map() and not selector.select(1.0):
                    break  # what still holds stderr open does not matter
        return noise

    def _take(self, answer: bytes | bytearray, inbox: Inbox, has_answered: bool) -> bool:
        """Takes a line; tells whether the program has answered. Other lines are a shell's greeting."""
        try:
            message = json.loads(answer)
            if str(message["kind"]) != "pong":
                inbox.put((self, message))
                return True
            now = time.time_ns()
            number = int(message["number"])
            sent = self._sent.pop(number)
            clock = ClockOffset(int(message["clock_ns"]) - (sent + now) // 2, (now - sent + 1) // 2)
        except (ValueError, KeyError, TypeError, RecursionError):
            return has_answered
        if self.clock is None or clock.error_ns < self.clock.error_ns:
            self.clock = clock
        if number + 1 < ROUND_TRIPS:
            self.ping()
        return True

    def _reason(self, last: str, has_answered: bool) -> str:
        last = printable(last)
        if has_answered:
            return f"the connection was lost: {last}" if last else "the connection was lost"
        if self._status() == NOT_FOUND:
            return f"{last or 'python3: not found'}; install Python there, or name it in python of [fleet]"
        return last or "ssh failed without a message"

    def _status(self) -> int | None:
        """Returns ssh's exit status; None if it does not end."""
        until = time.monotonic() + PATIENCE
        while not child_process.has_ended(self._process) and time.monotonic() < until:
            time.sleep(0.02)
        status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if status is None else status.si_status

    def close(self) -> None:
        """Closes the connection and waits for the host's clean-up. A host that never answered has none."""
        self._is_closing.set()  # a write that waits for the host ends
        with self._lock:
            os.close(self._stdin)
            self._stdin = -1
        if not self._has_answered:
            return
        until = time.monotonic() + CLEAN_UP
        while not self.lost and time.monotonic() < until:
            time.sleep(0.02)


@contextmanager
def connect_host(
    name: str, address: str, number: int, python: str, directory: Path, program: bytes, inbox: Inbox
) -> Iterator[HostLink]:
    """Connects to a host during the block. Call it in the main thread: ssh ends with the thread that started it.

    `directory` is private and gets the socket of fio's server. Raises UsageError and EnvironmentLacks.
    """
    reading, stdin = os.pipe()
    remote = PREFIX + secrets.token_hex(16)
    forward = f"LocalForward={directory}/h{number} {SOCKETS}/{remote}/{SOCKET}"
    command = ssh.command(address, f"{python} {COMMAND}", *OPTIONS, forward)
    with child_process.start_process(command, directory, separate_stderr=True, stdin=reading) as (process, pipes):
        os.close(reading)
        link = HostLink(name, number, remote, process, pipes, stdin)
        reader = threading.Thread(target=link.read, args=(program, inbox), name=f"blklab-{name}", daemon=True)
        reader.start()
        try:
            yield link
        finally:
            link.close()
            with suppress(ProcessLookupError):
                process.terminate()
            reader.join(PATIENCE)
            if reader.is_alive():  # ssh does not end
                link._kill()
                reader.join(PATIENCE)


def failure(link: HostLink, message: Message) -> BlklabError:
    """Returns the error for a message `error` or `lost` of a host."""
    error = BlklabError(f"{link.name}: {printable(str(message['message']))}")
    error.exit_code = int(message.get("status", 3 if message["kind"] == "lost" else 1))
    return error
