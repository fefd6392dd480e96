"""Audits arrays of other hosts, over ssh or from the recorded output of a probe.

The user's ssh configuration, keys and agent apply.
"""

import errno
import os
import selectors
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, UsageError
from blklab.md.audit import find_problems
from blklab.md.inventory import read_inventory
from blklab.md.model import Geometry, Inventory, Software
from blklab.md.probing import NOT_RECORDED, Probe, read_software
from blklab.md.remote.probe_output import HEADER, MAX_OUTPUT_BYTES, ProbedDevice, ProbeOutput, is_complete, parse_output
from blklab.md.superblocks import SuperblockReading, failure_reason
from blklab.system import child_process
from blklab.system.roots import Roots
from blklab.system.ssh import command, last_line
from blklab.text.printing import printable
from blklab.text.user_file import open_user_file

__all__ = ["PROBE", "RemoteHost", "audited", "read"]
PROBE = Path(__file__).with_name("probe.sh")  # The script that runs on the host


@dataclass(frozen=True)
class RemoteRoots(Roots):
    """The roots of another host, whose paths mean nothing on this one."""

    top: Path = Path("/")

    def format_path(self, path: Path) -> str:
        """Returns the path on the other host."""
        return f"/{path.relative_to(self.top)}" if path.is_relative_to(self.top) else str(path)

    def status(self, name: Path) -> os.stat_result:
        """Raises OSError: this host may have another file of that name."""
        raise FileNotFoundError(errno.ENOENT, "is on another host", str(name))


class RecordedProbe(Probe):
    """Reads only what the probe recorded."""

    def __init__(self, roots: RemoteRoots, failures: Mapping[Path, str], mdadm: str) -> None:
        """`failures`: recorded devices, and why they could not be read, or an empty string."""
        self._roots = roots
        self._failures = failures
        self._mdadm = mdadm

    def read_superblocks(self, path: Path) -> SuperblockReading:
        """Returns a member's superblocks; a path outside of the tree does not exist."""
        failure = self._failure(path)
        return SuperblockReading(failure=failure) if failure else super().read_superblocks(path)

    def read_geometry(self, path: Path) -> tuple[Geometry | None, str]:
        """Returns the geometry, with the device's path on the other host."""
        if reason := self._failure(path):
            return None, reason
        geometry, failure = super().read_geometry(path)
        return geometry and replace(geometry, device=self._roots.format_path(path)), failure

    def is_repairing(self, uuid: str, roots: Roots) -> bool:  # noqa: ARG002
        """Returns False: journals on this host are about its own arrays."""
        return False

    def read_software(self, roots: Roots) -> Software:
        """Returns the software, with the version of mdadm on the other host."""
        return read_software(roots, self._mdadm)

    def _failure(self, path: Path) -> str:
        return self._failures.get(path, NOT_RECORDED)


def read_recorded_inventory(output: ProbeOutput) -> Inventory:
    """Returns the inventory of the host. Raises OSError if the tree cannot be written."""
    with _write_tree(output) as (roots, failures):
        return read_inventory(roots, RecordedProbe(roots, failures, output.mdadm))


@contextmanager
def _write_tree(output: ProbeOutput) -> Iterator[tuple[RemoteRoots, dict[Path, str]]]:
    with TemporaryDirectory(prefix="blklab-", ignore_cleanup_errors=True) as directory, ExitStack() as stack:
        top = Path(directory).resolve()

        def local_path(path: str) -> Path:
            local = top / path[1:]
            local.parent.mkdir(parents=True, exist_ok=True)
            return local

        for path in (*output.directories, *output.links.values()):
            local_path(path).mkdir(exist_ok=True)
        for path, content in output.files.items():
            local_path(path).write_bytes(content)
        for path, target in output.links.items():
            local_path(path).symlink_to(top / target[1:])
        for path in output.unread:
            # A dangling link exists, and even root cannot read it.
            local_path(path).symlink_to("may-not-be-read")
        failures = {}
        for path, disk in output.disks.items():
            local = local_path(path)
            failures[local] = failure_reason(disk.refused.rpartition(": ")[2])
            if not disk.refused:
                local.symlink_to(f"/proc/self/fd/{_open_copy(disk, stack)}")
        roots = RemoteRoots(proc=top / "proc", sys=top / "sys", dev=top / "dev", top=top)
        yield roots, failures


