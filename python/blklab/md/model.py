"""What an inventory consists of. Whatever could not be known is None, and said in `unseen`."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from blklab.md.superblocks import BadBlockList, SectorRange, Superblock
from blklab.system.diskstats import DeviceCounters

REDUNDANT: Final = {"raid1", "raid4", "raid5", "raid6", "raid10"}
"""Levels that outlive the loss of a member."""

PARITIES: Final = {"raid4": 1, "raid5": 1, "raid6": 2}
"""Members' worth of parity."""


@dataclass(frozen=True)
class Geometry:
    """How a filesystem believes that it lies on an array."""

    kind: str
    """`ext4` or `xfs`."""
    device: str
    """The path of what it is on."""
    block: int
    """Bytes."""
    unit: int
    """Bytes of a chunk: ext4's stride, XFS's sunit; 0 if it was not told."""
    width: int
    """Bytes of a stripe; 0 if it was not told."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": self.kind,
            "device": self.device,
            "block_bytes": self.block,
            "unit_bytes": self.unit,
            "width_bytes": self.width,
        }


@dataclass(frozen=True, order=True)
class BlockContent:
    """What lies in some bytes of an array."""

    begin: int
    """The byte of the array."""
    bytes: int
    device: str
    """The path of what it is on: the array, or something above it."""
    path: str = ""
    """The file's, or a directory's; empty if it is none's."""
    offset: int = -1
    """Bytes in the file; -1 of what is not its content, or not told."""
    what: str = ""
    """`free space`, `journal`…; empty of a file's content."""


@dataclass(frozen=True)
class ArrayPart:
    """A partition of an array, or the whole of it."""

    name: str
    path: str
    start: int
    """Bytes."""
    mounts: tuple[str, ...] = ()
    """Where it is mounted."""
    geometry: Geometry | None = None


