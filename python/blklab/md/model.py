"""The types of an inventory. Unknown values are None; `unseen` lists what could not be read."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import msgspec

from blklab._core import MdMap
from blklab.md.levels import PARITIES, REDUNDANT
from blklab.md.log_events import LogEvent
from blklab.md.superblocks import BadBlockList, SectorRange, Superblock, is_of_array, swap_words
from blklab.system.diskstats import DeviceCounters
from blklab.text.natural_order import natural_order
from blklab.units import SECTOR

NOT_IN_TEXT = "the text does not show its superblock"
"""Why a member of pasted text has no superblock."""

LIST_NOT_IN_TEXT = "the text does not show the entries of its bad-block list"
"""What is not seen of a member of pasted text whose superblock says that its list has entries."""

FIELDS_NOT_IN_TEXT = "the text shows only some fields of its superblock"
"""What is not seen of a member of pasted text of which someone has filtered the output: only the fields that decide."""

MAX_DISKS = 1920  # More members than this in a superblock mean that it is damaged


@dataclass(frozen=True)
class Geometry:
    """The chunk and stripe that a filesystem assumes."""

    kind: str  # `ext4` or `xfs`
    device: str  # Path of its device
    block_bytes: int
    unit_bytes: int  # A chunk: ext4's stride, XFS's sunit; 0 if not set
    width_bytes: int  # A stripe; 0 if not set


@dataclass(frozen=True, order=True)
class BlockContent:
    """The content of a range of an array."""

    begin: int  # First byte on the array
    bytes: int
    device: str  # Path of the filesystem's device: the array, or a volume on it
    path: str = ""  # Path of the file or directory; empty if there is none
    offset: int = -1  # Bytes from the start of the file; -1 if unknown, or not its content
    what: str = ""  # `free space`, `journal`…; empty for a file's content


@dataclass(frozen=True)
class ArrayPart:
    """A partition of an array, or the array itself."""

    name: str
    path: str
    start: int  # Bytes
    mounts: tuple[str, ...] = ()  # Mount points in the mount namespace of blklab
    mounts_elsewhere: tuple[str, ...] = ()
    """Mount points in other mount namespaces, with a process there, for messages."""
    geometry: Geometry | None = None
    filesystem: str = ""  # Of its mounts: `ext4`, `btrfs`…; empty if none is mounted directly on it


@dataclass(frozen=True)
class DiskHealth:
    model: str = ""
    serial: str = ""
    wwn: str = ""  # `wwn-0x…`, as udev prints it; for SCSI, that of the logical unit
    protocol: str = ""  # `ATA`, `SCSI` or `NVMe`
    rotation: int | None = None  # Revolutions per minute; 0 for flash
    passed: bool | None = None  # The disk's own verdict
    failing: tuple[str, ...] = ()  # Attributes that are below their thresholds now
    hours: int | None = None
    reallocated: int | None = None
    pending: int | None = None
    uncorrectable: int | None = None
    grown_defects: int | None = None  # SCSI: the counterpart of reallocated sectors
    uncorrected: int | None = None  # SCSI: uncorrected errors of reads, writes and verifications
    critical_warning: int | None = None  # NVMe: bits
    media_errors: int | None = None
    used_percent: int | None = None  # NVMe: part of the rated life; may exceed 100
    self_test: str = ""  # How the last self-test failed; empty if none failed
    temperature: int | None = None  # °C
    temperature_limit: int | None = None  # Highest operating temperature of the disk, °C
    erc: bool | None = None  # Whether retries can be limited (SCT error recovery control)
    erc_seconds: tuple[float | None, float | None] | None = None
    """Limits for retries of reads and writes; None: no limit."""
    link: tuple[int, int] | None = None  # Bits per second of the link: negotiated, and the disk's maximum
    shingled: bool = False  # Known to have shingled tracks (SMR)

    @property
    def has_answered(self) -> bool:
        """Whether the disk reported its health."""
        return self.passed is not None or None not in (self.critical_warning, self.media_errors)


@dataclass(frozen=True)
class PhysicalDisk:
    """A disk below arrays, or behind a controller, with its SMART values."""

    name: str  # The kernel's name; for hidden disks, the controller's path and smartctl's device type
    path: str
    arrays: tuple[str, ...]  # Names; empty if unknown
    health: DiskHealth
    kind: str = ""  # smartctl's `-d` for a disk that a controller hides
    timeout: int | None = None  # Seconds after which the kernel resets it
    timeout_is_default: bool = False  # It was not read: `timeout` is the kernel's default (drivers/scsi/sd.h)
    zoned: str = ""  # As in sysfs: `none`, `host-aware`, `host-managed`
    failure: str = ""  # Why its SMART values could not be read

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("name", "path")},
            "arrays": list(self.arrays),
            "type": self.kind or None,
            "timeout_seconds": self.timeout,
            "zoned": self.zoned or None,
            "unseen": self.failure or None,
            "smart": asdict(self.health),
        }


@dataclass(frozen=True)
class MemberBitmap:
    """The write-intent bitmap on a member, as `mdadm --examine-bitmap` prints it."""

    uuid: str  # Of the array
    events: int
    events_cleared: int | None  # A member that left before this event has changed chunks that are no longer marked
    is_out_of_date: bool  # By the flag that md writes
    chunk: int | None  # Bytes
    bits: int | None  # Chunks
    dirty: int | None  # Chunks that are marked as changed


@dataclass(frozen=True)
class ArrayMember:
    """A member of an array: a device or an image."""

    name: str  # The kernel's name, `sda1`, or the end of an image's path
    path: str  # Path for commands
    slot: int | None = None  # None for spares, faulty members, and if unknown
    states: tuple[str, ...] = ()  # As in sysfs: `in_sync`, `faulty`, `write_mostly`, `write_error`…; empty for images
    errors: int | None = None  # Read errors that md corrected since the array was assembled
    superblock: Superblock | None = None
    leftovers: tuple[Superblock, ...] = ()  # Other superblocks on the device, from an earlier use
    foreign: tuple[str, ...] = ()  # Names of other software that has metadata on the device
    listed: tuple[SectorRange, ...] | None = None
    """Bad blocks in sysfs, acknowledged or not; None if they could not be read."""
    listed_cut: bool = False  # sysfs shows a full page: there may be more
    unacknowledged: int = 0  # Entries that md has not yet written to the disk
    data_offset: int | None = None  # Sectors
    size: int | None = None  # Bytes of the device
    start: int | None = None  # Bytes from the start of the disk to the partition; 0 for a whole disk
    rotational: bool | None = None
    transport: str = ""  # `NVMe` or empty: SATA and SAS are not distinguished
    logical_block: int | None = None  # Bytes
    physical_block: int | None = None  # Bytes
    optimal_io: int | None = None  # `optimal_io_size` of its disk, bytes; 0 if the disk does not say
    activity: DeviceCounters | None = None  # The kernel's I/O counters since boot
    unseen: str = ""  # Why its superblock could not be read
    logical_volume: bool = False  # A volume of LVM, which may be the disk of a virtual machine
    users: tuple[str, ...] = ()  # Of a device outside of arrays: what uses it, `mounted at /`
    id: str = ""  # Its stable id, such as model and serial number; empty if it has none
    wwn: str = ""  # That of its disk, hexadecimal digits; empty if unknown
    disk: str = ""  # The kernel's name of its disk; empty of images
    multipath: str = ""  # Name of the multipath device that it is, or a partition of it: `mpatha`
    path_of: str = ""  # Name of the multipath device that its disk is a path of
    member_bitmap: MemberBitmap | None = None  # Only of pasted text

    @property
    def bad_blocks(self) -> BadBlockList | None:
        return self.superblock.bad_blocks if self.superblock else None

    @property
    def ranges(self) -> tuple[SectorRange, ...]:
        """All known bad blocks, on disk and in memory; sectors of the member."""
        disk = self.bad_blocks.ranges if self.bad_blocks else ()
        return merge_ranges((*disk, *(self.listed or ())))

    @property
    def entries(self) -> int:
        """Number of entries in the longer one of the disk's list and the kernel's."""
        disk = self.bad_blocks.ranges if self.bad_blocks else ()
        return max(len(disk), len(self.listed or ()))

    def is_refused_by(self, kernel: tuple[int, int] | None) -> bool:
        """Whether Linux refuses its list, which was never written to the disk (observed on 6.12, not on 6.1)."""
        return bool(self.bad_blocks and self.bad_blocks.empty_entries) and (kernel is None or kernel >= (6, 12))

    @property
    def spare(self) -> bool:
        """Whether it is a spare that md does not use."""
        if self.states:
            return "spare" in self.states and self.slot is None
        return bool(self.superblock and self.superblock.role == "spare")

    @property
    def replacement(self) -> bool:
        """Whether it replaces the member in its slot."""
        return "replacement" in self.states or (self.superblock is not None and self.superblock.replacement)

    @property
    def kind(self) -> str:
        """`HDD`, `NVMe`, `flash`, or empty if unknown."""
        if self.rotational is None:
            return ""
        return "HDD" if self.rotational else self.transport or "flash"

    def as_dict(self) -> dict[str, Any]:
        superblock = self.superblock
        bad = self.bad_blocks
        attributes = ("version", "role", "slot", "events", "checksum_holds", "bitmap")
        return {
            **{name: getattr(self, name) for name in ("name", "path", "slot", "errors", "rotational")},
            "states": list(self.states),
            "kind": self.kind or None,
            "id": self.id or None,
            "wwn": self.wwn or None,
            "multipath": self.multipath or None,
            "path_of": self.path_of or None,
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
                **{name: getattr(superblock, name) for name in attributes},
                "offset_bytes": superblock.offset,
                "device_uuid": superblock.device or None,
                "updated_unix": superblock.updated,
                "data_offset_sectors": superblock.data_offset,
                "data_sectors": superblock.data_size,
                "bad_blocks_active": bool(bad and bad.active),
                "recovery_sector": superblock.recovery_offset,
                "refusal_reasons": msgspec.to_builtins(superblock.refusal_reasons),
                "problems": list(superblock.problems),
            },
            "leftovers": [{"version": old.version, "uuid": old.uuid} for old in self.leftovers],
            "users": list(self.users),
            "foreign": list(self.foreign),
        }


Waiting = Literal[
    "other-array",  # DELAYED in /proc/mdstat: an array on the same disks is synchronised first
    "pending",  # PENDING: it has not begun; of an array in auto-read-only, it begins with the first write
    "remote",  # REMOTE: another node of a cluster does it
]


@dataclass(frozen=True)
class SyncPass:
    """A running sync action of an array."""

    action: str  # `resync`, `recover`, `check`, `repair` or `reshape`
    done_sectors: int | None = None  # None while it waits
    total_sectors: int | None = None
    speed_kib: int | None = None  # KiB/s
    minimum_kib: int | None = None  # sync_speed_min: KiB/s that md keeps while other I/O goes on
    maximum_kib: int | None = None  # sync_speed_max
    waiting: Waiting | None = None  # What it waits for, without done_sectors

    @property
    def name(self) -> str:
        """The action, for messages."""
        return {"recover": "recovery"}.get(self.action, self.action)

    @property
    def left_seconds(self) -> float | None:
        """Seconds left at its present speed."""
        if self.done_sectors is None or self.total_sectors is None or not self.speed_kib:
            return None
        return max(0, self.total_sectors - self.done_sectors) / 2 / self.speed_kib


@dataclass(frozen=True)
class OtherSpare:
    """A spare of another array that is complete."""

    array: str  # The name of the other array
    member: str
    shared: bool  # Both arrays have the same `spare-group` in mdadm.conf


@dataclass(frozen=True)
class Array:
    """An array of a host, or one assembled from images."""

    name: str
    path: str  # `/dev/md0`; empty for arrays of images
    uuid: str
    level: str
    layout: int
    chunk: int  # Bytes
    raid_disks: int
    metadata: str  # `1.2`, `external:imsm`…
    live: bool  # Assembled on its host, not from images
    members: tuple[ArrayMember, ...]
    member_sectors: int = 0  # Sectors that it uses on each member; 0 if they differ or are unknown
    label: str = ""  # The name in the superblocks
    size: int | None = None  # Bytes
    state: str = ""  # As in sysfs: `clean`, `active`, `readonly`, `inactive`…
    degraded: int | None = None  # Number of missing members
    sync: SyncPass | None = None
    last_action: str | None = None  # The last sync action since the array was assembled
    mismatches: int | None = None  # Sectors that differed in the last check
    mismatch_ranges: tuple[SectorRange, ...] = ()
    """Where, on RAID-4, 5 and 6, as far as the kernel's log has it: sectors of each member from its data offset."""
    bitmap: bool | None = None
    bitmap_chunk: int | None = None  # Bytes for each bit of an internal bitmap
    bitmap_sector: int | None = None  # First sector of an internal bitmap, from the superblock
    reshaping: bool = False
    reshape_position: int | None = None  # Sector of the array where an unfinished reshape is
    logical_block: int | None = None  # Bytes of a sector that it accepts
    stripes: int | None = None  # stripe_cache_size: stripes that the cache of RAID-4, 5 or 6 can hold
    stripes_in_use: int | None = None  # stripe_cache_active
    busy_shares: tuple[tuple[str, float], ...] = ()
    """Members, and the share of the time in which they had I/O in flight; measured only while a pass is slow."""
    consistency: str = ""  # `consistency_policy` in sysfs: `resync`, `bitmap`, `journal`, `ppl`
    repairing: bool | None = False  # A repair by blklab is not finished
    unfinished_repair: tuple[str, ...] = ()  # Why it cannot simply go on, and commands, from the present state
    suspended: bool = False  # Writes are suspended (`suspend_lo`, `suspend_hi`)
    absent: tuple[int, ...] = ()  # Slots with a member whose image was not given
    parts: tuple[ArrayPart, ...] = ()
    users: tuple[str, ...] = ()  # What uses it, for messages
    contents: tuple[BlockContent, ...] | None = None  # The content of bad blocks, in order; None if it was not read
    outside: tuple[ArrayMember, ...] = ()
    """Members of this array, by the UUID in their superblocks, that are on the same host and not in it."""
    other_spares: tuple[OtherSpare, ...] = ()  # Of a degraded array: spares of other arrays that are large enough
    kernel_errors: tuple[str, ...] = ()  # Of a broken array: the last messages of the kernel about errors of members
    container_array: "Array | None" = None  # Of a volume: its container, if it is assembled
    volumes: tuple["Array", ...] = ()  # Of a container: its volumes that are assembled
    idle: tuple[ArrayMember, ...] = ()  # Of a container: its disks that no volume uses
    member_arrays: tuple[str, ...] = ()  # Of a container in a text: paths of its volumes
    covered: tuple[str, ...] = ()
    """Of a text: whole disks with a partition table and no superblock, if members are whole disks and some lack."""
    dirty: bool | None = None  # Of a volume in a text: whether its metadata say that it was not shut down
    unseen: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name, and in brackets that of the superblocks if it differs (mdadm: `host:name`)."""
        device_names = {"", self.name, self.name.removeprefix("md")}
        label = self.label if self.live and self.label.rpartition(":")[2] not in device_names else ""
        return f"{self.name} ({label})" if label else self.name

    def is_called(self, names: Collection[str]) -> bool:
        """Whether its name, path or label is among names."""
        return not {self.name, self.path, self.label}.isdisjoint(names)

    @property
    def redundant(self) -> bool:
        """Whether its level tolerates the loss of a member."""
        return self.level in REDUNDANT

    @property
    def external(self) -> bool:
        """Whether its metadata are those of other software."""
        return self.metadata.startswith("external:")

    @property
    def is_container(self) -> bool:
        """Whether it only holds the disks of a RAID of firmware: the arrays are its volumes."""
        return self.external and not self.metadata.removeprefix("external:").startswith(("/", "-"))

    @property
    def container(self) -> str:
        """The kernel's name of the container that it is a volume of, `md127`; empty if it is no volume.

        Its metadata are `external:/md127/0`, or `external:-md127/0` while mdmon must leave it alone (mdadm, mdmon.h).
        """
        if not self.external or self.is_container:
            return ""
        return self.metadata.removeprefix("external:")[1:].partition("/")[0]

    @property
    def active(self) -> tuple[ArrayMember, ...]:
        """The members with a slot, in order of slots."""
        members = [member for member in self.members if member.slot is not None]
        return tuple(sorted(members, key=by_slot))

    @property
    def usable(self) -> int:
        """Number of slots with a usable member; of images, those that are accepted, complete and current.

        md accepts a member that is one event behind (drivers/md/md.c, `super_1_validate`).
        """
        if self.live:
            return self.raid_disks - (self.degraded or 0)
        superblocks = [member.superblock for member in self.active if member.superblock and member.superblock.accepted]
        newest = max((superblock.events for superblock in superblocks), default=0)
        current = [superblock for superblock in superblocks if superblock.events >= newest - 1]
        return min(
            self.raid_disks, len({superblock.slot for superblock in current if superblock.recovery_offset is None})
        )

    @property
    def distinct(self) -> tuple[ArrayMember, ...]:
        """One member for each slot, the newest of several images; then members without a slot."""
        members: dict[object, ArrayMember] = {}
        for member in sorted(self.active, key=_age):
            members.setdefault(member.slot, member)
        devices = {member.superblock.device or member.name for member in members.values() if member.superblock}
        for member in sorted((member for member in self.members if member.slot is None), key=_age):
            device = (member.superblock.device if member.superblock else "") or member.name
            if device not in devices:
                members.setdefault(device, member)
        return tuple(members.values())

    @property
    def sector_map(self) -> MdMap | None:
        """The map from members' sectors to the array's; None if unknown: for levels and layouts without a map here."""
        return _sector_map(self.level, self.layout, self.chunk, self.raid_disks, self.member_sectors)

    def map_pieces(self, slot: int, sectors: SectorRange, *, parity_as_data: bool = False) -> list[SectorRange] | None:
        """Returns the array's sectors in a range of a slot, from its data offset, for each chunk apart.

        None if unknown. With `parity_as_data`, parity is mapped to data of its stripe, whose writes change this parity.
        """
        if not sectors.sectors:
            return []
        if not (sector_map := self.sector_map) or not 0 <= slot < self.raid_disks:
            return None
        ranges = sector_map.array_ranges(slot, sectors.sector, sectors.sectors, parity_as_data)
        return None if ranges is None else [SectorRange(*piece) for piece in ranges]

    def array_ranges(self, member: ArrayMember, member_range: SectorRange) -> tuple[SectorRange, ...] | None:
        """Returns the array's sectors in a range of a member, which includes the data offset.

        Empty for parity and for what is not data. None if unknown: without a map, during a reshape, or without a slot.
        """
        slot = member.slot
        offset = member.data_offset
        if slot is None or offset is None or self.reshaping or self.member_sectors <= 0:
            return None
        first = max(0, member_range.sector - offset)
        last = min(member_range.end - offset, self.member_sectors)
        pieces = self.map_pieces(slot, SectorRange(first, max(0, last - first)))
        return None if pieces is None else merge_ranges(tuple(pieces))

    @property
    def data_disks(self) -> int:
        """Data chunks in each stripe, as the kernel reports them to filesystems (`io_opt`).

        drivers/md/raid10.c, raid10_set_io_opt; raid5.c, raid5_set_io_opt.
        """
        if self.level == "raid10":
            near = self.layout & 0xFF
            divisible = near > 0 and self.raid_disks % near == 0
            return self.raid_disks // near if divisible else self.raid_disks
        return self.raid_disks - PARITIES.get(self.level, 0)

    def as_dict(self) -> dict[str, Any]:
        attributes = [
            "name",
            "live",
            "level",
            "layout",
            "raid_disks",
            "member_sectors",
            "metadata",
            "degraded",
            "bitmap",
        ]
        attributes += ["last_action", "reshaping", "repairing", "suspended"]
        return {
            **{name: getattr(self, name) for name in attributes},
            **{name: getattr(self, name) or None for name in ("path", "uuid", "label", "state")},
            "chunk_bytes": self.chunk,
            "size_bytes": self.size,
            "usable_members": self.usable,
            "sync": {**asdict(self.sync), "left_seconds": self.sync.left_seconds} if self.sync else None,
            "mismatch_sectors": self.mismatches,
            "slots_not_given": list(self.absent),
            "mounts": [mount for part in self.parts for mount in part.mounts],
            "filesystems": [asdict(part.geometry) for part in self.parts if part.geometry],
            "users": list(self.users),
            "members": [member.as_dict() for member in self.members],
            "outside": [member.path for member in self.outside],
            "container": self.container or None,
            "volumes": [volume.name for volume in self.volumes],
            "unused": [member.path for member in self.idle],
            "unseen": list(self.unseen),
        }


@dataclass(frozen=True)
class Software:
    """The host's kernel, mdadm and their settings; None: unknown."""

    kernel: tuple[int, int] | None = None
    mdadm: tuple[int, int] | None = None  # None if it is not installed, or its version is unknown
    lists_off: bool | None = None  # Whether mdadm.conf says `CREATE bbl=no`
    config: str = ""  # The configuration files that were read
    checked_by: str = ""  # What checks arrays regularly; empty if nothing was found
    shares_spares: bool | None = None  # Whether a process `mdadm --monitor` runs that may move spares; None: unknown
    timers: tuple[str, ...] = ()  # Installed timers of systemd that check arrays, and are not enabled
    autocheck: bool | None = None  # Debian's AUTOCHECK, which switches checkarray; None without checkarray in cron
    kernels: tuple[str, ...] = ()  # Releases that the boot loader may offer, `6.12.48+deb13-amd64`
    md_changes: frozenset[str] | None = None
    """Subjects of commits of md, in lower case, that the changelog of the kernel's package names."""


