"""Rules about superblocks: damage, remains of earlier use, formats, and what firmware can read."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import array_finding, audit_message, list_names, told
from blklab.md.model import Array, Software
from blklab.md.probing import parse_version
from blklab.md.recipes import command
from blklab.md.superblocks import Superblock

FIRMWARE_MOUNTS = ("/boot/efi", "/efi")  # Mount points of filesystems that firmware reads


def check_checksum(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The checksum of a superblock is wrong: the kernel will not accept this member."""
    for member in array.members:
        if member.superblock and not member.superblock.checksum_holds:
            examine, version = command("examine", disk=member.path), member.superblock.version
            yield told(array, "critical", "checksum", examine, version=version, member=member.name)


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
        examine = command("examine", disk=member.path)
        reasons = [why.message for why in superblock.refusal_reasons if why.reason not in {"checksum", "newer-kernel"}]
        if reasons:
            without = "; assemble the array without this member" if array.usable and not array.live else ""
            message = f"the kernel refuses its superblock {superblock.version}: {'; '.join(reasons)}{without}"
            yield array_finding(array, "critical", "refused", message, examine, member=member.name)
        for message in _newer_kernels(superblock, software):
            yield array_finding(array, "note" if array.live else "warning", "newer-kernel", message, member=member.name)
        for problem in superblock.problems:
            message = f"superblock: {problem}"
            yield array_finding(array, "warning", "damage", message, examine, member=member.name)


def _newer_kernels(superblock: Superblock, software: Software | None) -> Iterator[str]:
    """Yields what older kernels do not know, with the installed kernels that are as old."""
    new = [
        ((6, 19), audit_message("logical-block-size", reason=reason.message))
        for reason in superblock.refusal_reasons
        if reason.reason == "newer-kernel"
    ]
    if superblock.bitmap_lockless:
        new.append(((6, 18), audit_message("lockless-bitmap")))
    for since, message in new:
        releases = [(release, parse_version(release)) for release in (software.kernels if software else ())]
        old = [release for release, version in releases if version and version < since]
        yield message + (audit_message("installed-kernels", kernels=list_names(old)) if old else "")


def check_old_superblocks(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A member has a second superblock, or metadata of other software, from an earlier use."""
    for member in array.members:
        for old in member.leftovers:
            owner = "the same array" if old.uuid == array.uuid else f"another array ({old.uuid})"
            examine = command("examine-version", version=old.version, disk=member.path)
            words = {"version": old.version, "owner": owner, "offset": old.offset}
            yield told(array, "warning", "two-superblocks", examine, member=member.name, **words)


def check_foreign_metadata(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports metadata of other software.

    `two-superblocks`: A member has a second superblock, or metadata of firmware, from earlier use.

    `external`: The array has metadata of other software: blklab does not read them.
    """
    for member in array.members:
        if member.foreign and member.superblock:
            message = f"also has metadata of {list_names(list(member.foreign))}, left by a RAID of the firmware"
            show = command("show-signatures", disk=member.path)
            yield array_finding(array, "warning", "two-superblocks", message, show, member=member.name)
    if array.external:
        kind = array.metadata.removeprefix("external:")
        kind = {"imsm": "Intel IMSM", "ddf": "DDF"}.get(kind, "")
        owner = f" ({kind})" if kind else ""
        message = f"has metadata of firmware{owner}: blklab does not read them, so it reports less"
        yield array_finding(array, "note", "external", message)


def check_shapes(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The members' superblocks disagree on the shape of the array."""
    facts = {
        (member.superblock.level_name, member.superblock.layout, member.superblock.chunk, member.superblock.raid_disks)
        for member in array.members
        if member.superblock and member.superblock.accepted
    }
    if len(facts) > 1 and not array.reshaping:
        levels = list_names(sorted(f"{level} of {disks}" for level, _, _, disks in facts))
        yield told(array, "warning", "unlike", levels=levels)


def check_metadata_version(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports metadata formats that matter for booting.

    `firmware-metadata`: Firmware cannot read this filesystem, because metadata precede the data.

    `metadata-end`: Metadata are at the end of the members, so programs can use one member alone.
    """
    firmware = sorted({mount for part in array.parts for mount in part.mounts} & set(FIRMWARE_MOUNTS))
    if array.metadata in {"1.1", "1.2"} and firmware:
        yield told(array, "warning", "firmware-metadata", mounts=list_names(firmware), version=array.metadata)
    if array.metadata in {"1.0", "0.90"}:
        yield array_finding(array, "note", "metadata-end", audit_message(f"metadata-{array.metadata}"))
