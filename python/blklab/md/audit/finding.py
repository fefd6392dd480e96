"""What a finding is."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from blklab.md.model import Array, Software

SEVERITIES: Final = ("critical", "warning", "note")
"""The worst first."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or risky, or worth to be known."""

    severity: str
    rule: str
    """A name that stays the same: `bbl-entries`."""
    array: str
    """Its name; empty for what is of the whole machine."""
    message: str
    """One line: what, and why it matters. Names in it are as hostile as they were found."""
    member: str = ""
    commands: tuple[str, ...] = ()
    """What mends it, in this order; quoted for a shell, and never run by blklab."""
    ranges: tuple[dict[str, Any], ...] = ()
    """Of bad blocks: `member_sector`, `sectors`, `array_ranges`."""

    @property
    def rank(self) -> int:
        """Its place among severities: 0 is the worst."""
        return SEVERITIES.index(self.severity)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "severity": self.severity,
            "rule": self.rule,
            "array": self.array or None,
            "member": self.member or None,
            "message": self.message,
            "commands": list(self.commands),
            "ranges": list(self.ranges),
        }


@dataclass(frozen=True)
class Host:
    """What rules may know besides the array."""

    software: Software | None
    """None: arrays of images."""


Rule = Callable[[Array, Host], Iterator[Finding]]


def command(*words: str) -> str:
    """Returns a command line to show, quoted for a shell."""
    return shlex.join(words)


def say(
    array: Array, severity: str, rule: str, message: str, *commands: str, member: str = ""
) -> Finding:
    """Returns a finding of an array; commands are left out where it is not assembled."""
    kept = commands if array.live and array.path else ()
    return Finding(severity, rule, array.name, message, member, tuple(kept))


def listed(names: list[str], most: int = 6) -> str:
    """Returns names for a message, as many of them as fit."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
