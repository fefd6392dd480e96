"""The disks beneath arrays, as they see themselves: asked only if somebody wants to know."""

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from blklab.md.members import number
from blklab.md.model import DiskHealth, Inventory, PhysicalDisk
from blklab.md.probing import Probe
from blklab.md.smart.health import devices, parse
from blklab.system.identity import normal, of_node
from blklab.system.layers import layers
from blklab.system.roots import Roots, text

AT_ONCE: Final = 16
"""Disks that are asked at the same time."""

Question = tuple[str, str]
"""A path, and smartctl's type of what is behind it; empty of what has a name of its own."""


def examined(
    inventory: Inventory,
    roots: Roots,
    reader: Probe | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Inventory:
    """Returns the inventory with the disks beneath its arrays; what they do not tell is in
    `unseen`.

    A disk that a controller hides is asked by way of it, and known by its serial number or WWN; if
    no member has that, it is told as that controller's. `tell` takes how many were asked.
    """
    asked = reader or Probe()
    nodes = _beneath(inventory, roots)
    answers = _asked([(of_node(node, roots).path, "") for node in nodes], asked, tell)
    disks, hidden = [], []
    for (node, arrays), (health, failure) in zip(nodes.items(), answers, strict=True):
        device = of_node(node, roots)
        disk = PhysicalDisk(
            node.name,
            device.path,
            arrays,
            health,
            timeout=number(text(node / "device/timeout")),
            zoned=text(node / "queue/zoned") or "",
            failure=failure,
        )
        disks.append(disk)
        # smartctl knows a controller's volume for a disk without SMART, or says which -d to try.
        if failure and (health.protocol or re.search(r"'-d [\w+]+,N'", failure)):
            hidden.append((len(disks) - 1, {normal(identity) for identity in device.ids}))
    if hidden:
        disks += _behind(disks, hidden, asked, tell)
    unseen = [f"{one.name}: not seen: SMART: {one.failure}" for one in disks if one.failure]
    if len({one.failure for one in disks}) == 1 and disks[0].failure:
        unseen = [f"SMART of {len(disks)} disks: not seen: {disks[0].failure}"]
    return replace(inventory, disks=tuple(disks), unseen=(*inventory.unseen, *unseen))


def _beneath(inventory: Inventory, roots: Roots) -> dict[Path, tuple[str, ...]]:
    """The disks beneath arrays, and the arrays' names."""
    disks: dict[Path, dict[str, None]] = {}
    for array in inventory.arrays:
        for member in array.members:
            device = text(roots.sys / "class/block" / member.name.replace("/", "!") / "dev")
            for layer in layers([device] if device else [], roots):
                # The paths of an NVMe multipath disk have no device file: its head has.
                whole = re.sub(r"^(nvme\d+)c\d+(n\d+)$", r"\1\2", layer.name)
                node = (
                    (roots.sys / "block" / whole).resolve() if whole != layer.name else layer.disk
                )
                if layer.leaf and node is not None and (node / "device").exists():
                    disks.setdefault(node, {})[array.name] = None
    return {node: tuple(names) for node, names in disks.items()}


def _asked(
    questions: Iterable[Question], reader: Probe, tell: Callable[[int], None]
) -> list[tuple[DiskHealth, str]]:
    disks = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer, failure in pool.map(lambda question: reader.smart(*question), questions):
            disks.append((DiskHealth(), failure) if failure else parse(answer))
            tell(len(disks))
    return disks


def _behind(
    disks: list[PhysicalDisk],
    hidden: list[tuple[int, set[str]]],
    reader: Probe,
    tell: Callable[[int], None],
) -> list[PhysicalDisk]:
    """Puts what controllers hide in the places of members whose ids they have; returns the rest."""
    answer, _ = reader.controllers()
    questions = [question for question in dict.fromkeys(devices(answer)) if "," in question[1]]
    rest = []
    for (path, kind), (health, failure) in zip(
        questions, _asked(questions, reader, tell), strict=True
    ):
        known = {normal(one) for one in (health.serial, health.wwn) if one}
        match = next((at for at, ids in hidden if ids & known), None)
        if match is None:
            rest.append(PhysicalDisk(f"{path} {kind}", path, (), health, kind, failure=failure))
        else:
            disks[match] = replace(disks[match], health=health, kind=kind, failure=failure)
    return rest
