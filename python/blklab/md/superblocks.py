"""Superblocks of members as values, for versions 0.90 and 1; `_core.examine_md` reads them."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from blklab._core import examine_md
from blklab.documents import superblock as examined
from blklab.errors import BlklabError
from blklab.md.levels import NUMBERS

LOCKLESS_BITMAP = 6  # Its version (drivers/md/md-llbitmap.c, Linux 6.18)
LEVELS = {**NUMBERS, -4: "multipath", -5: "faulty"}  # Names in sysfs (include/uapi/linux/raid/md_u.h)


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
        return str(self.sector) if self.sectors == 1 else f"{self.sector}-{self.end - 1}"


class BadBlockList(examined.BadBlocks):
    @property
    def room(self) -> int:
        """How many entries it can hold."""
        return self.sectors * 64

    @property
    def ranges(self) -> tuple[SectorRange, ...]:
        """Entries with at least one sector, sorted; sectors of the member, data offset included."""
        return tuple(sorted(SectorRange(entry.sector, entry.sectors) for entry in self.entries if entry.sectors))

    @property
    def empty_entries(self) -> int:
        """Entries of 0 sectors, from an area that was never written."""
        return sum(not entry.sectors for entry in self.entries)


class Superblock(examined.Member):
    """The values of a superblock. Sectors are 512 bytes; times are seconds since 1970."""

    bad_blocks: BadBlockList | None
    new_data_offset: int | None = None
    """Of a reshape that moves the data: the offset after it, sectors (feature 0x40). Only read from text."""
    reshape_backwards: bool = False  # It goes from the end to the beginning (feature 0x20). Only read from text

    @property
    def key(self) -> tuple[str, str]:
        """What distinguishes arrays."""
        return self.uuid, self.version

    @property
    def device(self) -> str:
        """UUID of the member; empty with 0.90."""
        return self.device_uuid or ""

    @property
    def bitmap_distrusted(self) -> bool:
        """Whether the bitmap is stale, or was written with an error (md/md-bitmap.h, `bitmap_state`)."""
        return bool(self.bitmap_superblock and self.bitmap_superblock.state & (2 | 4))

    @property
    def bitmap_lockless(self) -> bool:
        return bool(self.bitmap_superblock and self.bitmap_superblock.version == LOCKLESS_BITMAP)

    @property
    def level_name(self) -> str:
        return LEVELS.get(self.level, f"level {self.level}")

    @property
    def checksum_holds(self) -> bool:
        return self.checksum.stored == self.checksum.computed

    @property
    def accepted(self) -> bool:
        """Whether Linux accepts it; Linux 6.18 and older refuse it if `newer-kernel` is among the refusal_reasons."""
        return self.checksum_holds and all(refusal.reason == "newer-kernel" for refusal in self.refusal_reasons)


class SuperblockReading(msgspec.Struct):
    """The superblocks of a device or an image."""

    members: tuple[Superblock, ...] = ()
    foreign: tuple[examined.ForeignMetadata, ...] = ()
    failure: str = ""  # Why it could not be read; empty if it could


def swap_words(uuid: str) -> str:
    """Returns a UUID with the bytes of each word in the other order: for 0.90, sysfs and mdadm differ in this."""
    return ":".join(word if len(word) % 2 else bytes.fromhex(word)[::-1].hex() for word in uuid.split(":"))


def is_of_array(superblock: Superblock, uuid: str) -> bool:
    """Whether a superblock has the UUID of an array, as mdadm or as sysfs prints it."""
    uuids = {superblock.uuid}
    if superblock.version == "0.90":
        uuids.add(swap_words(superblock.uuid))
    return uuid in uuids


def newest_superblock(reading: SuperblockReading) -> Superblock | None:
    """Returns the superblock that was written last: a device with several belongs to the array of that one."""
    return max(
        reading.members, key=lambda candidate: (candidate.accepted, candidate.updated, candidate.events), default=None
    )


READINGS = msgspec.json.Decoder(SuperblockReading)
"""Made once, with the module: msgspec 0.22 crashes if two threads look at the same class for the first time."""


def read_superblocks(path: Path) -> SuperblockReading:
    """Returns the metadata of a device or an image; raises nothing."""
    try:
        return READINGS.decode(examine_md(path))
    except BlklabError as error:
        return SuperblockReading(failure=failure_reason(str(error).removeprefix(f"{path}: ")))
    except ValueError as error:  # a name with a NUL
        return SuperblockReading(failure=str(error))


def failure_reason(message: str) -> str:
    """Returns a reason for messages from an error message of `_core`."""
    plain = message.partition(" (os error")[0]
    if plain.lower().startswith(("permission denied", "operation not permitted")):
        return "permission denied: run blklab as root"
    return plain[:1].lower() + plain[1:]
