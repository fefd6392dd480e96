"""Where cells do their I/O: a file in a directory of blklab, a claimed device, or a directory.

A location is made when the first cell of its target needs it, and serves all its cells. It is
released and removed when the campaign ends in any way.
"""

import errno
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors, UsageError
from blklab.experiment.documents import HostCellDocument, writes
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.scratch_directory import PREFIX, ScratchDirectory, check_mounted, remove_in, scratch
from blklab.system import child_process
from blklab.system.identity import (
    BlockDevice,
    device_number,
    find_by_id,
    format_ids,
    is_bare,
    of_number,
    resolve,
    same_disk,
)
from blklab.system.layers import partitions
from blklab.system.roots import Roots, read_text
from blklab.system.signatures import ask, signatures
from blklab.system.users import openers, uses


def lsblk() -> Any:
    """Returns `lsblk -J`: the tree of devices, sizes in bytes. None if it is missing or fails."""
    columns = "NAME,KNAME,MAJ:MIN,TYPE,SIZE,RO,ROTA,SCHED,RQ-SIZE,RA,MODEL,SERIAL,FSTYPE,MOUNTPOINT"
    try:
        output = ask(child_process.find("lsblk", "util-linux"), "-J", "-b", "-o", columns)
        return json.loads(output.stdout) if output.returncode == 0 else None
    except (EnvironmentLacks, ValueError):
        return None


VERSIONS: dict[str, Sequence[str]] = {  # Programs whose versions matter, and the arguments that print them
    "fio": ("--version",),
    "mdadm": ("--version",),
    "lsblk": ("--version",),
    "lvm": ("version",),
}


def versions() -> dict[str, str | None]:
    """Returns the version that each program prints; None for what is not installed."""
    return {name: _version(name, arguments) for name, arguments in VERSIONS.items()}


def _version(name: str, arguments: Sequence[str]) -> str | None:
    try:
        output = ask(child_process.find(name, name), *arguments)
    except EnvironmentLacks:
        return None
    # mdadm says it on stderr.
    match = re.search(r"\d+\.\d[\w.~+-]*", output.stdout + output.stderr)
    return match[0] if match else None


WORK = 64 << 20  # Bytes for fio's logs and output: an hour of points of hundreds of jobs
DATA = "data"  # The file's name


@dataclass(frozen=True)
class DeviceClaim:
    """A device that blklab holds open."""

    path: Path  # The path for fio, which must get --readonly if the claim is for reading
    device: BlockDevice
    warnings: tuple[str, ...]
    descriptor: int
    roots: Roots

    def verify(self) -> None:
        """Raises BlklabError if the path or the device is no longer the claimed one."""
        try:
            for status in (os.fstat(self.descriptor), self.path.lstat()):
                if not stat.S_ISBLK(status.st_mode) or status.st_rdev != device_number(self.device.number):
                    raise BlklabError(f"{self.device.path}: {self.path} now leads to another device")
        except OSError as error:
            raise BlklabError(f"{self.device.path}: {error}: the device disappeared during the run") from None
        now = of_number(self.device.number, self.roots, self.device.path)
        if not same_disk(self.device, now):
            raise BlklabError(
                f"{self.device.path}: found {now.id or now.name} (diskseq {now.diskseq}), expected "
                f"{self.device.id or self.device.name} (diskseq {self.device.diskseq}): the disk was replaced"
            )


