"""What around an array stands in the way of its repair: swap, other arrays, mdadm's monitor."""

import re
from collections.abc import Iterator
from pathlib import Path

from blklab.md.host_software import configured
from blklab.system.layers import beneath, filesystem_devices
from blklab.system.mounts import unescaped
from blklab.system.roots import Roots, entries, text


def swapped_to(node: Path, roots: Roots) -> str:
    """Returns what is swapped to on an array, or above it; nothing if nothing is.

    `node` is the array's directory in sysfs, here and below.
    """
    number = text(node / "dev") or ""
    for line in (text(roots.proc / "swaps") or "").splitlines()[1:]:
        if not line.split():
            continue
        path = Path(unescaped(line.split()[0]))
        entry = roots.sys / "class/block" / path.name
        own = text(entry / "dev") if path.parent == Path("/dev") else None
        try:
            used = {own} if own else filesystem_devices(path.parent, roots)[0]
        except OSError:
            used = set()
        if any(number in beneath(number_used, roots) for number_used in used):
            return str(path)
    return ""


def busy_neighbour(node: Path, roots: Roots) -> str:
    """Returns another array on the same disks at which md is at work, and what it does there.

    Before it is done with that, md does not rebuild a member of this one (drivers/md/md.c,
    `match_mddev_units`).
    """
    mine = set(_disks(node))
    for entry in entries(roots.sys / "block"):
        other = entry.resolve()
        action = text(other / "md/sync_action")
        if other != node and action not in {"idle", "frozen", None} and mine & set(_disks(other)):
            return f"{other.name}: {action}"
    return ""


def _disks(node: Path) -> Iterator[Path]:
    for member in entries(node / "md"):
        if member.name.startswith("dev-") and (member / "block").exists():
            block = (member / "block").resolve()
            yield block.parent if (block / "partition").exists() else block


def sharing_spares(array: str, uuid: str, roots: Roots) -> str:
    """Returns the spare-group of an array, if mdadm's monitor runs that would move spares by it."""
    group = next(
        (
            match[1]
            for words in configured(roots)
            if "array".startswith(words[0].lower()) and len(words[0]) >= 3
            if array in words or any(word.lower() == f"uuid={uuid}" for word in words)
            for word in words
            if (match := re.fullmatch(r"spare-group=(.+)", word, re.I))
        ),
        "",
    )
    return group if group and any(_monitors(entry) for entry in entries(roots.proc)) else ""


def _monitors(process: Path) -> bool:
    if not process.name.isdigit():
        return False
    words = (text(process / "cmdline") or "").split("\0")
    return words[0].endswith("mdadm") and bool({"--monitor", "--follow", "-F"} & set(words))
