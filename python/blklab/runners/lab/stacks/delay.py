"""Delays by device-mapper: a kind of stack, and the latency of disks, as QEMU limits only rates."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack

MS: Final = 1_000_000  # ns; dm-delay counts in them, and its timer is no finer than the kernel's tick


def create(guest: GuestStack, table: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> str:
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
