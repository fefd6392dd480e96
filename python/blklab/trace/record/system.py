"""Which block devices lie beneath a file, as /sys and /proc tell it.

The roots can be redirected, so that tests need no such system.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NO_DEVICE: Final = frozenset(
    {"tmpfs", "ramfs", "devtmpfs", "nfs", "nfs4", "cifs", "9p", "virtiofs"}
)
"""Filesystems that write to no block device of this machine."""


@dataclass(frozen=True)
class Roots:
    """Where the kernel's filesystems are."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")


@dataclass(frozen=True)
class Mount:
    """A line of /proc/self/mountinfo."""

    number: str
    point: str
    kind: str
    source: str
    options: str


def mounts(roots: Roots) -> list[Mount]:
    """Returns what is mounted, in the order of mounting (format: proc(5))."""
    found = []
    try:
        lines = (roots.proc / "self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields[6:]:
            continue
        rest = fields[fields.index("-", 6) + 1 :]
        plain = [_unescaped(part) for part in (fields[4], rest[1])]
        found.append(Mount(fields[2], plain[0], rest[0], plain[1], ",".join(rest[2:])))
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def number_of(device: int) -> str:
    """Returns `major:minor` of a device number."""
    return f"{os.major(device)}:{os.minor(device)}"


def beneath(number: str, roots: Roots) -> set[str]:
    """Returns the device `major:minor` and all devices that its I/O reaches.

    A partition's disk, what an array or volume is made of, and what holds a loop device's file.
    """
    found: set[str] = set()
    waiting = [number]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += _directly_beneath(at, roots)
    return found


def _directly_beneath(number: str, roots: Roots) -> Iterator[str]:
    link = roots.sys / "dev/block" / number
    try:
        node = link.resolve(strict=True)
    except OSError:
        return
    if (node / "partition").exists():
        yield from _number_in(node.parent)
    for lower in _entries(node / "slaves"):
        yield from _number_in(lower)
    # NVMe multipath heads have no slaves: their paths are in `multipath` (Linux 6.15).
    for lower in _entries(node / "multipath"):
        yield from _number_in(lower)
    for bcache in (node / "bcache",):
        for name in ("cache", "dev"):
            if (bcache / name).exists():
                yield from _number_in((bcache / name).resolve().parent)
    try:
        backing = (node / "loop/backing_file").read_text().rstrip("\n")
        yield from filesystem_devices(Path(backing).parent, roots)[0]
    except OSError:
        return


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _number_in(node: Path) -> Iterator[str]:
    try:
        yield (node / "dev").read_text().strip()
    except OSError:
        return


def filesystem_devices(directory: Path, roots: Roots, depth: int = 8) -> tuple[set[str], str]:
    """Returns the devices (`major:minor`) on which the filesystem holding `directory` lives.

    And what could not be told, if anything. btrfs, overlayfs and others have device numbers that
    belong to no device: their mounts say what is beneath.
    """
    number = number_of(directory.stat().st_dev)
    if (roots.sys / "dev/block" / number).exists():
        return {number}, ""
    # The last mount of that number whose mount point holds the directory.
    held = [
        mount
        for mount in mounts(roots)
        if mount.number == number and directory.resolve().is_relative_to(mount.point)
    ] or [mount for mount in mounts(roots) if directory.resolve().is_relative_to(mount.point)]
    if not held:
        return set(), f"no mount holds {directory}"
    mount = max(held, key=lambda mount: len(mount.point))
    if mount.kind in NO_DEVICE:
        return set(), ""
    if mount.kind == "overlay":
        match = re.search(r"(?:^|,)upperdir=([^,]+)", mount.options)
        if match is None or depth == 0:
            return set(), f"{mount.point} is an overlay that does not say where it writes"
        try:
            return filesystem_devices(Path(match[1]), roots, depth - 1)
        except OSError:
            return set(), f"{mount.point} is an overlay whose files are out of sight"
    return _of_source(mount, roots)


def _of_source(mount: Mount, roots: Roots) -> tuple[set[str], str]:
    found: set[str] = set()
    try:
        source = Path(mount.source)
        if source.is_block_device():
            found.add(number_of(source.stat().st_rdev))
    except OSError:
        pass
    if not found and mount.source.startswith("/dev/"):
        name = Path(mount.source).name
        found.update(_number_in(roots.sys / "class/block" / name))
    for pool in _entries(roots.sys / "fs/btrfs"):
        members = {n for member in _entries(pool / "devices") for n in _number_in(member.resolve())}
        if members & found:
            found |= members
    return found, "" if found else f"{mount.point} is {mount.kind} on {mount.source}"
