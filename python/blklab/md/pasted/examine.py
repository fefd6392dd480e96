"""Reads `mdadm --examine`: a superblock for each member, as far as mdadm prints it (mdadm: super0.c, super1.c)."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from blklab.md.levels import NUMBERS, PARITY_LAYOUTS
from blklab.md.model import MAX_DISKS
from blklab.md.pasted.blocks import TextBlock
from blklab.md.superblocks import Superblock
from blklab.units import SECTOR

LEVEL_NUMBERS = {name: number for number, name in NUMBERS.items()}
BITMAP, RECOVERY, RESHAPE, BAD_BLOCKS, REPLACEMENT, BACKWARDS = 1, 2, 4, 8, 16, 32
JOURNAL, PPL = 512, 1024 | 2048
"""Bits of the feature map (include/uapi/linux/raid/md_p.h)."""

NEEDED = ("raid level", "raid devices", "events")
"""Fields without which a superblock says too little."""


def is_superblock(block: TextBlock) -> bool:
    """Whether a block is the output of `mdadm --examine` of a member of md."""
    return block.fields.get("magic", "").lower().startswith("a92b4efc")


def read_superblock(block: TextBlock) -> Superblock | None:
    """Returns the superblock of a block; None if a field that decides is missing or is no number.

    Dates have no time zone in the text: they are taken as UTC, so only their order and distance are right.
    """
    fields = block.fields
    version = re.sub(r"^0?0\.90.*", "0.90", fields.get("version", ""))
    version = {"01": "1.0", "1": "1.0", "1.00": "1.0", "1.01": "1.1", "1.02": "1.2", "01.02": "1.2"}.get(
        version, version
    )
    uuid = _uuid(fields.get("array uuid") or fields.get("uuid", ""))
    level = LEVEL_NUMBERS.get(fields.get("raid level", "").split(" ")[0])
    raid_disks = _number(fields.get("raid devices", ""))
    events = read_events(fields.get("events", ""))
    if not uuid or level is None or raid_disks is None or not 0 < raid_disks <= MAX_DISKS or events is None:
        return None
    unit = 2 if version == "0.90" else 1  # 0.90 has KiB, 1 has sectors
    # mdadm 2.6 calls it `Used Size`, and what others call `Avail Dev Size` is its `Used Dev Size`.
    used = fields.get("used size") or fields.get("used dev size") or fields.get("device size") or ""
    size = unit * (_number(used) or 0)
    feature_map = re.match(r"(?:0x)?([0-9a-f]{1,8})\b", fields.get("feature map", "0"))
    features = int(feature_map[1], 16) if feature_map else 0
    role, slot = _role(block, version)
    values: dict[str, Any] = {
        "offset": SECTOR * (_number(fields.get("super offset", "")) or 0),
        "checksum": _checksum(fields.get("checksum", "")),
        "version": version, "uuid": uuid,
        "name": fields.get("name", "").split(" (local")[0].strip() or _minor_name(fields),
        "level": level, "layout": read_layout(fields.get("layout", ""), level),
        "chunk": read_chunk(fields.get("chunk size", "")), "raid_disks": raid_disks,
        "size": size or _number(fields.get("avail dev size", "")) or 0,
        "data_offset": _number(fields.get("data offset", "")) or 0,
        "data_size": _number(fields.get("avail dev size", "")) or size,
        "device_uuid": _uuid(fields.get("device uuid", "")) or None,
        "role": role, "slot": slot, "present": _present(block, raid_disks, version),
        "write_mostly": "write-mostly" in fields.get("flags", ""),
        "replacement": bool(features & REPLACEMENT) or "Replacement" in fields.get("device role", ""),
        "bitmap": bool(features & BITMAP) or "internal bitmap" in fields,
        "events": events, "updated": read_date(fields.get("update time", "")),
        "created": read_date(fields.get("creation time", "")),
        "resync_offset": _resync_offset(fields),
        "recovery_offset": _number(fields.get("recovery offset", "")) if features & RECOVERY else None,
        "reshape_position": _reshape_position(fields), "reshape": _reshape(fields, level),
        "new_data_offset": _number(fields.get("new offset", "")),
        "reshape_backwards": bool(features & BACKWARDS),
        "journal": bool(features & JOURNAL), "ppl": bool(features & PPL),
        "bad_blocks": _bad_blocks(fields, features), "bitmap_superblock": None, "refusal_reasons": [], "problems": [],
    }  # fmt: skip
    return msgspec.convert(values, Superblock)


def _number(text: str) -> int | None:
    match = re.match(r"\d{1,19}\b", text)
    return int(match[0]) if match else None


def _uuid(text: str) -> str:
    """Returns a UUID as mdadm prints it, also if someone has made a part of it unreadable."""
    match = re.match(r"[\w*]{1,16}(?::[\w*]{1,16}){1,3}(?!\S)", text)
    return match[0] if match else ""


def _minor_name(fields: dict[str, str]) -> str:
    minor = _number(fields.get("preferred minor", ""))
    return "" if minor is None else f"md{minor}"


def read_events(text: str) -> int | None:
    """Returns an event count: `76713`, or `0.729722` with the upper half first (0.90)."""
    match = re.match(r"(?:(\d{1,10})\.)?(\d{1,19})\b", text)
    return (int(match[1] or 0) << 32) + int(match[2]) if match else None


def read_date(text: str) -> int:
    """Returns a date of ctime(3) in seconds since 1970, as if it were UTC; 0 if it is none."""
    try:
        return int(datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return 0


def read_chunk(text: str) -> int:
    """Returns a chunk in bytes: `512K`, `64K`, `1M`; 0 if there is none."""
    match = re.match(r"(\d{1,9})([KM]?)\b", text)
    if not match:
        return 0
    units = {"": 1, "K": 1 << 10, "M": 1 << 20}
    return int(match[1]) * units[match[2]]


def read_layout(text: str, level: int) -> int:
    """Returns a layout as the superblock numbers it: `left-symmetric`, or `near=2` of RAID-10 (drivers/md/raid10.c)."""
    if level == 10:
        copies = {name: int(count) for name, count in re.findall(r"(near|far|offset)=(\d{1,2})\b", text)}
        far = copies.get("far") or copies.get("offset") or 1
        return copies.get("near", 1) | far << 8 | ("offset" in copies) << 16
    if level in {5, 6}:
        return PARITY_LAYOUTS.get(text.split(" ", maxsplit=1)[0], 2)
    return 0


def _checksum(text: str) -> dict[str, int]:
    """Returns a checksum: `3a671053 - correct`, or `3a671053 - expected 3a671054`."""
    match = re.match(r"([0-9a-f]{1,8})\b(?: - expected ([0-9a-f]{1,8})\b)?", text)
    stored = int(match[1], 16) if match else 0
    return {"stored": stored, "computed": int(match[2], 16) if match and match[2] else stored}


def _role(block: TextBlock, version: str) -> tuple[str, int | None]:
    """Returns the role of a member, and its slot."""
    if version == "0.90":
        row = next((row for row in block.rows if row.is_own), None)
        if row is None or row.slot is None:
            return "spare", None
        return ("active", row.slot) if "active" in row.states or "sync" in row.states else (row_role(row.states), None)
    text = block.fields.get("device role", "")
    match = re.match(r"(?:Active|Replacement) device (\d{1,4})\b", text)
    if match:
        return "active", int(match[1])
    old = re.match(r"(\d{1,4}) \(([^()]*)\)", block.fields.get("array slot", ""))  # mdadm 2.6: a number, and all roles
    if old and not text:
        roles = [role.strip() for role in old[2].split(",")]
        number = int(old[1])
        role = roles[number] if number < len(roles) else ""
        return ("active", int(role)) if role.isdecimal() else (row_role((role.replace("failed", "faulty"),)), None)
    return {"journal": "journal", "faulty": "faulty"}.get(text.lower(), "spare"), None


def row_role(states: tuple[str, ...]) -> str:
    """Returns the role of a member in a table of members that has no slot."""
    return "faulty" if "faulty" in states else "spare"


def _present(block: TextBlock, raid_disks: int, version: str) -> list[bool]:
    """Returns for each slot whether it has an active member: `AA.A`, the table of 0.90, or all if the text has none."""
    letters = re.match(r"[AR.U_u]+", block.fields.get("array state", ""))
    if letters and len(letters[0]) == raid_disks:
        return [letter not in "._" for letter in letters[0]]
    others = [row for row in block.rows if not row.is_own]
    if version == "0.90" and others:
        slots = {row.slot for row in others if "active" in row.states or "sync" in row.states}
        return [slot in slots for slot in range(raid_disks)]
    return [True] * raid_disks


def _resync_offset(fields: dict[str, str]) -> int | None:
    """Returns where a resync continues; mdadm prints it only if it is not 0."""
    if fields.get("state", "clean").startswith("clean"):
        return None
    return _number(fields.get("resync offset", "")) or 0


def _reshape_position(fields: dict[str, str]) -> int | None:
    """Returns the position of a reshape in sectors: mdadm prints KiB."""
    position = _number(fields.get("reshape pos'n", ""))
    return None if position is None else 2 * position


def _reshape(fields: dict[str, str], level: int) -> dict[str, int] | None:
    if "reshape pos'n" not in fields:
        return None
    delta = re.match(r"-?\d{1,4}\b", fields.get("delta devices", ""))
    new_level = LEVEL_NUMBERS.get(fields.get("new level", "").split(" ")[0], level)
    layout = fields.get("new layout") or fields.get("layout", "")
    chunk = fields.get("new chunksize") or fields.get("chunk size", "")
    return {
        "delta_disks": int(delta[0]) if delta else 0,
        "level": new_level,
        "layout": read_layout(layout, new_level),
        "chunk": read_chunk(chunk),
    }


def _bad_blocks(fields: dict[str, str], features: int) -> dict[str, Any] | None:
    """Returns the list without its entries.

    mdadm prints `512 entries available at offset 40 sectors - bad blocks present.`
    """
    match = re.match(r"(\d{1,6}) entries available at offset (-?\d{1,9}) sectors", fields.get("bad block log", ""))
    if not match:
        return None
    sector = (_number(fields.get("super offset", "")) or 0) + int(match[2])
    is_active = "bad blocks present" in fields["bad block log"] or bool(features & BAD_BLOCKS)
    return {
        "sector": max(0, sector), "sectors": max(1, int(match[1]) // 64), "shift": 0, "active": is_active, "entries": []
    }  # fmt: skip
