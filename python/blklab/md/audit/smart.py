"""What disks say of themselves that md does not hear of: one finding a disk and matter.

What a figure is worth: Backblaze, "What SMART stats tell us about hard drives" (2016: attributes 5,
197 and 198 foretell failures); the time-outs: Linux RAID wiki, "Timeout Mismatch", and
drivers/scsi/sd.h (SD_TIMEOUT, 30 s).
"""

from collections.abc import Callable, Iterator
from typing import Final

from blklab.diagnostic import Diagnostic, Severity
from blklab.md.audit.rule import command, listed
from blklab.md.model import Inventory, PhysicalDisk

PATIENT: Final = 180
"""Seconds after which a disk that tries for as long as it likes has given up."""

WARNINGS: Final = (
    "its spare blocks run out",
    "it is too hot or too cold",
    "it is no longer reliable",
    "it can only be read",
    "its backup of volatile memory has failed",
    "its persistent memory can only be read",
)
"""Bits of NVMe's `critical_warning` (NVM Express 1.4, 5.14.1.2)."""

TEMPERATURE: Final = 2
"""The one of those bits that passes."""


def disks(inventory: Inventory) -> Iterator[Diagnostic]:
    """All that is found of the disks that were asked."""
    redundant = {array.name for array in inventory.arrays if array.redundant}
    for disk in inventory.disks or ():
        if disk.health.has_answered:
            for rule in RULES:
                yield from rule(disk)
            if redundant.intersection(disk.arrays):
                yield from patience(disk)
        if disk.health.shingled or disk.zoned in {"host-aware", "host-managed"}:
            yield _say(
                disk,
                "warning",
                "smart-shingled",
                "is shingled (SMR): what is written at random, or for hours as a rebuild does, is"
                " moved once more, and meanwhile it may be so slow that md takes it for dead",
            )


def failed(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Disks that expect to fail, or say that they have."""
    health = disk.health
    bits = health.critical_warning or 0
    warnings = [words for at, words in enumerate(WARNINGS) if bits >> at & 1]
    if health.passed is False or bits & ~TEMPERATURE:
        why = listed([*warnings, *(f"{name} is below its threshold" for name in health.failing)])
        yield _say(
            disk,
            "critical",
            "smart-failed",
            "says that it fails" + (f": {why}" if why else "") + "; replace it",
        )
    hot = health.temperature is not None and health.temperature_limit is not None
    if bits & TEMPERATURE or (hot and (health.temperature or 0) > (health.temperature_limit or 0)):
        limit = f", and may have {health.temperature_limit}" if hot else ""
        now = "?" if health.temperature is None else health.temperature
        yield _say(
            disk,
            "warning",
            "smart-hot",
            f"is not within its limits of temperature: {now} °C{limit}",
        )


def lost(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Sectors that cannot be read, and those that were replaced."""
    health = disk.health
    unreadable = [
        f"{many:,} {what}"
        for many, what in (
            (health.pending, "sectors wait to be read or replaced (197)"),
            (health.uncorrectable, "could not be read offline (198)"),
            (health.uncorrected, "errors were not corrected"),
            (health.media_errors, "media errors"),
        )
        if many
    ]
    if unreadable:
        yield _say(
            disk,
            "warning",
            "smart-unreadable",
            f"has sectors that cannot be read: {', '.join(unreadable)}; a check writes anew what"
            " lies in redundant arrays",
        )
    replaced = health.reallocated or health.grown_defects
    if replaced:
        yield _say(
            disk,
            "note",
            "smart-reallocated",
            f"has replaced {replaced:,} sectors: some are normal, more each month are not",
        )


def worn(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Flash that is used up."""
    used = disk.health.used_percent
    if used is not None and used >= 100:
        yield _say(
            disk,
            "warning",
            "smart-worn",
            f"has used {used} % of the life that its maker foresaw; mirrors wear alike, and may"
            " fail together",
        )


def tested(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Self-tests that failed."""
    if disk.health.self_test:
        yield _say(
            disk,
            "warning",
            "smart-self-test",
            f"failed its last self-test: {disk.health.self_test}",
        )


def linked(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """SATA links that are slower than the disk."""
    link = disk.health.link
    if link and link[0] < link[1]:
        now, most = (f"{bits / 1e9:.1f} Gb/s" for bits in link)
        yield _say(
            disk,
            "note",
            "link-speed",
            f"is linked at {now} and can do {most}: the port cannot, or the cable is bad and the"
            " kernel has slowed it down (dmesg says so)",
        )


def patience(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Rotating disks that try for longer than the kernel waits: healthy ones are thrown out.

    A disk that takes minutes over a sector is reset after the kernel's time-out, 30 s, and md takes
    that for its death, instead of reading the other copy and mending the sector. Flash gives up
    soon; SCSI disks come set up for it.
    """
    health, waits = disk.health, disk.timeout
    if health.protocol != "ATA" or not health.rotation or waits is None or disk.kind:
        return
    longer = command("echo", str(PATIENT)) + f" > /sys/block/{command(disk.name)}/device/timeout"
    shorter = command("smartctl", "--log=scterc,70,70", disk.path)
    if health.erc_seconds is None or None in health.erc_seconds:
        if waits >= PATIENT or (health.erc_seconds is None and health.erc is not False):
            return
        can = health.erc_seconds is not None
        what = (
            "is not told how long to try at a bad sector" if can else "cannot be told when to stop"
        )
        mend = shorter if can else longer
    else:
        tries = max(limit or 0 for limit in health.erc_seconds)
        if tries < waits:
            return
        what, mend = f"tries for {tries:g} s at a bad sector", shorter
    yield _say(
        disk,
        "warning",
        "timeout",
        f"{what}, and the kernel waits {waits} s: it is then reset, and thrown out of"
        f" {listed(list(disk.arrays))} for one sector; the setting is gone once the machine"
        " was off, so a udev rule or a script must make it at boot",
        mend,
    )


Rule = Callable[[PhysicalDisk], Iterator[Diagnostic]]

RULES: Final[tuple[Rule, ...]] = (failed, lost, worn, tested, linked)


def _say(
    disk: PhysicalDisk, severity: Severity, code: str, message: str, *commands: str
) -> Diagnostic:
    model = f" ({disk.health.model}, {disk.health.serial})" if disk.health.model else ""
    where = f"; it is in {listed(list(disk.arrays))}" if disk.arrays and code != "timeout" else ""
    hidden = (
        "" if disk.arrays else "; no member has its serial number, so it is not known whose it is"
    )
    kind = [f"--device={disk.kind}"] if disk.kind else []
    shown = commands or (command("smartctl", "--all", *kind, disk.path),)
    return Diagnostic(code, severity, "", f"{message}{where}{hidden}{model}", shown, disk.name)
