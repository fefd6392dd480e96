"""The disks and arrays of this host, as parts of a question."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blklab.advise.arrangement import Arrangement
from blklab.advise.question import FLASH, DiskPool, lasting_state
from blklab.devices.identified_disks import IdentifiedDisk, identify_disks
from blklab.devices.stock_models import DeviceTable
from blklab.errors import UsageError
from blklab.md.inventory import read_inventory
from blklab.md.model import Array
from blklab.system.identity import of_node
from blklab.system.roots import Roots
from blklab.system.users import uses

VIRTUAL_POOL = "virtual"  # The name of virtual disks, which only a measurement describes


NOT_MEASURED: Mapping[str, DeviceTable] = MappingProxyType({})


def pools_of_this_host(
    roots: Roots,
    prices: Mapping[str, float],
    flash_state: str,
    tell: Callable[[str], None],
    measured: Mapping[str, DeviceTable] = NOT_MEASURED,
) -> tuple[list[DiskPool], dict[str, str], list[Arrangement]]:
    """Returns the disks of this host that have a model, the paths of unused ones by name, and its arrays.

    `tell` gets a line for each disk that is left out, and each guess. `measured` has the models of disks that were
    measured, by the kernel's name.
    """
    # Disks of a pool are equal: of one model and size, with the same measured parameters.
    equal_disks: dict[tuple[str, int, str], list[IdentifiedDisk]] = defaultdict(list)
    for disk in identify_disks(roots):
        parameters = measured.get(disk.name)
        if not disk.bytes or (disk.model is None and parameters is None):
            tell(f"{disk.name}: left out: {disk.obstacle or 'no size'}")
            continue
        if disk.guess and parameters is None and disk.model is not None:
            tell(f"{disk.name}: taken for a typical {disk.model.name}: {disk.guess}")
        model = VIRTUAL_POOL if disk.model is None else disk.model.name
        equal_disks[model, disk.bytes, repr(parameters)].append(disk)
    pools: list[DiskPool] = []
    paths: dict[str, str] = {}
    slots: dict[str, str] = {}
    for (model, size, _), disks in equal_disks.items():
        parameters = measured.get(disks[0].name)
        if parameters is None:
            kind = disks[0].model.kind if disks[0].model else ""
            table: dict[str, object] = {"model": model, **_keys_of_capacity(disks[0])}
            guess = disks[0].guess
        else:
            kind = str(parameters["kind"])
            table = dict(parameters)
            if model != VIRTUAL_POOL:
                # The name of the model says what its maker states, such as the bytes that may be written.
                table = {"model": model, **{key: value for key, value in parameters.items() if key != "kind"}}
            guess = ""
        table["size"] = str(size)
        if kind in FLASH:
            table |= lasting_state(flash_state)
        number = sum(pool.name.startswith(model) for pool in pools)
        name = f"{model}-{number + 1}" if number else model
        pool = DiskPool(name, len(disks), table, kind, size, prices.get(model), guess)
        pools.append(pool)
        for disk_number, disk in enumerate(disks, 1):
            slots[disk.name] = pool.disk(disk_number)
            device = of_node(roots.sys / "block" / disk.name, roots)
            if reasons := uses(device, roots):
                tell(f"{disk.name}: is in use, so the commands do not name it: {reasons[0]}")
            elif device.id:
                paths[pool.disk(disk_number)] = f"/dev/disk/by-id/{device.id}"
    if not pools:
        raise UsageError("--this-host: no disk of this host has a model: measure one with `blklab calibrate`")
    arrangements = [_arrangement(array, slots, roots) for array in read_inventory(roots).arrays]
    return pools, paths, [arrangement for arrangement in arrangements if arrangement]


def _keys_of_capacity(disk: IdentifiedDisk) -> dict[str, object]:
    """Returns the key of a disk that has another capacity than its model."""
    return {} if disk.capacity is None else {"capacity": str(disk.capacity)}


def _arrangement(array: Array, slots: Mapping[str, str], roots: Roots) -> Arrangement | None:
    """Returns an array of this host; None if one of its members is not on a disk with a model."""
    level = array.level.removeprefix("raid")
    members = []
    for member in array.members:
        disk = member.name if member.name in slots else (roots.sys / "class/block" / member.name).resolve().parent.name
        if member.slot is None or disk not in slots:
            continue
        members.append(slots[disk])
    if len(members) != array.raid_disks or level not in {"0", "1", "10", "5", "6"}:
        return None
    table: dict[str, object] = {"level": int(level), "members": members}
    if level != "1":
        table["chunk"] = str(array.chunk)
    copies = 1
    if level == "10":
        near = array.layout & 255
        far = array.layout >> 8 & 255
        if near > 1:
            letter = "n"
        elif array.layout & 1 << 16:
            letter = "o"
        else:
            letter = "f"
        copies = max(near, far)
        table["layout"] = f"{letter}{copies}"
    if level != "0":
        table["bitmap"] = bool(array.bitmap)
    failures_by_level = {"0": 0, "1": len(members) - 1, "5": 1, "6": 2, "10": copies - 1}
    failures = failures_by_level[level]
    name = f"present-{array.name}"
    return Arrangement(name, f"what you have: {array.name}, RAID-{level}", {name: table}, members, failures)