@dataclass(frozen=True)
class DiskHealth:
    """One disk."""

    model: str = ""
    serial: str = ""
    wwn: str = ""
    """`wwn-0x…`, as udev has it; of SCSI, that of the logical unit."""
    protocol: str = ""
    """`ATA`, `SCSI` or `NVMe`."""
    rotation: int | None = None
    """Revolutions a minute; 0 of flash."""
    passed: bool | None = None
    """The disk's own verdict."""
    failing: tuple[str, ...] = ()
    """Attributes that are below their thresholds now."""
    hours: int | None = None
    reallocated: int | None = None
    pending: int | None = None
    uncorrectable: int | None = None
    grown_defects: int | None = None
    """Of SCSI: what reallocated sectors are there."""
    uncorrected: int | None = None
    """Of SCSI: errors of reads, writes and verifications that were not corrected."""
    critical_warning: int | None = None
    """Of NVMe: bits."""
    media_errors: int | None = None
    used_percent: int | None = None
    """Of NVMe: of the life that its maker foresaw; may exceed 100."""
    self_test: str = ""
    """How the last self-test failed; empty if it did not, or there was none."""
    temperature: int | None = None
    """°C."""
    temperature_limit: int | None = None
    """°C, that the disk says it may be operated at."""
    erc: bool | None = None
    """Whether it can be told how long to try (SCT error recovery control)."""
    erc_seconds: tuple[float | None, float | None] | None = None
    """How long it tries to read and to write; None of either: as long as it likes."""
    link: tuple[int, int] | None = None
    """Bits a second of the link: as negotiated, and what the disk can."""
    shingled: bool = False
    """Known for shingled tracks (SMR)."""

    @property
    def has_answered(self) -> bool:
        """Whether there is anything of its health in it."""
        return self.passed is not None or None not in (self.critical_warning, self.media_errors)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class PhysicalDisk:
    """A disk beneath arrays, or behind a controller, as it sees itself."""

    name: str
    """The kernel's; of what it does not know, a controller's path and the type for smartctl."""
    path: str
    arrays: tuple[str, ...]
    """Names; none if it is not known which."""
    health: DiskHealth
    kind: str = ""
    """smartctl's `-d`, of a disk that a controller hides."""
    timeout: int | None = None
    """Seconds that the kernel waits for it before it resets it."""
    zoned: str = ""
    """As sysfs has it: `none`, `host-aware`, `host-managed`."""
    failure: str = ""
    """Why it tells nothing."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "path": self.path,
            "arrays": list(self.arrays),
            "type": self.kind or None,
            "timeout_seconds": self.timeout,
            "zoned": self.zoned or None,
            "unseen": self.failure or None,
            "smart": self.health.as_dict(),
        }


@dataclass(frozen=True)
class ArrayMember:
    """A device or an image, and what it is in its array."""

    name: str
    """The kernel's name, `sda1`, or an image's path."""
    path: str
    """To be named in commands."""
    slot: int | None = None
    """None for spares, faulty members and those that are not known."""
    states: tuple[str, ...] = ()
    """As sysfs has them: `in_sync`, `faulty`, `write_mostly`, `write_error`…; none of images."""
    errors: int | None = None
    """Read errors that md mended, since the array was assembled."""
    superblock: Superblock | None = None
    leftovers: tuple[Superblock, ...] = ()
    """Superblocks of another life on the same device."""
    foreign: tuple[str, ...] = ()
    listed: tuple[SectorRange, ...] | None = None
    """Bad blocks as sysfs has them, acknowledged or not; None if that could not be read."""
    listed_cut: bool = False
    """Sysfs shows a page: there may be more."""
    unacknowledged: int = 0
    """Entries that wait to be written to the disk."""
    data_offset: int | None = None
    """Sectors."""
    size: int | None = None
    """Bytes of the device."""
    start: int | None = None
    """Bytes from the start of the disk, of a partition; 0 of a whole disk."""
    rotational: bool | None = None
    transport: str = ""
    """`NVMe` or nothing: SATA and SAS are not told apart."""
    physical_block: int | None = None
    """Bytes."""
    activity: DeviceCounters | None = None
    """What it has done since boot."""
    unseen: str = ""
    """Why its superblock was not read."""

    @property
    def bad_blocks(self) -> BadBlockList | None:
        """The list on the disk."""
        return self.superblock.bad_blocks if self.superblock else None

    @property
    def ranges(self) -> tuple[SectorRange, ...]:
        """All bad blocks that are known, of disk and memory; sectors of the member."""
        disk = self.bad_blocks.ranges if self.bad_blocks else ()
        return merged((*disk, *(self.listed or ())))

    @property
    def entries(self) -> int:
        """How many entries the list has: of disk and kernel, what is longer."""
        disk = self.bad_blocks.ranges if self.bad_blocks else ()
        return max(len(disk), len(self.listed or ()))

    @property
    def kind(self) -> str:
        """What sort of device it is."""
        if self.rotational is None:
            return ""
        return "HDD" if self.rotational else self.transport or "flash"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        superblock, bad = self.superblock, self.bad_blocks
        return {
            "name": self.name,
            "path": self.path,
            "slot": self.slot,
            "states": list(self.states),
            "errors": self.errors,
            "kind": self.kind or None,
            "rotational": self.rotational,
            "size_bytes": self.size,
            "start_bytes": self.start,
            "physical_block_bytes": self.physical_block,
            "data_offset_sectors": self.data_offset,
            "unseen": self.unseen or None,
            "bad_blocks": {
                "sysfs": None if self.listed is None else _pairs(self.listed),
                "sysfs_cut": self.listed_cut,
                "unacknowledged": self.unacknowledged,
                "disk": _pairs(bad.ranges) if bad else None,
                "empty_entries": bad.empty_entries if bad else None,
                "room": bad.room if bad else None,
            },
            "superblock": None
            if superblock is None
            else {
                "version": superblock.version,
                "offset_bytes": superblock.offset,
                "device_uuid": superblock.device or None,
                "role": superblock.role,
                "slot": superblock.slot,
                "events": superblock.events,
                "updated_unix": superblock.updated,
                "checksum_holds": superblock.checksum_holds,
                "data_offset_sectors": superblock.data_offset,
                "data_sectors": superblock.data_size,
                "bitmap": superblock.bitmap,
                "bad_blocks_active": bool(bad and bad.active),
                "recovery_sector": superblock.recovery,
                "problems": list(superblock.problems),
            },
            "leftovers": [{"version": old.version, "uuid": old.uuid} for old in self.leftovers],
            "foreign": list(self.foreign),
        }


@dataclass(frozen=True)
class SyncPass:
    """A pass over an array that is under way."""

    action: str
    """`resync`, `recover`, `check`, `repair` or `reshape`."""
    done: int | None = None
    """Sectors; None while it waits for another array's."""
    total: int | None = None
    speed: int | None = None
    """KiB/s."""

    @property
    def left_seconds(self) -> float | None:
        """Seconds left at its present speed."""
        if self.done is None or self.total is None or not self.speed:
            return None
        return max(0, self.total - self.done) / 2 / self.speed

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "action": self.action,
            "done_sectors": self.done,
            "total_sectors": self.total,
            "speed_kib": self.speed,
            "left_seconds": self.left_seconds,
        }


