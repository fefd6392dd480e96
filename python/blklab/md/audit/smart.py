"""Rules about SMART values of disks, which md does not see.

Sources: Backblaze, "What SMART stats tell us about hard drives" (2016: attributes 5, 197 and 198
predict failures); Linux RAID wiki, "Timeout Mismatch"; drivers/scsi/sd.h (SD_TIMEOUT, 30 s).
"""

import re
from collections.abc import Callable, Iterator

from blklab.diagnostic import Diagnostic, Severity
from blklab.md import command_lines
from blklab.md.audit.rule import list_names
from blklab.md.model import Inventory, PhysicalDisk

RULES_FILE = "/etc/udev/rules.d/61-disk-timeouts.rules"
"""Its name is behind that of 60-persistent-storage.rules."""

SMARTCTL = "/usr/sbin/smartctl"  # udev runs programs by their full paths; Debian, Fedora, SUSE and Arch have it here
LONGEST_RETRY_S = 180  # Seconds after which a disk without a limit has stopped to retry a sector

WARNINGS = (  # Bits of NVMe's `critical_warning` (NVM Express 1.4, 5.14.1.2)
    "few spare blocks are left",
    "it is too hot or too cold",
    "it is no longer reliable",
    "it is read-only",
    "its backup of volatile memory has failed",
    "its persistent memory is read-only",
)

TEMPERATURE_WARNING = 2  # The bit of `critical_warning` for temperature, which is temporary


def check_disks(inventory: Inventory) -> Iterator[Diagnostic]:
    """Yields what all rules find about disks.

    `smart-shingled`: The disk is shingled (SMR): random writes and rebuilds are slow.
    """
    redundant = {array.name for array in inventory.arrays if array.redundant}
    for disk in inventory.disks or ():
        if disk.health.has_answered:
            for rule in RULES:
                yield from rule(disk)
            if redundant.intersection(disk.arrays):
                yield from check_timeout(disk)
        if disk.health.shingled or disk.zoned in {"host-aware", "host-managed"}:
            message = (
                "is shingled (SMR): it rewrites data after random writes and after long writes such as a rebuild, "
                "and may then be so slow that md fails it; use another disk"
            )
            yield _make_disk_finding(disk, "warning", "smart-shingled", message)


