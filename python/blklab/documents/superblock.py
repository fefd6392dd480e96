"""The document `superblock` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal, TypedDict

BadBlocks = TypedDict("BadBlocks", {
    "active": bool, "entries": "list[SectorRange]", "sector": int, "sectors": int, "shift": int,
})
Bitmap = TypedDict("Bitmap", {
    "chunk": int, "daemon_sleep": int, "events": int, "events_cleared": int, "offset": int, "state": int,
    "sync_size": int, "uuid": "Uuid", "version": int, "write_behind": int,
})
Checksum = TypedDict("Checksum", {"computed": int, "stored": int})
Descriptor = TypedDict("Descriptor", {"major": int, "minor": int, "number": int, "raid_disk": int, "state": list[str]})
Member = TypedDict("Member", {
    "bad_blocks": "BadBlocks | None", "bitmap": "Bitmap | None", "checksum": "Checksum", "offset": int,
    "problems": list[str], "superblock": "Superblock",
})
Reshape = TypedDict("Reshape", {
    "delta_disks": int, "new_chunk": int, "new_layout": int, "new_level": int, "new_offset": int, "position": int,
})
ActiveRole = TypedDict("ActiveRole", {"role": Literal["active"], "slot": int})
SpareRole = TypedDict("SpareRole", {"role": Literal["spare"]})
FaultyRole = TypedDict("FaultyRole", {"role": Literal["faulty"]})
JournalRole = TypedDict("JournalRole", {"role": Literal["journal"]})
SectorRange = TypedDict("SectorRange", {"sector": int, "sectors": int})
Superblock0 = TypedDict("Superblock0", {
    "bitmap": bool, "chunk": int, "clean": bool, "counts": list[int], "created": int, "disks": "list[Descriptor]",
    "events": int, "layout": int, "level": int, "md_minor": int, "minor_version": int, "nr_disks": int,
    "raid_disks": int, "reshape_position": int | None, "resync": int | None, "size": int, "this": "Descriptor",
    "updated": int, "uuid": "Uuid",
})
Superblock1 = TypedDict("Superblock1", {
    "bblog_offset": int, "bblog_shift": int, "bblog_size": int, "bitmap_offset": int, "chunk": int,
    "corrected_reads": int, "created": int, "data_offset": int, "data_size": int, "dev_number": int,
    "device_uuid": "Uuid", "events": int, "failfast": bool, "feature_map": int, "features": list[str], "layout": int,
    "level": int, "minor_version": int, "name": str, "raid_disks": int, "recovery_offset": int | None,
    "reshape": "Reshape | None", "resync_offset": int | None, "role": "Role", "roles": "list[Role]", "size": int,
    "super_offset": int, "updated": int, "uuid": "Uuid", "write_mostly": bool,
})
Examined = TypedDict("Examined", {"foreign": "list[ForeignMetadata]", "members": "list[Member]"})
class SuperblockV090(Superblock0):
    format: Literal["0.90"]

class SuperblockV1(Superblock1):
    format: Literal["1"]

ForeignMetadata = Literal["ddf", "imsm"]
Role = ActiveRole | SpareRole | FaultyRole | JournalRole
Superblock = SuperblockV090 | SuperblockV1
Uuid = str
