"""What tests of arrays in a guest share."""

from blklab.runners.lab.machine.boot import GuestMachine as Guest
from blklab.runners.lab.machine.qemu import VirtualDiskShape


def names(guest: Guest, shapes: list[VirtualDiskShape]) -> list[str]:
    serials = guest.agent.read(["/sys/block/vd*/serial"])
    disks = {(text or "").strip(): path.split("/")[3] for path, text in serials.items()}
    return [disks[guest.disk(item).serial] for item in shapes]