@dataclass(frozen=True)
class ListedArray:
    """An ARRAY line of mdadm.conf (mdadm.conf(5))."""

    path: str  # `/dev/md0`, `/dev/md/home`; `<ignore>` for arrays that must not be assembled; empty if not given
    uuid: str  # As mdadm prints it, four words; empty if the line has none
    name: str = ""  # `name=` of the line
    file: str = ""  # The configuration file
    spare_group: str = ""  # `spare-group=` of the line

    @property
    def ignored(self) -> bool:
        """Whether the administrator does not want it to be assembled."""
        return self.path.lower() == "<ignore>"

    @property
    def short_name(self) -> str:
        """The name for messages: that of its device, or without one `name=`; empty if the line has neither."""
        if self.path and not self.ignored:
            return self.path.rpartition("/")[2]
        return self.name

    def describes(self, array: Array) -> bool:
        """Whether the line is about an array: the same UUID or, if the line has none, the same name."""
        if self.uuid:
            superblocks = [member.superblock for member in array.members if member.superblock]
            uuids = {array.uuid}
            if array.metadata == "0.90":  # Without superblocks, the UUID is that of sysfs
                uuids.add(swap_words(array.uuid))
            return self.uuid in uuids or any(is_of_array(superblock, self.uuid) for superblock in superblocks)
        names = {array.label, array.label.rpartition(":")[2]} - {""}
        if self.name:
            return self.name in names
        return self.short_name in {*names, array.name}

    def is_called(self, names: Collection[str]) -> bool:
        """Whether its path, name or UUID is among names."""
        return not {self.path, self.short_name, self.name, self.uuid}.isdisjoint(set(names) - {""})

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": self.path or None,
            "uuid": self.uuid or None,
            "name": self.name or None,
            "ignored": self.ignored,
            "file": self.file,
        }


