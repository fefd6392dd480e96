"""Reads `mdadm --examine` of disks with metadata of Intel IMSM (mdadm: super-intel.c), and joins containers by name.

A volume names its container as its host does (/dev/md/imsm0), and the container may be shown as /dev/md127.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from blklab.md.levels import REDUNDANT
from blklab.md.model import MAX_DISKS, Array
from blklab.md.pasted.blocks import HEADING, PROMPT
from blklab.md.pasted.examine import LEVEL_NUMBERS, read_chunk

MAGIC = re.compile(r"^\s*Magic : Intel Raid ISM\b")
VOLUME = re.compile(r"^\s*\[([^\[\]]{1,64})\]:\s*$")
FIELD = re.compile(r"^\s*([A-Z][A-Za-z ]{1,30}?)\s*: (.*?)\s*$")
NO_UUID = "00000000:00000000:00000000:00000000"


@dataclass
class FirmwareVolume:
    """A volume, as the metadata on a disk describe it."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)  # By names in lower case; the present value if there are two

    @property
    def uuid(self) -> str:
        return self.fields.get("uuid", "")

    @property
    def slots(self) -> str:
        """Which slots have a disk: `U_UU`; empty if the text does not say it."""
        match = re.match(r"\[([U_]{1,64})\]", self.fields.get("slots", ""))
        return match[1] if match else ""

    @property
    def level(self) -> str:
        number = re.match(r"\d{1,2}\b", self.fields.get("raid level", ""))
        level = f"raid{number[0]}" if number else ""
        return level if level in LEVEL_NUMBERS else ""

    @property
    def is_dirty(self) -> bool | None:
        """Whether it was not shut down; None if the text does not say it."""
        return {"dirty": True, "clean": False}.get(self.fields.get("dirty state", ""))


@dataclass
class FirmwareDisk:
    """A disk with metadata of Intel IMSM."""

    path: str
    uuid: str = ""  # Of its container; empty of a disk that was in none
    generation: int = 0  # The metadata with the larger number are newer
    volumes: list[FirmwareVolume] = field(default_factory=list)


def find_disks(lines: Sequence[str]) -> Iterator[FirmwareDisk]:
    """Yields the disks with metadata of Intel IMSM in a text."""
    path = ""
    disk: FirmwareDisk | None = None
    volume: FirmwareVolume | None = None
    for line in lines:
        heading = HEADING.match(line)
        if heading or PROMPT.match(line) or line.startswith("Personalities"):
            if disk:
                yield disk
            disk = None
            path = heading[1] if heading else path
            continue
        if MAGIC.match(line):
            disk = FirmwareDisk(path)
            volume = None
        if disk is None:
            continue
        name = VOLUME.match(line)
        item = FIELD.match(line)
        if name:
            volume = FirmwareVolume(name[1])
            disk.volumes.append(volume)
        elif item and re.match(r"Disk(?:\d+)? Serial", item[1]):
            volume = None
        elif item and volume is not None:
            volume.fields.setdefault(item[1].lower(), item[2].partition(" <-- ")[0])
        elif item and item[1] == "UUID" and item[2] != NO_UUID:
            disk.uuid = disk.uuid or item[2]
        elif item and item[1] == "Generation" and re.fullmatch(r"[0-9a-f]{1,8}", item[2]):
            disk.generation = int(item[2], 16)
    if disk:
        yield disk


def name_containers(arrays: Sequence[Array]) -> list[Array]:
    """Returns volumes with the name that their container has among the arrays, found by its volumes or its disks."""
    containers = [array for array in arrays if array.is_container]
    names = {container.name for container in containers}
    named = []
    for array in arrays:
        container = None if not array.container or array.container in names else _find_container(array, containers)
        if container is not None:
            number = array.metadata.rpartition("/")[2]
            array = replace(array, metadata=f"external:/{container.name}/{number}")  # noqa: PLW2901
        named.append(array)
    return named


def _find_container(volume: Array, containers: Sequence[Array]) -> Array | None:
    for container in containers:
        if volume.path in container.member_arrays:
            return container
    disks = {member.name for member in volume.members}
    shares = []
    for container in containers:
        names = {member.name for member in container.members}
        shares.append((len(disks & names), container))
    most = max((share for share, _ in shares), default=0)
    best = [container for share, container in shares if share == most]
    return best[0] if most and len(best) == 1 else None


def add_firmware_volumes(arrays: Sequence[Array], disks: Iterable[FirmwareDisk]) -> list[Array]:
    """Returns volumes with what the metadata on their disks say: the newest ones, found by UUID, then by number."""
    newest_first = sorted(disks, key=lambda disk: -disk.generation)
    return [_add_firmware_volume(array, newest_first) if array.container else array for array in arrays]


def _add_firmware_volume(array: Array, disks: Sequence[FirmwareDisk]) -> Array:
    volume = _find_volume(array, disks)
    if volume is None:
        return array
    level = array.level or volume.level
    missing = array.degraded
    if volume.slots and level in REDUNDANT and (missing is None or array.state == "inactive"):
        missing = volume.slots.count("_")
    return replace(
        array,
        uuid=array.uuid or volume.uuid,
        label=array.label or volume.name,
        level=level,
        chunk=array.chunk or read_chunk(volume.fields.get("chunk size", "").replace(" KiB", "K")),
        raid_disks=array.raid_disks or min(len(volume.slots), MAX_DISKS),
        degraded=missing,
        dirty=volume.is_dirty,
    )


def _find_volume(array: Array, disks: Sequence[FirmwareDisk]) -> FirmwareVolume | None:
    paths = {member.path for member in array.members}
    for disk in disks:
        for volume in disk.volumes:
            if array.uuid and volume.uuid == array.uuid:
                return volume
    number = array.metadata.rpartition("/")[2]
    for disk in disks:
        if not array.uuid and disk.path in paths and number.isdecimal() and int(number) < len(disk.volumes):
            return disk.volumes[int(number)]
    return None
