"""The arrays that a live tuning touches, and whether they are complete."""

from collections.abc import Collection, Iterable
from pathlib import Path

from blklab.md import command_lines
from blklab.system.layers import SysfsLayer, partitions
from blklab.system.roots import Roots, entries, read_text

WORKING_STATES = frozenset({"clean", "active", "active-idle", "write-pending", ""})
"""Values of `array_state` of an array in use (Documentation/admin-guide/md.rst); empty if the file is missing."""


def list_arrays(layers: Iterable[SysfsLayer]) -> list[Path]:
    """Returns the sysfs directories of the arrays among these devices, below them and above their disks."""
    arrays: dict[Path, None] = {}
    for layer in layers:
        if layer.node is None or layer.disk is None:
            continue
        if layer.kind == "md":
            arrays[layer.node] = None
        for holder in _list_holders(layer.disk):
            if (holder / "md").is_dir():
                arrays[holder] = None
    return list(arrays)


def _list_holders(node: Path) -> list[Path]:
    """Returns the devices above a disk and its partitions, directly or through others."""
    waiting = [node, *partitions(node)]
    holders: dict[Path, None] = {}
    while waiting:
        for entry in entries(waiting.pop() / "holders"):
            holder = entry.resolve()
            if holder not in holders:
                holders[holder] = None
                waiting += [holder, *partitions(holder)]
    return list(holders)


def find_problem(arrays: Iterable[Path], checked_names: Collection[str], roots: Roots) -> str:
    """Returns why settings of these arrays must not be changed now; empty if they may.

    An array must be complete and idle. Those of `checked_names` must be complete and checked: their `sync_action` is
    `check`.
    """
    for node in arrays:
        expected_action = "check" if node.name in checked_names else "idle"
        name = str(roots.device(node.name))
        md = node / "md"
        if not md.is_dir():
            return f"{name}: the array is gone"
        metadata = read_text(md / "metadata_version") or ""
        if metadata.startswith("external:") and not metadata.startswith("external:/"):
            continue  # A container of IMSM or DDF has no data: its volumes are arrays by themselves
        state = read_text(md / "array_state") or ""
        if state not in WORKING_STATES:
            return f"{name}: found array_state {state}, expected an array in use"
        missing_members = read_text(md / "degraded")
        if missing_members not in {None, "", "0"}:
            return (
                f"{name}: degraded: {missing_members} of its members missing; live tuning needs a complete array: "
                f"see {command_lines.show_detail(name)}"
            )
        action = read_text(md / "sync_action") or "idle"
        if action in {"idle", "none"} and expected_action == "check":
            return (
                f"{name}: idle: sync speeds have an effect only while an array is checked; start a check first: "
                f"{command_lines.check_array(name)}"
            )
        if action not in {"idle", "none", expected_action}:
            return (
                f"{name}: found sync_action {action}, expected {expected_action}: wait until it ends: "
                f"{command_lines.wait_for_sync(name)}"
            )
    return ""
