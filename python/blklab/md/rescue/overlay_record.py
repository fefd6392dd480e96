"""What a directory of overlays says about them: `overlays.json`. It holds facts, no commands.

Names of devices change, and a restart removes everything that blklab made except the files. Members are found again by
their stable ids and superblocks, overlays by the UUID that device-mapper keeps for them.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from blklab import output
from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.md.member_devices import OVERLAY_UUID
from blklab.md.model import ArrayMember
from blklab.system import identity
from blklab.system.layers import number_of
from blklab.system.roots import Roots

FILE = "overlays.json"
METADATA = "metadata"  # The directory with the saved metadata, in that of the overlays
MAX_BYTES = 16 << 20  # Of overlays.json
FORMAT_VERSION = 1

Verdict = Literal[
    "failed",  # It does not run on the overlays, or an overlay is full
    "damaged",  # It runs; the filesystem has errors, or files are broken
    "unchecked",  # It runs; blklab cannot check what is on it
    "good",  # It runs; the filesystem has no errors, and no file of the sample is broken
]


class MemberFacts(msgspec.Struct, frozen=True):
    """A member as it was when its overlay was made."""

    path: str  # Its name then, for messages
    ids: list[str]  # Stable ids: links in /dev/disk/by-id, serial numbers
    size: int  # Bytes
    array_uuid: str
    device_uuid: str  # Empty with metadata 0.90
    slot: int | None
    events: int
    updated: int  # When its superblock was written, seconds since 1970
    was_read_only: bool


class TrialResult(msgspec.Struct, frozen=True):
    """What was seen on the overlays."""

    verdict: Verdict
    lines: list[str]  # What was tried and seen, one sentence each


class OverlayRecord(msgspec.Struct, frozen=True):
    """A set of overlays of one array."""

    id: str  # Random: part of the UUIDs of its device-mapper devices
    boot_id: str | None  # Of the kernel under which the overlays were made
    array_uuid: str
    array_name: str
    members: list[MemberFacts]
    masked_rules: list[str]  # Names of udev rules that blklab hid, which assemble arrays
    trial: TrialResult | None = None
    stopped: bool = False
    format_version: int = FORMAT_VERSION

    @property
    def uuid_prefix(self) -> str:
        """How the device-mapper UUIDs of its overlays begin (/sys/block/dm-N/dm/uuid)."""
        return f"{OVERLAY_UUID}{self.id}-"


@dataclass(frozen=True)
class FoundDevice:
    """A member's device, by its present name."""

    path: str
    name: str  # The kernel's name


def describe_member(member: ArrayMember, *, is_read_only: bool, roots: Roots) -> MemberFacts:
    """Returns the facts of a member that has a superblock. Raises BlklabError if its device is gone."""
    superblock = member.superblock
    if superblock is None:
        raise BlklabError(f"{member.path}: has no md superblock, expected a member of an array")
    with SystemErrors(BlklabError, f"{member.path}: cannot be opened"):
        status = Path(member.path).stat()
    device = identity.of_number(number_of(status.st_rdev), roots, member.path)
    return MemberFacts(
        path=member.path,
        ids=list(device.ids),
        size=device.size,
        array_uuid=superblock.uuid,
        device_uuid=superblock.device,
        slot=superblock.slot,
        events=superblock.events,
        updated=superblock.updated,
        was_read_only=is_read_only,
    )


def find_device(facts: MemberFacts, roots: Roots) -> FoundDevice | None:
    """Returns the device of a member: by a stable id, and only without one by its name; None if it is not here."""
    return find_known_device(facts.path, facts.ids, facts.size, roots)


def find_known_device(path: str, ids: Sequence[str], size: int | None, roots: Roots) -> FoundDevice | None:
    """Returns the device that had a path, stable ids and a size in bytes: as `find_device`."""
    for stable_id in ids:
        for device in identity.find_by_id(stable_id, roots):
            if device.size == size:
                return FoundDevice(device.path, device.name)
    if ids:
        return None
    with suppress(OSError, BlklabError):
        device = identity.of_number(number_of(os.stat(path).st_rdev), roots, path)  # noqa: PTH116
        if device.size == size:
            return FoundDevice(device.path, device.name)
    return None


def write_record(record: OverlayRecord, directory: Path) -> None:
    """Writes overlays.json in place of the one before, and syncs it. Raises BlklabError if that fails."""
    content = msgspec.json.format(msgspec.json.encode(record), indent=2)
    with SystemErrors(BlklabError, directory / FILE):
        output.replace(directory / FILE, content + b"\n", mode=0o600)


def read_record(directory: Path) -> OverlayRecord:
    """Returns the record of a directory. Raises UsageError if it has none, or one that blklab did not write."""
    path = directory / FILE
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; expected the directory that was given to `blklab md overlays start`"
        ) from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path}: larger than {MAX_BYTES >> 20} MiB, expected a file that blklab wrote")
    try:
        record = msgspec.json.decode(content, type=OverlayRecord)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}, expected a file that blklab wrote") from None
    if record.format_version != FORMAT_VERSION:
        raise UsageError(f"{path}: format version {record.format_version}, expected {FORMAT_VERSION}")
    return record
