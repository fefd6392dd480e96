"""Who uses a block device: mounts, swap, holders, loop devices over it, programs that opened it."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.system.identity import BlockDevice
from blklab.system.layers import (
    filesystem_devices,
    layers,
    loop_file,
    mounted_devices,
    name_of,
    node_of,
    number_of,
    partitions,
)
from blklab.system.mounts import everywhere, unescaped
from blklab.system.roots import Roots, entries, text


@dataclass(frozen=True)
class Opener:
    """A program that has a device open."""

    pid: int
    program: str
    device: str
    """The kernel's name: the device asked about, or a partition of it."""
    writes: bool


def uses(device: BlockDevice, roots: Roots) -> list[str]:
    """Returns why a device must not be written to, each for a message; nothing if nobody uses it.

    Its partitions count, and so does the disk of a partition where it is used as a whole. Programs
    that merely opened it are found by `openers`, and what the kernel itself has claimed by opening
    it exclusively.
    """
    related = _related(device, roots)
    uses_found = [
        *_mounted(device, related, roots),
        *_swapping(device, related, roots),
        *_held(related),
        *_looped(related, roots),
    ]
    return list(dict.fromkeys(uses_found))


def _related(device: BlockDevice, roots: Roots) -> dict[str, Path]:
    """The devices (by number) that share its bytes: itself, its partitions, or its whole disk.

    And what a loop device is over, if that is a block device: loop devices claim nothing.
    """
    related = {device.number: device.node}
    for partition in partitions(device.node):
        if number := text(partition / "dev"):
            related[number] = partition
    if (device.node / "partition").exists() and (number := text(device.node.parent / "dev")):
        related[number] = device.node.parent
    waiting = [device.node]
    while waiting:
        backing = loop_file(waiting.pop())
        number = _block_device(Path(backing), roots) if backing else None
        node = node_of(number, roots) if number else None
        if number and node and number not in related:
            related[number] = node
            waiting.append(node)
    return related


def _block_device(path: Path, roots: Roots) -> str | None:
    try:
        status = roots.status(path)
    except OSError:
        return None
    return number_of(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None


def _reached(
    number: str, related: dict[str, Path], device: BlockDevice, roots: Roots
) -> str | None:
    """Returns the name of the related device on which `number` is, or beneath it."""
    if number in related:
        return name_of(number, roots)
    # A partition's disk is beneath its brothers too, which does not make them its users.
    own = set(related)
    if (device.node / "partition").exists():
        own.discard(text(device.node.parent / "dev") or "")
    below = {layer.number for layer in layers([number], roots)}
    used = sorted(own & {n for n in below if n})
    return name_of(used[0], roots) if used else None


def _mounted(device: BlockDevice, related: dict[str, Path], roots: Roots) -> Iterator[str]:
    root = _root_devices(roots)
    for number in sorted(root):
        if name := _reached(number, related, device, roots):
            yield f"the root filesystem is on {name}: it is never written to"
    for mount in everywhere(roots):
        for number in sorted(mounted_devices(mount, roots)):
            if name := _reached(number, related, device, roots):
                own = "" if name == name_of(number, roots) else f" by way of {mount.source}"
                yield f"{name} is mounted at {mount.point}{own}"


def _root_devices(roots: Roots) -> set[str]:
    try:
        return filesystem_devices(Path("/"), roots)[0]
    except OSError:
        return set()


def _swapping(device: BlockDevice, related: dict[str, Path], roots: Roots) -> Iterator[str]:
    # A line is `filename type size used priority`, blanks in the name as octal (mm/swapfile.c).
    for line in (text(roots.proc / "swaps") or "").splitlines()[1:]:
        if not line.split():
            continue
        path = Path(unescaped(line.split()[0]))
        number = _block_device(path, roots)
        if number is None and path.parent == Path("/dev"):
            number = text(roots.sys / "class/block" / path.name / "dev")
        if number and (name := _reached(number, related, device, roots)):
            yield f"{name} is swapped to ({path}; swapoff ends it)"


def _held(related: dict[str, Path]) -> Iterator[str]:
    for node in related.values():
        for holder in entries(node / "holders"):
            yield f"{node.name} is part of {holder.name}"
        # Registered, and its set perhaps not running: no holder, but bcache has it open.
        if (node / "bcache").exists() and not re.match(r"bcache\d", node.name):
            yield f"{node.name} is registered with bcache"


def _looped(related: dict[str, Path], roots: Roots) -> Iterator[str]:
    """Loop devices over the device, and those that share a loop device's file with it.

    A file may have several names (hard links): it is told by its inode.
    """
    mine = {_inode(path, roots) for node in related.values() if (path := loop_file(node))} - {None}
    for loop in entries(roots.sys / "block"):
        backing = loop_file(loop)
        if backing is None or loop.resolve() in related.values():
            continue
        number = _block_device(Path(backing), roots)
        if number in related:
            yield f"{name_of(number, roots)} is the file of {loop.name}"
        elif mine and _inode(backing, roots) in mine:
            yield f"its file is that of {loop.name} as well"


def _inode(path: str, roots: Roots) -> tuple[int, int] | None:
    try:
        status = roots.status(Path(path))
    except OSError:
        return None
    return status.st_dev, status.st_ino


def openers(device: BlockDevice, roots: Roots) -> list[Opener]:
    """Returns the programs, but this one, that have a device or a partition of it open.

    Found in /proc/PID/fd among names in /dev: what has no name there (a node made elsewhere), what
    belongs to others if we are not root, and what the kernel itself opened is not seen.
    """
    numbers = {device.number: device.name}
    for partition in partitions(device.node):
        if number := text(partition / "dev"):
            numbers[number] = partition.name
    programs = []
    for process in entries(roots.proc):
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for descriptor in entries(process / "fd"):
            name = _opened(descriptor, numbers, roots)
            if name:
                flags = re.search(
                    r"^flags:\s*([0-7]+)", text(process / "fdinfo" / descriptor.name) or "", re.M
                )
                # Not to know is to fear.
                writes = flags is None or int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY
                program = text(process / "comm") or "?"
                programs.append(Opener(int(process.name), program, name, writes))
    return programs


def _opened(descriptor: Path, numbers: dict[str, str], roots: Roots) -> str | None:
    try:
        # Asking for the state of any file could hang, on a dead NFS server for one.
        if "/dev/" not in os.readlink(descriptor):  # noqa: PTH115
            return None
    except OSError:
        return None
    number = _block_device(descriptor, roots)
    return numbers.get(number) if number else None