@dataclass(frozen=True)
class Array:
    """An array of this machine, or one put together from images."""

    name: str
    path: str
    """`/dev/md0`; empty if it is not assembled here."""
    uuid: str
    level: str
    layout: int
    chunk: int
    """Bytes."""
    raid_disks: int
    metadata: str
    """`1.2`, `external:imsm`…"""
    live: bool
    """Assembled on this machine."""
    members: tuple[ArrayMember, ...]
    member_sectors: int = 0
    """Sectors of each member that it uses; 0 if they are not alike, or it is not known."""
    label: str = ""
    """The name in the superblocks."""
    size: int | None = None
    """Bytes."""
    state: str = ""
    """As sysfs has it: `clean`, `active`, `readonly`, `inactive`…"""
    degraded: int | None = None
    """Members that are lacking."""
    sync: SyncPass | None = None
    last_action: str | None = None
    """The last pass since the array was assembled."""
    mismatches: int | None = None
    """Sectors that the last check found unlike."""
    bitmap: bool | None = None
    reshaping: bool = False
    repairing: bool | None = False
    """A repair that blklab began is not finished."""
    suspended: bool = False
    """Writes are held back (`suspend_lo`, `suspend_hi`)."""
    absent: tuple[int, ...] = ()
    """Offline: slots that have a member, of which nothing was given."""
    parts: tuple[ArrayPart, ...] = ()
    users: tuple[str, ...] = ()
    """Who uses it, each for a message."""
    contents: tuple[BlockContent, ...] | None = None
    """What lies on bad blocks, in order; None: not asked."""
    unseen: tuple[str, ...] = ()

    @property
    def redundant(self) -> bool:
        """Whether its level outlives the loss of a member."""
        return self.level in REDUNDANT

    @property
    def external(self) -> bool:
        """Whether its metadata are not md's own."""
        return self.metadata.startswith("external:")

    @property
    def active(self) -> tuple[ArrayMember, ...]:
        """The members that have a slot, in its order."""
        slotted = [member for member in self.members if member.slot is not None]
        return tuple(sorted(slotted, key=lambda member: (member.slot or 0, member.name)))

    @property
    def data_disks(self) -> int:
        """Members' worth of data in a stripe, as the kernel tells filesystems (`io_opt`).

        drivers/md/raid10.c, raid10_set_io_opt; raid5.c, raid5_set_io_opt.
        """
        if self.level == "raid10":
            near = self.layout & 0xFF
            whole = near > 0 and self.raid_disks % near == 0
            return self.raid_disks // near if whole else self.raid_disks
        return self.raid_disks - PARITIES.get(self.level, 0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "path": self.path or None,
            "uuid": self.uuid or None,
            "label": self.label or None,
            "live": self.live,
            "level": self.level,
            "layout": self.layout,
            "chunk_bytes": self.chunk,
            "raid_disks": self.raid_disks,
            "member_sectors": self.member_sectors,
            "metadata": self.metadata,
            "size_bytes": self.size,
            "state": self.state or None,
            "degraded": self.degraded,
            "sync": self.sync.as_dict() if self.sync else None,
            "last_action": self.last_action,
            "mismatch_sectors": self.mismatches,
            "bitmap": self.bitmap,
            "reshaping": self.reshaping,
            "repairing": self.repairing,
            "suspended": self.suspended,
            "slots_not_given": list(self.absent),
            "mounts": [mount for part in self.parts for mount in part.mounts],
            "filesystems": [part.geometry.as_dict() for part in self.parts if part.geometry],
            "users": list(self.users),
            "members": [member.as_dict() for member in self.members],
            "unseen": list(self.unseen),
        }


@dataclass(frozen=True)
class Software:
    """What the audit must know of the machine besides its arrays. None: not known."""

    kernel: tuple[int, int] | None = None
    mdadm: tuple[int, int] | None = None
    """None if it is not installed, or does not say."""
    lists_off: bool | None = None
    """Whether mdadm.conf says `CREATE bbl=no`."""
    config: str = ""
    """The configuration files that were read."""
    checked_by: str = ""
    """What checks arrays now and then; empty if nothing was found."""


@dataclass(frozen=True)
class Inventory:
    """All arrays that there are, and what could not be seen."""

    arrays: tuple[Array, ...]
    strays: tuple[ArrayMember, ...] = ()
    """Images and devices with metadata that are no array's: DDF, IMSM, or none at all."""
    software: Software | None = None
    """None offline: images tell nothing of it."""
    unseen: tuple[str, ...] = ()
    disks: tuple[PhysicalDisk, ...] | None = None
    """None: not asked."""
    volumes: tuple[str, ...] = ()
    """RAIDs of LVM, as `group/volume`, which are no arrays here."""


def merged(ranges: tuple[SectorRange, ...]) -> tuple[SectorRange, ...]:
    """Returns ranges in order, with those that meet put together."""
    ranges_merged: list[SectorRange] = []
    for range_ in sorted(ranges):
        if ranges_merged and range_.sector <= ranges_merged[-1].end:
            last = ranges_merged[-1]
            ranges_merged[-1] = SectorRange(last.sector, max(last.end, range_.end) - last.sector)
        else:
            ranges_merged.append(range_)
    return tuple(ranges_merged)


def _pairs(ranges: tuple[SectorRange, ...]) -> list[dict[str, int]]:
    return [{"sector": range_.sector, "sectors": range_.sectors} for range_ in ranges]
