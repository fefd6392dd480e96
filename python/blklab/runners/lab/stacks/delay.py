"""A delay before a disk, by device-mapper: QEMU's throttle knows rates only."""

from typing import Final

from blklab.runners.lab.stacks.guest import Guest, Layer

MS: Final = 1_000_000
"""ns; dm-delay counts in them, and its timer is no finer than the kernel's tick."""


def delayed(guest: Guest, disk: Layer, latency_ns: int) -> str:
    """Puts a delay before a disk, whole ms and one at least, and returns its path.

    The delay is what belongs to the stack then; the disk below it keeps its own name, marked.
    """
    guest.loaded("dm-delay")
    ms = max(1, round(latency_ns / MS))
    sectors = guest.read(f"/sys/block/{disk.kernel}/size")
    name = f"delay_{disk.kernel}"
    guest.run("dmsetup", "create", name, "--table", f"0 {sectors} delay {disk.path} 0 {ms}")
    guest.undoing.append(lambda: guest.run("dmsetup", "remove", "--retry", name))
    kernel = guest.mapped(name)
    guest.layers.append(Layer(f"{disk.name} (delayed)", "dm", kernel))
    guest.above(f"{disk.name} (delayed)", disk.path)
    return f"/dev/{kernel}"
