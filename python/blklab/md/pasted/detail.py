"""Reads `mdadm --detail`: an array of the host that printed it (mdadm: Detail.c)."""

import re

from blklab.md.levels import REDUNDANT
from blklab.md.model import MAX_DISKS, Array, ArrayMember, SyncPass
from blklab.md.pasted.blocks import TableRow, TextBlock
from blklab.md.pasted.examine import LEVEL_NUMBERS, read_chunk, read_layout

STATES = {
    "sync": "in_sync", "faulty": "faulty", "spare": "spare", "writemostly": "write_mostly", "failfast": "failfast",
    "journal": "journal", "replacement": "replacement", "blocked": "blocked",
}  # fmt: skip
"""States of members in sysfs, by the words of mdadm."""

PASSES = {
    "rebuild status": "recover", "resync status": "resync", "reshape status": "reshape", "check status": "check",
    "repair status": "repair",
}  # fmt: skip

UNKNOWN_SIZES = frozenset({(1 << 64) - 1, (1 << 32) - 1})
"""What mdadm prints as the used size of an array that is not started: -1."""


def is_array(block: TextBlock) -> bool:
    """Whether a block is the output of `mdadm --detail` of an array."""
    fields = block.fields
    if "magic" in fields:
        return False
    if "container" in fields:
        return "raid devices" in fields  # A volume that is not started has no level
    return "version" in fields and "raid level" in fields


def read_array(block: TextBlock) -> Array | None:
    """Returns the array of a block; None if a field that decides is missing or is no number."""
    fields = block.fields
    level = fields.get("raid level", "").split(" ")[0]
    raid_disks = _number(fields.get("raid devices", ""))
    if level == "container":
        return _container(block)
    words = fields.get("state", "").lower()
    state = _state(words)
    if raid_disks is None and state == "inactive":
        raid_disks = 0  # The superblocks have it
        level = "" if level == "raid0" else level  # mdadm says raid0 of every array that is not started
    if raid_disks is None or not 0 <= raid_disks <= MAX_DISKS or (level and level not in LEVEL_NUMBERS):
        return None
    policy = fields.get("consistency policy", "")
    size = _number(fields.get("used dev size") or fields.get("device size") or "") or 0
    array_size = _number(fields.get("array size", ""))
    members = tuple(_read_member(row) for row in block.rows if row.device)
    in_sync = {row.slot for row in block.rows if row.slot is not None and "sync" in row.states}
    degraded = _count_missing(fields, raid_disks, len(in_sync) if block.rows else None)
    name = block.device.rpartition("/")[2] or "md?"
    return Array(
        name=name,
        path=block.device or "/dev/md?",
        uuid=fields.get("uuid", "").split(" ")[0],
        level=level,
        layout=read_layout(fields.get("layout", ""), LEVEL_NUMBERS.get(level, 0)),
        chunk=read_chunk(fields.get("chunk size", "")),
        raid_disks=raid_disks,
        metadata=_metadata(fields),
        live=True,
        members=members,
        member_sectors=0 if size in UNKNOWN_SIZES else 2 * size,
        label=fields.get("name", "").split(" (local")[0].strip(),
        size=None if array_size is None else array_size << 10,
        state=state,
        degraded=degraded if level in REDUNDANT else None,
        sync=_sync(fields, 2 * size, words),
        bitmap=_has_bitmap(fields, policy, state),
        reshaping="reshaping" in words or "delta devices" in fields or "new layout" in fields,
        consistency=policy,
    )


def _number(text: str) -> int | None:
    match = re.match(r"\d{1,20}\b", text)
    return int(match[0]) if match else None


def _metadata(fields: dict[str, str]) -> str:
    """Returns the metadata as in sysfs; a volume names its container: `/dev/md/imsm0, member 1`."""
    container = re.match(r"/dev/(\S+?), member (\d{1,4})\b", fields.get("container", ""))
    if container:
        return f"external:/{container[1].rpartition('/')[2]}/{container[2]}"
    version = fields.get("version", "external:")
    return {"1.00": "1.0", "1.01": "1.1", "1.02": "1.2", "00.90.03": "0.90", "00.90": "0.90"}.get(version, version)


def _container(block: TextBlock) -> Array:
    """Returns a container of firmware RAID: its members are disks, its volumes are other arrays."""
    name = block.device.rpartition("/")[2] or "md?"
    return Array(
        name=name, path=block.device, uuid=block.fields.get("uuid", ""), level="container", layout=0, chunk=0,
        raid_disks=0, metadata=f"external:{block.fields['version']}", live=True,
        members=tuple(_read_member(row) for row in block.rows if row.device), state="inactive",
        member_arrays=tuple(block.fields.get("member arrays", "").split()),
    )  # fmt: skip


def _count_missing(fields: dict[str, str], raid_disks: int, in_sync: int | None) -> int | None:
    """Returns how many members are missing: by the table of members or, if that was cut off, by `Active Devices`."""
    working = _number(fields.get("active devices", "")) if in_sync is None else in_sync
    return max(0, raid_disks - working) if raid_disks and working is not None else None


def _state(words: str) -> str:
    """Returns the state of an array as in sysfs: `clean, degraded`, `active, FAILED, Not Started`."""
    if "not started" in words or words.startswith("inactive"):
        return "inactive"
    if "broken" in words or "failed" in words:
        return "broken"
    if "auto-read-only" in words:
        return "read-auto"
    if "read-only" in words:
        return "readonly"
    return words.split(",", maxsplit=1)[0].strip()


def _read_member(row: TableRow) -> ArrayMember:
    states = tuple(STATES[word] for word in row.states if word in STATES)
    if "faulty" in states:
        states = ("faulty",)  # mdadm says `faulty spare` of a member without a slot
    elif "spare" in states and row.slot is None:
        states = ("spare",)
    return ArrayMember(name=row.device.rpartition("/")[2], path=row.device, slot=row.slot, states=states)


def _sync(fields: dict[str, str], sectors: int, words: str) -> SyncPass | None:
    for name, action in PASSES.items():
        match = re.match(r"(\d{1,3})% complete", fields.get(name, ""))
        if match:
            return SyncPass(action, sectors * min(100, int(match[1])) // 100, sectors)
    action = "resync" if "resync" in words else "recover"
    if "delayed" in words:
        return SyncPass(action, waiting="other-array")
    if "pending" in words:
        return SyncPass(action, waiting="pending")
    if "remote" in words:
        return SyncPass(action, waiting="remote")
    return None


def _has_bitmap(fields: dict[str, str], policy: str, state: str) -> bool | None:
    if policy in {"journal", "ppl"}:
        return None  # as in sysfs: they replace the bitmap
    if policy:
        return policy == "bitmap" or "intent bitmap" in fields
    if "intent bitmap" in fields:
        return True
    return None if state == "inactive" else False