@contextmanager
def claim(
    target: str, journal: HostJournal, *, writes: bool, destroy: Collection[str] = (), yes_destroy: Collection[str] = ()
) -> Iterator[DeviceClaim]:
    """Holds a device for reading, or for writing if every safety rule allows it.

    A device may be written to only if `destroy` names it by stable id, nothing uses it, and it has no signature, unless
    `yes_destroy` repeats the id. Otherwise raises UsageError or BlklabError with the reason, and EnvironmentLacks if a
    tool or a permission is missing. Reading needs none of these.
    """
    roots = journal.roots
    device = resolve(target, roots)
    if device.size == 0:
        raise UsageError(f"{target}: found no medium (0 bytes), expected a disk")
    if writes:
        _check_named(device, destroy, roots)
        _check_unused(device, roots)
    with ExitStack() as stack:
        path = _node(device, journal, stack) if os.geteuid() == 0 else Path(device.path).resolve()
        descriptor = _open(path, device, writes)
        stack.callback(os.close, descriptor)
        device_claim = DeviceClaim(path, device, (), descriptor, roots)
        device_claim.verify()
        warnings: list[str] = []
        if writes:
            # Check again, now that no one else can open it: a use may have begun in between.
            _check_unused(device, roots)
            _check_blank(device, journal, yes_destroy)
            warnings = [
                f"{opener.program} (pid {opener.pid}) has {opener.device} open for reading"
                for opener in openers(device, roots)
            ]
        elif device_uses := uses(device, roots):
            warnings = [f"{target}: may be in use: {device_uses[0]}"]
        yield replace(device_claim, warnings=tuple(warnings))


def _check_named(device: BlockDevice, destroy: Collection[str], roots: Roots) -> None:
    id_list = format_ids(device.ids)
    for name in destroy:
        if is_bare(name, roots):
            raise UsageError(
                f"destroy: {name!r} is a name that can change at the next boot; "
                f"use the stable id (for {device.path}: {id_list}), see ls /dev/disk/by-id"
            )
    matching_names = [name for name in destroy if device.is_called(name)]
    if not matching_names:
        raise UsageError(
            f"{device.path}: the run would overwrite it, but `destroy` does not name it; to allow that, "
            f"add its stable id to `destroy`: {id_list}"
        )
    for name in matching_names:
        other_devices = [other.name for other in find_by_id(name, roots) if other.number != device.number]
        if other_devices:
            device_list = ", ".join(other_devices)
            raise BlklabError(
                f"destroy: {name!r} is the id of {device.name} and of {device_list}, "
                f"expected an id of one disk only: {id_list}"
            )


def _check_unused(device: BlockDevice, roots: Roots) -> None:
    if read_text(device.node / "ro") == "1":
        raise BlklabError(f"{device.path}: read-only; to change that, run blockdev --setrw {device.path}")
    reasons = uses(device, roots)
    reasons += [
        f"{opener.program} (pid {opener.pid}) has {opener.device} open for writing"
        for opener in openers(device, roots)
        if opener.writes
    ]
    if reasons:
        raise BlklabError(f"{device.path}: in use, so blklab does not write to it: {'; '.join(reasons[:5])}")


def _open(path: Path, device: BlockDevice, writes: bool) -> int:
    # For reading only: what closes after writing makes udev look at the device again.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_EXCL if writes else 0)
    try:
        return os.open(path, flags)
    except PermissionError as error:
        raise EnvironmentLacks(f"{device.path}: {error.strerror}", "run it as root") from None
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise BlklabError(
                f"{device.path}: in use, so blklab does not write to it: it is mounted, swap, "
                "or part of an array or volume; see lsblk, fuser"
            ) from None
        raise BlklabError(f"{device.path}: {error.strerror}") from None


def _check_blank(device: BlockDevice, journal: HostJournal, yes_destroy: Collection[str]) -> None:
    """Raises BlklabError if the device or a partition of it has a signature."""
    roots = journal.roots
    findings = []
    numbers = [read_text(partition / "dev") for partition in partitions(device.node)]
    parts = [of_number(number, roots) for number in numbers if number]
    if parts:
        findings.append("1 partition" if len(parts) == 1 else f"{len(parts)} partitions")
    for block_device in [device, *parts]:
        with ExitStack() as stack:
            node = _node(block_device, journal, stack) if os.geteuid() == 0 else Path(block_device.path)
            findings += [f"{sign} on {block_device.name}" for sign in signatures(node)]
    if findings and not any(device.is_called(name) for name in yes_destroy):
        listing = ", ".join(_shorten_list(findings))
        raise BlklabError(
            f"{device.path}: found {listing}, expected a blank device; to overwrite it, add --yes-destroy {device.id}"
        )


def _shorten_list(names: Sequence[str]) -> list[str]:
    if len(names) <= 5:
        return list(names)
    return [*names[:5], f"{len(names) - 5} more"]


