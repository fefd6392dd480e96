"""Reads SMART values of the disks below arrays."""

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from blklab.md.members import parse_number
from blklab.md.model import DiskHealth, Inventory, PhysicalDisk
from blklab.md.probing import Probe
from blklab.md.smart.health import parse_devices, parse_health
from blklab.system.identity import normal, of_node
from blklab.system.layers import layers
from blklab.system.roots import Roots, text

MAX_PARALLEL: Final = 16  # Disks that are read at the same time
SmartTarget = tuple[str, str]  # A path and smartctl's device type, which is empty for disks that the kernel shows


def add_health(
    inventory: Inventory, roots: Roots, reader: Probe | None = None, advance: Callable[[int], None] = lambda _: None
) -> Inventory:
    """Returns the inventory with the disks below its arrays; `unseen` lists unreadable ones.

    Disks that a controller hides are read through it, and recognised by serial number or WWN. Those
    that belong to no member are added without an array. `advance` gets the number of disks read.
    """
    probe = reader or Probe()
    nodes = _find_disks(inventory, roots)
    answers = _read_all([(of_node(node, roots).path, "") for node in nodes], probe, advance)
    disks, hidden = [], []
    for (node, arrays), (health, failure) in zip(nodes.items(), answers, strict=True):
        device = of_node(node, roots)
        disk = PhysicalDisk(
            node.name,
            device.path,
            arrays,
            health,
            timeout=parse_number(text(node / "device/timeout")),
            zoned=text(node / "queue/zoned") or "",
            failure=failure,
        )
        disks.append(disk)
        # smartctl reports a controller's volume as a disk without SMART, or names a -d to try.
        if failure and (health.protocol or re.search(r"'-d [\w+]+,N'", failure)):
            hidden.append((len(disks) - 1, {normal(identity) for identity in device.ids}))
    if hidden:
        disks += _read_hidden_disks(disks, hidden, probe, advance)
    unseen = [f"{disk.name}: not seen: SMART: {disk.failure}" for disk in disks if disk.failure]
    if len({disk.failure for disk in disks}) == 1 and disks[0].failure:
        unseen = [f"SMART of {len(disks)} disks: not seen: {disks[0].failure}"]
    return replace(inventory, disks=tuple(disks), unseen=(*inventory.unseen, *unseen))


def _find_disks(inventory: Inventory, roots: Roots) -> dict[Path, tuple[str, ...]]:
    """Returns the disks below arrays, with the names of the arrays."""
    disks: dict[Path, dict[str, None]] = {}
    for array in inventory.arrays:
        for member in array.members:
            device = text(roots.sys / "class/block" / member.name.replace("/", "!") / "dev")
            for layer in layers([device] if device else [], roots):
                # The paths of an NVMe multipath disk have no device file, but its head has.
                head = re.sub(r"^(nvme\d+)c\d+(n\d+)$", r"\1\2", layer.name)
                node = (roots.sys / "block" / head).resolve() if head != layer.name else layer.disk
                if layer.leaf and node is not None and (node / "device").exists():
                    disks.setdefault(node, {})[array.name] = None
    return {node: tuple(names) for node, names in disks.items()}


def _read_all(
    targets: Iterable[SmartTarget], reader: Probe, advance: Callable[[int], None]
) -> list[tuple[DiskHealth, str]]:
    disks = []
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        for output, failure in pool.map(lambda target: reader.read_smart(*target), targets):
            disks.append((DiskHealth(), failure) if failure else parse_health(output))
            advance(len(disks))
    return disks


def _read_hidden_disks(
    disks: list[PhysicalDisk], hidden: list[tuple[int, set[str]]], reader: Probe, advance: Callable[[int], None]
) -> list[PhysicalDisk]:
    """Completes `disks` with disks behind controllers that have their ids; returns the others."""
    output, _ = reader.read_controllers()
    targets = [target for target in dict.fromkeys(parse_devices(output)) if "," in target[1]]
    others = []
    for (path, kind), (health, failure) in zip(targets, _read_all(targets, reader, advance), strict=True):
        disk_ids = {normal(identity) for identity in (health.serial, health.wwn) if identity}
        match = next((index for index, ids in hidden if ids & disk_ids), None)
        if match is None:
            others.append(PhysicalDisk(f"{path} {kind}", path, (), health, kind, failure=failure))
        else:
            disks[match] = replace(disks[match], health=health, kind=kind, failure=failure)
    return others
