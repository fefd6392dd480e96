"""Runs the probe on other hosts over ssh, with the user's ssh configuration, keys and agent."""

import os
import selectors
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blklab import child_process
from blklab.errors import BlklabError
from blklab.md.remote import PROBE, RemoteHost, audit_output
from blklab.md.remote.probe_output import HEADER, MAX_OUTPUT_BYTES, is_complete
from blklab.ssh import command, last_line

MAX_PARALLEL = 8  # Hosts that are read at the same time


def read_hosts(hosts: Sequence[tuple[str, str]], *, sudo: bool, timeout: float) -> Iterator[RemoteHost]:
    """Yields the audit of each host, in order; a failure does not stop the others.

    `hosts` are names, and what ssh calls each. `timeout` is for each host, seconds. Raises UsageError for invalid
    names, EnvironmentLacks without ssh.
    """
    options = (f"ConnectTimeout={max(1, int(timeout / 3))}", "ClearAllForwardings=yes")
    # Every login shell understands this command.
    remote = "sudo -n sh -s" if sudo else "sh -s"
    commands = [(name, command(address, remote, *options)) for name, address in hosts]
    cancelled = threading.Event()
    audit_lock = threading.Lock()

    def read_host(host: tuple[str, Sequence[str]]) -> RemoteHost:
        name, arguments = host
        try:
            data = _run_probe(arguments, timeout, cancelled)
        except BlklabError as error:
            return RemoteHost(name, failure=str(error))
        with audit_lock:  # limits the number of open files to the disks of one host
            return audit_output(name, data)

    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        try:
            yield from pool.map(read_host, commands)
        finally:
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _run_probe(arguments: Sequence[str], timeout: float, cancelled: threading.Event) -> bytearray:
    """Returns the probe's output. Raises BlklabError with the last line that ssh or the host wrote."""
    data, stderr, deadline = bytearray(), b"", time.monotonic() + timeout
    with (
        PROBE.open("rb") as script,
        child_process.started(arguments, Path(), apart=True, stdin=script.fileno()) as (process, pipes),
        selectors.DefaultSelector() as selector,
    ):
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        # A shared connection (ControlPersist) keeps stderr open after the end.
        while selector.get_map() and not (child_process.ended(process) and not selector.select(0)):
            if cancelled.is_set() or time.monotonic() > deadline:
                raise BlklabError(_with_last_line(f"no result within {timeout:g} s", stderr))
            for key, _ in selector.select(0.1):
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fd)
                elif key.fd == pipes[0]:
                    data += chunk
                    if is_complete(data, len(data) - len(chunk)):
                        return data  # what a logout script prints, or waits for, does not matter
                else:
                    stderr = (stderr + chunk)[-4096:]
            if len(data) > MAX_OUTPUT_BYTES:
                raise BlklabError(f"the output has more than {MAX_OUTPUT_BYTES >> 20} MiB")
    if HEADER in data:
        raise BlklabError(_with_last_line("the output is incomplete", stderr))
    raise BlklabError(last_line(stderr) or f"the probe did not run: ssh exited with status {process.returncode}")


def _with_last_line(message: str, stderr: bytes) -> str:
    last = last_line(stderr)
    return f"{message}: {last}" if last else message
