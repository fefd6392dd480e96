"""Superblocks of members as values, for versions 0.90 and 1; `_core.examine_md` reads them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from blklab._core import examine_md
from blklab.documents import superblock as examined
from blklab.errors import BlklabError
from blklab.md_levels import NUMBERS

LEVELS: Final = {**NUMBERS, -4: "multipath", -5: "faulty"}  # Names in sysfs (include/uapi/linux/raid/md_u.h)

FOREIGN: Final = {"ddf": "DDF", "imsm": "Intel IMSM"}


@dataclass(frozen=True, order=True)
class SectorRange:
    """Sectors of 512 bytes."""

    sector: int
    sectors: int

    @property
    def end(self) -> int:
        """The first sector after the range."""
        return self.sector + self.sectors

    def __str__(self) -> str:
        """Returns the first and the last sector, both inclusive."""
        if self.sectors == 1:
            return str(self.sector)
        return f"{self.sector}-{self.end - 1}"


@dataclass(frozen=True)
class BadBlockList:
    active: bool  # The superblock marks the list as in use (feature 8)
    room: int  # How many entries it can hold
    ranges: tuple[SectorRange, ...]
    """Entries with at least one sector, sorted; sectors of the member, data offset included."""
    empty_entries: int  # Entries of 0 sectors, from an area that was never written

    @property
    def full(self) -> bool:
        """Whether it cannot hold another entry."""
        return len(self.ranges) + self.empty_entries >= self.room > 0


class Refusal(NamedTuple):
    """Why the kernel refuses a superblock."""

    reason: str  # `features`, `raid-disks`…: crates/md, `RefusalReason`
    message: str


@dataclass(frozen=True)
class Superblock:
    """The values of a superblock. Sectors are 512 bytes; times are seconds since 1970."""

    version: str  # `0.90`, `1.0`, `1.1` or `1.2`
    offset: int  # Bytes from the start of the member
    uuid: str
    name: str
    level: str
    layout: int
    chunk: int  # Bytes; 0 for levels without chunks
    raid_disks: int
    size: int  # Sectors that the array uses on each member; 0 for levels without such a limit
    data_offset: int
    data_size: int  # Sectors for data
    role: str  # `active`, `spare`, `faulty` or `journal`
    slot: int | None
    device: str  # UUID of the member; empty with 0.90
    present: tuple[bool, ...]  # For each slot, whether it had an active member when this superblock was written
    events: int
    updated: int
    resync: int | None  # Sector at which a resync continues; None if the array is clean
    recovery: int | None  # Sector up to which this member was rebuilt; None if it is complete
    reshaping: bool
    replacement: bool  # It replaces the member in its slot (feature 16)
    write_mostly: bool
    bad_blocks: BadBlockList | None  # None if no list is configured
    bitmap: bool
    bitmap_distrusted: bool  # The bitmap is stale, or was written with an error
    checksum_holds: bool
    refusal_reasons: tuple[Refusal, ...]  # Why the kernel refuses it, a wrong checksum included
    problems: tuple[str, ...]  # Other problems

    @property
    def key(self) -> tuple[str, str]:
        """What distinguishes arrays."""
        return self.uuid, self.version

    @property
    def accepted(self) -> bool:
        """Whether Linux accepts it; Linux 6.18 and older refuse it if `newer-kernel` is among the refusal_reasons."""
        return self.checksum_holds and all(refusal.reason == "newer-kernel" for refusal in self.refusal_reasons)


@dataclass(frozen=True)
class SuperblockReading:
    """The superblocks of a device or an image."""

    superblocks: tuple[Superblock, ...] = ()
    foreign: tuple[str, ...] = ()  # Names of other software that has metadata on it
    failure: str = ""  # Why it could not be read; empty if it could


DISTRUSTED: Final = 2 | 4  # Bits of a bitmap's state: stale, written with an error (md/md-bitmap.h, `bitmap_state`)


def read_superblocks(path: Path) -> SuperblockReading:
    """Returns the metadata of a device or an image; raises nothing."""
    try:
        examined_document: examined.Examined = json.loads(examine_md(path))
    except BlklabError as error:
        return SuperblockReading(failure=failure_reason(str(error).removeprefix(f"{path}: ")))
    except ValueError as error:  # a name with a NUL
        return SuperblockReading(failure=str(error))
    return SuperblockReading(
        tuple(_superblock(member) for member in examined_document["members"]),
        tuple(FOREIGN.get(name, name) for name in examined_document["foreign"]),
    )


def failure_reason(message: str) -> str:
    """Returns a reason for messages from an error message of `_core`."""
    plain = message.partition(" (os error")[0]
    if plain.lower().startswith(("permission denied", "operation not permitted")):
        return "permission denied: run blklab as root"
    return plain[:1].lower() + plain[1:]


def _superblock(member: examined.Member) -> Superblock:
    superblock, bitmap = member["superblock"], member["bitmap"]
    role = superblock["role"]
    return Superblock(
        version=superblock["version"],
        offset=member["offset"],
        uuid=superblock["uuid"],
        name=superblock["name"],
        level=LEVELS.get(superblock["level"], f"level {superblock['level']}"),
        layout=superblock["layout"],
        chunk=superblock["chunk"],
        raid_disks=superblock["raid_disks"],
        size=superblock["size"],
        data_offset=superblock["data_offset"],
        data_size=superblock["data_size"],
        role=role["role"],
        slot=role["slot"] if role["role"] == "active" else None,
        device=superblock["device_uuid"] or "",
        present=tuple(superblock["present"]),
        events=superblock["events"],
        updated=superblock["updated"],
        resync=superblock["resync_offset"],
        recovery=superblock["recovery_offset"],
        reshaping=superblock["reshape_position"] is not None,
        replacement=superblock["replacement"],
        write_mostly=superblock["write_mostly"],
        bad_blocks=_bad_blocks(member["bad_blocks"]),
        bitmap=superblock["bitmap"],
        bitmap_distrusted=bool(bitmap and bitmap["state"] & DISTRUSTED),
        checksum_holds=member["checksum"]["stored"] == member["checksum"]["computed"],
        refusal_reasons=tuple(Refusal(refusal["reason"], refusal["message"]) for refusal in member["refusal_reasons"]),
        problems=tuple(member["problems"]),
    )


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
