"""The document `superblock` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class BadBlocks(Struct, kw_only=True, gc=False):
    """A configured bad-block list."""
    sector: int
    """First sector of the list's area, from the start of the member."""
    sectors: int
    """Length of the area in sectors."""
    shift: int
    """Entries count in units of 2 to this power sectors."""
    active: bool
    """Whether the list has entries, according to the superblock (feature 8); otherwise the area is not read."""
    entries: list[SectorRange]
    """The entries in the order on disk, which is not sorted."""

class Bitmap(Struct, kw_only=True, gc=False):
    """A bitmap's superblock."""
    offset: int
    """Offset of the bitmap in bytes, from the start of the member."""
    version: int
    """3, 4 (bits in the host's byte order are fixed), 5 (clustered) or 6 (lockless, since Linux 6.18)."""
    uuid: Uuid
    """The array's UUID, as mdadm prints it."""
    sync_size: int
    """Sectors that the bitmap covers."""
    state: int
    """Flags; the bits of the bitmap are not valid with 2 (stale) or 4 (write error)."""
    chunk: int
    """Bytes for each bit; of a lockless bitmap, for each of its bytes."""
    daemon_sleep: int
    """Seconds between runs of the daemon that clears bits."""

class Checksum(Struct, kw_only=True, gc=False):
    """A checksum: stored and computed."""
    stored: int
    """The checksum in the superblock."""
    computed: int
    """The checksum of the superblock's bytes."""

class Member(Struct, kw_only=True, gc=False):
    """One member's metadata."""
    offset: int
    """Offset of the superblock in bytes, from the start of the member."""
    checksum: Checksum
    """The checksum of the superblock."""
    version: str
    """`0.90`, `1.0`, `1.1` or `1.2`."""
    uuid: Uuid
    """The array's UUID, as mdadm prints it."""
    name: str
    """The array's name: usually `host:name`; with 0.90, `md` and its minor number."""
    level: int
    """The RAID level as the kernel numbers it: 0, 1, 4, 5, 6 or 10; linear is -1."""
    layout: int
    """The layout, a number that the personality interprets."""
    chunk: int
    """Bytes of a chunk; 0 without chunks."""
    raid_disks: int
    """Number of slots."""
    size: int
    """Sectors of each member that the array uses."""
    data_offset: int
    """First sector of the data, from the start of the member."""
    data_size: int
    """Sectors of the member that can hold data; with 0.90, the same as `size`."""
    device_uuid: Uuid | None
    """The member's UUID; `null` with 0.90, which has none."""
    role: Role
    """What this member is in the array."""
    slot: int | None
    """Number of the slot of an active member; `null` for other roles."""
    present: list[bool]
    """For each slot, whether it has an active member."""
    write_mostly: bool
    """Whether the member is read only if no other member can be."""
    replacement: bool
    """Whether it replaces the member in its slot."""
    bitmap: bool
    """Whether there is an internal bitmap, or a log in its place."""
    events: int
    """The event count."""
    updated: int
    """When the superblock was written, in seconds since 1970."""
    created: int
    """When the array was made, in seconds since 1970."""
    resync_offset: int | None
    """The sector where a resync continues; `null` if the array is clean."""
    recovery_offset: int | None
    """Sectors of this member that have been recovered; `null` without an unfinished recovery, and always with 0.90."""
    reshape_position: int | None
    """Position of an unfinished reshape in sectors of the array; `null` without a reshape."""
    reshape: Reshape | None
    """What an unfinished reshape changes; `null` without a reshape."""
    journal: bool
    """Whether the array has a write journal; without it, Linux does not start it for writing."""
    ppl: bool
    """Whether the members log partial parity."""
    bad_blocks: BadBlocks | None
    """The bad-block list; `null` if none is configured, and always with 0.90."""
    bitmap_superblock: Bitmap | None
    """The internal write-intent bitmap; `null` if there is none, or it cannot be read."""
    refusal_reasons: list[Refusal]
    """Why the kernel refuses the superblock; empty if it accepts it."""
    problems: list[str]
    """Other problems, one line each."""

class Refusal(Struct, kw_only=True, gc=False):
    """A reason why the kernel refuses a superblock."""
    reason: RefusalReason
    """What the kernel does not accept."""
    message: str
    """The value, and what is expected."""

class Reshape(Struct, kw_only=True, gc=False):
    """The array that an unfinished reshape makes."""
    delta_disks: int
    """How many more slots the array has than before; negative if it shrinks. `raid_disks` is the larger number."""
    level: int
    """The new RAID level."""
    layout: int
    """The new layout."""
    chunk: int
    """Bytes of a new chunk."""

class SectorRange(Struct, kw_only=True, gc=False):
    """A range of bad sectors."""
    sector: int
    """First sector of the range, from the start of the member (data offset included)."""
    sectors: int
    """Number of sectors."""

class Examined(Struct, kw_only=True, gc=False):
    """All metadata on a device or image."""
    members: list[Member]
    """md's superblocks: a correct member has exactly one. Others are left over from earlier use."""
    foreign: list[ForeignMetadata]
    """Metadata in foreign formats."""

ForeignMetadata = Literal["DDF", "Intel IMSM"]
RefusalReason = Literal["bad-block-list", "checksum", "data-offset", "data-size", "features", "max-dev", "newer-kernel", "padding", "raid-disks"]
Role = Literal["active", "spare", "faulty", "journal"]
Uuid = str
