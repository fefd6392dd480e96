"""Rules about superblocks: damage, remains of earlier use, formats, and what firmware can read."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import array_finding, list_names, quote_command
from blklab.md.model import Array, Software

FIRMWARE_MOUNTS = ("/boot/efi", "/efi")  # Mount points of filesystems that firmware reads


def check_checksum(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The checksum of a superblock is wrong: the kernel will not accept this member."""
    for member in array.members:
        if member.superblock and not member.superblock.checksum_holds:
            yield array_finding(
                array,
                "critical",
                "checksum",
                f"the checksum of its superblock {member.superblock.version} is wrong: the kernel"
                " will not accept this member at the next assembly",
                quote_command("mdadm", "--examine", member.path),
                member=member.name,
            )


def check_superblock(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A superblock has other wrong values."""
    for member in array.members:
        for problem in member.superblock.problems if member.superblock else ():
            if not problem.startswith("checksum "):
                yield array_finding(
                    array,
                    "warning",
                    "damage",
                    f"superblock: {problem}",
                    quote_command("mdadm", "--examine", member.path),
                    member=member.name,
                )


def check_old_superblocks(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A member has a second superblock, or metadata of other software, from an earlier use."""
    for member in array.members:
        for old in member.leftovers:
            owner = "the same array" if old.uuid == array.uuid else f"another array ({old.uuid})"
            yield array_finding(
                array,
                "warning",
                "two-superblocks",
                f"has a second superblock, {old.version} of {owner}, at byte {old.offset:,}: at boot, either of them "
                "may be used; to remove it, take the device out of the array and run mdadm --zero-superblock "
                f"--metadata={old.version} (without --metadata, mdadm also removes the right one)",
                quote_command("mdadm", "--examine", f"--metadata={old.version}", member.path),
                member=member.name,
            )


def check_foreign_metadata(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports metadata of other software.

    `two-superblocks`: A member has a second superblock, or metadata of firmware, from earlier use.

    `external`: The array has metadata of other software: blklab does not read them.
    """
    for member in array.members:
        if member.foreign and member.superblock:
            yield array_finding(
                array,
                "warning",
                "two-superblocks",
                f"also has metadata of {list_names(list(member.foreign))}, left by a RAID of the firmware",
                quote_command("wipefs", "--no-act", member.path),
                member=member.name,
            )
    if array.external:
        kind = array.metadata.removeprefix("external:")
        kind = {"imsm": "Intel IMSM", "ddf": "DDF"}.get(kind, "")
        owner = f" ({kind})" if kind else ""
        message = f"has metadata of firmware{owner}: blklab does not read them, so it reports less"
        yield array_finding(array, "note", "external", message)


def check_shapes(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The members' superblocks disagree on the shape of the array."""
    facts = {
        (member.superblock.level, member.superblock.layout, member.superblock.chunk, member.superblock.raid_disks)
        for member in array.members
        if member.superblock and member.superblock.checksum_holds
    }
    if len(facts) > 1 and not array.reshaping:
        levels = list_names(sorted(f"{level} of {disks}" for level, _, _, disks in facts))
        message = (
            f"superblocks of its members disagree on level, layout, chunk or number of disks ({levels}): some were "
            "written before the shape changed"
        )
        yield array_finding(array, "warning", "unlike", message)


def check_metadata_version(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports metadata formats that matter for booting.

    `firmware-metadata`: Firmware cannot read this filesystem, because metadata precede the data.

    `metadata-end`: Metadata are at the end of the members, so programs can use one member alone.
    """
    mounts = {mount for part in array.parts for mount in part.mounts}
    firmware = sorted(mounts & set(FIRMWARE_MOUNTS))
    if array.metadata in {"1.1", "1.2"} and firmware:
        message = (
            f"is mounted on {list_names(firmware)}, and metadata {array.metadata} precede the data: firmware that "
            "reads a single member finds no filesystem; use metadata 1.0, which are at the end"
        )
        yield array_finding(array, "warning", "firmware-metadata", message)
    if array.metadata == "1.0":
        message = (
            "metadata 1.0 are at the end: firmware and GRUB can read a single member, which suits /boot and the ESP; a "
            "program that writes to one member only makes the copies differ"
        )
        yield array_finding(array, "note", "metadata-end", message)
    if array.metadata == "0.90":
        message = (
            "metadata 0.90 have no bad-block lists, but allow at most 27 members of 2 or 4 TiB; if a partition ends at "
            "the end of its disk, md cannot distinguish whether the disk or the partition is the member"
        )
        yield array_finding(array, "note", "metadata-end", message)
