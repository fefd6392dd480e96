"""Runs the probe on other machines over ssh, with the user's own configuration, keys and agent."""

import os
import selectors
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from blklab import child_process
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.md.remote import PROBE, RemoteHost, audited
from blklab.md.remote.probe_output import HEADER, MOST_BYTES

AT_ONCE: Final = 8
"""Hosts that are asked at a time."""


def hosts(names: Sequence[str], *, sudo: bool, timeout: float) -> Iterator[RemoteHost]:
    """Yields what is found on each host, in the order of their names; one's failure stops no other.

    `timeout` is for each host, seconds. Raises UsageError for what cannot be a host's name, and
    EnvironmentLacks without ssh.
    """
    for name in names:
        if not name or name.startswith("-"):
            raise UsageError(f"{name!r} is no name of a host: expected HOST, USER@HOST or ssh://…")
    program = shutil.which("ssh")
    if program is None:
        raise EnvironmentLacks("ssh is not installed", "apt-get install openssh-client")
    leaving = threading.Event()
    looking = threading.Lock()

    def ask(name: str) -> RemoteHost:
        try:
            data = _ask(_command(program, name, sudo, timeout), timeout, leaving)
        except BlklabError as error:
            return RemoteHost(name, failure=str(error))
        with looking:  # one machine's disks are enough of open files
            return audited(name, data)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            yield from pool.map(ask, names)
        finally:
            leaving.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _command(program: str, name: str, sudo: bool, timeout: float) -> list[str]:
    options = [
        "BatchMode=yes",
        f"ConnectTimeout={max(1, int(timeout / 3))}",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "ForwardX11=no",
        "RemoteCommand=none",
    ]
    words = [word for option in options for word in ("-o", option)]
    # Whatever the login shell is, it understands this.
    return [program, "-T", *words, "--", name, "sudo -n sh -s" if sudo else "sh -s"]


def _ask(command: Sequence[str], timeout: float, leaving: threading.Event) -> bytearray:
    """Returns what the probe printed. Raises BlklabError with what ssh, or the host, said last."""
    data, stderr, until = bytearray(), b"", time.monotonic() + timeout
    with (
        PROBE.open("rb") as script,
        child_process.started(command, Path(), apart=True, stdin=script.fileno()) as (
            process,
            pipes,
        ),
        selectors.DefaultSelector() as waiting,
    ):
        for pipe in pipes:
            waiting.register(pipe, selectors.EVENT_READ)
        # A connection that is shared (ControlPersist) keeps stderr open when all is done.
        while waiting.get_map() and not (child_process.ended(process) and not waiting.select(0)):
            if leaving.is_set() or time.monotonic() > until:
                raise BlklabError(_with(f"not done within {timeout:g} s", stderr))
            for key, _ in waiting.select(0.1):
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    waiting.unregister(key.fd)
                elif key.fd == pipes[0]:
                    data += chunk
                else:
                    stderr = (stderr + chunk)[-4096:]
            if len(data) > MOST_BYTES:
                raise BlklabError(f"it printed more than {MOST_BYTES >> 20} MiB")
    if data[-64:].rstrip().endswith(b"\nend"):
        return data
    if HEADER in data:
        raise BlklabError(_with("what it printed is torn", stderr))
    raise BlklabError(_last(stderr) or f"no probe ran there: ssh ended with {process.returncode}")


def _with(what: str, stderr: bytes) -> str:
    last = _last(stderr)
    return f"{what}: {last}" if last else what


def _last(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")
