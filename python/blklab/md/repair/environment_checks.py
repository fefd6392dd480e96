"""Finds conditions outside of an array that prevent its repair: swap, other arrays, mdadm."""

import re
from collections.abc import Iterator
from pathlib import Path

from blklab.md.host_software import read_mdadm_conf
from blklab.system.layers import beneath, filesystem_devices
from blklab.system.mounts import unescaped
from blklab.system.roots import Roots, entries, text


def find_swap(node: Path, roots: Roots) -> str:
    """Returns the path of swap on an array or on a volume of it, or an empty string.

    `node` is the array's directory in sysfs, here and below.
    """
    number = text(node / "dev") or ""
    for line in (text(roots.proc / "swaps") or "").splitlines()[1:]:
        if not line.split():
            continue
        path = Path(unescaped(line.split()[0]))
        entry = roots.sys / "class/block" / path.name
        swap_number = text(entry / "dev") if path.parent == Path("/dev") else None
        try:
            used = {swap_number} if swap_number else filesystem_devices(path.parent, roots)[0]
        except OSError:
            used = set()
        if any(number in beneath(number_used, roots) for number_used in used):
            return str(path)
    return ""


def find_busy_neighbour(node: Path, roots: Roots) -> str:
    """Returns another array on the same disks that md syncs or checks, with the action.

    md does not rebuild a member of this array before that ends (drivers/md/md.c,
    `match_mddev_units`).
    """
    disks = set(_disks(node))
    for entry in entries(roots.sys / "block"):
        other = entry.resolve()
        action = text(other / "md/sync_action")
        if other != node and action not in {"idle", "frozen", None} and disks & set(_disks(other)):
            return f"{other.name}: {action}"
    return ""


def _disks(node: Path) -> Iterator[Path]:
    for member in entries(node / "md"):
        if member.name.startswith("dev-") and (member / "block").exists():
            block = (member / "block").resolve()
            yield block.parent if (block / "partition").exists() else block


def find_spare_group(array: str, uuid: str, roots: Roots) -> str:
    """Returns the spare-group of an array if mdadm --monitor runs, which moves spares in it."""
    group = next(
        (
            match[1]
            for words in read_mdadm_conf(roots)
            if "array".startswith(words[0].lower()) and len(words[0]) >= 3
            if array in words or any(word.lower() == f"uuid={uuid}" for word in words)
            for word in words
            if (match := re.fullmatch(r"spare-group=(.+)", word, re.I))
        ),
        "",
    )
    return group if group and any(_is_monitor(entry) for entry in entries(roots.proc)) else ""


def _is_monitor(process: Path) -> bool:
    if not process.name.isdigit():
        return False
    words = (text(process / "cmdline") or "").split("\0")
    return words[0].endswith("mdadm") and bool({"--monitor", "--follow", "-F"} & set(words))
