"""The type of audit rules, and helpers to report findings."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from blklab.diagnostic import Diagnostic, Severity
from blklab.md.model import Array, Software

Rule = Callable[[Array, Software | None], Iterator[Diagnostic]]  # The software is None for arrays read from images


def make_finding(
    array: Array, severity: Severity, code: str, message: str, *commands: str, member: str = ""
) -> Diagnostic:
    """Returns a finding about an array, without commands if the array is not assembled."""
    remedy = commands if array.live and array.path else ()
    return Diagnostic(code, severity, array.name, message, remedy, member)


def list_names(names: list[str], most: int = 6) -> str:
    """Returns at most `most` names for a message, and the number of the others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def level_text(level: str) -> str:
    """Returns a level for messages, `RAID-5`."""
    return f"RAID-{level.removeprefix('raid')}" if level.startswith("raid") else level


def moment_text(seconds: int) -> str:
    """Returns a time of a superblock, which may be damaged, as an ISO date in UTC."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"
