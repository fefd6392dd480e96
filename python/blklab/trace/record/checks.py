"""Checks before a recording: privileges, devices, debugfs, and the location of the trace."""

import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors, UsageError
from blklab.system import child_process
from blklab.system.layers import beneath, filesystem_devices, name_of, node_of, number_of
from blklab.system.mounts import mounts
from blklab.system.roots import Roots

CAP_SYS_ADMIN = 21  # Bit of the capability (include/uapi/linux/capability.h)
DEBUGFS = "/sys/kernel/debug"


@dataclass(frozen=True)
class RecordedDevice:
    path: str
    name: str  # The kernel's name, which blktrace uses for the files
    number: str  # `major:minor`


def find_devices(paths: Sequence[str], roots: Roots) -> list[RecordedDevice]:
    """Returns the devices at `paths`, each once; `vda` is /dev/vda. Raises UsageError for other files."""
    devices: dict[str, RecordedDevice] = {}
    for argument in paths:
        is_kernel_name = (
            "/" not in argument and (roots.sys / "class/block" / argument).exists() and not Path(argument).exists()
        )
        path = str(roots.device(argument)) if is_kernel_name else argument
        with SystemErrors(UsageError, path, "; expected a block device, see lsblk"):
            status = Path(path).stat()
        if not stat.S_ISBLK(status.st_mode):
            raise UsageError(f"{path}: is not a block device; see lsblk")
        number = number_of(status.st_rdev)
        node = node_of(number, roots)
        name = node.name if node else Path(path).name
        devices.setdefault(number, RecordedDevice(path, name, number))
    return list(devices.values())


def check_apart(devices: Sequence[RecordedDevice], directory: Path, roots: Roots) -> list[str]:
    """Refuses to write a trace to a device that it records, because the trace would record itself.

    Raises UsageError if I/O of a file in `directory` passes through any of `devices`. Otherwise
    returns a note for the user.
    """
    holders, untold = filesystem_devices(directory, roots)
    holders_by_number = {}  # By the number of a device below the directory: the device of its filesystem
    for holder in holders:
        for number in beneath(holder, roots):
            holders_by_number[number] = holder
    for device in devices:
        if device.number in holders_by_number:
            holder = name_of(holders_by_number[device.number], roots)
            through = "" if holder == device.name else f" (through {holder})"
            raise UsageError(
                f"{directory} is on {device.path}{through}, which is recorded: "
                "the trace would record itself; write it elsewhere (-o), e.g. to /dev/shm"
            )
    notes = []
    if untold:
        notes.append(f"cannot find out which devices {directory} is on: {untold}")
    shared_numbers = set(holders_by_number) & {n for device in devices for n in beneath(device.number, roots)}
    if shared_numbers:
        names = ", ".join(sorted(name_of(number, roots) for number in shared_numbers))
        notes.append(f"the trace is also written to {names}, below the recorded devices")
    return notes


def check_privileges(roots: Roots) -> None:
    """Raises EnvironmentLacks if the user may not record."""
    if os.geteuid() == 0:
        return
    with suppress(OSError, StopIteration, ValueError):
        status = (roots.proc / "self/status").read_text()
        effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
        if int(effective.split()[1], 16) >> CAP_SYS_ADMIN & 1:
            return
    raise EnvironmentLacks("recording needs root (CAP_SYS_ADMIN)", "run it with sudo")


def check_kernel(devices: Sequence[RecordedDevice], roots: Roots) -> None:
    """Raises EnvironmentLacks if the kernel cannot trace: each device then lacks a `trace` directory."""
    for device in devices:
        node = roots.sys / "dev/block" / device.number
        if node.exists() and not (node / "trace").exists():
            raise EnvironmentLacks(
                f"this kernel ({os.uname().release}) cannot trace {device.path}: it was"
                " built without CONFIG_BLK_DEV_IO_TRACE",
                "boot a kernel of your distribution",
            )


@contextmanager
def ready_debugfs(roots: Roots) -> Iterator[str]:
    """Gives the mount point of debugfs, which blktrace needs; mounts it for the block if it is not mounted."""
    for mount in mounts(roots):
        if mount.kind == "debugfs":
            return (yield mount.point)
    try:
        _run("mount", "-t", "debugfs", "debugfs", DEBUGFS)
    except (OSError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        why = lines[0] if lines else "no reason given"
        message = f"debugfs is not mounted, and cannot be: {why}"
        raise EnvironmentLacks(message, "record outside a container, on a kernel with CONFIG_DEBUG_FS") from None
    try:
        yield DEBUGFS
    finally:
        with suppress(OSError, subprocess.SubprocessError):
            _run("umount", DEBUGFS)  # it stays if others use it by now


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)


def check_untraced(devices: Sequence[RecordedDevice], debugfs: str) -> None:
    """Raises BlklabError for a device that is already traced: the kernel allows one trace per device.

    blktrace must not try: when it fails, it ends the other trace (seen with 1.2.0).
    """
    for device in devices:
        if (Path(debugfs) / "block" / device.name / "dropped").exists():
            raise BlklabError(
                f"{device.path} is already traced: wait, or if no blktrace runs (ps -C blktrace): "
                f"echo 0 > /sys/dev/block/{device.number}/trace/enable"
            )


def check_writable(directory: Path) -> None:
    """Raises BlklabError if no file can be created in `directory`."""
    if not directory.is_dir():
        raise BlklabError(f"{directory}: no such directory; create it first")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BlklabError(f"{directory}: not writable")


@contextmanager
def ready_blktrace(devices: Sequence[RecordedDevice], roots: Roots) -> Iterator[tuple[str, str]]:
    """Gives blktrace's path and the mount point of debugfs.

    Raises EnvironmentLacks or BlklabError if a device cannot be traced.
    """
    check_privileges(roots)
    blktrace = child_process.find("blktrace", "blktrace")
    check_kernel(devices, roots)
    with ready_debugfs(roots) as debugfs:
        check_untraced(devices, debugfs)
        yield blktrace, debugfs
