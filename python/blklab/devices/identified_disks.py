"""Which model of the library describes each disk of this host."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from blklab.devices import stock_models
from blklab.devices.stock_models import LibraryMatch, LibraryModel
from blklab.errors import UsageError
from blklab.system.identity import resolve
from blklab.system.roots import Roots, entries, read_text

CLASSES_BY_RPM = ((5_999, "hdd-5400"), (7_999, "hdd-7200"), (11_999, "hdd-10000"))  # Above: hdd-15000

NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "bcache", "drbd")
"""Beginnings of the names of block devices that are no disks."""


HOST_MANAGED = "host-managed shingled disk"


@dataclass(frozen=True)
class IdentifiedDisk:
    """A disk, or what a user wrote about one, and its model."""

    name: str  # The kernel's name; empty without a disk
    says: str  # Vendor and model as the kernel reads them
    bytes: int | None
    model: LibraryModel | None
    guess: str = ""  # Why it is not the model of this product; empty if it is
    capacity: int | None = None  # Bytes to which the model is scaled
    obstacle: str = ""  # Why there is no model


def identify_disks(roots: Roots) -> list[IdentifiedDisk]:
    """Returns the disks of this host in the order of their names."""
    nodes = [node for node in entries(roots.sys / "block") if not node.name.startswith(NO_DISKS)]
    return [_identify(node, roots) for node in nodes]


def refuse_host_managed(device: str, roots: Roots) -> None:
    """Raises UsageError if a block device is on a host-managed disk."""
    identity = resolve(device, roots)
    node = identity.node
    disk = _identify(node.parent if (node / "partition").exists() else node, roots)
    if (disk.obstacle or "").startswith(HOST_MANAGED):
        raise UsageError(f"{identity.path}: found a {disk.obstacle}")


def _identify(node: Path, roots: Roots) -> IdentifiedDisk:
    vendor, model = (read_text(node / "device" / file) or "" for file in ("vendor", "model"))
    # SATA disks have the vendor ATA, NVMe and virtio disks a number.
    description = " ".join(word for word in (vendor, model) if word and word != "ATA" and not word.startswith("0x"))
    size = read_text(node / "size")
    disk = IdentifiedDisk(node.name, description, int(size) * 512 if size and size.isdigit() else None, None)
    if (zone_model := read_text(node / "queue/zoned")) == "host-managed":
        why = "the host must write its zones in sequence, which md and most filesystems cannot do"
        return replace(disk, obstacle=f"{HOST_MANAGED}: {why}")
    for name in (description, model):
        match = stock_models.identify(name, disk.bytes) if name else None
        if match is not None and _fits(match, node):
            return replace(disk, model=match.model, guess=match.why, capacity=match.capacity)
    if not description or re.match(r"(QEMU|VBOX|VMware|Virtio|Msft Virtual)", description, re.I):
        return replace(disk, obstacle="virtual disk: measure it with `blklab calibrate`")
    name, why = _disk_class(node, zone_model, roots)
    return replace(disk, model=stock_models.library_model(name), guess=why)


def _fits(match: LibraryMatch, node: Path) -> bool:
    """Returns whether a disk is of the kind that its name says; names of some makers say only `SSD`."""
    if not match.why:
        return True
    if node.name.startswith("nvme"):
        return match.model.kind == "nvme"
    if read_text(node / "queue/rotational") == "1":
        return match.model.kind == "hdd"
    return match.model.kind != "nvme"


def _disk_class(node: Path, zone_model: str | None, roots: Roots) -> tuple[str, str]:
    """Returns the class of a disk that the library does not have, and why."""
    if read_text(node / "queue/rotational") == "1":
        if zone_model in {"host-aware", "drive-managed"}:
            return "hdd-smr", f"it rotates, and its zones are {zone_model}"
        rpm = _rpm(node, roots)
        if rpm is None:
            return "hdd-7200", "it rotates; udev does not say how fast"
        return next(
            (name for max_rpm, name in CLASSES_BY_RPM if rpm <= max_rpm), "hdd-15000"
        ), f"it rotates at {rpm} rpm"
    if node.name.startswith("nvme"):
        # Disks for servers have capacitors, and therefore no volatile cache.
        if read_text(node / "queue/write_cache") == "write through":
            return "nvme-datacenter", "NVMe without a volatile write cache"
        return "nvme-consumer", "NVMe with a volatile write cache"
    return "ssd-consumer", "flash that is not NVMe; if it is for servers, use ssd-datacenter"


def _rpm(node: Path, roots: Roots) -> int | None:
    major, _, minor = (read_text(node / "dev") or "").partition(":")
    if not (major.isdigit() and minor.isdigit()):
        return None
    content = read_text(roots.udev / f"b{major}:{minor}") or ""
    match = re.search(r"^E:ID_ATA_ROTATION_RATE_RPM=(\d+)$", content, re.M | re.A)
    return int(match[1]) if match else None
