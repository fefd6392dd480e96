"""The types of planned changes: what is asked, what refuses it, what md then does, and the answer."""

from dataclasses import dataclass
from typing import Literal

from blklab.md.model import Array, Software

Operation = Literal["add", "grow", "replace", "reshape", "level"]


@dataclass(frozen=True)
class NewDisk:
    """A disk that a change brings into an array. None: unknown, as for the disks of pasted text."""

    path: str
    name: str  # The kernel's name
    size: int | None = None  # Bytes
    logical_block: int | None = None  # Bytes
    users: tuple[str, ...] = ()  # What holds it open, for messages: then mdadm cannot open it
    contents: tuple[str, ...] = ()  # Signatures of filesystems, partition tables and superblocks
    array_uuid: str = ""  # Of the array whose superblock it has
    is_spare: bool = False  # It is a spare of the array already
    is_member: bool = False  # It is an active member of the array
    is_faulty: bool = False  # It failed in the array, which still holds it


@dataclass(frozen=True)
class Refusal:
    """A reason why mdadm or the kernel refuses a change."""

    code: str
    printed: str  # The sentence of mdadm or of the kernel
    reason: str  # Why, without a full stop
    remedy: tuple[str, ...] = ()  # Commands that make the change possible, and comments


@dataclass(frozen=True)
class Work:
    """A pass that md makes for a change. Sectors are of 512 bytes."""

    action: Literal["recovery", "resync", "reshape"]
    sectors: int  # What the speed limits count: sectors of a member, or of a RAID-10 array
    read_sectors: int  # Of all members together
    written_sectors: int  # Of all members together
    busiest_sectors: int
    """Read and written on the member with the most to do: at the speed of this disk the pass cannot be faster."""

    minimum: int = 0  # KiB/s below which mdadm has md not slow down; 0: as the limits say


@dataclass(frozen=True)
class SyncLimits:
    """The speed limits of md, KiB/s (md.rst, `sync_speed_min` and `sync_speed_max`)."""

    minimum: int = 1000
    maximum: int = 200_000
    are_known: bool = False  # Read on the host; otherwise they are the kernel's defaults


@dataclass(frozen=True)
class MemberRates:
    """How fast the slowest disk of a change reads and writes in order, in bytes per second."""

    slowest: float  # Near the end of a rotating disk
    fastest: float
    source: str  # Where the figures are from, for messages
    rotates: bool = False


@dataclass(frozen=True)
class Conditions:
    """What the answer depends on, besides the array."""

    software: Software | None = None
    limits: SyncLimits = SyncLimits()
    rates: MemberRates | None = None  # None: not known
    load: float | None = None  # Share of the time with other I/O, 0 to 1; None: not given


@dataclass(frozen=True)
class DurationEstimate:
    """How long a change takes, in seconds."""

    at_maximum: float  # At sync_speed_max: it cannot be faster
    at_minimum: float  # At sync_speed_min, to which md goes down while there is other I/O
    fastest: float
    likely: float | None  # None if the speed of the disks is not known
    slowest: float | None
    basis: tuple[str, ...] = ()  # What the figures are from


@dataclass(frozen=True)
class ChangePlan:
    """The answer to a question about one change of one array."""

    array: Array
    operation: Operation
    call: str  # The command of mdadm that was judged
    conditions: Conditions
    refusals: tuple[Refusal, ...] = ()  # In the order in which mdadm and the kernel check
    dangers: tuple[str, ...] = ()  # What mdadm accepts, and loses data
    no_effect: str = ""  # Why mdadm accepts it, and md does nothing; empty if md does what is asked
    work: tuple[Work, ...] = ()
    estimate: DurationEstimate | None = None  # None if md has nothing to copy, or if it is refused
    facts: tuple[str, ...] = ()  # What the change does
    commands: tuple[str, ...] = ()  # In order, with comments; empty if it is refused
    interruption: tuple[str, ...] = ()  # What a power cut means, and commands to go on
    caveats: tuple[str, ...] = ()
    is_work_known: bool = True  # False: what md has to copy depends on sizes that are not known

    @property
    def is_accepted(self) -> bool:
        """Whether mdadm and the kernel accept the change."""
        return not self.refusals
