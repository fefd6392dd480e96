"""QEMU's command line for a guest: no network, no display, no user configuration."""

import platform
import re
import shutil
from collections.abc import Sequence
from typing import Final

from blklab import child_process
from blklab.errors import EnvironmentLacks
from blklab.runners.lab.image.build import GuestImage
from blklab.runners.lab.machine.disks import VirtualDisk

PROGRAM: Final = "qemu-system-x86_64"
INSTALL: Final = "install it: apt-get install qemu-system-x86"
OLDEST: Final = (5, 2)  # Oldest supported QEMU: Debian 11's
PORT: Final = "org.blklab.agent"  # The name of the agent's serial port
COMMAND_LINE: Final = "rdinit=/init console=ttyS0 panic=-1 quiet loglevel=4 no_timer_check"
"""`panic=-1` reboots at once, which ends QEMU with `-no-reboot`. A busy host can delay an
emulated guest's timer, whose check then panics (arch/x86/kernel/apic/io_apic.c, `check_timer`):
`no_timer_check` leaves the check out, as KVM guests do themselves."""

FIRST_SLOT: Final = 5  # First free PCI slot; those before belong to the board


def find() -> tuple[str, str]:
    """Returns QEMU's path and version. Raises EnvironmentLacks without one that is new enough."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        message = f"the lab needs an x86-64 machine, found {platform.machine()}"
        raise EnvironmentLacks(message, "use --on sim, or --on host")
    path = shutil.which(PROGRAM)
    if path is None:
        raise EnvironmentLacks(f"{PROGRAM} is not installed", INSTALL)
    match = re.search(r"version (\d{1,3})\.(\d{1,3})[\w.+~-]*", child_process.version(path, INSTALL)[0], re.A)
    if match is None:
        raise EnvironmentLacks(f"{path} does not print its version", INSTALL)
    if (int(match[1]), int(match[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise EnvironmentLacks(f"{path} is {match[0]}, too old", f"QEMU {wanted} or newer is needed")
    return path, match[0].removeprefix("version ")


def arguments(
    program: str,
    image: GuestImage,
    disks: Sequence[VirtualDisk],
    *,
    accel: str,
    cpus: int,
    memory: int,
    agent: int,
    monitor: int,
) -> list[str]:
    """Returns the command. `agent` and `monitor` are descriptors of connected sockets.

    The console is QEMU's standard output.
    """
    command = [program, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    # The guest is not trusted: after an escape it could start no program.
    command += ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"]
    command += ["-machine", "pc"]
    if accel == "kvm":
        command += ["-accel", "kvm", "-cpu", "host"]
    else:
        command += ["-accel", "tcg,thread=multi", "-cpu", "max"]
    command += ["-smp", str(cpus), "-m", f"{memory >> 20}M"]
    command += ["-kernel", str(image.kernel), "-initrd", str(image.initrd)]
    command += ["-append", COMMAND_LINE]
    command += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    command += ["-chardev", f"socket,id=monitor,fd={monitor}"]
    command += ["-mon", "chardev=monitor,mode=control"]
    command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent}"]
    command += ["-device", f"virtserialport,chardev=agent,name={PORT}"]
    for place, disk in enumerate(disks):
        command += _disk(place, disk)
    return command


def _disk(place: int, disk: VirtualDisk) -> list[str]:
    shape = disk.shape
    slot, function = divmod(place, 8)
    file = {
        "driver": "file",
        "filename": f"/dev/fdset/{disk.number}",
        "locking": "off",
        "discard": "unmap",
        "node-name": f"node{disk.number}",
        # Nothing of a guest is kept: its flushes need not reach the host's disk.
        "cache.direct": "off",
        "cache.no-flush": "on",
    }
    device = {
        "drive": f"node{disk.number}",
        "id": disk.id,
        "serial": disk.serial,
        "addr": f"{FIRST_SLOT + slot:#x}.{function:#x}",
        "multifunction": "on",
        "logical_block_size": shape.logical_block_size,
        "physical_block_size": shape.physical_block_size,
        "discard": "on" if shape.discard else "off",
        "write-cache": "on" if shape.write_back else "off",
        # QEMU would merge what the guest has sent before it is throttled: a disk counts them all.
        "request-merging": "off",
    }
    if shape.queue_depth is not None:
        device |= {"queue-size": str(shape.queue_depth), "num-queues": "1"}
    return [
        *("-add-fd", f"fd={disk.descriptor},set={disk.number}"),
        *("-blockdev", ",".join(f"{key}={value}" for key, value in file.items())),
        *("-device", "virtio-blk-pci," + ",".join(f"{key}={it}" for key, it in device.items())),
    ]
