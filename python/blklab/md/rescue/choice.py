"""Finds the array that a user names, among those of this host that do not start."""

from pathlib import Path

from blklab.errors import UsageError
from blklab.md.inventory import read_inventory
from blklab.md.model import Array, Inventory
from blklab.md.rescue.array_content import read_contents
from blklab.md.rescue.diagnosis import ArrayRescue, diagnose, list_all_members
from blklab.system.roots import Roots


def find_arrays(name: str, inventory: Inventory) -> set[str]:
    """Returns the names of the arrays that a path, a UUID, a name or a member means. Raises UsageError without one."""
    arrays = [*inventory.arrays, *inventory.unassembled]
    path = Path(name).resolve()
    names = {name, str(path)} if name.startswith("/") else {name}
    device = path.name if path.parent == Path("/dev") else ""
    # Of a device, all of its array is read: md may hold other members, and run.
    matches = {array.name for array in arrays if _is_meant(array, names, device)}
    if not matches:
        array_list = ", ".join(f"{array.name} ({array.uuid})" for array in arrays) or "none"
        reason = "no array or member of this name"
        if path.name in inventory.log_names:
            reason = "only the kernel's log has this name: the array has another name now, or its disks are missing"
        raise UsageError(f"{name}: {reason}; arrays that were found: {array_list}")
    return matches


def _is_meant(array: Array, names: set[str], device: str) -> bool:
    if array.is_called(names) or array.uuid in names:
        return True
    return any(member.name == device for member in list_all_members(array))


def find_rescue(name: str, roots: Roots) -> tuple[ArrayRescue, Inventory]:
    """Returns the diagnosis of one array of this host, and its inventory. Raises UsageError if it is not one."""
    inventory = read_inventory(roots)
    names = find_arrays(name, inventory)
    contents = read_contents([*inventory.arrays, *inventory.unassembled])
    rescues = [rescue for rescue in diagnose(inventory, contents) if rescue.array.name in names]
    if len(rescues) > 1:
        array_list = ", ".join(f"{rescue.array.name} ({rescue.array.uuid})" for rescue in rescues)
        raise UsageError(f"{name}: several arrays are called so: {array_list}; name one of its members")
    return rescues[0], inventory
