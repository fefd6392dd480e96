"""Volumes by dmsetup: dm-writecache in SSD mode, where a fast device takes the writes of a slow one; and dm-delay, also
for the latency of disks, as QEMU limits only rates.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from blklab.documents import cell
from blklab.errors import BlklabError
from blklab.outcome import VolumeReport
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack
from blklab.text import printable

STATE: Final = ("error", "blocks", "free_blocks", "writeback_blocks")
COUNTS: Final = (
    "reads", "read_hits", "writes", "write_hits_uncommitted", "write_hits_committed", "writes_around",
    "writes_allocate", "writes_blocked_on_freelist", "flushes", "discards",
)  # fmt: skip
"""Fields of the status line (device-mapper/writecache.rst); kernels before 5.15 do not count."""


def create_writecache(guest: GuestStack, table: cell.Writecache, paths: Mapping[str, Sequence[str]]) -> str:
    """Puts an empty writecache on `cache` over `origin`; returns its path."""
    (origin,), (cache,) = paths["origin"], paths["cache"]
    guest.loaded("dm-writecache")
    below = origin.removeprefix("/dev/")
    block = table["block"] // 512
    sectors = int(guest.read(f"/sys/block/{below}/size") or 0) // block * block
    # dm-writecache formats a device that begins with zeros.
    guest.write(cache, "\0" * 4096)
    options = ["high_watermark", str(table["high_watermark"]), "low_watermark", str(table["low_watermark"])]
    if (max_age := table.get("max_age_ns")) is not None:
        options += ["max_age", str(max_age // 10**6)]
    name = f"writecache_{below}"
    words = f"0 {sectors} writecache s {origin} {cache} {table['block']} {len(options)} {' '.join(options)}"
    guest.run("dmsetup", "create", name, "--table", words)
    guest.undoing.append(lambda: guest.run("dmsetup", "remove", "--retry", name))
    before: dict[str, int] = {}
    guest.readying.append(lambda: before.update(_status(guest, name)))
    guest.reports.append(lambda: _report(table["name"], before, _status(guest, name)))
    return guest.add_layer(GuestLayer(table["name"], "dm", guest.mapped(name)), origin, cache)


def _status(guest: GuestStack, name: str) -> dict[str, int]:
    line = guest.run("dmsetup", "status", name).stdout.strip()
    words = line.split()[3:]
    if len(words) < len(STATE) or not all(word.isascii() and word.isdigit() for word in words):
        shown = printable(line[:200])
        raise BlklabError(f"dmsetup status {name}: found {shown}, expected the status of a writecache")
    return dict(zip((*STATE, *COUNTS), map(int, words), strict=False))


def _report(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> VolumeReport:
    """Returns a cache's activity since the load began: counts, and its present state."""
    grown = {key: after[key] - before[key] for key in COUNTS if key in after}
    return cast(VolumeReport, {"name": name, "kind": "writecache", **after, **grown})


MS: Final = 1_000_000  # ns; dm-delay counts in them, and its timer is no finer than the kernel's tick


def create_delay(guest: GuestStack, table: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> str:
    """Delays reads and writes of `origin`; returns the path of the delayed device."""
    (origin,) = paths["origin"]
    return _delayed(guest, table["name"], origin, table["read_ns"] // MS, table["write_ns"] // MS)


def delayed_disk(guest: GuestStack, disk: GuestLayer, latency_ns: int) -> str:
    """Puts a delay on a disk, in whole ms and at least one, and returns its path.

    The delay is then part of the stack; the disk below it keeps its name with a suffix.
    """
    ms = max(1, round(latency_ns / MS))
    return _delayed(guest, f"{disk.name} (delayed)", disk.path, ms, ms)


def _delayed(guest: GuestStack, layer: str, path: str, read_ms: int, write_ms: int) -> str:
    guest.loaded("dm-delay")
    below = path.removeprefix("/dev/")
    sectors = guest.read(f"/sys/block/{below}/size")
    name = f"delay_{below}"
    writes = f" {path} 0 {write_ms}" if write_ms != read_ms else ""
    guest.run("dmsetup", "create", name, "--table", f"0 {sectors} delay {path} 0 {read_ms}{writes}")
    guest.undoing.append(lambda: guest.run("dmsetup", "remove", "--retry", name))
    return guest.add_layer(GuestLayer(layer, "dm", guest.mapped(name)), path)
