"""Multipath devices (dm-multipath), and which members of arrays are such devices or their paths."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from blklab.md.member_devices import whole_disk
from blklab.md.model import ArrayMember
from blklab.system.identity import normal, of_node
from blklab.system.roots import Roots, entries, read_text

_UUID = re.compile(r"(?:part\d+-)?mpath-(\S+)")
"""UUIDs of multipath devices, and of partitions that kpartx makes of them."""

_WWN = re.compile(r"wwn-0x([0-9a-f]{16,32})")


@dataclass(frozen=True)
class MultipathDevice:
    """A multipath device, or a partition of one."""

    node: str  # The kernel's name, `dm-0`
    name: str  # `mpatha`
    wwid: str  # As multipathd writes it: of SCSI disks, 3 and the WWN
    paths: tuple[str, ...]  # The kernel's names of the disks below it

    @property
    def is_partition(self) -> bool:
        """Whether it lies on another multipath device, not on disks."""
        return any(path.startswith("dm-") for path in self.paths)


def read_multipaths(roots: Roots) -> tuple[MultipathDevice, ...]:
    """Returns the multipath devices of a host and their partitions; a partition has the name of its device."""
    devices = []
    for entry in entries(roots.sys / "class/block"):
        match = _UUID.fullmatch(read_text(entry / "dm/uuid") or "")
        if match:
            name = read_text(entry / "dm/name") or entry.name
            paths = tuple(slave.name for slave in entries(entry / "slaves"))
            devices.append(MultipathDevice(entry.name, name, match[1], paths))
    whole = {device.wwid: device.name for device in devices if not device.is_partition}
    return tuple(replace(device, name=whole.get(device.wwid, device.name)) for device in devices)


def add_multipath(
    members: Sequence[ArrayMember], devices: Sequence[MultipathDevice], roots: Roots
) -> Iterator[ArrayMember]:
    """Yields members with their disks, the WWNs of these, and what they have to do with multipath devices."""
    for member in members:
        entry = roots.sys / "class/block" / member.name
        disk = whole_disk(entry.resolve()) if entry.exists() else None
        if disk is None:
            yield member
            continue
        own = next((device for device in devices if device.node == disk.name), None)
        ids = [normal(device_id) for device_id in of_node(disk, roots).ids]
        wwn = next((match[1] for match in map(_WWN.fullmatch, ids) if match), "")
        above = [device for device in devices if disk.name in device.paths or (wwn and device.wwid == f"3{wwn}")]
        yield replace(
            member,
            disk=disk.name,
            wwn=wwn,
            multipath=own.name if own else "",
            path_of=above[0].name if above and own is None else "",
        )
