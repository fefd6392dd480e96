"""Characterise a trace: the workload in figures, and where the files of a mounted filesystem are at present."""

import ctypes
import os
import stat
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from blklab import _core
from blklab.documents.profile import Profile
from blklab.errors import BlklabError, UsageError
from blklab.system.roots import Roots, read_text
from blklab.text.printing import printable
from blklab.units import SECTOR


class MountedFiles(NamedTuple):
    """The files of a filesystem, as `_core.characterise` takes them."""

    mount: str
    devices: list[str]  # Numbers and names that its device can have in a trace
    owners: list[tuple[str, bool]]  # Path or what else it is; whether it is a file
    extents: list[tuple[int, int, int]]  # First sector, first sector behind it, owner


def read_mounted_files(
    path: str, roots: Roots, advance: Callable[[int], None]
) -> tuple[MountedFiles, list[tuple[str, str]]]:
    """Returns the files of the filesystem on a device or with a path in it, and warnings: path and message.

    Sectors are those of the whole disk if the device is a partition, as blktrace records them. `advance` gets the
    number of files examined. Raises UsageError or BlklabError.
    """
    from blklab.system import file_search
    from blklab.system.identity import device_number, of_number
    from blklab.system.layers import name_of, number_of
    from blklab.system.mounts import find_whole_mount
    from blklab.system.spans import Span

    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise UsageError(f"--files {path}: {why}; expected a mount point or a device") from None
    number = number_of(status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev)
    mount = find_whole_mount(number, roots)
    if mount is None or mount.kind not in file_search.KINDS:
        have = f"it has {mount.kind}" if mount else "no mount of its filesystem was found"
        raise BlklabError(f"--files {path}: {have}; expected a mounted ext4 or XFS")
    device = of_number(number, roots)
    try:
        pieces, failures = file_search.find_files(
            mount.point, device_number(number), [Span(0, device.size, 0)], advance
        )
    except OSError as error:
        raise BlklabError(f"--files {path}: {file_search.error_reason(error)}") from error
    start = int(read_text(device.node / "start") or 0)
    numbers = [number]
    if (device.node / "partition").exists():
        numbers.append(read_text(device.node.parent / "dev") or "")
    owners: dict[tuple[str, bool], int] = {}
    extents = []
    for piece in pieces:
        name = f"{piece.path} ({piece.purpose})" if piece.path and piece.purpose else piece.path or piece.purpose
        owner = owners.setdefault((printable(name), bool(piece.path)), len(owners))
        extents.append((start + piece.begin // SECTOR, start + -(-piece.end // SECTOR), owner))
    devices = []
    for disk_number in numbers:
        devices += [disk_number.replace(":", ","), name_of(disk_number, roots)]
    warnings = []
    for why, count in failures.items():
        noun = "file or directory" if count == 1 else "files or directories"
        warnings.append((mount.point, f"{count:,} {noun} not examined: {why}"))
    return MountedFiles(printable(mount.point), devices, list(owners), extents), warnings


PROFILES = msgspec.json.Decoder(Profile)
"""Made once, with the module: msgspec 0.22 crashes if two threads look at the same class for the first time."""

BYTES_OF_BLOCK = 80
"""Memory for the counts of one block: 16 bytes in a table that is between 5/16 and 5/8 full and doubles to grow."""


def parse_stored_profile(document: object) -> Profile:
    """Returns a profile of the store. Raises UsageError if another version of blklab wrote it, with other keys."""
    try:
        return msgspec.convert(document, Profile)
    except msgspec.ValidationError as error:
        raise UsageError(f"kept by another version of blklab ({error}); characterise the trace again") from error


def characterise(
    paths: Sequence[str],
    selection: _core.Filter,
    *,
    format_name: str | None = None,
    exact: bool = False,
    files: MountedFiles | None = None,
    **settings: Any,
) -> Profile:
    """Reads the trace at `paths` (names, files, directories or `-`) and characterises it.

    With `exact`, all distinct blocks are counted that fit half of the free memory. `files` are those whose I/Os are
    counted. The other settings are those of `_core.characterise`. Raises UsageError or BlklabError.
    """
    # Traces of many devices leave hundreds of MiB free in the C heap, which Python does not use.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", int)
    blocks = None
    if exact:
        from blklab.system.environment import memory

        blocks = memory(Roots()).get("MemAvailable", 0) // 2 // BYTES_OF_BLOCK
    settings |= {"threads": len(os.sched_getaffinity(0)), "trim": trim}
    text = _core.characterise(paths, selection, format=format_name, exact_blocks=blocks, filesystem=files, **settings)
    trim(0)
    return PROFILES.decode(text)
