"""The layers below a block device: array members, volumes, partitions' disks, loop devices' files.

Read from sysfs: `slaves/` (md, dm and bcache), `multipath/` and hidden disks (NVMe), `loop/`.
"""

import fcntl
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.system.mounts import NO_DEVICE, Mount, holding, unescape_name
from blklab.system.roots import Roots, entries, open_descriptor, read_text


@dataclass(frozen=True)
class SysfsLayer:
    """A device with its position in the tree."""

    name: str  # The kernel's name, as in /proc/diskstats: `md127`, `sda1`
    number: str | None
    """`major:minor`; None for a device without a number (paths of an NVMe multipath disk) or a
    removed one."""
    kind: str  # `disk`, `partition`, `md`, `dm`, `loop`, `bcache` or `other`
    above: tuple[str, ...]  # The names of the devices directly above it; empty for the target itself
    leaf: bool  # No device is below it
    node: Path | None  # Its directory in sysfs; None if it was removed

    @property
    def disk(self) -> Path | None:
        """The sysfs directory of the whole disk, which a partition shares."""
        return self.node.parent if self.node and self.kind == "partition" else self.node


def number_of(device: int) -> str:
    """Returns `major:minor` of a device number."""
    return f"{os.major(device)}:{os.minor(device)}"


def node_of(number: str, roots: Roots) -> Path | None:
    """Returns the sysfs directory of `major:minor`, or None if there is no such device."""
    if not re.fullmatch(r"\d+:\d+", number, re.A):
        return None  # of another machine it may be anything, a path for one
    return _resolve_path(roots.sys / "dev/block" / number)


