"""Whether an array is looked through now and then, and what was found."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import AuditedHost, command, say
from blklab.md.model import Array


def mismatches(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Copies or parity that differ."""
    if not array.mismatches:
        return
    bad = any(member.ranges for member in array.members)
    running = array.sync is not None and array.sync.action in {"check", "repair"}
    what = f"{array.mismatches:,} sectors do not match" + (" so far" if running else "")
    if array.level in {"raid1", "raid10"}:
        why = (
            ": of mirrors that may be harmless (swap, files that were unlinked or changed while"
            " they were written), or be copies that differ; md cannot tell which is right, `repair`"
            " takes the first"
        )
    else:
        why = ": parity does not fit the data, and a rebuild would then invent some"
    # With bad blocks a repair is the very thing to keep away from.
    again = [] if bad or running else [command("mdadm", "--action=check", array.path)]
    yield say(array, "warning", "mismatches", what + why, *again)


def never(array: Array, host: AuditedHost) -> Iterator[Diagnostic]:
    """Arrays that nothing checks."""
    if not (array.live and array.redundant) or array.external or host.software is None:
        return
    checked = host.software.checked_by
    since = "since it was assembled" if array.last_action != "check" else ""
    if not checked and array.last_action != "check" and not _checking(array):
        yield say(
            array,
            "warning",
            "never-checked",
            "nothing is seen that checks it: no checkarray or raid-check of cron, no"
            f" mdcheck_start.timer, and no check {since} (last_sync_action is"
            f" {array.last_action or 'not known'}); a sector that cannot be read is then found when"
            " a rebuild needs it",
            command("mdadm", "--action=check", array.path),
        )


def _checking(array: Array) -> bool:
    return array.sync is not None and array.sync.action == "check"
