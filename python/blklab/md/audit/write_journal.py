"""Rules about the write journal of RAID-4, 5 and 6, a device that holds writes until all members have them."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.model import Array, ArrayMember, Software


def check_write_journal(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The write journal of an array is missing or has failed: md refuses writes."""
    if not has_journal(array) or not array.live or array.state == "inactive":
        return
    journals = find_journals(array)
    working = [member for member in journals if "faulty" not in member.states]
    if working:
        return
    if journals:
        reason = f"its write journal {list_names([member.name for member in journals])} has failed"
    else:
        reason = "its write journal is missing"
    refusal = "refuses every write" if array.state in {"readonly", "read-auto"} else "writes to it fail"
    message = (
        f"{refusal}: {reason}. The journal may hold the newest writes: if its disk still works, connect it, stop the "
        "array and assemble it with all disks"
    )
    yield make_finding(
        array,
        "critical",
        "journal-missing",
        message,
        "# If the journal is lost, so are the writes that were only there: check the filesystem afterwards.",
        "# A new journal: `mdadm --add-journal` (mdadm(8)), while the array is read-only.",
        "# No journal any more: write resync to consistency_policy of the array in sysfs, then make it writable.",
    )


def has_journal(array: Array) -> bool:
    """Whether the array was made with a write journal."""
    return array.consistency == "journal" or any(
        member.superblock is not None and member.superblock.journal for member in array.members
    )


def find_journals(array: Array) -> list[ArrayMember]:
    """Returns the members that are write journals."""
    journals = []
    for member in array.members:
        role = member.superblock.role if member.superblock else ""
        if "journal" in member.states or role == "journal":
            journals.append(member)
    return journals
