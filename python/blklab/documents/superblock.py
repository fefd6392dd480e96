"""The document `superblock` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, TypedDict

BadBlocks = TypedDict("BadBlocks", {
    "active": bool, "entries": "list[SectorRange]", "sector": int, "sectors": int, "shift": int,
})
Bitmap = TypedDict("Bitmap", {
    "chunk": int, "daemon_sleep": int, "offset": int, "state": int, "sync_size": int, "uuid": "Uuid", "version": int,
})
Checksum = TypedDict("Checksum", {"computed": int, "stored": int})
Member = TypedDict("Member", {
    "bad_blocks": "BadBlocks | None", "bitmap": "Bitmap | None", "checksum": "Checksum", "offset": int,
    "problems": list[str], "refusal_reasons": "list[Refusal]", "superblock": "Superblock",
})
Refusal = TypedDict("Refusal", {"message": str, "reason": "RefusalReason"})
ActiveRole = TypedDict("ActiveRole", {"role": Literal["active"], "slot": int})
SpareRole = TypedDict("SpareRole", {"role": Literal["spare"]})
FaultyRole = TypedDict("FaultyRole", {"role": Literal["faulty"]})
JournalRole = TypedDict("JournalRole", {"role": Literal["journal"]})
SectorRange = TypedDict("SectorRange", {"sector": int, "sectors": int})
Superblock = TypedDict("Superblock", {
    "bitmap": bool, "chunk": int, "data_offset": int, "data_size": int, "device_uuid": "Uuid | None", "events": int,
    "layout": int, "level": int, "name": str, "present": list[bool], "raid_disks": int, "recovery_offset": int | None,
    "replacement": bool, "reshape_position": int | None, "resync_offset": int | None, "role": "Role", "size": int,
    "updated": int, "uuid": "Uuid", "version": str, "write_mostly": bool,
})
Examined = TypedDict("Examined", {"foreign": "list[ForeignMetadata]", "members": "list[Member]"})
ForeignMetadata = Literal["ddf", "imsm"]
RefusalReason = Literal["bad-block-list", "checksum", "data-offset", "data-size", "features", "max-dev", "newer-kernel", "padding", "raid-disks"]
Role = ActiveRole | SpareRole | FaultyRole | JournalRole
Uuid = str
