"""What superblocks tell of themselves: damage, leftovers, formats and where they can be used."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import AuditedHost, command, listed, say
from blklab.md.model import Array

FIRMWARE = ("/boot/efi", "/efi")
"""Where what firmware reads is mounted."""


def checksum(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Superblocks whose checksums do not hold."""
    for member in array.members:
        if member.superblock and not member.superblock.checksum_holds:
            yield say(
                array,
                "critical",
                "checksum",
                f"superblock {member.superblock.version}: its checksum does not hold, the kernel"
                " will not take this member at the next assembly",
                command("mdadm", "--examine", member.path),
                member=member.name,
            )


def damage(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Whatever else is wrong in a superblock."""
    for member in array.members:
        for problem in member.superblock.problems if member.superblock else ():
            if not problem.startswith("checksum "):
                yield say(
                    array,
                    "warning",
                    "damage",
                    f"superblock: {problem}",
                    command("mdadm", "--examine", member.path),
                    member=member.name,
                )


def leftovers(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Superblocks of another life on the same device."""
    for member in array.members:
        for old in member.leftovers:
            whose = "the same array" if old.uuid == array.uuid else f"another array ({old.uuid})"
            yield say(
                array,
                "warning",
                "two-superblocks",
                f"has a second superblock, {old.version} of {whose} at byte {old.offset:,}: which"
                " of them is found at boot is chance; --zero-superblock takes the wrong one as"
                " well, unless --metadata names it, and wants the device out of the array",
                command("mdadm", "--examine", f"--metadata={old.version}", member.path),
                member=member.name,
            )


def others(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Metadata of firmware on a member of an md array of its own."""
    for member in array.members:
        if member.foreign and member.superblock:
            yield say(
                array,
                "warning",
                "two-superblocks",
                f"has metadata of {listed(list(member.foreign))} as well: left by a firmware's"
                " RAID",
                command("wipefs", "--no-act", member.path),
                member=member.name,
            )
    if array.external:
        kind = array.metadata.removeprefix("external:")
        kind = {"imsm": "Intel IMSM", "ddf": "DDF"}.get(kind, "")
        of = f" ({kind})" if kind else ""
        yield say(
            array,
            "note",
            "external",
            f"metadata are a firmware's{of}: they are named and not read, so less is known here",
        )


def disagreement(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Members of one array that tell different things of it."""
    facts = {
        (
            member.superblock.level,
            member.superblock.layout,
            member.superblock.chunk,
            member.superblock.raid_disks,
        )
        for member in array.members
        if member.superblock and member.superblock.checksum_holds
    }
    if len(facts) > 1 and not array.reshaping:
        levels = listed(sorted(f"{level} of {disks}" for level, _, _, disks in facts))
        yield say(
            array,
            "warning",
            "unlike",
            f"its members' superblocks disagree on level, layout, chunk or disks ({levels}): some"
            " are older than a change of shape",
        )


def version(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Formats at the end of devices, and what firmware can read."""
    mounts = {mount for part in array.parts for mount in part.mounts}
    firmware = sorted(mounts & set(FIRMWARE))
    if array.metadata in {"1.1", "1.2"} and firmware:
        yield say(
            array,
            "warning",
            "firmware-metadata",
            f"is mounted on {listed(firmware)}, and metadata {array.metadata} lie before the data:"
            " firmware that reads a single member finds no filesystem (1.0 lies behind them)",
        )
    if array.metadata == "1.0":
        yield say(
            array,
            "note",
            "metadata-end",
            "metadata 1.0 lie at the end: firmware and GRUB can read a member alone, fit for /boot"
            " and the ESP; whatever writes to one member alone makes the copies differ",
        )
    if array.metadata == "0.90":
        yield say(
            array,
            "note",
            "metadata-end",
            "metadata 0.90: no bad-block list can be, but at most 27 members of 2 or 4 TiB, and on"
            " a partition at the end of a disk it cannot be told whether the disk or the partition"
            " is the member",
        )
