"""Logical volumes as the simulator takes them: md arrays with the same map.

dm-linear and dm-stripe map as md's linear and RAID-0 do (drivers/md/dm-linear.c, dm-stripe.c): a stripe of
`stripe_size` on each physical volume in turn. LVM gives a volume without stripes the physical volumes one after the
other. A volume with redundancy is an md array below device-mapper (drivers/md/dm-raid.c), with a bitmap whose chunk is
the region size; RAID-10 has near copies, RAID-5 and 6 are left-symmetric (lvmraid(7)). The header and the rounding to
extents of 4 MiB are not simulated. A volume costs what such an array costs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from blklab import _core
from blklab.documents import cell
from blklab.experiment.stack import KINDS

PARTS = {str(get_args(kind.model_fields["kind"].annotation)[0]): kind.PARTS for kind in KINDS}
"""The keys of a volume that name its parts, by its kind."""


def replace_volumes(node: Any) -> cell.Node:
    """Returns a stack's node in which each logical volume is an array with the same map."""
    if "device" in node:
        return {"device": node["device"]}
    ((kind, table),) = node.items()
    parts: dict[str, Any] = dict(table)
    if kind == "md":
        parts["members"] = [_replace_in_member(member) for member in table["members"]]
    for key in PARTS.get(kind, ()):
        value = table[key]
        parts[key] = [replace_volumes(part) for part in value] if key == "members" else replace_volumes(value)
    if kind != "lvm":
        return cast(cell.Node, {kind: parts})
    members: list[cell.Node] = parts["members"]
    if parts["level"] is not None:
        chunk = 0 if parts["level"] == "raid1" else parts["stripe_size"]
        array = _array(parts["name"], parts["level"], chunk, members)
        copies = 2 if parts["level"] == "raid10" else 0
        bitmap: dict[str, Any] = {"bitmap": True, "bitmap_chunk": parts["region_size"]}
        return cast(
            cell.Node, {"md": {**array["md"], **bitmap, "near": copies, "far": min(copies, 1), "offset": False}}
        )
    stripes = parts["stripes"]
    if stripes > 1:  # As `capacity.volume` has it: one segment of this many physical volumes
        return _array(parts["name"], "raid0", parts["stripe_size"], members[:stripes])
    if len(members) == 1:
        return members[0]
    return _array(parts["name"], "linear", 0, members)


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
