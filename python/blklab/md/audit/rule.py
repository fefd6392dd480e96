"""What rules have in common: what they are given, and how they report."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from blklab.diagnostic import Diagnostic, Severity
from blklab.md.model import Array, Software


@dataclass(frozen=True)
class AuditedHost:
    """What rules may know besides the array."""

    software: Software | None
    """None: arrays of images."""


Rule = Callable[[Array, AuditedHost], Iterator[Diagnostic]]


def command(*words: str) -> str:
    """Returns a command line to show, quoted for a shell."""
    return shlex.join(words)


def say(
    array: Array, severity: Severity, code: str, message: str, *commands: str, member: str = ""
) -> Diagnostic:
    """Returns what is reported of an array; commands are left out where it is not assembled."""
    kept = commands if array.live and array.path else ()
    return Diagnostic(code, severity, array.name, message, kept, member)


def listed(names: list[str], most: int = 6) -> str:
    """Returns names for a message, as many of them as fit."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
