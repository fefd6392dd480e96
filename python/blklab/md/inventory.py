"""Reads the arrays of a host and their members from sysfs, superblocks and mounts; changes nothing.

Attributes: Documentation/admin-guide/md.rst, Linux 6.1.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md.images import make_array, make_arrays
from blklab.md.kernel_log import find_array_errors, find_mismatch_ranges
from blklab.md.levels import PARITIES
from blklab.md.mdadm_conf import list_unreadable_files, read_listed_arrays
from blklab.md.member_devices import OutsideDevices, device_facts, is_overlay, read_outside
from blklab.md.model import Array, ArrayMember, ArrayPart, Inventory, ListedArray, OtherSpare, SyncPass, by_slot
from blklab.md.multipath import add_multipath, read_multipaths
from blklab.md.probing import Probe
from blklab.md.superblocks import SectorRange, Superblock, SuperblockReading, is_of_array
from blklab.system import diskstats
from blklab.system.diskstats import DeviceCounters
from blklab.system.identity import array_uuid, of_node
from blklab.system.layers import partitions
from blklab.system.mounts import Mount, list_all_mounts
from blklab.system.roots import Roots, entries, read_text
from blklab.text.natural_order import natural_order
from blklab.units import SECTOR

NOT_ASSEMBLED = "not assembled"
"""The state of an array that lies on the disks only. The others are those of sysfs."""

PASSES = {"resync", "recover", "check", "repair", "reshape"}


def read_inventory(roots: Roots, reader: Probe | None = None, *, with_outside: bool = True) -> Inventory:
    """Returns every md array of a host; `unseen` lists what could not be read.

    `reader` reads what sysfs does not have; by default from the disks. Without `with_outside`, devices outside of
    assembled arrays are not looked at.
    """
    reader = reader or Probe()
    unseen = []
    blocks, mdstat = (roots.format_path(path) for path in (roots.sys / "block", roots.proc / "mdstat"))
    if not (roots.sys / "block").is_dir():
        unseen.append(f"{blocks} does not exist: cannot read any array")
    mounts = list_all_mounts(roots)
    activity: Mapping[str, DeviceCounters | None] = {}
    with suppress(BlklabError):  # of another host, or in an unknown format
        activity = diskstats.read(roots)
    arrays = [
        _array(entry.resolve(), mounts, activity, roots, reader)
        for entry in sorted(entries(roots.sys / "block"), key=lambda entry: natural_order(entry.name))
        if (entry / "md").is_dir()
        and read_text(entry / "md/array_state") not in {"clear", None}
        and not _is_trial(entry)
    ]
    mdstat_names = re.findall(r"^(md\S{1,40}) : ", read_text(roots.proc / "mdstat") or "", re.M)
    names = dict.fromkeys(mdstat_names).keys() - {array.name for array in arrays}
    unseen.extend(f"{name}: {mdstat} lists it, but {blocks} does not" for name in sorted(names, key=natural_order))
    if any(array.repairing is None for array in arrays):
        directory = roots.format_path(roots.state_of_root)
        unseen.append(f"{directory}: not seen: unfinished repairs: run blklab as root")
    listed_arrays = read_listed_arrays(roots)
    outside = read_outside(arrays, mounts, roots, reader) if with_outside else OutsideDevices()
    arrays = [replace(array, outside=_members_of(array, outside.members)) for array in arrays]
    arrays = [replace(array, other_spares=_find_other_spares(array, arrays, listed_arrays)) for array in arrays]
    arrays = join_containers(arrays)
    return Inventory(
        tuple(arrays),
        (),
        reader.read_software(roots),
        tuple(unseen),
        volumes=_volumes(roots),
        firmware_raids=_firmware_raids(roots),
        outside=outside.members,
        unassembled=_find_unassembled_arrays(arrays, outside.members, listed_arrays),
        listed=listed_arrays,
        unread=(*list_unreadable_files(roots), *outside.unread),
    )


def _is_trial(node: Path) -> bool:
    """Whether an array is assembled on overlays (`blklab md overlays`): the array itself does not run."""
    return any(is_overlay(member) for member in entries(node / "slaves"))


def _members_of(array: Array, outside: Sequence[ArrayMember]) -> tuple[ArrayMember, ...]:
    return tuple(member for member in outside if member.superblock and is_of_array(member.superblock, array.uuid))


def _find_other_spares(
    array: Array, arrays: Sequence[Array], conf_lines: Sequence[ListedArray]
) -> tuple[OtherSpare, ...]:
    """Returns the spares of complete arrays that are large enough for a degraded array."""
    if not array.degraded or array.external:
        return ()
    group = _find_spare_group(array, conf_lines)
    needed = max((member.data_offset or 0 for member in array.members), default=0) + array.member_sectors
    spares = []
    for other in arrays:
        if other.name == array.name or other.degraded != 0 or other.sync is not None or other.external:
            continue
        is_shared = bool(group) and _find_spare_group(other, conf_lines) == group
        for member in other.members:
            if member.spare and (member.size is None or member.size >= needed * SECTOR):
                spares.append(OtherSpare(other.name, member.name, is_shared))
    return tuple(spares)


def _find_spare_group(array: Array, conf_lines: Sequence[ListedArray]) -> str:
    return next((line.spare_group for line in conf_lines if line.spare_group and line.describes(array)), "")


def join_containers(arrays: Sequence[Array]) -> list[Array]:
    """Returns arrays whose containers and volumes know each other."""
    joined = []
    for array in arrays:
        if array.is_container:
            joined.append(_with_volumes(array, arrays))
        elif array.container:
            containers = [other for other in arrays if other.is_container and other.name == array.container]
            container = _with_volumes(containers[0], arrays) if containers else None
            joined.append(replace(array, container_array=container))
        else:
            joined.append(array)
    return joined


def _with_volumes(container: Array, arrays: Sequence[Array]) -> Array:
    volumes = tuple(array for array in arrays if array.container == container.name)
    names = set[str]()
    for volume in volumes:
        used = [member for member in volume.members if member.slot is not None or "in_sync" in member.states]
        names |= {member.name for member in used if "faulty" not in member.states}
    idle = tuple(member for member in container.members if member.name not in names)
    return replace(container, volumes=volumes, idle=idle)


def _find_unassembled_arrays(
    arrays: Sequence[Array], outside: Sequence[ArrayMember], conf_lines: Sequence[ListedArray]
) -> tuple[Array, ...]:
    """Returns the arrays of members outside of all arrays, named as mdadm.conf or their superblocks name them."""
    member_names = {member.name for array in arrays for member in array.outside}
    array_names = {array.name for array in arrays}
    unassembled_arrays = []
    for array in make_arrays([member for member in outside if member.name not in member_names]):
        line = next((line for line in conf_lines if line.describes(array)), None)
        name = line.short_name if line and line.short_name else array.name
        if name in array_names:
            name = f"{name} {array.uuid[:8]}"
        unassembled_arrays.append(replace(array, name=name, state=NOT_ASSEMBLED))
    return tuple(unassembled_arrays)


def read_array(node: Path, roots: Roots) -> Array:
    """Returns the array of a directory in sysfs (`/sys/block/md0`)."""
    return _array(node, list_all_mounts(roots), {}, roots, Probe())


def _volumes(roots: Roots) -> tuple[str, ...]:
    """Returns RAIDs of LVM (dm-raid), by their image devices, `group-volume_rimage_0`.

    Hyphens in names are doubled (lvm2, libdm/libdm-string.c, dm_build_dm_name).
    """
    volumes = set()
    for entry in entries(roots.sys / "block"):
        match = re.fullmatch(r"((?:[^-]|--)+)-((?:[^-]|--)+)_rimage_\d+", read_text(entry / "dm/name") or "")
        if match and (read_text(entry / "dm/uuid") or "").startswith("LVM-"):
            volumes.add("/".join(part.replace("--", "-") for part in match.groups()))
    return tuple(sorted(volumes))


def _firmware_raids(roots: Roots) -> tuple[str, ...]:
    """Returns RAIDs of dmraid, without their partitions, which lie on them."""
    names = {}
    for entry in entries(roots.sys / "block"):
        if (read_text(entry / "dm/uuid") or "").startswith("DMRAID-"):
            names[entry.name] = read_text(entry / "dm/name") or entry.name
    raids = []
    for kernel_name, name in names.items():
        slaves = {slave.name for slave in entries(roots.sys / "block" / kernel_name / "slaves")}
        if not slaves & set(names):
            raids.append(name)
    return tuple(sorted(raids))


def _array(
    node: Path, mounts: list[Mount], activity: Mapping[str, DeviceCounters | None], roots: Roots, reader: Probe
) -> Array:
    md = node / "md"
    # Kernels before 4.19 do not have this file.
    uuid = array_uuid(read_text(md / "uuid") or "")
    with_activity = (
        replace(member, activity=activity.get(member.name)) for member in read_members(node, uuid, roots, reader)
    )
    array_members = sorted(add_multipath(list(with_activity), read_multipaths(roots), roots), key=by_slot)
    superblock = next((member.superblock for member in array_members if member.superblock), None)
    position = read_text(md / "reshape_position")
    device = of_node(node, roots)
    parts = list(_parts(node, mounts, roots, reader))
    unseen = [f"{member.path}: not seen: {member.unseen}" for member in array_members if member.unseen]
    unseen += [reason for _, reason in parts if reason]
    repair_uuid = superblock.uuid if superblock else uuid
    repairing = reader.is_repairing(repair_uuid, roots)
    array = Array(
        name=node.name,
        path=device.path,
        uuid=superblock.uuid if superblock else uuid,
        level=read_text(md / "level") or (superblock.level_name if superblock else ""),
        layout=parse_number(read_text(md / "layout")) or 0,
        chunk=parse_number(read_text(md / "chunk_size")) or 0,
        raid_disks=parse_number(read_text(md / "raid_disks")) or 0,
        metadata=read_text(md / "metadata_version") or "",
        live=True,
        members=tuple(array_members),
        # component_size is in KiB.
        member_sectors=2 * (parse_number(read_text(md / "component_size")) or 0),
        label=superblock.name if superblock else "",
        size=(parse_number(read_text(node / "size")) or 0) * SECTOR,
        state=read_text(md / "array_state") or "",
        degraded=parse_number(read_text(md / "degraded")),
        sync=_sync(md),
        last_action=read_text(md / "last_sync_action"),
        mismatches=parse_number(read_text(md / "mismatch_cnt")),
        bitmap=_bitmap(md),
        bitmap_chunk=parse_number(read_text(md / "bitmap/chunksize")),
        bitmap_sector=_bitmap_sector(md),
        repairing=repairing,
        suspended=(parse_number(read_text(md / "suspend_hi")) or 0) > (parse_number(read_text(md / "suspend_lo")) or 0),
        reshaping=position not in {"none", "", None},
        reshape_position=parse_number(position),
        logical_block=parse_number(read_text(node / "queue/logical_block_size")),
        stripes=parse_number(read_text(md / "stripe_cache_size")),
        stripes_in_use=parse_number(read_text(md / "stripe_cache_active")),
        consistency=read_text(md / "consistency_policy") or "",
        parts=tuple(part for part, _ in parts),
        users=tuple(reader.find_users(device, roots)),
        unseen=tuple(unseen),
    )
    if array.is_container:
        array = replace(array, level="container")  # sysfs has none; mdadm says so
    if array.state == "broken":
        array = replace(array, kernel_errors=find_array_errors(array, reader.read_kernel_log(roots)))
    if array.mismatches and array.level in PARITIES:
        array = replace(array, mismatch_ranges=find_mismatch_ranges(array, reader.read_kernel_log(roots)))
    return add_geometry_of_superblocks(array)


def add_geometry_of_superblocks(array: Array) -> Array:
    """Returns an array that does not run with the geometry of its superblocks: sysfs has zeros until md starts it.

    Until then, md calls every member a spare without a slot.
    """
    if array.state != "inactive" or array.external or (array.raid_disks and array.level):
        return array
    members = []
    unread_members = []
    for member in array.members:
        superblock = member.superblock
        if superblock is None:
            unread_members.append(member)
            continue
        states = tuple(state for state in member.states if state != "spare")
        offset = superblock.data_offset if member.data_offset is None else member.data_offset
        members.append(replace(member, slot=superblock.slot, states=states, data_offset=offset))
    if not any(member.superblock and member.superblock.accepted for member in members):
        return array
    superblock_array = make_array(members)
    return replace(
        array,
        level=superblock_array.level,
        layout=superblock_array.layout,
        chunk=superblock_array.chunk,
        raid_disks=superblock_array.raid_disks,
        member_sectors=superblock_array.member_sectors,
        size=superblock_array.size,
        bitmap=superblock_array.bitmap,
        reshaping=superblock_array.reshaping,
        reshape_position=superblock_array.reshape_position,
        consistency=superblock_array.consistency,
        degraded=superblock_array.raid_disks - superblock_array.usable,
        members=(*superblock_array.members, *unread_members),
    )


def _bitmap(md: Path) -> bool | None:
    if read_text(md / "consistency_policy") in {"journal", "ppl"}:
        return None  # a journal or PPL replaces the bitmap
    if (md / "llbitmap").is_dir():
        return True
    location = read_text(md / "bitmap/location")
    return None if location is None else location not in {"none", ""}


def _bitmap_sector(md: Path) -> int | None:
    """Returns where an internal bitmap begins, from the superblock; None if there is none, or if it is clustered."""
    if read_text(md / "bitmap/metadata") == "clustered":
        return None
    match = re.fullmatch(r"[+-]\d{1,12}", read_text(md / "bitmap/location") or "", re.A)
    return int(match[0]) if match else None


def _sync(md: Path) -> SyncPass | None:
    action = read_text(md / "sync_action")
    if action not in PASSES:
        return None
    match = re.fullmatch(r"(\d{1,20}) / (\d{1,20})", read_text(md / "sync_completed") or "", re.A)
    done, total = (int(match[1]), int(match[2])) if match else (None, None)
    return SyncPass(
        action or "",
        done,
        total,
        speed_kib=parse_number(read_text(md / "sync_speed")),
        minimum_kib=parse_number(read_text(md / "sync_speed_min")),
        maximum_kib=parse_number(read_text(md / "sync_speed_max")),
        waiting=None if match else "other-array",  # It says `delayed`
    )


def _parts(node: Path, mounts: list[Mount], roots: Roots, reader: Probe) -> Iterator[tuple[ArrayPart, str]]:
    """Yields the array and its partitions with mount points and geometry, and a reason if unread."""
    has_chunks = bool(parse_number(read_text(node / "md/chunk_size")))
    for part_node in [node, *partitions(node)]:
        device = of_node(part_node, roots)
        start = (parse_number(read_text(part_node / "start")) or 0) * SECTOR if part_node != node else 0
        part_mounts = [mount for mount in mounts if mount.number == device.number]
        here = dict.fromkeys(mount.point for mount in part_mounts if not mount.process)
        elsewhere = dict.fromkeys(mount.place for mount in part_mounts if mount.process)
        # Without chunks there is nothing to compare.
        geometry, failure = reader.read_geometry(roots.device(part_node.name)) if has_chunks else (None, "")
        reason = f"{device.path}: not seen: {failure}" if failure else ""
        # The number of btrfs is not that of a device.
        kinds = [mount.kind for mount in mounts if mount.number == device.number or mount.source == device.path]
        filesystem = kinds[0] if kinds else ""
        part = ArrayPart(part_node.name, device.path, start, tuple(here), tuple(elsewhere), geometry, filesystem)
        yield part, reason


PAGE = 4096  # Bytes of a bad-block list that sysfs shows at most
LONGEST_LINE = 32  # Bytes of the longest entry: with less space left in the page, entries may be cut off


def read_members(node: Path, uuid: str, roots: Roots, reader: Probe) -> Iterator[ArrayMember]:
    """Yields the members of the array of a sysfs directory (`…/block/md0`), in order of slots."""
    is_external = (read_text(node / "md/metadata_version") or "").startswith("external:")
    array_members = [
        _read_member(entry, uuid, roots, reader, is_external=is_external)
        for entry in entries(node / "md")
        if entry.name.startswith("dev-") and entry.is_dir()
    ]
    yield from sorted(array_members, key=lambda member: (member.slot is None, member.slot or 0, member.name))


def parse_number(words: str | None) -> int | None:
    """Returns the number at the beginning of an attribute; None if there is no number."""
    match = re.match(r"-?\d{1,20}(?!\S)", words or "")
    return int(match[0]) if match else None


def parse_bad_blocks(content: str) -> tuple[SectorRange, ...]:
    """Returns a bad-block list of sysfs, which has a sector and a length in each line."""
    pairs = re.findall(r"^(\d{1,20}) (\d{1,10})$", content, re.M | re.A)
    return tuple(sorted(SectorRange(int(sector), int(length)) for sector, length in pairs if int(length)))


def choose_superblock(reading: SuperblockReading, uuid: str) -> tuple[Superblock | None, tuple[Superblock, ...]]:
    """Returns the superblock with this UUID and the others; with an empty UUID, the first."""
    of_array = [superblock for superblock in reading.members if is_of_array(superblock, uuid)]
    superblock = next(iter(of_array or ([] if uuid else reading.members)), None)
    return superblock, tuple(other for other in reading.members if other is not superblock)


def _read_member(directory: Path, uuid: str, roots: Roots, reader: Probe, *, is_external: bool) -> ArrayMember:
    name = directory.name.removeprefix("dev-")
    block = directory / "block"
    node = block.resolve() if block.exists() else None
    path = roots.device(node.name if node else name)
    reading = reader.read_superblocks(path)
    superblock, leftovers = choose_superblock(reading, uuid)
    if is_external:
        superblock = None
        leftovers = reading.members  # Superblocks of md on it are from an earlier use
    list_text = read_text(directory / "bad_blocks")
    unacknowledged_ranges = parse_bad_blocks(read_text(directory / "unacknowledged_bad_blocks") or "")
    unseen = reading.failure
    if not unseen and superblock is None and not (reading.foreign or is_external):
        unseen = "it has no superblock of this array"
    return ArrayMember(
        name=node.name if node else name,
        path=roots.format_path(path),
        slot=parse_number(read_text(directory / "slot")),
        states=tuple((read_text(directory / "state") or "").replace(",", " ").split()),
        errors=parse_number(read_text(directory / "errors")),
        superblock=superblock,
        leftovers=leftovers,
        foreign=reading.foreign,
        listed=None if list_text is None else tuple(sorted({*parse_bad_blocks(list_text), *unacknowledged_ranges})),
        listed_cut=list_text is not None and len(list_text) > PAGE - LONGEST_LINE,
        unacknowledged=len(unacknowledged_ranges),
        data_offset=parse_number(read_text(directory / "offset")),
        unseen=unseen,
        id=of_node(node, roots).id or "" if node else "",
        **device_facts(node),
    )
