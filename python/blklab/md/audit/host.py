"""Rules about the whole host, its kernel and its mdadm."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.log_timeline import READ_ERRORS
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.log_events import find_disk_name
from blklab.md.model import Array, ArrayMember, Inventory, Software

ADD_BUG_SINCE_LINUX = (6, 12)
ADD_BUG_FIXED_IN_MDADM = (4, 5)
"""With these, `--add` to an array with feature 8 fails (observed on Linux 6.12 with mdadm 4.2)."""


def check_add(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """With this kernel and mdadm, no disk can be added to the array."""
    if adding_fails(array, software) and software and software.kernel and software.mdadm:
        kernel = software.kernel
        mdadm = software.mdadm
        message = (
            f"Linux {kernel[0]}.{kernel[1]} with mdadm {mdadm[0]}.{mdadm[1]}: "
            "--add to this array fails (Invalid argument), because a bad-block list has entries; "
            "to be able to replace a disk, install mdadm 4.5 or newer"
        )
        yield make_finding(array, "critical", "add-fails", message)


def adding_fails(array: Array, software: Software | None) -> bool:
    return has_add_bug(software) and any(member.bad_blocks and member.bad_blocks.active for member in array.members)


def has_add_bug(software: Software | None) -> bool:
    """Whether `--add` may fail with this kernel and mdadm."""
    return bool(
        software
        and software.kernel
        and software.mdadm
        and software.kernel >= ADD_BUG_SINCE_LINUX
        and software.mdadm < ADD_BUG_FIXED_IN_MDADM
    )


def check_host(inventory: Inventory) -> Iterator[Diagnostic]:
    """Reports what concerns no single array.

    `config-bbl`: mdadm.conf lets mdadm make bad-block lists for new arrays and added disks.

    `lvm-raid`: RAIDs of LVM (dm-raid) are not md devices: they are listed and not examined.

    `firmware-raid`: RAIDs of firmware that dmraid has set up are not md devices: they are listed and not examined.

    `external`: The device has metadata of other software: blklab does not read them.

    `no-superblock`: An image or device has no md superblock.
    """
    software = inventory.software
    if software is not None and software.lists_off is False and inventory.arrays:
        reason = f"{software.config} does not say `CREATE bbl=no`" if software.config else "there is no mdadm.conf"
        message = f"{reason}: new arrays, and disks that you add, get a bad-block list"
        yield Diagnostic("config-bbl", "note", "", message)
    if inventory.volumes:
        message = (
            f"{list_names(list(inventory.volumes))}: RAID of LVM (dm-raid), not an md device, "
            "so blklab does not examine it; ask LVM"
        )
        yield Diagnostic("lvm-raid", "note", "", message, (command_lines.list_lvm_raids(),))
    if inventory.firmware_raids:
        message = (
            f"{list_names(list(inventory.firmware_raids))}: RAID of the firmware (dmraid), not an md device, "
            "so blklab does not examine it; ask dmraid and the firmware"
        )
        yield Diagnostic("firmware-raid", "note", "", message)
    for stray in inventory.strays:
        if stray.foreign:
            message = f"has metadata of {' and '.join(stray.foreign)}: blklab does not read them"
            yield Diagnostic("external", "note", "", message, member=stray.name)
        elif not stray.unseen:
            message = "is not a member of an md array: no superblock"
            if _has_read_errors(stray, inventory):
                message = (
                    "mdadm finds no superblock on it, and the kernel logged read errors of its disk: the superblock "
                    "may be there and unreadable. Copy the disk with ddrescue, and examine the copy"
                )
            yield Diagnostic("no-superblock", "warning", "", message, member=stray.name)


def _has_read_errors(stray: ArrayMember, inventory: Inventory) -> bool:
    """Whether the kernel's log has read errors of a device, or of its disk."""
    disk = find_disk_name(stray.name)
    return any(event.kind in READ_ERRORS and event.device in {stray.name, disk} for event in inventory.log)
