"""What arrays are made of: kinds of devices put together, and layouts that suit them."""

from collections.abc import Iterator

from blklab.md.audit.finding import Finding, Host, command, listed, say
from blklab.md.model import Array

IDLEST = (5, 3)
"""Linux since which RAID-10 reads from members that do not rotate, if there are any
(drivers/md/raid10.c).
"""


def mixed(array: Array, host: Host) -> Iterator[Finding]:
    """Rotating disks and flash in one array."""
    active = [one for one in array.active if one.rotational is not None]
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
        " your load: `blklab run` of a stack of such devices (docs/howto-predict.md)",
    )


def write_mostly(array: Array, _host: Host) -> Iterator[Finding]:
    """Members that are read only if nothing else is left."""
    names = [
        one.name
        for one in array.members
        if "write_mostly" in one.states
        or (not one.states and one.superblock and one.superblock.write_mostly)
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


def layout(array: Array, _host: Host) -> Iterator[Finding]:
    """RAID-10 far and offset of flash."""
    far, offset = array.layout >> 8 & 0xFF, array.layout >> 16 & 1
    active = array.active
    if (
        array.level == "raid10"
        and far > 1
        and active
        and all(one.rotational is False for one in active)
    ):
        kind = "offset" if offset else "far"
        yield say(
            array,
            "note",
            "layout",
            f"layout {kind}{far} of flash only: it spares heads their way, and flash has none; near"
            " writes larger pieces at once, and is the one layout that can be grown",
        )


def errors(array: Array, _host: Host) -> Iterator[Finding]:
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
