"""Rules about checks: whether any run, and what the last one counted."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import array_finding, audit_message
from blklab.md.model import Array, Software
from blklab.md.recipes import command


def check_mismatches(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The last check counted sectors whose copies or parity differ."""
    if not array.mismatches:
        return
    bad = any(member.ranges for member in array.members)
    running = array.sync is not None and array.sync.action in {"check", "repair"}
    count = f"{array.mismatches:,} sectors do not match" + (" so far" if running else "")
    if array.level in {"raid1", "raid10"}:
        meaning = audit_message("mismatches-of-mirrors")
    else:
        meaning = ": parity does not match the data, so a rebuild would write wrong data"
    # With bad blocks, a repair must be avoided.
    commands = [] if bad or running else [command("check", array=array.path)]
    yield array_finding(array, "warning", "mismatches", count + meaning, *commands)


def check_schedule(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """No regular check is configured, and none ran since the array was assembled."""
    if not (array.live and array.redundant) or array.external or software is None or software.checked_by:
        return
    checking = array.sync is not None and array.sync.action == "check"
    if array.last_action != "check" and not checking:
        message = audit_message("never-checked", action=array.last_action or "unknown")
        yield array_finding(array, "warning", "never-checked", message, command("check", array=array.path))