@dataclass(frozen=True)
class Inventory:
    """All arrays of a host or of images, and what could not be read."""

    arrays: tuple[Array, ...]
    strays: tuple[ArrayMember, ...] = ()
    """Images and devices without an md superblock: metadata of other software, or none."""
    software: Software | None = None  # None for images
    unseen: tuple[str, ...] = ()
    disks: tuple[PhysicalDisk, ...] | None = None  # None if SMART values were not read
    volumes: tuple[str, ...] = ()  # RAIDs of LVM, `group/volume`, which are not md arrays
    firmware_raids: tuple[str, ...] = ()  # RAIDs of firmware that dmraid has set up, which are not md arrays
    outside: tuple[ArrayMember, ...] = ()
    """Devices of the host with an md superblock that no assembled array has as a member."""
    unassembled: tuple[Array, ...] = ()
    """Arrays of `outside` that are not assembled, made from the superblocks (`live` is False, as for images)."""
    listed: tuple[ListedArray, ...] = ()  # ARRAY lines of mdadm.conf
    unread: tuple[str, ...] = ()  # Why devices outside of arrays could not be read: one line for each reason
    log: tuple[LogEvent, ...] = ()  # What the kernel logged about arrays and disks, the oldest first
    lists_running: bool = False  # Of a text: it has /proc/mdstat, so arrays that are not in it do not run
    limited: bool = False  # Only the arrays that the user asked for are in it
    log_arrays: frozenset[str] = frozenset()  # If limited: names that the user asked for, and only the log has

    @property
    def log_names(self) -> frozenset[str]:
        """The names of arrays in the kernel's log."""
        return frozenset(event.array for event in self.log if event.array)

    def only(self, names: Collection[str]) -> "Inventory":
        """Returns the inventory of the arrays with these names, paths or labels, assembled or not."""
        arrays = tuple(array for array in self.arrays if array.is_called(names))
        unassembled_arrays = tuple(array for array in self.unassembled if array.is_called(names))
        selection = (*arrays, *unassembled_arrays)
        other_arrays = [array for array in (*self.arrays, *self.unassembled) if array not in selection]
        lines = []
        for line in self.listed:
            is_of_other = any(line.describes(array) for array in other_arrays)
            if any(line.describes(array) for array in selection) or (line.is_called(names) and not is_of_other):
                lines.append(line)
        return replace(
            self, arrays=arrays, strays=(), volumes=(), unassembled=unassembled_arrays, listed=tuple(lines), outside=(),
            limited=True, log_arrays=self._find_log_arrays(names),
        )  # fmt: skip

    def _find_log_arrays(self, names: Collection[str]) -> frozenset[str]:
        array_names = {array.name for array in (*self.arrays, *self.unassembled)}
        return (self.log_names & {name.rpartition("/")[2] for name in names}) - array_names


