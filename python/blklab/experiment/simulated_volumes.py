"""Logical volumes as the simulator takes them: md arrays with the same map.

dm-linear and dm-stripe map as md's linear and RAID-0 do (drivers/md/dm-linear.c, dm-stripe.c): a stripe of
`stripe_size` on each physical volume in turn. LVM gives a volume without stripes the physical volumes one after the
other. The header and the rounding to extents of 4 MiB are not simulated. A volume costs what such an array costs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from blklab import _core
from blklab.documents import cell


def replace_volumes(node: Any) -> cell.Node:
    """Returns a stack's node in which each logical volume is an array without redundancy."""
    if "device" in node:
        return {"device": node["device"]}
    ((kind, table),) = node.items()
    parts: dict[str, Any] = {}
    for key, value in table.items():
        if key == "members" and kind == "md":
            parts[key] = [_replace_in_member(member) for member in value]
        elif key == "members":
            parts[key] = [replace_volumes(member) for member in value]
        else:
            parts[key] = replace_volumes(value) if _is_node(value) else value
    if kind != "lvm":
        return cast(cell.Node, {kind: parts})
    members: list[cell.Node] = parts["members"]
    stripes = parts["stripes"]
    if stripes > 1:  # As `capacity.volume` has it: one segment of this many physical volumes
        return _array(parts["name"], "raid0", parts["stripe_size"], members[:stripes])
    if len(members) == 1:
        return members[0]
    return _array(parts["name"], "linear", 0, members)


def _is_node(value: object) -> bool:
    """Whether a value is a node: the parts of caches and delays are single ones."""
    return (
        isinstance(value, Mapping) and len(value) == 1 and all(isinstance(one, Mapping | int) for one in value.values())
    )


def _replace_in_member(member: Mapping[str, Any]) -> dict[str, Any]:
    node = member["node"]
    return {**member, "node": None if node is None else replace_volumes(node)}


def _array(name: str, level: cell.Level, chunk: int, nodes: Sequence[cell.Node]) -> cell.Node:
    members: list[cell.Member] = [{"node": node, "write_mostly": False, "rebuilding": False} for node in nodes]
    return {
        "md": {
            "name": name,
            "level": level,
            "chunk": chunk,
            "members": members,
            "stripe_cache": _core.MD_STRIPE_CACHE,
            "bitmap": False,
            "sync": "idle",
            "sync_speed_min": _core.MD_SYNC_SPEED_MIN,
            "sync_speed_max": _core.MD_SYNC_SPEED_MAX,
        }
    }
