"""Block devices that are members of arrays, or that could be: what lies outside of all assembled arrays.

Attributes: Documentation/ABI/stable/sysfs-block, Linux 6.1.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.grouping import by_key
from blklab.md.model import Array, ArrayMember
from blklab.md.probing import NOT_RECORDED, Probe
from blklab.md.superblocks import SuperblockReading, newest_superblock
from blklab.system.identity import of_node
from blklab.system.layers import list_mount_devices, partitions
from blklab.system.mounts import Mount, unescape_name
from blklab.system.roots import Roots, entries, read_text
from blklab.text.natural_order import natural_order
from blklab.units import SECTOR

NEVER_MEMBERS = re.compile(r"(ram|zram|sr|fd|mtdblock)\d")
"""Names of memory, of drives with removable media, and of raw flash, of which arrays are not made."""

OVERLAY_UUID = "BLKLAB-"
"""How the device-mapper UUIDs of overlays begin."""

MAX_DEVICES = 4096  # Devices outside of arrays that are read
MAX_NAMES = 6  # Names in one line about devices that could not be read


@dataclass(frozen=True)
class OutsideDevices:
    """The devices that no assembled array has as a member."""

    members: tuple[ArrayMember, ...] = ()  # Those with an md superblock
    unread: tuple[str, ...] = ()  # Why others could not be read: one line for each reason


def device_facts(node: Path | None) -> dict[str, Any]:
    """Returns the fields of an ArrayMember that describe its device; `node` is its directory in sysfs."""
    disk = whole_disk(node)
    rotational = read_text(disk / "queue/rotational") if disk else None
    begin = _number(node / "start") if node and disk != node else 0
    sectors = _number(node / "size") if node else None
    return {
        "size": None if sectors is None else sectors * SECTOR,
        "start": None if begin is None else begin * SECTOR,
        "rotational": {"0": False, "1": True}.get(rotational or ""),
        "transport": "NVMe" if disk and disk.name.startswith("nvme") else "",
        "logical_block": _number(disk / "queue/logical_block_size") if disk else None,
        "physical_block": _number(disk / "queue/physical_block_size") if disk else None,
        "optimal_io": _number(disk / "queue/optimal_io_size") if disk else None,
    }


def whole_disk(node: Path | None) -> Path | None:
    """Returns the directory of the disk of a partition, or that of the device itself."""
    return node.parent if node and (node / "partition").exists() else node


def find_candidates(roots: Roots, arrays: Sequence[Array], mounts: Sequence[Mount]) -> list[Path]:
    """Returns the sysfs directories of devices that could be members and are not: in no array, and held by nothing.

    Assembled arrays are candidates too (RAID-1 of RAID-0), unless they are mounted.
    """
    numbers = {mount.number for mount in mounts}
    member_names = {member.name for array in arrays for member in array.members}
    array_names = {array.name for array in arrays}
    candidates = []
    for entry in sorted(entries(roots.sys / "class/block"), key=lambda entry: natural_order(entry.name)):
        with suppress(OSError, RuntimeError):
            node = entry.resolve(strict=True)
            is_mounted_array = (node / "md").is_dir() and read_text(node / "dev") in numbers
            if not is_mounted_array and is_candidate(node, member_names, array_names):
                candidates.append(node)
    return candidates[:MAX_DEVICES]


def is_candidate(node: Path, member_names: Collection[str], array_names: Collection[str]) -> bool:
    """Whether a device could be a member: `member_names` are names of members, `array_names` those of arrays."""
    disk = whole_disk(node) or node
    if is_overlay(disk):
        return False  # blklab made it, to try the array of the device below it
    if NEVER_MEMBERS.match(disk.name) or not (node / "dev").exists() or not _number(node / "size"):
        return False
    if (disk / "md").is_dir() and disk.name not in array_names:
        return False  # an array that is not running
    # A disk in an array, or below multipath, shows its partitions too: they are parts of what uses the disk.
    for device in {node, disk}:
        holders = [holder for holder in entries(device / "holders") if not is_overlay(holder)]
        if device.name in member_names or holders or (device / "bcache").exists():
            return False
    return True


def is_overlay(node: Path) -> bool:
    """Whether a device is an overlay of `blklab md overlays`, by the directory in sysfs."""
    return (read_text(node / "dm/uuid") or "").startswith(OVERLAY_UUID)


def read_outside(arrays: Sequence[Array], mounts: Sequence[Mount], roots: Roots, reader: Probe) -> OutsideDevices:
    """Reads the superblocks of devices outside of arrays."""
    candidates = find_candidates(roots, arrays, mounts)
    readings = {node: reader.read_superblocks(roots.device(node.name)) for node in candidates}
    seen_on_partitions = {*_positions_in_arrays(arrays, roots), *_positions_on_partitions(readings)}
    users = _find_users(mounts, roots) if any(reading.members for reading in readings.values()) else {}
    members = []
    for node, reading in readings.items():
        superblocks = tuple(
            superblock
            for superblock in reading.members
            # Metadata 0.90 and 1.0 of the last partition are also at the end of the disk.
            if (node.name, superblock.offset) not in seen_on_partitions
        )
        if superblocks:
            member_reading = SuperblockReading(superblocks, reading.foreign, reading.failure)
            members.append(_make_member(node, member_reading, users.get(node.name, ()), roots))
    return OutsideDevices(tuple(members), tuple(_explain_failures(readings, arrays, roots)))


def _make_member(node: Path, reading: SuperblockReading, users: Sequence[str], roots: Roots) -> ArrayMember:
    superblock = newest_superblock(reading)
    return ArrayMember(
        name=node.name,
        path=roots.format_path(roots.device(node.name)),
        slot=superblock.slot if superblock else None,
        superblock=superblock,
        leftovers=tuple(other for other in reading.members if other is not superblock),
        foreign=tuple(reading.foreign),
        data_offset=superblock.data_offset if superblock else None,
        users=tuple(users),
        id=of_node(node, roots).id or "",
        logical_volume=(read_text(node / "dm/uuid") or "").startswith("LVM-"),
        **device_facts(node),
    )


def _positions_in_arrays(arrays: Sequence[Array], roots: Roots) -> Iterator[tuple[str, int]]:
    """Yields the disks of members that are partitions, and where on the disk their superblocks are, in bytes."""
    for array in arrays:
        for member in array.members:
            if member.start:
                node = (roots.sys / "class/block" / member.name).resolve()
                for superblock in filter(None, (member.superblock, *member.leftovers)):
                    yield node.parent.name, member.start + superblock.offset


def _positions_on_partitions(readings: Mapping[Path, SuperblockReading]) -> Iterator[tuple[str, int]]:
    """Yields the same for partitions that were read."""
    for node, reading in readings.items():
        start = _number(node / "start")
        if (node / "partition").exists() and start is not None:
            for superblock in reading.members:
                yield node.parent.name, start * SECTOR + superblock.offset


def _find_users(mounts: Sequence[Mount], roots: Roots) -> dict[str, list[str]]:
    """Returns what uses devices, by the kernel's name: mounts and swap, and for a disk what uses its partitions."""
    users_by_number: dict[str, list[str]] = {}
    for mount in mounts:
        for number in list_mount_devices(mount, roots):
            users_by_number.setdefault(number, []).append(f"mounted at {mount.point}")
    swaps = [
        unescape_name(line.split()[0])
        for line in (read_text(roots.proc / "swaps") or "").splitlines()[1:]
        if line.split()
    ]
    swap_names = {Path(path).name for path in swaps}
    users: dict[str, list[str]] = {}
    for node in [entry.resolve() for entry in entries(roots.sys / "class/block")]:
        node_users = list(users_by_number.get(read_text(node / "dev") or "", ()))
        if node.name in swap_names:
            node_users.append("used as swap")
        users.setdefault(node.name, []).extend(node_users)
        if (node / "partition").exists():
            holder_users = [f"part of {holder.name}" for holder in entries(node / "holders")]
            users.setdefault(node.parent.name, []).extend(
                f"{node.name} is {user}" for user in (*node_users, *holder_users)
            )
    return {name: list(dict.fromkeys(device_users)) for name, device_users in users.items()}


def _explain_failures(
    readings: Mapping[Path, SuperblockReading], arrays: Sequence[Array], roots: Roots
) -> Iterator[str]:
    """Yields one line for each reason why devices could not be read. Of a disk with partitions, these are named."""
    sizes = [member.size for array in arrays for member in array.members if member.size]
    failures = []
    for node, reading in readings.items():
        if not reading.failure or (not (node / "partition").exists() and partitions(node)):
            continue
        too_small = (_number(node / "size") or 0) * SECTOR < min(sizes, default=0)
        if reading.failure == NOT_RECORDED and too_small:
            continue
        failures.append((reading.failure, roots.format_path(roots.device(node.name))))
    for reason, paths in by_key(failures).items():
        names = ", ".join(paths[:MAX_NAMES])
        if len(paths) > MAX_NAMES:
            names += f" and {len(paths) - MAX_NAMES} more"
        yield f"{names}: not seen: {reason}"


def _number(path: Path) -> int | None:
    match = re.fullmatch(r"\d{1,19}", read_text(path) or "", re.A)
    return int(match[0]) if match else None
