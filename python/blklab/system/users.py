"""The users of a block device: mounts, swap, holders, loop devices, programs that opened it."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.system import layers
from blklab.system.identity import BlockDevice
from blklab.system.mounts import NETWORK, list_all_mounts
from blklab.system.roots import Roots, entries, read_text

AS_SWAP = "is used as swap"
"""What `uses` says of swap, behind the device's name."""


@dataclass(frozen=True)
class Opener:
    """A program that has opened a device."""

    pid: int
    program: str
    device: str  # The kernel's name of the device in question, or of a partition of it
    writes: bool


def uses(device: BlockDevice, roots: Roots) -> list[str]:
    """Returns the reasons not to write to a device, as messages; empty if nothing uses it.

    Includes its partitions, and the disk of a partition if that is used as a whole. Programs that only opened it are
    found by `openers`; the kernel's own exclusive claims are not included.
    """
    related_nodes = _find_related(device, roots)
    reasons = [*_list_mount_uses(device, related_nodes, roots), *_list_swap_uses(device, related_nodes, roots)]
    return list(dict.fromkeys([*reasons, *_list_holder_uses(related_nodes), *_list_loop_uses(related_nodes, roots)]))


def _find_related(device: BlockDevice, roots: Roots) -> dict[str, Path]:
    """Returns the devices that share its bytes: itself, its partitions, or its whole disk.

    Also the block device below a loop device: loop devices claim nothing.
    """
    related_nodes = {device.number: device.node}
    for partition in layers.partitions(device.node):
        if number := read_text(partition / "dev"):
            related_nodes[number] = partition
    if (device.node / "partition").exists() and (number := read_text(device.node.parent / "dev")):
        related_nodes[number] = device.node.parent
    waiting = [device.node]
    while waiting:
        backing = layers.loop_file(waiting.pop())
        number = layers.block_device(Path(backing), roots) if backing else None
        node = layers.node_of(number, roots) if number else None
        if number and node and number not in related_nodes:
            related_nodes[number] = node
            waiting.append(node)
    return related_nodes


def _find_reached_device(number: str, related_nodes: dict[str, Path], device: BlockDevice, roots: Roots) -> str | None:
    """Returns the name of the related device that is `number`, or below it."""
    if number in related_nodes:
        return layers.name_of(number, roots)
    # A partition's disk is beneath its brothers too, which does not make them its users.
    related_numbers = set(related_nodes)
    if (device.node / "partition").exists():
        related_numbers.discard(read_text(device.node.parent / "dev") or "")
    beneath = {layer.number for layer in layers.layers([number], roots) if layer.number}
    common_numbers = sorted(related_numbers & beneath)
    return layers.name_of(common_numbers[0], roots) if common_numbers else None


def _list_mount_uses(device: BlockDevice, related_nodes: dict[str, Path], roots: Roots) -> Iterator[str]:
    for number in sorted(_root_devices(roots)):
        if name := _find_reached_device(number, related_nodes, device, roots):
            yield f"the root filesystem is on {name}: blklab never writes to it"
    for mount in list_all_mounts(roots):
        for number in sorted(layers.list_mount_devices(mount, roots)):
            if name := _find_reached_device(number, related_nodes, device, roots):
                route = "" if name == layers.name_of(number, roots) else f" through {mount.source}"
                yield f"{name} is mounted at {mount.place}{route}"


def _root_devices(roots: Roots) -> set[str]:
    try:
        return layers.filesystem_devices(Path("/"), roots)[0]
    except OSError:
        return set()


def _list_swap_uses(device: BlockDevice, related_nodes: dict[str, Path], roots: Roots) -> Iterator[str]:
    for path, number in layers.swap_areas(roots):
        if number and (name := _find_reached_device(number, related_nodes, device, roots)):
            yield f"{name} {AS_SWAP} ({path}; to free it, run swapoff)"


def _list_holder_uses(related_nodes: dict[str, Path]) -> Iterator[str]:
    for node in related_nodes.values():
        for holder in entries(node / "holders"):
            yield f"{node.name} is part of {holder.name}"
        # Registered, and its set perhaps not running: no holder, but bcache has it open.
        if (node / "bcache").exists() and not re.match(r"bcache\d", node.name):
            yield f"{node.name} is registered with bcache"


