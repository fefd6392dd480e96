"""Rules about RAIDs of firmware (external metadata): containers, which hold the disks, and volumes, the arrays."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic, Severity
from blklab.md import command_lines
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.model import Array, Software
from blklab.md.recipes import DISK

FORMATS = {"imsm": "Intel IMSM", "ddf": "DDF"}

TAKES_DISKS = "imsm"
"""The format for whose containers `mdadm --add` is proven. mdadm 4.2 crashes when a disk is added to one of DDF."""

RUNNING = frozenset({"clean", "active", "active-idle", "write-pending"})
"""States of a volume in which mdmon rebuilds it."""


def check_container(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The array is a container of firmware's metadata, or a volume of one: blklab does not read these metadata."""
    if array.is_container:
        disks = "1 disk" if len(array.members) == 1 else f"{len(array.members)} disks"
        names = list_names([volume.name for volume in array.volumes])
        volumes = {0: "none of its volumes is assembled", 1: f"its volume is {names}"}
        holds = volumes.get(len(array.volumes), f"its volumes are {names}")
        message = (
            f"is a container of {describe_format(array)} with {disks}, not an array; {holds}. "
            "md calls every container inactive, and its disks spares"
        )
        yield make_finding(array, "note", "external", message)
    elif array.external:
        owner = f" ({describe_format(array.container_array)})" if array.container_array else ""
        message = (
            f"is a volume of the container {array.container}{owner}: blklab does not read its metadata, so it reports "
            "less. mdadm adds disks to the container, never to a volume"
        )
        yield make_finding(array, "note", "external", message)


def check_stopped_volume(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A volume of firmware's RAID is assembled and does not run."""
    if not array.container or array.state != "inactive":
        return
    message = "is assembled and does not run"
    if array.dirty and array.degraded:
        members = "1 member is" if array.degraded == 1 else f"{array.degraded} members are"
        message += (
            f": {members} missing, and it was not shut down (`Dirty State : dirty`), so the parity of some stripes may "
            "be old: mdadm does not start it (dirty and degraded). The other members have all other data"
        )
        yield make_finding(array, "critical", "inactive", message, *_start_dirty_volume(array))
    elif array.degraded is None or array.dirty is None:
        message += ": the metadata on its disks say why"
        paths = [member.path for member in array.members if member.path]
        commands = (command_lines.examine_disks(paths),) if paths else ()
        yield make_finding(array, "critical", "inactive", message, *commands)
    else:
        yield make_finding(array, "critical", "inactive", message + ": dmesg says why md did not start it")


def _start_dirty_volume(array: Array) -> Iterator[str]:
    """Yields how to start a volume that is dirty and degraded, in words: that cannot be undone.

    mdadm 4.2 can do it (commit 7b99edab2834).
    """
    owner = array.container_array.path if array.container_array else "its container"
    stop = command_lines.stop_array(array.path)
    yield "# Copy the data of the disks first (ddrescue): what was being written then may be damaged."
    yield (
        f"# Then stop the volume (`{stop}`), and assemble it from {owner} with --force. "
        "This needs mdadm 4.2 or newer. Check the filesystem without writing to it (fsck -n)."
    )
    yield "# Add a new disk only after that, to the container. If it is in another container, stop that one first."


def check_unused_disks(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A container has disks that no volume uses: spares, or disks that dropped out."""
    if not array.idle or not array.volumes:
        return
    incomplete = [volume.name for volume in array.volumes if volume.degraded and volume.sync is None]
    names = list_names([member.name for member in array.idle])
    pronoun, verb = ("they", "are spares") if array.idle[1:] else ("it", "is a spare")
    severity: Severity = "warning" if incomplete else "note"
    if incomplete:
        them = "them" if array.idle[1:] else "it"
        message = (
            f"no volume uses {names}: {pronoun} dropped out of {list_names(incomplete)}, or mdmon did not take {them} "
            "as a spare: too small, or mdmon does not run"
        )
    else:
        message = f"no volume uses {names}: {pronoun} {verb}, or dropped out of a volume"
    commands = (command_lines.show_detail(array.path), *(command_lines.examine_disk(disk.path) for disk in array.idle))
    yield make_finding(array, severity, "unused-disk", message, *commands)


def describe_format(container: Array) -> str:
    """Returns the name of a container's metadata, for messages."""
    name = container.metadata.removeprefix("external:")
    return FORMATS.get(name, name)


def fill_volume(array: Array) -> tuple[str, ...]:
    """Returns how to complete a degraded volume: a disk goes into its container. Empty if nothing is known to work."""
    container = array.container_array
    if container is None or not container.path or array.state not in RUNNING:
        return ()
    if "/" + array.container not in array.metadata:
        return ()  # mdmon must leave it alone
    kind = describe_format(container)
    if container.metadata != f"external:{TAKES_DISKS}":
        return (
            f"# blklab has no proven command for {kind}: mdadm 4.2 crashes when a disk is added to a DDF container.",
            "# mdadm refuses disks for a volume. Use the tools of the controller.",
        )
    return (
        "# The disk goes into the container: mdadm refuses disks for a volume. mdmon rebuilds the volume then.",
        "# DISK is an empty disk on the same controller, as large as the others: all data on it are lost.",
        "# Give its path in /dev/disk/by-id.",
        command_lines.add_to_container(container.path, DISK),
    )
