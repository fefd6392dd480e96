"""The type of audit rules, and helpers to report findings."""

from collections.abc import Callable, Iterator

from blklab.diagnostic import Diagnostic, Severity
from blklab.md.model import Array, Software

Rule = Callable[[Array, Software | None], Iterator[Diagnostic]]  # The software is None for arrays read from images


def array_finding(
    array: Array, severity: Severity, code: str, message: str, *commands: str, member: str = ""
) -> Diagnostic:
    """Returns a finding about an array, without commands if the array is not assembled."""
    remedy = commands if array.live and array.path else ()
    return Diagnostic(code, severity, array.name, message, remedy, member)


def list_names(names: list[str], most: int = 6) -> str:
    """Returns at most `most` names for a message, and the number of the others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
