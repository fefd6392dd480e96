"""Rules about superblocks: damage, remains of earlier use, formats, and what firmware can read."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.model import Array, Software
from blklab.md.probing import parse_version
from blklab.md.superblocks import Superblock

FIRMWARE_MOUNTS = ("/boot/efi", "/efi")  # Mount points of filesystems that firmware reads


def check_checksum(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The checksum of a superblock is wrong: the kernel will not accept this member."""
    for member in array.members:
        if member.superblock and not member.superblock.checksum_holds:
            message = (
                f"the checksum of its superblock {member.superblock.version} is wrong: "
                "the kernel will not accept this member at the next assembly"
            )
            examine = command_lines.examine_disk(member.path)
            yield make_finding(array, "critical", "checksum", message, examine, member=member.name)


def check_superblock(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """Reports superblocks that the kernel refuses, or that have wrong values.

    `refused`: The kernel refuses a superblock, for another reason than its checksum.

    `newer-kernel`: Linux 6.18 and older refuse a superblock, or older ones its bitmap.

    `damage`: A superblock has other wrong values.
    """
    for member in array.members:
        superblock = member.superblock
        if superblock is None:
            continue
        examine = command_lines.examine_disk(member.path)
        reasons = [why.message for why in superblock.refusal_reasons if why.reason not in {"checksum", "newer-kernel"}]
        if reasons:
            without = "; assemble the array without this member" if array.usable and not array.live else ""
            message = f"the kernel refuses its superblock {superblock.version}: {'; '.join(reasons)}{without}"
            yield make_finding(array, "critical", "refused", message, examine, member=member.name)
        for message in _newer_kernels(superblock, software):
            yield make_finding(array, "note" if array.live else "warning", "newer-kernel", message, member=member.name)
        for problem in superblock.problems:
            message = f"superblock: {problem}"
            yield make_finding(array, "warning", "damage", message, examine, member=member.name)


def _newer_kernels(superblock: Superblock, software: Software | None) -> Iterator[str]:
    """Yields what older kernels do not know, with the installed kernels that are as old."""
    new: list[tuple[tuple[int, int], str]] = []
    for reason in superblock.refusal_reasons:
        if reason.reason == "newer-kernel":
            message = (
                f"{reason.message}: Linux 6.18 and older refuse this member, and rescue media are often older; "
                "use the array with Linux 6.19 or newer"
            )
            new.append(((6, 19), message))
    if superblock.bitmap_lockless:
        message = (
            "its bitmap is lockless (version 6): "
            "Linux 6.17 and older, and mdadm before 4.6, do not assemble this array; rescue media are often older"
        )
        new.append(((6, 18), message))
    for since, message in new:
        releases = [(release, parse_version(release)) for release in (software.kernels if software else ())]
        old = [release for release, version in releases if version and version < since]
        if old:
            yield f"{message}; installed here and too old to assemble it: {list_names(old)}"
        else:
            yield message


def check_old_superblocks(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A member has a second superblock, or metadata of other software, from an earlier use."""
    for member in array.members:
        for old in member.leftovers:
            owner = "the same array" if old.uuid == array.uuid else f"another array ({old.uuid})"
            examine = command_lines.examine_version(member.path, old.version)
            message = (
                f"has a second superblock, {old.version} of {owner}, at byte {old.offset:,}: "
                "at boot, either of them may be used; name the array by its UUID in mdadm.conf, "
                "and do not wipe the second one: the bytes there may be data of the array"
            )
            yield make_finding(array, "warning", "two-superblocks", message, examine, member=member.name)


def check_foreign_metadata(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A member also has metadata of firmware, from an earlier use (`two-superblocks`)."""
    for member in array.members:
        if member.foreign and member.superblock:
            message = f"also has metadata of {list_names(list(member.foreign))}, left by a RAID of the firmware"
            show = command_lines.show_signatures(member.path)
            yield make_finding(array, "warning", "two-superblocks", message, show, member=member.name)


def check_shapes(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The members' superblocks disagree on the shape of the array."""
    facts = {
        (member.superblock.level_name, member.superblock.layout, member.superblock.chunk, member.superblock.raid_disks)
        for member in array.members
        if member.superblock and member.superblock.accepted
    }
    if len(facts) > 1 and not array.reshaping:
        levels = list_names(sorted(f"{level} of {disks}" for level, _, _, disks in facts))
        message = (
            f"superblocks of its members disagree on level, layout, chunk or number of disks ({levels}): "
            "some were written before the shape changed"
        )
        yield make_finding(array, "warning", "unlike", message)


def check_metadata_version(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports metadata formats that matter for booting.

    `firmware-metadata`: Firmware cannot read this filesystem, because metadata precede the data.

    `metadata-end`: Metadata are at the end of the members, so programs can use one member alone.
    """
    mounts = {mount for part in array.parts for mount in part.mounts}
    firmware = sorted(mounts & set(FIRMWARE_MOUNTS))
    if array.metadata in {"1.1", "1.2"} and firmware:
        message = (
            f"is mounted on {list_names(firmware)}, and metadata {array.metadata} precede the data: "
            "firmware that reads a single member finds no filesystem; use metadata 1.0, which are at the end"
        )
        yield make_finding(array, "warning", "firmware-metadata", message)
    if array.metadata == "1.0":
        message = (
            "metadata 1.0 are at the end: firmware and GRUB can read a single member, which suits /boot and the ESP; "
            "a program that writes to one member only makes the copies differ"
        )
        yield make_finding(array, "note", "metadata-end", message)
    if array.metadata == "0.90":
        message = (
            "metadata 0.90 have no bad-block lists, but allow at most 27 members of 2 or 4 TiB; "
            "if a partition ends at the end of its disk, "
            "md cannot distinguish whether the disk or the partition is the member"
        )
        yield make_finding(array, "note", "metadata-end", message)