def block_device(path: Path, roots: Roots) -> str | None:
    """Returns `major:minor` of a block device's name; None for anything else, and for what cannot be reached."""
    try:
        status = roots.status(path)
    except OSError:
        return None
    return number_of(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None


def swap_areas(roots: Roots) -> Iterator[tuple[Path, str | None]]:
    """Yields the path of each swap device or file, with `major:minor` of a device."""
    # A line is `filename type size used priority`, blanks in the name as octal (mm/swapfile.c).
    for line in (read_text(roots.proc / "swaps") or "").splitlines()[1:]:
        if fields := line.split():
            path = Path(unescape_name(fields[0]))
            number = block_device(path, roots)
            if number is None and path.parent == Path("/dev"):
                number = read_text(roots.sys / "class/block" / path.name / "dev")
            yield path, number


def name_of(number: str, roots: Roots) -> str:
    """Returns the kernel's name of `major:minor`, or the number itself if it has none."""
    node = node_of(number, roots)
    return node.name if node else number


def partitions(node: Path) -> list[Path]:
    """Returns the sysfs directories of a disk's partitions."""
    return [entry for entry in entries(node) if (entry / "partition").is_file()]


def layers(numbers: Iterable[str], roots: Roots) -> list[SysfsLayer]:
    """Returns the devices `major:minor` and all below them, upper ones first.

    Each device occurs once, also with several devices above it. A device that is removed
    meanwhile stays in the list, without a node.
    """
    # Keyed by name: some devices have no number, and those above are told by name.
    nodes: dict[str, Path | None] = {}
    above: dict[str, list[str]] = {}
    below: dict[str, bool] = {}
    numbers_by_name: dict[str, str] = {}
    waiting: list[tuple[str, Path | None]] = []
    for number in dict.fromkeys(numbers):
        node = node_of(number, roots)
        name = node.name if node else number
        numbers_by_name[name] = number
        waiting.append((name, node))
        above.setdefault(name, [])
    while waiting:
        name, node = waiting.pop(0)
        if name in nodes:
            continue
        nodes[name] = node
        lower = list(_directly_beneath(node, roots)) if node else []
        below[name] = bool(lower)
        for lower_name, lower_node in lower:
            uppers = above.setdefault(lower_name, [])
            if name not in uppers and lower_name != name:
                uppers.append(name)
            waiting.append((lower_name, lower_node))
    return [
        SysfsLayer(
            name=name,
            number=numbers_by_name.get(name) or (read_text(node / "dev") if node else None),
            kind=kind_of(node, name),
            above=tuple(above[name]),
            leaf=not below[name],
            node=node,
        )
        for name, node in nodes.items()
    ]


def beneath(number: str, roots: Roots) -> set[str]:
    """Returns the device `major:minor` and all devices (`major:minor`) below it."""
    return {layer.number for layer in layers([number], roots) if layer.number}


def kind_of(node: Path | None, name: str) -> str:
    """Returns a device's kind: see `SysfsLayer.kind`."""
    if node is not None:
        if (node / "partition").exists():
            return "partition"
        for kind in ("md", "dm", "loop"):
            if (node / kind).is_dir():
                return kind
    # A loop device without a file has no `loop` directory.
    if match := re.match(r"(md|dm-|loop|bcache)[_\d]", name):
        return match[1].rstrip("-")
    # NVMe multipath's paths and heads have `device` too, virtio and SCSI disks as well.
    return "disk" if node is not None and (node / "device").exists() else "other"


def _directly_beneath(node: Path, roots: Roots) -> Iterator[tuple[str, Path | None]]:
    if (node / "partition").exists():
        yield node.parent.name, node.parent
        return
    # NVMe multipath heads have no slaves: their paths are in `multipath` (Linux 6.15).
    for directory in ("slaves", "multipath"):
        for lower in entries(node / directory):
            yield lower.name, _resolve_path(lower)
    yield from _nvme_paths(node, roots)
    # drivers/md/bcache/super.c: `bcache` leads into the backing device's directory, and what is
    # `cache` there to the set, whose `cache0` lead into the caches' directories.
    bcache = _resolve_path(node / "bcache")
    if bcache and bcache.parent != node:
        yield bcache.parent.name, bcache.parent
        for cache in entries(bcache / "cache"):
            real = _resolve_path(cache) if re.fullmatch(r"cache\d+", cache.name) else None
            if real:
                yield real.parent.name, real.parent
    for number in loop_file_devices(node, roots):
        lower_node = node_of(number, roots)
        yield (lower_node.name if lower_node else number), lower_node


def _nvme_paths(node: Path, roots: Roots) -> Iterator[tuple[str, Path | None]]:
    """Returns hidden disks `nvme0c1n1` of `nvme0n1`: the only paths shown before Linux 6.15."""
    match = re.fullmatch(r"nvme(\d+)n(\d+)", node.name)
    if match and not entries(node / "multipath"):
        for path in entries(roots.sys / "block"):
            if re.fullmatch(rf"nvme{match[1]}c\d+n{match[2]}", path.name):
                yield path.name, _resolve_path(path)


def _resolve_path(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def loop_file(node: Path) -> str | None:
    """Returns the path of a loop device's file; None for other devices and without a file."""
    return read_text(node / "loop/backing_file") or None


LOOP_GET_STATUS64 = 0x4C05  # include/uapi/linux/loop.h
LOOP_INFO_BYTES = 232  # Of struct loop_info64: lo_device, lo_inode, lo_rdevice, each 64 bits, and more


def loop_device_behind(name: str, roots: Roots) -> str | None:
    """Returns the block device (`major:minor`) that a loop device was made of, by its number.

    The name of its node may be that of another one by now, or deleted. None for files, and if the kernel does not say.
    """
    information = bytearray(LOOP_INFO_BYTES)
    try:
        with open_descriptor(roots.device(name), os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            fcntl.ioctl(descriptor, LOOP_GET_STATUS64, information)
    except OSError:
        return None
    number = int.from_bytes(information[16:24], sys.byteorder)
    return number_of(number) if number else None


def loop_file_devices(node: Path, roots: Roots) -> set[str]:
    """Returns the devices (`major:minor`) directly below a loop device."""
    backing = loop_file(node)
    if backing is None:
        return set()
    if number := block_device(Path(backing), roots):
        return {number}
    try:
        # It may be deleted, or in another namespace: its directory may still be there.
        return filesystem_devices(Path(backing).parent, roots)[0]
    except OSError:
        return set()


def filesystem_devices(directory: Path, roots: Roots, depth: int = 8) -> tuple[set[str], str]:
    """Returns the devices (`major:minor`) of the filesystem of a directory, and a problem or None.

    btrfs, overlayfs and others have device numbers that belong to no device: their mounts name the devices.
    """
    number = number_of(roots.status(directory).st_dev)
    if (roots.sys / "dev/block" / number).exists():
        return {number}, ""
    mount = holding(directory, roots, number)
    if mount is None:
        return set(), f"{directory} is on no mounted filesystem"
    if mount.kind in NO_DEVICE:
        return set(), ""
    if mount.kind == "overlay":
        match = re.search(r"(?:^|,)upperdir=([^,]+)", mount.options)
        if match is None or depth == 0:
            return set(), f"{mount.point} is an overlay that does not name its upper directory"
        try:
            return filesystem_devices(Path(match[1]), roots, depth - 1)
        except OSError:
            return set(), f"{mount.point} is an overlay whose files cannot be seen from here"
    devices = list_mount_devices(mount, roots)
    return devices, "" if devices else f"{mount.point} is {mount.kind} on {mount.source}"


def list_mount_devices(mount: Mount, roots: Roots) -> set[str]:
    """Returns the devices (`major:minor`) of a mount; all of them for btrfs."""
    devices: set[str] = set()
    if not mount.number.startswith("0:"):
        devices.add(mount.number)
    # bcachefs joins its devices with colons.
    for part in mount.source.split(":") if mount.source.startswith("/dev/") else []:
        number = block_device(Path(part), roots)
        devices |= {number} if number else _numbers_in([roots.sys / "class/block" / Path(part).name])
    for pool in entries(roots.sys / "fs/btrfs"):
        members = _numbers_in(entries(pool / "devices"))
        if members & devices:
            devices |= members
    return devices


def _numbers_in(nodes: Iterable[Path]) -> set[str]:
    numbers = {read_text(node / "dev") for node in nodes}
    return {number for number in numbers if number}