def by_slot(member: ArrayMember) -> tuple[bool, int, list[tuple[int, str]]]:
    """Returns what sorts the members of an array: those without a slot are the last."""
    return member.slot is None, member.slot or 0, natural_order(member.name)


def _age(member: ArrayMember) -> tuple[bool, bool, int, int]:
    """Returns what sorts the images of one slot: the member before its replacement, the newest first."""
    superblock = member.superblock
    if superblock is None:
        return (member.replacement, True, 0, 0)
    return (member.replacement, not superblock.accepted, -superblock.events, -superblock.updated)


@lru_cache(maxsize=64)
def _sector_map(level: str, layout: int, chunk: int, disks: int, member_sectors: int) -> MdMap | None:
    if level not in REDUNDANT or not 0 < disks <= MAX_DISKS:
        return None
    try:
        return MdMap(level, layout, chunk // SECTOR, [member_sectors] * disks)
    except (ValueError, OverflowError):  # from superblocks, which may be damaged
        return None


def merge_ranges(ranges: tuple[SectorRange, ...]) -> tuple[SectorRange, ...]:
    """Returns sorted ranges; ranges that touch or overlap are merged."""
    result: list[SectorRange] = []
    for current in sorted(ranges):
        if result and current.sector <= result[-1].end:
            last = result[-1]
            result[-1] = SectorRange(last.sector, max(last.end, current.end) - last.sector)
        else:
            result.append(current)
    return tuple(result)


def _pairs(ranges: tuple[SectorRange, ...]) -> list[dict[str, int]]:
    return [{"sector": bad_range.sector, "sectors": bad_range.sectors} for bad_range in ranges]
