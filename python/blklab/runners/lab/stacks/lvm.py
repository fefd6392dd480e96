"""Logical volumes, and dm-cache on top of them, made by LVM."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from blklab.errors import BlklabError
from blklab.experiment.capacity import EXTENT, data_members
from blklab.outcome import VolumeReport
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack
from blklab.runners.lab.stacks.md import MODULES
from blklab.text.printing import printable

METADATA_LEAST = 8 << 20  # Bytes; and a thousandth of the cache (lvmcache(7), "cache pool")
COUNTS = ("read_hits", "read_misses", "write_hits", "write_misses", "demotions", "promotions", "dirty")
"""Fields of a cache's status line, in this order after its blocks (device-mapper/cache.rst)."""


def volume(guest: GuestStack, lvm: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> str:
    """Makes a logical volume over all of its members and returns its path."""
    members = paths["members"]
    group = _group(guest, lvm["name"], members)
    command = ["lvcreate", "-y", "-Wn", "-Zn", "-n", "data", "-l", "100%FREE"]
    if lvm["level"] is not None:
        guest.load_modules("dm-raid", MODULES[lvm["level"]])
        command += _redundancy(lvm, len(members))
    elif lvm["stripes"] > 1:
        command += ["-i", str(lvm["stripes"]), "-I", f"{lvm['stripe_size']}b"]
    guest.run(*command, group)
    if lvm["level"] is not None:
        _wait_for_sync(guest, group)
    return guest.add_layer(GuestLayer(lvm["name"], "dm", guest.find_dm_name(f"{group}-data")), *members)


def _redundancy(lvm: Mapping[str, Any], members: int) -> list[str]:
    """Returns the options of `lvcreate` for a volume with redundancy (lvmraid(7)).

    RAID-6 is always synchronised first: its parity must be right before a block can be changed.
    """
    level = lvm["level"]
    options = ["--type", level, "-R", f"{lvm['region_size']}b"]
    if level == "raid1":
        return [*options, "-m", str(members - 1), "--nosync"]
    stripes = data_members(level, members)
    options += ["-i", str(stripes), "-I", f"{lvm['stripe_size']}b"]
    return options if level == "raid6" else [*options, "--nosync"]


def _wait_for_sync(guest: GuestStack, group: str) -> None:
    """Waits before the load until a volume has no sync to do."""

    def is_in_sync() -> bool:
        percent = guest.run("lvs", "--noheadings", "-o", "sync_percent", f"{group}/data").stdout.strip()
        return percent == "100.00"

    guest.readying.append(lambda: guest.until(is_in_sync, f"the volume {group}/data is in sync"))


def create_cache(guest: GuestStack, table: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> str:
    """Makes a logical volume on `origin` with a cache on `cache`; returns its path."""
    (origin,) = paths["origin"]
    (cache,) = paths["cache"]
    guest.load_modules("dm-cache", "dm-cache-smq")
    group = _group(guest, table["name"], [origin, cache])
    guest.run("lvcreate", "-y", "-Wn", "-Zn", "-n", "data", "-l", "100%PVS", group, origin)
    extents = _number(guest.run("pvs", "--noheadings", "-o", "pv_pe_count", cache).stdout, "pvs")
    metadata = table["metadata"] or max(METADATA_LEAST, extents * EXTENT // 1000)
    metadata = -(-metadata // EXTENT)
    if metadata >= extents:
        raise BlklabError(f"{table['name']}: the cache is too small for its metadata")
    guest.run(
        *("lvcreate", "-y", "--type", "cache-pool", "-n", "pool"),
        *("-l", str(extents - metadata), "--poolmetadatasize", f"{metadata * EXTENT}b"),
        *("--poolmetadataspare", "n", "--chunksize", f"{table['chunk']}b", group, cache),
    )
    settings = table["migration_threshold"]
    extra = [] if settings is None else ["--cachesettings", f"migration_threshold={settings}"]
    guest.run(
        *("lvconvert", "-y", "--type", "cache", "--cachepool", f"{group}/pool"),
        *("--cachemode", table["mode"], "--cachepolicy", table["policy"], *extra),
        f"{group}/data",
    )
    path = guest.add_cache(GuestLayer(table["name"], "dm", guest.find_dm_name(f"{group}-data")), origin, cache)
    volume_name = f"{group}-data"
    before: dict[str, Any] = {}
    guest.readying.append(lambda: before.update(status(guest, volume_name)))
    guest.reports.append(lambda: _report(table["name"], before, status(guest, volume_name)))
    return path


def mode(guest: GuestStack, name: str, cache_mode: str) -> None:
    """Changes the mode of a cache; dirty blocks are written back first."""
    guest.run("lvchange", "-y", "--cachemode", cache_mode, f"{guest.groups[name]}/data")


def never_idle(guest: GuestStack, name: str) -> None:
    """Keeps dirty blocks dirty between the preparation and the load: dm-cache cleans them after a second without I/O.

    Without a migration threshold it does so no more (dm-cache-target.c, `spare_migration_bandwidth`).
    """
    guest.run("dmsetup", "message", f"{guest.groups[name]}-data", "0", "migration_threshold 0")


def _report(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> VolumeReport:
    """Returns a cache's activity since the load began: counts, and its present state."""
    grown = {key: after[key] - before[key] for key in COUNTS if key != "dirty"}
    return {"name": name, "kind": "lvmcache", **after, **grown}


def status(guest: GuestStack, volume_name: str) -> dict[str, Any]:
    """Returns dm-cache's status: blocks and counts. Raises BlklabError.

    The line: `start length cache metadata-block-size used/total block-size used/total read-hits …`.
    """
    line = guest.run("dmsetup", "status", volume_name).stdout.strip()
    fields = line.split()
    try:
        start = fields.index("cache")
        used_blocks, total = (_number(word, "blocks") for word in fields[start + 4].split("/"))
        counts = dict(zip(COUNTS, [_number(word, "counts") for word in fields[start + 5 : start + 12]], strict=True))
    except (ValueError, IndexError, BlklabError):
        line_shown = printable(line[:200])
        raise BlklabError(f"dmsetup status {volume_name}: found {line_shown}, expected the status of a cache") from None
    return {"used_blocks": used_blocks, "blocks": total, **counts, "status": line}


def _number(text: str, subject: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip(), re.A):
        raise BlklabError(f"in the guest: {subject}: found {printable(text[:60])}, expected a number")
    return int(text)


def _group(guest: GuestStack, name: str, members: Sequence[str]) -> str:
    group = guest.groups[name] = f"vg{len(guest.groups)}"
    guest.run("pvcreate", "-y", "-ff", *members)
    guest.undoing.append(lambda: guest.run("pvremove", "-y", "-ff", *members))
    guest.run("vgcreate", "-y", group, *members)
    guest.undoing.append(lambda: guest.run("vgremove", "-y", "-ff", group))
    return group
