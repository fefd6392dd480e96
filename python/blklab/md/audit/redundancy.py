"""What is left of an array: members that are lacking, faulty, behind, or being rebuilt."""

import shlex
from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import AuditedHost, command, listed, say
from blklab.md.model import PARITIES, Array, ArrayMember
from blklab.units import format_duration

HUGE = 100 << 30
"""Bytes above which a resync without a bitmap takes so long that it is worth a warning."""


def degraded(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """An array that lacks members, and whether it helps itself."""
    if not array.degraded:
        return
    spares = [member for member in array.members if is_spare(member)]
    outlived = _outlived(array)
    last = outlived is not None and array.degraded >= outlived
    rebuilding = array.sync is not None and array.sync.action == "recover"
    if rebuilding:
        help_ = "it is being rebuilt"
    elif spares:
        help_ = f"and the spare {listed([one.name for one in spares])} is not taken"
    else:
        help_ = "and there is no spare"
    loses = "may lose" if array.level == "raid10" else "loses"
    words = "member" if array.degraded == 1 else "members"
    yield say(
        array,
        "critical" if last or not rebuilding else "warning",
        "degraded",
        f"lacks {array.degraded} {words} of {array.raid_disks}, {help_}"
        + (f"; the next failure {loses} data" if last else ""),
        *([] if rebuilding or spares else [_add(array)]),
    )


def repairing(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """A repair that was interrupted, and may have left a member out."""
    if array.repairing:
        yield say(
            array,
            "critical" if array.degraded else "warning",
            "repair-unfinished",
            "a repair that blklab began is not finished: unless it is running, go on with it",
            command("blklab", "md", "fix", "--resume"),
        )


def suspended(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Writes that wait, and for whom."""
    if array.suspended and not array.reshaping:
        node = f"/sys/block/{array.name}/md"
        yield say(
            array,
            "critical",
            "writes-suspended",
            "writes to it are held back and wait; a repair by blklab does that for seconds, and"
            " nobody else but a reshape: look again, and if it stays, let them go on",
            f"echo 0 > {shlex.quote(node + '/suspend_hi')}",
        )


def is_spare(member: ArrayMember) -> bool:
    """Whether a member stands by."""
    if member.states:
        return "spare" in member.states and member.slot is None
    return bool(member.superblock and member.superblock.role == "spare")


def faulty(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Members that md has thrown out."""
    for member in array.members:
        role = member.superblock.role if member.superblock else ""
        if "faulty" in member.states or (not member.states and role == "faulty"):
            yield say(
                array,
                "critical",
                "faulty",
                "is faulty: md does not use it any more",
                command("mdadm", array.path, "--remove", member.path),
                member=member.name,
            )


def events(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Members whose superblocks were not written when the others' were."""
    counted = {
        other.name: other.superblock.events
        for other in array.members
        if other.superblock and other.superblock.role != "spare" and "faulty" not in other.states
    }
    newest = max(counted.values(), default=0)
    # Superblocks of an array at work are read one after the other: one event apart is no news.
    slack = 1 if array.live or array.state != "clean" else 0
    for member in array.members:
        behind = newest - counted.get(member.name, newest)
        if behind > slack:
            yield say(
                array,
                "warning",
                "events",
                f"its superblock is {behind:,} events behind ({counted[member.name]:,}, the others"
                f" have {newest:,}): it misses what was written since",
                *_readd(array, member),
                member=member.name,
            )


def claims(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Two members in one slot."""
    slots: dict[int, list[str]] = {}
    for member in array.members:
        replaces = member.superblock is not None and member.superblock.replacement
        if member.slot is not None and not replaces and "replacement" not in member.states:
            slots.setdefault(member.slot, []).append(member.name)
    for slot, names in slots.items():
        if len(names) > 1:
            yield say(
                array,
                "warning",
                "same-slot",
                f"{listed(names)} all say that they are in slot {slot}: a copy of a disk, or one"
                " that was replaced",
            )


def absent(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Offline: members that were not given."""
    if array.absent:
        slots = listed([str(slot) for slot in array.absent])
        yield say(
            array,
            "note",
            "not-given",
            f"of slot {slots} nothing was given: what is said here is of the others",
        )


def under_way(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """A pass that is under way, where it is and how long it takes."""
    sync = array.sync
    if sync is None:
        return
    if sync.done is None or not sync.total:
        where = "waiting for another array on the same disks"
    else:
        where = f"at {100 * sync.done / sync.total:.1f} %"
        if sync.left_seconds is not None:
            where += f", {format_duration(sync.left_seconds * 1e9)} left at {sync.speed:,} KiB/s"
    risky = sync.action in {"resync", "recover", "reshape"}
    what = {"recover": "recovery"}.get(sync.action, sync.action)
    yield say(
        array,
        "warning" if risky else "note",
        "under-way",
        f"{what} is under way: {where}",
    )


def unclean(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """A resync that has not come to its end."""
    stopped = [
        other.superblock.resync
        for other in array.members
        if other.superblock and other.superblock.resync is not None
    ]
    if stopped and array.redundant and not array.live:
        yield say(
            array,
            "warning",
            "not-clean",
            "was not stopped cleanly, or a resync was not finished"
            f" (it goes on at sector {min(stopped):,})",
        )
    for member in array.members:
        superblock = member.superblock
        if superblock and superblock.recovery is not None and not array.live:
            yield say(
                array,
                "warning",
                "half-rebuilt",
                f"was rebuilt up to sector {superblock.recovery:,} only",
                member=member.name,
            )


def inactive(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """An array that is there and does not run."""
    if array.live and array.state == "inactive" and not array.external:
        yield say(
            array,
            "critical",
            "inactive",
            "is assembled and does not run: too few members, or a boot that waited for them in"
            " vain",
            command("mdadm", "--detail", array.path),
        )


def no_bitmap(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """A large array without a bitmap."""
    log = any(member.superblock and member.superblock.role == "journal" for member in array.members)
    large = array.redundant and (array.size or 0) > HUGE
    if array.bitmap is False and large and not (log or array.external):
        yield say(
            array,
            "warning",
            "no-bitmap",
            "has no bitmap: after a crash, or a cable that was loose, all of it is resynced instead"
            " of what had changed",
            command("mdadm", "--grow", "--bitmap=internal", array.path),
        )


def _outlived(array: Array) -> int | None:
    """How many members may go for sure: of RAID-10 all copies but one, if they are neighbours."""
    if array.level == "raid1":
        return array.raid_disks - 1
    if array.level == "raid10":
        return max(1, (array.layout & 0xFF) * (array.layout >> 8 & 0xFF) - 1)
    return PARITIES.get(array.level)


def _add(array: Array) -> str:
    return command("mdadm", array.path, "--add", "/dev/NEW-DISK")


def _readd(array: Array, member: ArrayMember) -> list[str]:
    gone = not array.live or "in_sync" in member.states
    return [] if gone else [command("mdadm", array.path, "--re-add", member.path)]
