"""What arrays are made of: kinds of devices put together, and layouts that suit them."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import AuditedHost, command, listed, say
from blklab.md.model import Array, ArrayMember

IDLEST = (5, 3)
"""Linux since which RAID-10 reads from members that do not rotate, if there are any
(drivers/md/raid10.c).
"""

ENOUGH, MOST = 10_000, 40_000_000
"""I/Os that a mean is worth something of. The kernel counts times in 32 bits of ms: beyond the
second, they may have run over unless the mean is below 0.1 s.
"""

UNEQUAL = 3
"""Times as long: more than disks of one model differ by."""

NOTICED = 0.2
"""ms: what is shorter is not waited for."""


def mixed(array: Array, host: AuditedHost) -> Iterator[Diagnostic]:
    """Rotating disks and flash in one array."""
    active = [member for member in array.active if member.rotational is not None]
    slow = [one for one in active if one.rotational]
    fast = [one for one in active if not one.rotational]
    if not (slow and fast):
        return
    names = listed([one.name for one in slow])
    flash = listed([one.name for one in fast])
    kernel = host.software.kernel if host.software else None
    mostly = all("write_mostly" in one.states for one in slow)
    if array.level == "raid10" and (kernel is None or kernel >= IDLEST):
        why = (
            f"since Linux 5.3 RAID-10 reads from {flash} alone where it has a copy, never from"
            f" {names}; a write is as slow as the slowest copy"
        )
    elif array.level == "raid1":
        why = (
            f"reads go to whichever has least to do, writes are as slow as {names}"
            if not mostly
            else f"{names} is write-mostly, as it should be; writes are as slow as it is"
        )
    else:
        why = f"every stripe waits for {names}"
    yield say(
        array,
        "note" if mostly and array.level == "raid1" else "warning",
        "mixed",
        f"{names} (rotating) and {flash} (flash) are in one array: {why}; what that costs under"
        " your load: `blklab run` of a stack of such devices (docs/howto/predict.md)",
    )


def unequal(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Members of one kind of which one takes several times as long as another, since boot.

    Only what members get alike can be compared: writes, and reads of levels that do not choose
    whom to read; of much the same size, so that a member that was rebuilt since is left out. Long
    after boot there are too many I/Os to tell (`MOST`): then `blklab md watch` does. A partition
    is as slow as the others of its disk make it.
    """
    chosen = array.level in {"raid1", "raid10"}
    for direction in ("write",) if chosen else ("read", "write"):
        for rotating in (True, False):
            busy = {
                member.name: mean
                for member in array.active
                if member.rotational is rotating
                and not {"write_mostly", "faulty"}.intersection(member.states)
                and (mean := _mean(member, direction)) is not None
            }
            if len(busy) < 2:
                continue
            fast = min(busy, key=lambda name: busy[name][0])
            slow = max(busy, key=lambda name: busy[name][0])
            (least, size, many), (most, large, others) = busy[fast], busy[slow]
            alike = max(size, large) <= 2 * min(size, large)
            if most < NOTICED or most < UNEQUAL * least or not alike:
                continue
            yield say(
                array,
                "warning",
                "unequal",
                f"{direction}s take {most:.3g} ms on {slow} and {least:.3g} ms on {fast} (means of"
                f" {others:,} and {many:,} since boot): "
                + ("a write is" if direction == "write" else "every stripe is")
                + f" as slow as {slow}; a disk that is sick, shingled or shared, or a bad cable;"
                " what it costs under your load: docs/howto/predict.md",
                command(
                    "smartctl", "--all", next(one.path for one in array.members if one.name == slow)
                ),
                member=slow,
            )


def _mean(member: ArrayMember, direction: str) -> tuple[float, float, int] | None:
    """How long an I/O takes, ms; how large it is, sectors; and of how many that is the mean."""
    done = member.activity
    if done is None:
        return None
    many, ticks, sectors = (
        (done.reads, done.read_ticks, done.read_sectors)
        if direction == "read"
        else (done.writes, done.write_ticks, done.write_sectors)
    )
    if not ENOUGH <= many <= MOST:
        return None
    return ticks / many, sectors / many, many


def write_mostly(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Members that are read only if nothing else is left."""
    names = [
        member.name
        for member in array.members
        if "write_mostly" in member.states
        or (not member.states and member.superblock and member.superblock.write_mostly)
    ]
    if names:
        whole = len(names) >= len(array.active) > 0
        yield say(
            array,
            "warning" if whole else "note",
            "write-mostly",
            f"{listed(names)} write-mostly: reads go elsewhere while they can"
            + (", and here there is nowhere else" if whole else ""),
        )


def layout(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """RAID-10 far and offset of flash."""
    far, offset = array.layout >> 8 & 0xFF, array.layout >> 16 & 1
    active = array.active
    if (
        array.level == "raid10"
        and far > 1
        and active
        and all(member.rotational is False for member in active)
    ):
        kind = "offset" if offset else "far"
        yield say(
            array,
            "note",
            "layout",
            f"layout {kind}{far} of flash only: it spares heads their way, and flash has none; near"
            " writes larger pieces at once, and is the one layout that can be grown",
        )


def errors(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Read errors that md has mended."""
    for member in array.members:
        if member.errors:
            yield say(
                array,
                "warning",
                "read-errors",
                f"{member.errors:,} read errors were mended since the array was assembled",
                command("smartctl", "--all", member.path),
                member=member.name,
            )
