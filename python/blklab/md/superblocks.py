"""Members' superblocks as values: what `_core.examine_md` reads, 0.90 and 1 alike."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blklab._core import examine_md
from blklab.documents import superblock as examined
from blklab.errors import BlklabError

SECTOR: Final = 512

LEVELS: Final = {
    -1: "linear",
    0: "raid0",
    1: "raid1",
    4: "raid4",
    5: "raid5",
    6: "raid6",
    10: "raid10",
    -4: "multipath",
    -5: "faulty",
}
"""Names of levels, as sysfs and mdadm have them (include/uapi/linux/raid/md_u.h, md/md.c)."""

FOREIGN: Final = {"ddf": "DDF", "imsm": "Intel IMSM"}


@dataclass(frozen=True, order=True)
class SectorRange:
    """Sectors of 512 bytes."""

    sector: int
    sectors: int

    @property
    def end(self) -> int:
        """The sector behind it."""
        return self.sector + self.sectors

    def __str__(self) -> str:
        """As people count: both ends belong to it."""
        if self.sectors == 1:
            return str(self.sector)
        return f"{self.sector}-{self.end - 1}"


@dataclass(frozen=True)
class BadBlockList:
    """A list that is configured."""

    active: bool
    """The superblock says that there are entries (feature 8)."""
    room: int
    """Entries that it has room for."""
    ranges: tuple[SectorRange, ...]
    """Sectors of the member, its data offset included; sorted. Entries of no sectors are not
    there.
    """
    empty_entries: int
    """Entries of no sectors: an area of zeros that was taken for a list."""

    @property
    def full(self) -> bool:
        """Whether there is no room for another entry."""
        return len(self.ranges) + self.empty_entries >= self.room > 0


@dataclass(frozen=True)
class Superblock:
    """What one superblock says. Sectors are 512 bytes; times are seconds since 1970."""

    version: str
    """`0.90`, `1.0`, `1.1` or `1.2`."""
    offset: int
    """Bytes from the start of the member."""
    uuid: str
    name: str
    level: str
    layout: int
    chunk: int
    """Bytes; 0 for levels without."""
    raid_disks: int
    size: int
    """Sectors of each member that the array uses; 0 where the level has no such thing."""
    data_offset: int
    data_size: int
    """Sectors there are for data."""
    role: str
    """`active`, `spare`, `faulty` or `journal`."""
    slot: int | None
    device: str
    """The member's own UUID; empty with 0.90."""
    present: tuple[bool, ...]
    """Of each slot whether there was an active member in it when this was written."""
    events: int
    updated: int
    resync: int | None
    """Where a resync goes on, sectors; None if the array is clean."""
    recovery: int | None
    """Up to which sector this member was rebuilt; None if it is whole."""
    reshaping: bool
    replacement: bool
    """It takes the place of the member in its slot (feature 16)."""
    write_mostly: bool
    bad_blocks: BadBlockList | None
    """None: none is configured."""
    bitmap: bool
    bitmap_distrusted: bool
    """Its bits are stale, or were written with an error."""
    checksum_holds: bool
    problems: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What tells arrays apart: superblocks of several lives may share nothing but a disk."""
        return self.uuid, self.version


@dataclass(frozen=True)
class SuperblockReading:
    """What was found on a device or an image."""

    superblocks: tuple[Superblock, ...] = ()
    foreign: tuple[str, ...] = ()
    """Metadata of others, by name."""
    failure: str = ""
    """Why nothing could be read; empty if it could."""


DISTRUSTED: Final = 2 | 4
"""Of a bitmap's state: stale, written with an error (drivers/md/md-bitmap.h, `bitmap_state`)."""


def read(path: Path, offset: int = 0, size: int | None = None) -> SuperblockReading:
    """Reads the metadata of a device or an image, which is only read; raises nothing.

    `offset` and `size` are bytes: where the member is in the file.
    """
    try:
        examined_document: examined.Examined = json.loads(examine_md(path, offset, size))
    except BlklabError as error:
        return SuperblockReading(failure=reason(str(error).removeprefix(f"{path}: ")))
    except ValueError as error:  # a name with a NUL
        return SuperblockReading(failure=str(error))
    return SuperblockReading(
        tuple(_superblock(member) for member in examined_document["members"]),
        tuple(FOREIGN.get(name, name) for name in examined_document["foreign"]),
    )


