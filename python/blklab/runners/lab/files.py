"""Files out of the guest: over a disk of their own, which takes any size."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.runners.lab.machine.boot import Machine
from blklab.runners.lab.machine.disks import RESULTS

_NAME: Final = re.compile(r"[\w-][\w.-]{0,120}", re.A)
"""What files that come out may be called: the guest is not trusted."""


def fetch(machine: Machine, paths: Sequence[str]) -> dict[str, bytes]:
    """Returns files of the guest, by path; a path may have `*`. Raises BlklabError."""
    disk = machine.results
    disk.clear()
    serials = machine.agent.read(["/sys/block/vd*/serial"])
    device = next(
        (path.split("/")[3] for path, serial in serials.items() if serial == RESULTS), None
    )
    if device is None:
        raise BlklabError("the guest has no disk for results")
    found = {}
    for file in machine.agent.export(paths, f"/dev/{device}"):
        if file.offset < 0 or file.bytes < 0 or file.offset + file.bytes > disk.shape.bytes:
            raise BlklabError(f"the guest says that {file.path!r} is beyond the disk for results")
        found[file.path] = disk.read(file.offset, file.bytes)
    return found


def texts(found: Mapping[str, bytes]) -> dict[str, str]:
    """Returns files as text."""
    return {path: content.decode(errors="replace") for path, content in found.items()}


def save(machine: Machine, pattern: str, directory: Path) -> list[Path]:
    """Writes files of the guest into a directory, by their own names. Raises BlklabError."""
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in fetch(machine, [pattern]).items():
            name = path.rpartition("/")[2]
            if not _NAME.fullmatch(name):
                raise BlklabError(f"the guest calls a file {path!r}")
            (directory / name).write_bytes(content)
            written.append(directory / name)
    except OSError as error:
        raise BlklabError(f"{directory}: {error.strerror}") from None
    return written
