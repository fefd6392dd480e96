"""The arrays of this machine, out of sysfs, its members' superblocks and its mounts.

Nothing is written and no array is touched: what may not be read is said. Attributes:
Documentation/admin-guide/md.rst, Linux 6.1.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md.members import members, number
from blklab.md.model import Array, ArrayPart, Inventory, SyncPass
from blklab.md.probing import Probe
from blklab.md.superblocks import SECTOR
from blklab.system import diskstats
from blklab.system.diskstats import DeviceCounters
from blklab.system.identity import array_uuid, of_node
from blklab.system.layers import partitions
from blklab.system.mounts import Mount, everywhere
from blklab.system.roots import Roots, entries, text

PASSES = {"resync", "recover", "check", "repair", "reshape"}


def inventory(roots: Roots, reader: Probe | None = None) -> Inventory:
    """Returns every md array of a machine; whatever could not be seen is in it.

    `reader` answers what sysfs does not: from the disks, unless it is another.
    """
    reader = reader or Probe()
    unseen = []
    blocks, mdstat = (roots.shown(path) for path in (roots.sys / "block", roots.proc / "mdstat"))
    if not (roots.sys / "block").is_dir():
        unseen.append(f"{blocks} is not there: no array can be seen")
    mounted = everywhere(roots)
    activity = _activity(roots)
    arrays = [
        _array(entry.resolve(), mounted, activity, roots, reader)
        for entry in entries(roots.sys / "block")
        if (entry / "md").is_dir() and text(entry / "md/array_state") not in {"clear", None}
    ]
    known = {array.name for array in arrays}
    unseen.extend(
        f"{name}: {mdstat} has it, and {blocks} has not"
        for name in _in_mdstat(roots)
        if name not in known
    )
    if any(array.repairing is None for array in arrays):
        where = roots.shown(roots.state_of_root)
        unseen.append(f"{where}: not seen: whether repairs are unfinished: as root more is seen")
    return Inventory(
        tuple(arrays), (), reader.software(roots), tuple(unseen), volumes=_volumes(roots)
    )


def array(node: Path, roots: Roots) -> Array:
    """Returns one array, by its directory in sysfs (`/sys/block/md0`)."""
    return _array(node, everywhere(roots), {}, roots, Probe())


def _activity(roots: Roots) -> dict[str, DeviceCounters | None]:
    try:
        return diskstats.read(roots)
    except BlklabError:
        return {}  # of another machine, or a kernel that counts in another way


def _volumes(roots: Roots) -> tuple[str, ...]:
    """RAIDs of LVM: their images are devices of their own, `group-volume_rimage_0` (dm-raid).

    Hyphens within names are doubled (lvm2, libdm/libdm-string.c, dm_build_dm_name).
    """
    volumes = set()
    for entry in entries(roots.sys / "block"):
        name = text(entry / "dm/name") or ""
        match = re.fullmatch(r"((?:[^-]|--)+)-((?:[^-]|--)+)_rimage_\d+", name)
        if match and (text(entry / "dm/uuid") or "").startswith("LVM-"):
            volumes.add("/".join(part.replace("--", "-") for part in match.groups()))
    return tuple(sorted(volumes))


def _in_mdstat(roots: Roots) -> list[str]:
    names = re.findall(r"^(md\S{1,40}) : ", text(roots.proc / "mdstat") or "", re.M)
    return list(dict.fromkeys(names))


def _array(
    node: Path,
    mounted: list[Mount],
    activity: Mapping[str, DeviceCounters | None],
    roots: Roots,
    reader: Probe,
) -> Array:
    md = node / "md"
    # Kernels before 4.19 do not tell it.
    uuid = array_uuid(text(md / "uuid") or "")
    members_read = [
        replace(member, activity=activity.get(member.name))
        for member in members(node, uuid, roots, reader)
    ]
    superblock = next((one.superblock for one in members_read if one.superblock), None)
    position = text(md / "reshape_position")
    device = of_node(node, roots)
    parts = list(_parts(node, mounted, roots, reader))
    unseen = [f"{one.path}: not seen: {one.unseen}" for one in members_read if one.unseen]
    unseen += [reason for _, reason in parts if reason]
    return Array(
        name=node.name,
        path=device.path,
        uuid=superblock.uuid if superblock else uuid,
        level=text(md / "level") or (superblock.level if superblock else ""),
        layout=number(text(md / "layout")) or 0,
        chunk=number(text(md / "chunk_size")) or 0,
        raid_disks=number(text(md / "raid_disks")) or 0,
        metadata=text(md / "metadata_version") or "",
        live=True,
        members=tuple(members_read),
        # Told in KiB.
        member_sectors=2 * (number(text(md / "component_size")) or 0),
        label=superblock.name if superblock else "",
        size=(number(text(node / "size")) or 0) * SECTOR,
        state=text(md / "array_state") or "",
        degraded=number(text(md / "degraded")),
        sync=_sync(md),
        last_action=text(md / "last_sync_action"),
        mismatches=number(text(md / "mismatch_cnt")),
        bitmap=_bitmap(md),
        repairing=reader.repairing(superblock.uuid if superblock else uuid, roots),
        suspended=(number(text(md / "suspend_hi")) or 0) > (number(text(md / "suspend_lo")) or 0),
        reshaping=position not in {"none", "", None},
        parts=tuple(part for part, _ in parts),
        users=tuple(reader.users(device, roots)),
        unseen=tuple(unseen),
    )


def _bitmap(md: Path) -> bool | None:
    if text(md / "consistency_policy") in {"journal", "ppl"}:
        return None  # what does a bitmap's work goes without one
    where = text(md / "bitmap/location")
    return None if where is None else where not in {"none", ""}


def _sync(md: Path) -> SyncPass | None:
    action = text(md / "sync_action")
    if action not in PASSES:
        return None
    match = re.fullmatch(r"(\d{1,20}) / (\d{1,20})", text(md / "sync_completed") or "", re.A)
    done, total = (int(match[1]), int(match[2])) if match else (None, None)
    return SyncPass(action or "", done, total, number(text(md / "sync_speed")))


def _parts(
    node: Path, mounted: list[Mount], roots: Roots, reader: Probe
) -> Iterator[tuple[ArrayPart, str]]:
    """The array and its partitions: what is mounted of them, and what filesystems say there."""
    chunked = bool(number(text(node / "md/chunk_size")))
    for at in [node, *partitions(node)]:
        device = of_node(at, roots)
        start = (number(text(at / "start")) or 0) * SECTOR if at != node else 0
        points = [mount.point for mount in mounted if mount.number == device.number]
        # Of arrays without chunks there is nothing to compare.
        geometry, failure = reader.geometry(roots.device(at.name)) if chunked else (None, "")
        reason = f"{device.path}: not seen: {failure}" if failure else ""
        yield ArrayPart(at.name, device.path, start, tuple(dict.fromkeys(points)), geometry), reason