def reason(message: str) -> str:
    """Returns why a device could not be read, for a message."""
    plain = message.partition(" (os error")[0]
    if plain.lower().startswith(("permission denied", "operation not permitted")):
        return "permission denied: as root more is seen"
    return plain[:1].lower() + plain[1:]


def _superblock(member: examined.Member) -> Superblock:
    superblock = member["superblock"]
    return (
        _version_0(member, superblock)
        if superblock["format"] == "0.90"
        else _version_1(member, superblock)
    )


def _version_1(member: examined.Member, superblock: examined.Superblock1) -> Superblock:
    slots = {role["slot"] for role in superblock["roles"] if role["role"] == "active"}
    disks, role = superblock["raid_disks"], superblock["role"]
    return Superblock(
        version=f"1.{superblock['minor_version']}",
        offset=member["offset"],
        uuid=superblock["uuid"],
        name=superblock["name"],
        level=_level(superblock["level"]),
        layout=superblock["layout"],
        chunk=superblock["chunk"] * SECTOR,
        raid_disks=disks,
        size=superblock["size"],
        data_offset=superblock["data_offset"],
        data_size=superblock["data_size"],
        role=role["role"],
        slot=role["slot"] if role["role"] == "active" else None,
        device=superblock["device_uuid"],
        # A damaged number of disks must not make a tuple of four thousand millions.
        present=tuple(slot in slots for slot in range(min(disks, len(superblock["roles"])))),
        events=superblock["events"],
        updated=superblock["updated"],
        resync=superblock["resync_offset"],
        recovery=superblock["recovery_offset"],
        reshaping=superblock["reshape"] is not None,
        replacement="replacement" in superblock["features"],
        write_mostly=superblock["write_mostly"],
        bad_blocks=_bad_blocks(member["bad_blocks"]),
        bitmap=member["bitmap"] is not None or "bitmap" in superblock["features"],
        bitmap_distrusted=_distrusted(member),
        checksum_holds=_holds(member),
        problems=tuple(member["problems"]),
    )


def _version_0(member: examined.Member, superblock: examined.Superblock0) -> Superblock:
    this = superblock["this"]
    disks = min(superblock["raid_disks"], 27)
    slots = {disk["raid_disk"] for disk in superblock["disks"] if "sync" in disk["state"]}
    role = (
        "faulty" if "faulty" in this["state"] else "active" if "sync" in this["state"] else "spare"
    )
    return Superblock(
        version="0.90",
        offset=member["offset"],
        uuid=superblock["uuid"],
        name=f"md{superblock['md_minor']}",
        level=_level(superblock["level"]),
        layout=superblock["layout"],
        chunk=superblock["chunk"],
        raid_disks=superblock["raid_disks"],
        size=superblock["size"] * 2,
        data_offset=0,
        data_size=superblock["size"] * 2,
        role=role,
        slot=this["raid_disk"] if role == "active" else None,
        device="",
        present=tuple(slot in slots for slot in range(disks)),
        events=superblock["events"],
        updated=superblock["updated"],
        resync=None if superblock["resync"] is None else superblock["resync"] * 2,
        recovery=None,
        reshaping=superblock["reshape_position"] is not None,
        replacement=False,
        write_mostly="write-mostly" in this["state"],
        bad_blocks=None,
        bitmap=superblock["bitmap"],
        bitmap_distrusted=_distrusted(member),
        checksum_holds=_holds(member),
        problems=tuple(member["problems"]),
    )


def _level(number: int) -> str:
    return LEVELS.get(number, f"level {number}")


def _holds(member: examined.Member) -> bool:
    checksum = member["checksum"]
    return bool(checksum["stored"] == checksum["computed"])


def _distrusted(member: examined.Member) -> bool:
    return bool(member["bitmap"] and member["bitmap"]["state"] & DISTRUSTED)


def _bad_blocks(log: examined.BadBlocks | None) -> BadBlockList | None:
    if log is None:
        return None
    entries = [SectorRange(entry["sector"], entry["sectors"]) for entry in log["entries"]]
    return BadBlockList(
        active=log["active"],
        room=log["sectors"] * 64,
        ranges=tuple(sorted(entry for entry in entries if entry.sectors)),
        empty_entries=sum(not entry.sectors for entry in entries),
    )
