"""A filesystem on top of a stack, aligned to the stripes of the array below it."""

from collections.abc import Mapping
from typing import Any

from blklab.md.levels import PARITIES
from blklab.runners.lab.stacks.guest import GuestStack

MOUNT = "/mnt"

BLOCK = 4096


LARGEST_LOG = 1 << 30  # Bytes; XFS takes less than 2 GiB


def create(guest: GuestStack, kind: str, path: str, node: Mapping[str, Any], journal: str | None = None) -> str:
    """Makes a filesystem, mounts it, and returns the directory; `journal` is the device with its journal, if that is
    another one. Raises BlklabError.
    """
    guest.load_modules(kind)
    stripe = geometry(node)
    if kind == "ext4":
        mkfs_options = ["lazy_itable_init=1", "lazy_journal_init=1"]
        if stripe is not None:
            unit, many = stripe
            mkfs_options += [f"stride={unit // BLOCK}", f"stripe_width={unit // BLOCK * many}"]
        place = []
        if journal is not None:
            guest.run("mkfs.ext4", "-q", "-F", "-b", str(BLOCK), "-O", "journal_dev", journal)
            place = ["-J", f"device={journal}"]
        guest.run("mkfs.ext4", "-q", "-F", "-b", str(BLOCK), "-E", ",".join(mkfs_options), *place, path)
        # What mkfs left to be written in the background would be measured.
        options = ["-o", "noinit_itable"]
    else:
        options = []
        mkfs_options = [] if stripe is None else ["-d", f"su={stripe[0]},sw={stripe[1]}"]
        if journal is not None:
            sectors = int(guest.read(f"/sys/block/{journal.removeprefix('/dev/')}/size") or 0)
            log_bytes = min(sectors * 512, LARGEST_LOG) // BLOCK * BLOCK
            mkfs_options += ["-l", f"logdev={journal},size={log_bytes}"]
            options = ["-o", f"logdev={journal}"]
        guest.run("mkfs.xfs", "-q", "-f", *mkfs_options, path)
    guest.run("mount", "-t", kind, *options, path, MOUNT)
    guest.undoing.append(lambda: guest.run("umount", MOUNT))
    return MOUNT


def geometry(node: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the chunk (bytes) and the chunks per stripe; None without stripes.

    mke2fs(8), stride and stripe_width; mkfs.xfs(8), su and sw. RAID-10 does as its kernel does (raid10.c,
    `raid10_set_io_opt`): far copies do not count, nor near copies if the number of members is not a multiple of them. A
    volume above an array is left to mkfs: LVM passes the array's values on, which ext4 uses, and XFS too unless they
    are small; bcache passes on only a stripe's width, which is enough for ext4.
    """
    md = node.get("md")
    if md is None or not md["chunk"]:
        return None
    members = len(md["members"])
    if md["level"] == "raid10":
        near = md["near"]
        return md["chunk"], members if members % near else members // near
    return md["chunk"], members - PARITIES.get(md["level"], 0)
