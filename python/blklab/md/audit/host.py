"""What is of the whole machine, or of its kernel and mdadm."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import AuditedHost, command, listed, say
from blklab.md.model import Array, Inventory, Software

FAILS_SINCE, MENDED_IN = (6, 12), (4, 5)
"""Linux and mdadm between which `--add` fails, of arrays with feature 8: seen on 6.12 with
mdadm 4.2.
"""


def add_fails(array: Array, host: AuditedHost) -> Iterator[Diagnostic]:
    """A kernel and an mdadm with which no disk can be added."""
    known = host.software
    if adding_fails(array, host) and known and known.kernel and known.mdadm:
        kernel, mdadm = known.kernel, known.mdadm
        yield say(
            array,
            "critical",
            "add-fails",
            f"Linux {kernel[0]}.{kernel[1]} with mdadm {mdadm[0]}.{mdadm[1]}: --add to this array"
            " fails (Invalid argument), for a list has entries: a disk that dies cannot be replaced"
            " until mdadm is 4.5 or newer",
        )


def adding_fails(array: Array, host: AuditedHost) -> bool:
    """Whether `--add` fails here."""
    active = any(member.bad_blocks and member.bad_blocks.active for member in array.members)
    return active and is_of_the_pair(host.software)


def is_of_the_pair(known: Software | None) -> bool:
    """Whether kernel and mdadm are those with which it may fail."""
    return bool(
        known
        and known.kernel
        and known.mdadm
        and known.kernel >= FAILS_SINCE
        and known.mdadm < MENDED_IN
    )


def whole_machine(inventory: Inventory) -> Iterator[Diagnostic]:
    """What is of no array."""
    known = inventory.software
    if known is not None and known.lists_off is False and inventory.arrays:
        where = known.config or "there is no mdadm.conf"
        yield Diagnostic(
            "config-bbl",
            "note",
            "",
            f"mdadm.conf does not say `CREATE bbl=no` ({where}): new arrays, and every --add, get a"
            " bad-block list",
        )
    if inventory.volumes:
        yield Diagnostic(
            "lvm-raid",
            "note",
            "",
            f"{listed(list(inventory.volumes))}: RAID of LVM (dm-raid), of which nothing is said"
            " here, for it is no md device; LVM tells of it",
            (
                command(
                    "lvs", "-a", "-o", "name,raid_sync_action,raid_mismatch_count,lv_health_status"
                ),
            ),
        )
    for stray in inventory.strays:
        if stray.foreign:
            names = " and ".join(stray.foreign)
            yield Diagnostic(
                "external",
                "note",
                "",
                f"has metadata of {names}: they are named and not read",
                member=stray.name,
            )
        elif not stray.unseen:
            yield Diagnostic(
                "no-superblock", "warning", "", "no md superblock is on it", member=stray.name
            )