def check_verdict(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Reports disks that fail or are too hot.

    `smart-failed`: The disk reports that it fails or is about to fail.

    `smart-hot`: The temperature of the disk is outside of its limits.
    """
    health = disk.health
    bits = health.critical_warning or 0
    warnings = [warning for bit, warning in enumerate(WARNINGS) if bits >> bit & 1]
    if health.passed is False or bits & ~TEMPERATURE_WARNING:
        warnings += [f"{name} is below its threshold" for name in health.failing]
        reasons = f": {list_names(warnings)}" if warnings else ""
        message = (
            f"reports that it fails{reasons}; "
            "replace it, and keep it connected until md has copied its data (mdadm --replace)"
        )
        yield _make_disk_finding(disk, "critical", "smart-failed", message)
    hot = health.temperature is not None and health.temperature_limit is not None
    too_hot = hot and (health.temperature or 0) > (health.temperature_limit or 0)
    if bits & TEMPERATURE_WARNING or too_hot:
        limit = f" (limit {health.temperature_limit} °C)" if hot else ""
        now = "?" if health.temperature is None else health.temperature
        message = f"temperature is outside of its limits: {now} °C{limit}"
        yield _make_disk_finding(disk, "warning", "smart-hot", message)


def check_sectors(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """Reports unreadable and replaced sectors.

    `smart-unreadable`: The disk has sectors that it cannot read.

    `smart-reallocated`: The disk has replaced sectors.
    """
    health = disk.health
    unreadable = [
        f"{count:,} {meaning}"
        for count, meaning in (
            (health.pending, "pending sectors (197)"),
            (health.uncorrectable, "sectors that an offline test could not read (198)"),
            (health.uncorrected, "uncorrected errors"),
            (health.media_errors, "media errors"),
        )
        if count
    ]
    if unreadable:
        message = (
            f"has sectors that it cannot read: {', '.join(unreadable)}; "
            "a check of a redundant array rewrites them from the other members"
        )
        yield _make_disk_finding(disk, "warning", "smart-unreadable", message)
    sector_count = health.reallocated or health.grown_defects
    if sector_count:
        message = (
            f"has replaced {sector_count:,} sectors: some are normal; if the number grows each month, replace the disk"
        )
        yield _make_disk_finding(disk, "note", "smart-reallocated", message)


def check_wear(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """The flash has used up its rated life."""
    percent = disk.health.used_percent
    if percent is not None and percent >= 100:
        message = (
            f"has used {percent} % of its rated life; "
            "the other members of a mirror wear equally, and may fail at the same time"
        )
        yield _make_disk_finding(disk, "warning", "smart-worn", message)


def check_self_test(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """The last self-test of the disk failed."""
    if disk.health.self_test:
        message = f"failed its last self-test: {disk.health.self_test}"
        yield _make_disk_finding(disk, "warning", "smart-self-test", message)


def check_link_speed(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """The SATA link is slower than the disk supports."""
    link = disk.health.link
    if link and link[0] < link[1]:
        speed, maximum = (f"{bits / 1e9:.1f} Gb/s" for bits in link)
        message = (
            f"link speed is {speed}, the disk supports {maximum}: "
            "the port is slower, or the kernel reduced the speed because of a bad cable (see dmesg)"
        )
        yield _make_disk_finding(disk, "note", "link-speed", message)


def check_timeout(disk: PhysicalDisk) -> Iterator[Diagnostic]:
    """A rotating SATA disk retries a bad sector for longer than the kernel waits.

    The kernel resets a disk after its time-out, 30 s. md then fails the disk instead of reading the
    other copy and rewriting the sector. Flash does not retry for long; SCSI disks have a limit.
    """
    health = disk.health
    waits = disk.timeout
    if health.protocol != "ATA" or not health.rotation or waits is None or disk.kind:
        return
    longer = command_lines.set_timeout(disk.name, LONGEST_RETRY_S)
    shorter = command_lines.limit_retries(disk.path)
    if health.erc_seconds is None or None in health.erc_seconds:
        if waits >= LONGEST_RETRY_S or (health.erc_seconds is None and health.erc is not False):
            return
        can_limit = health.erc_seconds is not None
        cause = "has no limit for retries of a bad sector" if can_limit else "cannot limit retries of a bad sector"
        remedy = shorter if can_limit else longer
    else:
        retries = max(limit or 0 for limit in health.erc_seconds)
        if retries < waits:
            return
        cause = f"retries a bad sector for {retries:g} s"
        remedy = shorter
    default = " (by default)" if disk.timeout_is_default else ""
    message = (
        f"{cause}, and the kernel waits only {waits} s{default}: it then resets the disk, "
        f"and md fails the disk in {list_names(list(disk.arrays))} because of one sector; "
        "the first command is lost at power-off; the rule of udev makes the setting at each boot"
    )
    yield _make_disk_finding(
        disk, "warning", "timeout", message, remedy, *_list_rule(disk, limits_retries=remedy == shorter)
    )


def _list_rule(disk: PhysicalDisk, *, limits_retries: bool) -> list[str]:
    """Returns commands for a udev rule that repeats a setting whenever the disk appears.

    Kernel names change, so the rule knows the disk by its WWN or serial number, as ata_id prints them (systemd,
    60-persistent-storage.rules, which is read before). Only `add`: smartctl opens the disk for writing, and udev
    makes a `change` when a program closes it after that.
    """
    wwn = re.fullmatch(r"wwn-(0x[0-9a-f]{16})", disk.health.wwn)
    serial = re.fullmatch(r"[A-Za-z0-9_-]{4,40}", disk.health.serial)
    if wwn:
        match = f'ENV{{ID_WWN}}=="{wwn[1]}"'
    elif serial:
        match = f'ENV{{ID_SERIAL_SHORT}}=="{serial[0]}"'
    else:
        return ["# For each boot: make a udev rule or a script. The disk tells no WWN or serial number for it."]
    if limits_retries:
        setting = f'RUN+="{SMARTCTL} --log=scterc,70,70 /dev/%k"'
    else:
        setting = f'ATTR{{device/timeout}}="{LONGEST_RETRY_S}"'
    rule = f'ACTION=="add", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", {match}, {setting}'
    return [
        "# For each boot. To undo it, delete this line from the file:",
        command_lines.append_rule(rule, RULES_FILE),
        command_lines.reload_rules(),
    ]


Rule = Callable[[PhysicalDisk], Iterator[Diagnostic]]

RULES: tuple[Rule, ...] = (check_verdict, check_sectors, check_wear, check_self_test, check_link_speed)


def _make_disk_finding(disk: PhysicalDisk, severity: Severity, code: str, message: str, *commands: str) -> Diagnostic:
    model = f" ({disk.health.model}, {disk.health.serial})" if disk.health.model else ""
    membership = f"; member of {list_names(list(disk.arrays))}" if disk.arrays and code != "timeout" else ""
    hidden = "" if disk.arrays else "; no member has its serial number, so its array is unknown"
    default_command = command_lines.show_smart(disk.path)
    if disk.kind:
        default_command = command_lines.show_smart_of_kind(disk.path, disk.kind)
    remedy = commands or (default_command,)
    return Diagnostic(code, severity, "", f"{message}{membership}{hidden}{model}", remedy, disk.name)
