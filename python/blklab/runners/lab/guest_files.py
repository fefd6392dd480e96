"""Moves files from the guest to this machine, over the disk for results."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.runners.lab.agent import ExportedFile
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.machine.qemu import RESULTS
from blklab.system.roots import open_descriptor
from blklab.text.printing import printable
from blklab.units import format_size

MOST_FETCHED = 256 << 20  # Bytes of files that are held in memory
_NAME = re.compile(r"[\w-][\w.-]{0,120}", re.A)  # Valid names of files from the guest, which is not trusted
_PART = 16 << 20


def fetch(machine: GuestMachine, paths: Sequence[str]) -> dict[str, str]:
    """Returns files of the guest, by path; a path may have `*`. Raises BlklabError."""
    exported = _export_files(machine, paths)
    total = sum(file.bytes for file in exported)
    if total > MOST_FETCHED:
        raise BlklabError(
            f"the guest's {paths[0]} and others have {format_size(total)}, expected at most {format_size(MOST_FETCHED)}"
        )
    return {file.path: machine.results.read(file.offset, file.bytes).decode(errors="replace") for file in exported}


def save(machine: GuestMachine, pattern: str, directory: Path, *, old: re.Pattern[str]) -> list[Path]:
    """Writes files of the guest into a directory, by their own names. Raises BlklabError.

    Files there that match `old` are of an earlier run, and are removed. No link is followed.
    """
    with SystemErrors(BlklabError, directory):
        directory.mkdir(parents=True, exist_ok=True)
        with open_descriptor(directory, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY) as into:
            with os.scandir(into) as listing:
                names = [entry.name for entry in listing if old.fullmatch(entry.name)]
            for name in names:
                os.unlink(name, dir_fd=into)
            return [directory / name for name in _write_files(machine, pattern, into)]


def results_device(machine: GuestMachine) -> str:
    """Returns the path of the disk for results in the guest. Raises BlklabError."""
    serials = machine.agent.read(["/sys/block/vd*/serial"])
    device = next((path.split("/")[3] for path, serial in serials.items() if serial == RESULTS), None)
    if device is None:
        raise BlklabError("the guest has no disk for results")
    return f"/dev/{device}"


def _write_files(machine: GuestMachine, pattern: str, into: int) -> Iterator[str]:
    for file in _export_files(machine, [pattern]):
        name = file.path.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise BlklabError(f"invalid file name from the guest: {file.path!r}")
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=into)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o666, dir_fd=into), "wb") as stream:
            for offset in range(0, file.bytes, _PART):
                stream.write(machine.results.read(file.offset + offset, min(_PART, file.bytes - offset)))
        yield name


def _export_files(machine: GuestMachine, paths: Sequence[str]) -> Sequence[ExportedFile]:
    """Makes the guest put files on the disk for results; returns their positions, in order.

    Raises BlklabError if a file is not within the disk, or overlaps another.
    """
    disk = machine.results
    disk.clear()
    end = 0
    files = machine.agent.export(paths, results_device(machine))
    for file in files:
        if file.offset < end or file.bytes < 0 or file.offset + file.bytes > disk.shape.bytes:
            raise BlklabError(
                f"the guest reports {printable(file.path[:200])} at offset {file.offset} of the disk for "
                f"results, with {file.bytes} B: expected it after {end} and within the disk"
            )
        end = file.offset + file.bytes
    return files