def _list_loop_uses(related_nodes: dict[str, Path], roots: Roots) -> Iterator[str]:
    """Yields the loop devices on the device, and those that share a loop device's file.

    A file may have several names (hard links), so inodes are compared.
    """
    own_inodes = set()
    for node in related_nodes.values():
        path = layers.loop_file(node)
        inode = _inode(path, roots) if path else None
        if inode is not None:
            own_inodes.add(inode)
    for loop in entries(roots.sys / "block"):
        backing = layers.loop_file(loop)
        if backing is None or loop.resolve() in related_nodes.values():
            continue
        number = layers.loop_device_behind(loop.name, roots) or layers.block_device(Path(backing), roots)
        if number in related_nodes:
            yield f"{layers.name_of(number, roots)} is the file of {loop.name}"
        elif own_inodes and _inode(backing, roots) in own_inodes:
            yield f"{loop.name} uses the same file"


def _inode(path: str, roots: Roots) -> tuple[int, int] | None:
    try:
        status = roots.status(Path(path))
    except OSError:
        return None
    return status.st_dev, status.st_ino


def openers(device: BlockDevice, roots: Roots) -> list[Opener]:
    """Returns the other programs that have opened a device or a partition of it, or have mapped it into memory.

    Found in /proc/PID/fd and in the shared mappings of /proc/PID/maps, by the device's number: the node may have
    any name. Not found: files on network filesystems, other users' programs unless we are root, the kernel's own use.
    """
    numbers = {device.number: device.name}
    for partition in layers.partitions(device.node):
        if number := read_text(partition / "dev"):
            numbers[number] = partition.name
    programs = []
    for process in entries(roots.proc):
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        pid = int(process.name)
        program = read_text(process / "comm") or "?"
        kinds: dict[str, str] | None = None  # Of filesystems, by the id of the mount
        for descriptor in entries(process / "fd"):
            place = _link(descriptor)
            if place and not place.startswith("/"):  # a socket, a pipe…
                continue
            info = read_text(process / "fdinfo" / descriptor.name) or ""
            if not place.startswith("/dev/"):
                kinds = _mount_kinds(process) if kinds is None else kinds
                if not _is_local(info, kinds):
                    continue
            number = layers.block_device(descriptor, roots)
            if number in numbers:
                flags = re.search(r"^flags:\s*([0-7]+)", info, re.M)
                # What is not known counts as writing.
                writes = flags is None or int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY
                programs.append(Opener(pid, program, numbers[number], writes))
        for number in _list_mapped_devices(process, roots):
            if number in numbers:
                programs.append(Opener(pid, program, numbers[number], writes=True))
    return programs


def _link(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)  # noqa: PTH115
    except OSError:
        return ""


def _mount_kinds(process: Path) -> dict[str, str]:
    """Returns the kind of filesystem of each mount of a process, by the mount's id (proc(5), mountinfo)."""
    kinds = {}
    for line in (read_text(process / "mountinfo") or "").splitlines():
        fields = line.split(" ")
        if "-" in fields[6:-1]:
            kinds[fields[0]] = fields[fields.index("-", 6) + 1]
    return kinds


def _network_numbers(process: Path) -> set[str]:
    """Returns the numbers of a process's network filesystems, as /proc/PID/maps prints them."""
    numbers = set()
    for line in (read_text(process / "mountinfo") or "").splitlines():
        fields = line.split(" ")
        if "-" in fields[6:-1]:
            kind = fields[fields.index("-", 6) + 1]
            major, _, minor = fields[2].partition(":")
            if (kind in NETWORK or kind.startswith("fuse")) and (major + minor).isdecimal():
                numbers.add(f"{int(major):02x}:{int(minor):02x}")
    return numbers


def _is_local(info: str, kinds: dict[str, str]) -> bool:
    """Whether an open file is on a local filesystem: to ask for the state of another could hang."""
    mount = re.search(r"^mnt_id:\s*(\d+)", info, re.M)
    kind = kinds.get(mount[1], "") if mount else ""
    return bool(kind) and kind not in NETWORK and not kind.startswith("fuse")


def _list_mapped_devices(process: Path, roots: Roots) -> Iterator[str]:
    """Yields the block devices (`major:minor`) of shared mappings: a program may close the file and go on writing."""
    remote: set[str] | None = None  # `major:minor` of network filesystems, whose files could hang
    for line in (read_text(process / "maps") or "").splitlines():
        # 7f12a000-7f12b000 rw-s 00080000 00:05 512    /dev/md0
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or not fields[1].endswith("s") or not fields[5].startswith("/"):
            continue
        remote = _network_numbers(process) if remote is None else remote
        if fields[3].lower() in remote:
            continue
        number = layers.block_device(process / "map_files" / fields[0], roots)
        if number is None and "/dev/" in fields[5]:
            number = layers.block_device(Path(fields[5].removesuffix(" (deleted)")), roots)
        if number:
            yield number
