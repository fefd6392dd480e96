"""The rule about known bugs of this kernel: kernel_bugs.toml has the bugs, this module the conditions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from blklab.diagnostic import Diagnostic, Severity
from blklab.md.audit.rule import make_finding
from blklab.md.model import Array, Software
from blklab.package_data import toml_file

PARITY_LEVELS = ("raid4", "raid5", "raid6")
MIRROR_LEVELS = ("raid1", "raid10")
WIDE = 8  # Disks of a wide RAID-5

Version = tuple[int, int]


@dataclass(frozen=True)
class KernelBug:
    """A row of kernel_bugs.toml, which documents the fields."""

    id: str
    since: Version
    fixed: Version | None
    last: Version | None
    fix: str  # Empty if it is not known
    condition: str
    severity: Severity
    harm: str
    remedy: str
    source: str

    def is_in(self, kernel: Version) -> bool:
        if kernel < self.since or (self.fixed is not None and kernel >= self.fixed):
            return False
        return self.last is None or kernel <= self.last


def _has_write_mostly_mirror(array: Array) -> bool:
    if array.level != "raid1":
        return False
    return any(
        "write_mostly" in member.states or (member.superblock is not None and member.superblock.write_mostly)
        for member in array.members
    )


def _has_failfast(array: Array) -> bool:
    return array.level in MIRROR_LEVELS and any("failfast" in member.states for member in array.members)


def _is_degraded_with_large_sectors(array: Array) -> bool:
    return array.level in PARITY_LEVELS and bool(array.degraded) and array.logical_block == 4096


def _is_resynced_wide_raid5(array: Array) -> bool:
    is_resynced = array.sync is not None and array.sync.action in {"resync", "recover"}
    return array.level == "raid5" and array.raid_disks >= WIDE and is_resynced


CONDITIONS: Mapping[str, Callable[[Array], bool]] = {
    "write-mostly-mirror": _has_write_mostly_mirror,
    "failfast-mirror": _has_failfast,
    "degraded-parity-4k": _is_degraded_with_large_sectors,
    "reshaped-parity": lambda array: array.level in PARITY_LEVELS and array.reshaping,
    "bitmap": lambda array: array.bitmap is True,
    "raid5": lambda array: array.level == "raid5",
    "raid6-of-15-to-20-disks": lambda array: array.level == "raid6" and 15 <= array.raid_disks <= 20,
    "resync-of-wide-raid5": _is_resynced_wide_raid5,
}


@cache
def read_bugs() -> tuple[KernelBug, ...]:
    """Returns the known bugs, in the order of the table."""
    bugs = []
    for row in toml_file("blklab.md.audit", "kernel_bugs.toml")["bugs"]:
        fixed = _version(row["fixed"]) if "fixed" in row else None
        last = _version(row["last"]) if "last" in row else None
        fields = {**row, "since": _version(row["since"]), "fixed": fixed, "last": last, "fix": row.get("fix", "")}
        bugs.append(KernelBug(**fields))
    return tuple(bugs)


def _version(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


def check_kernel_bugs(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """The host's kernel has a release with a known bug that concerns this array."""
    if software is None or software.kernel is None:
        return
    for bug in read_bugs():
        if bug.is_in(software.kernel) and CONDITIONS[bug.condition](array) and not _has_fix(bug, software):
            release = f"{software.kernel[0]}.{software.kernel[1]}"
            message = f"Linux {release} may have a bug ({bug.id}): {bug.harm}. Until a fixed kernel runs: {bug.remedy}"
            if bug.fixed is not None:
                message += f". Linux {bug.fixed[0]}.{bug.fixed[1]} has the fix; {_describe_earlier_fix(bug, software)}"
            elif bug.last is not None:
                message += ". Whether later releases have it is not known"
            else:
                message += ". No fix was known in November 2026"
            severity: Severity = "warning" if bug.severity == "critical" and not array.live else bug.severity
            yield make_finding(array, severity, "kernel-bug", f"{message}. Source: {bug.source}")


def _has_fix(bug: KernelBug, software: Software) -> bool:
    """Whether the changelog of the kernel's package names the fix."""
    return bool(bug.fix) and software.md_changes is not None and bug.fix.lower() in software.md_changes


def _describe_earlier_fix(bug: KernelBug, software: Software) -> str:
    """Returns a clause: whether this distribution has the fix in an older release."""
    if bug.fix and software.md_changes is not None:
        return "the changelog of this kernel's package does not name it"
    return "your distribution may have it earlier"