def _open_copy(disk: ProbedDevice, stack: ExitStack) -> int:
    """Returns the descriptor of a sparse copy of the disk, which `stack` closes.

    It is in memory, because few filesystems allow files of 100 TB.
    """
    descriptor = os.memfd_create("blklab-disk", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.ftruncate(descriptor, disk.size)
    for begin, piece in disk.pieces:
        for offset in range(0, len(piece), 4096):
            page = piece[offset : offset + 4096]
            if any(page) and begin + offset + len(page) <= disk.size:
                os.pwrite(descriptor, page, begin + offset)
    return descriptor


@dataclass(frozen=True)
class RemoteHost:
    """A host with its inventory and findings, or a failure."""

    name: str  # As the user typed it
    inventory: Inventory | None = None
    findings: tuple[Diagnostic, ...] = ()
    failure: str = ""  # Why nothing could be read; empty if something could

    @property
    def unseen(self) -> bool:
        """Whether something could not be read."""
        inventory = self.inventory
        if inventory is None or inventory.unseen or inventory.unread:
            return True
        return any(array.unseen for array in inventory.arrays)


def audit_output(name: str, data: bytes | bytearray) -> RemoteHost:
    """Returns the audit of a host whose probe printed `data`; raises nothing."""
    try:
        inventory = read_recorded_inventory(parse_output(data))
    except BlklabError as error:
        return RemoteHost(name, failure=str(error))
    except (OSError, UnicodeError) as error:  # a full disk; characters that the locale lacks
        reason = getattr(error, "strerror", None) or error
        return RemoteHost(name, failure=f"cannot write the probe's output to a file: {reason}")
    if inventory.unseen and not inventory.arrays:
        return RemoteHost(name, failure=f"cannot read any array: {inventory.unseen[0]}")
    return RemoteHost(name, inventory, tuple(find_problems(inventory)))


def read_probe_file(name: str) -> RemoteHost:
    """Returns the audit of the probe output in a file, or in stdin for `-`; raises nothing."""
    try:
        with open_user_file(Path(name)) if name != "-" else nullcontext(sys.stdin.buffer) as file:
            data = file.read(MAX_OUTPUT_BYTES + 1)
    except UsageError as error:
        return RemoteHost(name, failure=str(error).removeprefix(f"{printable(name)}: cannot be read: "))
    return audit_output(name, data)


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
    cancellation = threading.Event()
    audit_lock = threading.Lock()

    def read_host(host: tuple[str, Sequence[str]]) -> RemoteHost:
        name, arguments = host
        try:
            data = _run_probe(arguments, timeout, cancellation)
        except BlklabError as error:
            return RemoteHost(name, failure=str(error))
        with audit_lock:  # limits the number of open files to the disks of one host
            return audit_output(name, data)

    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        try:
            yield from pool.map(read_host, commands)
        finally:
            cancellation.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _run_probe(arguments: Sequence[str], timeout: float, cancellation: threading.Event) -> bytearray:
    """Returns the probe's output. Raises BlklabError with the last line that ssh or the host wrote."""
    data = bytearray()
    stderr = b""
    deadline = time.monotonic() + timeout
    with (
        PROBE.open("rb") as script,
        child_process.start_process(arguments, Path(), separate_stderr=True, stdin=script.fileno()) as (process, pipes),
        selectors.DefaultSelector() as selector,
    ):
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        # A shared connection (ControlPersist) keeps stderr open after the end.
        while selector.get_map() and not (child_process.has_ended(process) and not selector.select(0)):
            if cancellation.is_set() or time.monotonic() > deadline:
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
