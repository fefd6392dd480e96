"""The identity of disks: names that stay the same when disks change their order.

Stable ids are udev's links in /dev/disk/by-id, serial numbers and WWNs; for loop devices,
`file:` and the path of the file. Without udev, those in sysfs are used.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, UsageError
from blklab.system.layers import loop_file, node_of, number_of
from blklab.system.roots import Roots, entries, read_text

BY_ID = "disk/by-id"


@dataclass(frozen=True)
class BlockDevice:
    """A block device in its present state."""

    path: str  # The name that the user typed, for messages
    name: str  # The kernel's name of it
    number: str  # `major:minor`; empty for the hidden paths of an NVMe multipath disk
    node: Path  # Its directory in sysfs
    diskseq: int | None  # Number of attachments of disks (or loop devices' files) up to this one: since Linux 5.15
    ids: tuple[str, ...]  # Stable ids, the most descriptive one first; empty if it has none
    size: int  # Bytes

    @property
    def id(self) -> str | None:
        """The stable id for messages."""
        return self.ids[0] if self.ids else None

    def is_called(self, name: str) -> bool:
        """Tells whether a stable id, as the user typed it, is one of this device."""
        return normal(name) in {normal(device_id) for device_id in self.ids}


def normal(name: str) -> str:
    """Returns an id in the form for comparisons: without directory, WWNs in one spelling."""
    plain = name.removeprefix("/dev/disk/by-id/")
    wwn = re.fullmatch(r"(?:wwn-)?(?:0x|naa\.)([0-9a-fA-F]{16}(?:[0-9a-fA-F]{16})?)(-part\d+)?", plain)
    if wwn:
        return f"wwn-0x{wwn[1].lower()}{wwn[2] or ''}"
    if array := re.fullmatch(r"md-uuid-([0-9a-fA-F:-]+?)(-part\d+)?", plain):
        return f"md-uuid-{array_uuid(array[1])}{array[2] or ''}"
    return plain.removeprefix("nvme-") if re.match(r"nvme-(eui|nvme|uuid)\.", plain) else plain


def array_uuid(uuid: str) -> str:
    """Returns a UUID in the format of mdadm and udev, four words; sysfs has another, and zeros before an array runs."""
    digits = re.sub(r"[^0-9a-f]", "", uuid.lower()) if uuid.strip("0-\n") else ""
    return ":".join(digits[position : position + 8] for position in range(0, len(digits), 8))


def resolve(name: str, roots: Roots) -> BlockDevice:
    """Returns the device of a path or a stable id. Raises UsageError if there is none.

    Raises BlklabError for an id that several devices have: cheap disks share serial numbers.
    """
    path = Path(name)
    if "/" in name and not name.startswith("file:"):
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{name}: {reason}; expected a block device, see lsblk") from None
        if not stat.S_ISBLK(status.st_mode):
            raise UsageError(f"{name}: not a block device; lsblk lists them")
        return of_number(number_of(status.st_rdev), roots, name)
    devices = find_by_id(name, roots)
    if not devices:
        raise UsageError(f"{name}: no device has this id; choose one from /dev/disk/by-id, or give the device's path")
    if len(devices) > 1:
        names = ", ".join(device.name for device in devices)
        raise BlklabError(f"{name}: found {len(devices)} devices with this id ({names}), expected one")
    return devices[0]


def of_number(number: str, roots: Roots, path: str | None = None) -> BlockDevice:
    """Returns the device `major:minor`. Raises BlklabError if it does not exist."""
    node = node_of(number, roots)
    if node is None:
        directory = roots.sys / "dev/block"
        raise BlklabError(f"{path or number}: no device {number} in {directory}: it is gone")
    return of_node(node, roots, path)


def of_node(node: Path, roots: Roots, path: str | None = None) -> BlockDevice:
    """Returns the device of a sysfs directory."""
    number = read_text(node / "dev") or ""
    disk = node.parent if (node / "partition").exists() else node
    sequence = read_text(disk / "diskseq")
    sectors = read_text(node / "size")
    return BlockDevice(
        path=path or roots.format_path(roots.device(node.name)),
        name=node.name,
        number=number,
        node=node,
        diskseq=int(sequence) if sequence and sequence.isdigit() else None,
        ids=tuple(_ids(node, roots)),
        size=int(sectors) * 512 if sectors and sectors.isdigit() else 0,
    )


def find_by_id(name: str, roots: Roots) -> list[BlockDevice]:
    """Returns every device with a stable id; several can share one."""
    devices = []
    for entry in entries(roots.sys / "class/block"):
        number = read_text(entry / "dev")
        node = node_of(number, roots) if number else None
        if number and node and normal(name) in map(normal, _ids(node, roots)):
            devices.append(of_node(node, roots))
    return devices


def _ids(node: Path, roots: Roots) -> list[str]:
    loop = loop_file(node)
    if loop is not None:
        # A deleted file's name may be another file's by now.
        return [] if loop.endswith(" (deleted)") else [f"file:{loop}"]
    number = read_text(node / "dev") or ""
    links = [*_links(number, roots), *_udev(number, roots)]
    ids = [*sorted(dict.fromkeys(links), key=_telling), *_sysfs(node)]
    return list(dict.fromkeys(ids))


def _telling(name: str) -> tuple[int, str]:
    """Sort key: names given by users first, then those with model and serial, then numbers."""
    if name.startswith(("md-name-", "dm-name-")):
        return 0, name
    bare = re.match(r"wwn-|nvme-(eui|nvme|uuid)\.|lvm-pv-uuid-", name)
    return (1 if re.match(r"[a-z]+-", name) and not bare else 2), name


def _links(number: str, roots: Roots) -> Iterator[str]:
    for link in entries(roots.dev / BY_ID):
        try:
            status = link.stat()
        except OSError:
            continue  # dangling
        if stat.S_ISBLK(status.st_mode) and number_of(status.st_rdev) == number:
            yield link.name


def _udev(number: str, roots: Roots) -> Iterator[str]:
    """Returns the lines S:link and E:KEY=value of udev's database."""
    content = read_text(roots.udev / f"b{number}") or ""
    values = {}
    for line in content.splitlines():
        if line.startswith(f"S:{BY_ID}/"):
            yield line.removeprefix(f"S:{BY_ID}/")
        elif line.startswith("E:"):
            key, _, value = line[2:].partition("=")
            values[key] = value
    part = f"-part{values['PARTN']}" if values.get("PARTN") else ""
    for key in ("ID_SERIAL_SHORT", "ID_SCSI_SERIAL", "ID_WWN_WITH_EXTENSION", "ID_WWN"):
        if values.get(key, "").strip():
            yield values[key].strip() + part