def _node(device: BlockDevice, journal: HostJournal, stack: ExitStack) -> Path:
    """Makes a node with the device's number in a private directory; it is removed with the stack.

    It is in /dev, because most other filesystems are mounted nodev.
    """
    roots = journal.roots
    name = PREFIX + secrets.token_hex(16)
    message = f"{roots.dev}: cannot make a device node for {device.path}"
    with SystemErrors(EnvironmentLacks, message, "", "run it as root, with CAP_MKNOD"):
        parent = os.open(roots.dev, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, parent)
        stack.callback(_remove_node, parent, name, journal, journal.directory(roots.dev, name))
        os.mkdir(name, 0o700, dir_fd=parent)
        path = roots.dev / name / "device"
        os.mknod(path, stat.S_IFBLK | 0o600, device_number(device.number))
    return path


def _remove_node(parent: int, name: str, journal: HostJournal, number: int) -> None:
    remove_in(parent, name)
    journal.done(number)


@dataclass
class TargetLocation:
    """The location of the I/O of one target's cells."""

    path: Path  # The file, the device's node, or the directory of a command
    work: Path  # A private directory for job files and logs, on another filesystem if there is one
    held: DeviceClaim | ScratchDirectory | None  # None for a command, which needs no file
    writes: bool  # Whether any cell may write to it
    prepared: bool = field(default=False)  # Whether it is prepared: done once, before the first cell

    @property
    def warnings(self) -> Sequence[str]:
        """Doubts about this location."""
        return self.held.warnings if self.held is not None else ()

    def verify(self) -> None:
        """Raises BlklabError if it has changed."""
        if self.held is not None:
            self.held.verify()


class TargetLocations:
    def __init__(self, stack: ExitStack, journal: HostJournal, yes_destroy: Collection[str]) -> None:
        """They are released when `stack` is left."""
        self._stack = stack
        self._journal = journal
        self._yes_destroy = yes_destroy
        self._made: dict[tuple[str, bool], TargetLocation] = {}
        self._work: Path | None = None

    def of(self, document: HostCellDocument, documents: Sequence[HostCellDocument]) -> TargetLocation:
        """Returns the location of a cell, given the cells of the whole campaign.

        Raises UsageError, BlklabError or EnvironmentLacks if it must not or cannot be used.
        """
        key = (document["target"]["name"], document["command"] is not None)
        if key not in self._made:
            target_documents = [other for other in documents if other["target"] == document["target"]]
            self._made[key] = self._make(document, target_documents)
        return self._made[key]

    def warnings(self) -> list[str]:
        """Returns the doubts about all locations."""
        return [warning for place in self._made.values() for warning in place.warnings]

    def _make(self, document: HostCellDocument, documents: Sequence[HostCellDocument]) -> TargetLocation:
        target = document["target"]
        has_writes = any(writes(cell_document) for cell_document in documents)
        if document["command"] is not None:
            directory = Path(target.get("filesystem") or target["directory"])
            if not directory.is_dir():
                raise UsageError(f"{directory}: no such directory")
            if "filesystem" in target:
                check_mounted(directory, self._journal.roots)
            return TargetLocation(directory, self._directory(), None, False)
        if "device" in target:
            destroy = document["destroy"]
            claim_context = claim(
                target["device"], self._journal, writes=has_writes, destroy=destroy, yes_destroy=self._yes_destroy
            )
            device_claim = self._stack.enter_context(claim_context)
            return TargetLocation(device_claim.path, self._directory(), device_claim, has_writes)
        place = target.get("filesystem") or target["directory"]
        file = scratch(place, self._journal, size=document["file_bytes"], mounted="filesystem" in target)
        file_directory = self._stack.enter_context(file)
        return TargetLocation(file_directory.place(DATA), self._directory(), file_directory, True)

    def _directory(self) -> Path:
        """Returns the private directory for fio's own files, made when it is first needed."""
        if self._work is None:
            temporary = Path(tempfile.gettempdir())
            self._work = self._stack.enter_context(scratch(temporary, self._journal, size=WORK)).path
        return self._work