def _sysfs(node: Path) -> Iterator[str]:
    number = read_text(node / "partition")
    disk, part = (node.parent, f"-part{number}") if number else (node, "")
    for file in ("wwid", "device/wwid"):
        wwid = " ".join((read_text(disk / file) or "").split())
        if wwid.startswith("naa."):
            yield f"wwn-0x{wwid.removeprefix('naa.')}{part}"
        elif wwid:
            yield f"{wwid}{part}"
    for file in ("serial", "device/serial"):
        if serial := read_text(disk / file):
            yield serial + part
    if serial := _unit_serial(disk):
        yield serial + part
    if uuid := read_text(disk / "dm/uuid"):
        yield f"dm-uuid-{uuid}{part}"
    if uuid := read_text(disk / "md/uuid"):
        yield f"md-uuid-{array_uuid(uuid)}{part}"
    if (name := read_text(disk / "dm/name")) and read_text(disk / "dm/uuid"):
        yield f"dm-name-{name}{part}"


def _unit_serial(disk: Path) -> str | None:
    """Returns SCSI's page 0x80: SPC-4 7.8.14, 4 bytes of header, then the serial number."""
    try:
        page = (disk / "device/vpd_pg80").read_bytes()
    except OSError:
        return None
    return page[4 : 4 + int.from_bytes(page[2:4], "big")].decode("ascii", "replace").strip("\0 ") or None


def format_ids(ids: Iterable[str]) -> str:
    """Returns ids for a message that tells the user which to write."""
    id_list = ", ".join(f"'{device_id}'" for device_id in ids)
    return id_list or "none is known: a disk without a stable id cannot be distinguished from others"


def is_bare(name: str, roots: Roots) -> bool:
    """Tells whether a name can change at the next boot: /dev/sdb, sdb."""
    if name.startswith("/dev/"):
        return not name.startswith(f"/dev/{BY_ID}/")
    return "/" not in name and (roots.sys / "class/block" / name).exists()


def same_disk(old: BlockDevice, new: BlockDevice) -> bool:
    """Tells whether a device is still the same disk: by diskseq, else by an id, else by size.

    Ids change with what is written on a disk, but not all of them.
    """
    if old.number != new.number or old.name != new.name:
        return False
    if old.diskseq is not None and new.diskseq is not None:
        return old.diskseq == new.diskseq
    return bool(set(old.ids) & set(new.ids)) if old.ids else old.size == new.size


def device_number(number: str) -> int:
    """Returns `major:minor` as the system calls take it."""
    major, _, minor = number.partition(":")
    return os.makedev(int(major), int(minor))
