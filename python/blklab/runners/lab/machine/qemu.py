"""QEMU's command line for a guest: no network, no display, no user configuration.

The guest's code runs with KVM if that works, otherwise with emulation (TCG). KVM may hang instead of failing, for
example nested in a guest whose host does not support that. A guest that does not answer in time with KVM is therefore
stopped and emulated, and this is remembered until the machine boots again.

The guest's disks are unnamed files, so that nothing of them remains however blklab ends.
"""

import json
import os
import platform
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.lab.image.build import GuestImage
from blklab.runners.lab.image.cache import directory
from blklab.system import child_process
from blklab.system.child_process import limit_sending
from blklab.system.roots import Roots, read_text
from blklab.text.printing import printable
from blklab.units import format_size

MOST_DISKS = 160  # Of a guest: 8 functions in each of 20 PCI slots
SERIAL = 20  # Most characters of a virtio disk's serial number (include/uapi/linux/virtio_blk.h)
RESULTS = "blklab-results"  # The serial number of the disk for results
RESULTS_BYTES = 4 << 30
LEAST_FREE = 256 << 20  # Bytes that must be free for the guest's disks; sparse files take only what is written


@dataclass(frozen=True)
class VirtualDiskShape:
    """The fixed properties of a virtual disk while a guest runs."""

    name: str  # The device's name; its serial number is the beginning of it
    bytes: int
    logical_block_size: int = 512
    physical_block_size: int = 512
    discard: bool = True
    write_back: bool = True
    queue_depth: int | None = None  # A power of two, for one hardware queue; None: QEMU's, one for each processor


@dataclass
class VirtualDisk:
    """A virtual disk and the file behind it."""

    number: int
    serial: str
    shape: VirtualDiskShape
    descriptor: int

    @property
    def id(self) -> str:
        """QEMU's name of it."""
        return f"disk{self.number}"

    def clear(self) -> None:
        """Resets it to zeros. The guest must have closed it."""
        os.ftruncate(self.descriptor, 0)
        os.ftruncate(self.descriptor, self.shape.bytes)

    def read(self, offset: int, many: int) -> bytes:
        """Returns bytes that the guest has written. Raises BlklabError if there are fewer."""
        parts = []
        while many:
            part = os.pread(self.descriptor, min(many, 1 << 24), offset)
            if not part:
                raise BlklabError(f"disk {self.serial}: ends at {offset}, expected {many} more bytes")
            parts.append(part)
            offset += len(part)
            many -= len(part)
        return b"".join(parts)


@dataclass
class VirtualDisks:
    """All disks of a guest; the files are removed after the `with` block."""

    shapes: Sequence[VirtualDiskShape]
    directory: Path = field(default_factory=directory)
    disks: dict[VirtualDiskShape, VirtualDisk] = field(default_factory=dict)
    results: VirtualDisk = field(init=False)

    def __enter__(self) -> Self:
        """Makes the files. Raises EnvironmentLacks without enough space."""
        if len(self.shapes) > MOST_DISKS - 1:
            raise BlklabError(f"{len(self.shapes)} disks: a guest has {MOST_DISKS - 1} at most")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            room = os.statvfs(self.directory)
            if room.f_bavail * room.f_frsize < LEAST_FREE:
                free = format_size(room.f_bavail * room.f_frsize)
                raise EnvironmentLacks(
                    f"{self.directory}: found {free} free, the guest's disks need at least {format_size(LEAST_FREE)}",
                    "free some space, or set XDG_CACHE_HOME to a larger filesystem",
                )
            for shape in dict.fromkeys(self.shapes):
                self.disks[shape] = self._make_disk(shape, _serial(shape.name, self.serials()))
            self.results = self._make_disk(VirtualDiskShape(RESULTS, RESULTS_BYTES), RESULTS)
        except OSError as error:
            self._close()
            raise EnvironmentLacks(
                f"{self.directory}: cannot make a disk: {error.strerror}",
                "set XDG_CACHE_HOME to a filesystem that supports large files with holes",
            ) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    def every(self) -> list[VirtualDisk]:
        """Returns all disks, with the disk for results last."""
        return [*self.disks.values(), self.results]

    def serials(self) -> set[str]:
        """Returns the serial numbers in use."""
        return {disk.serial for disk in self.disks.values()}

    def _make_disk(self, shape: VirtualDiskShape, serial: str) -> VirtualDisk:
        with tempfile.TemporaryFile(dir=self.directory, prefix="disk-") as file:
            os.ftruncate(file.fileno(), shape.bytes)
            return VirtualDisk(len(self.disks), serial, shape, os.dup(file.fileno()))

    def _close(self) -> None:
        for disk in self.disks.values():
            os.close(disk.descriptor)
        self.disks.clear()
        if hasattr(self, "results"):
            os.close(self.results.descriptor)
            del self.results


def _serial(name: str, used_serials: set[str]) -> str:
    """Returns a serial number like a device's name, different from all others."""
    serial = name[:SERIAL]
    number = 2
    while serial in used_serials or serial == RESULTS:
        ending = f"-{number}"
        serial = name[: SERIAL - len(ending)] + ending
        number += 1
    return serial


PROGRAM = "qemu-system-x86_64"
INSTALL = "install it: apt-get install qemu-system-x86"
OLDEST = (5, 2)  # Oldest supported QEMU: Debian 11's
PORT = "org.blklab.agent"  # The name of the agent's serial port
COMMAND_LINE = "rdinit=/init console=ttyS0 panic=-1 quiet loglevel=4 no_timer_check"
"""`panic=-1` reboots at once, which ends QEMU with `-no-reboot`. A busy host can delay an
emulated guest's timer, whose check then panics (arch/x86/kernel/apic/io_apic.c, `check_timer`):
`no_timer_check` leaves the check out, as KVM guests do themselves."""

FIRST_SLOT = 5  # First free PCI slot; those before belong to the board


def find() -> tuple[str, str]:
    """Returns QEMU's path and version. Raises EnvironmentLacks without one that is new enough."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        raise EnvironmentLacks(
            f"the lab needs an x86-64 machine, found {platform.machine()}", "use --on sim, or --on host"
        )
    path = child_process.find(PROGRAM, "qemu-system-x86")
    match = re.search(r"version (\d{1,3})\.(\d{1,3})[\w.+~-]*", child_process.version(path, INSTALL)[0], re.A)
    if match is None:
        raise EnvironmentLacks(f"{path} does not print its version", INSTALL)
    if (int(match[1]), int(match[2])) < OLDEST:
        oldest_version = ".".join(map(str, OLDEST))
        raise EnvironmentLacks(f"{path} is {match[0]}, too old", f"QEMU {oldest_version} or newer is needed")
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


ACCEL_VARIABLE = "BLKLAB_ACCEL"  # The environment variable for the accelerator; `--accel` replaces it
ACCEL_CHOICES = ("auto", "kvm", "tcg")

PATIENCE = {"kvm": 15.0, "tcg": 180.0}
"""Seconds until a guest must have answered: emulated on a busy machine it may take a minute."""

_NOTED = "no-kvm-"


def accelerators(accelerator_choice: str | None, roots: Roots | None = None) -> list[str]:
    """Returns the accelerators to try, in order. Raises UsageError, EnvironmentLacks."""
    roots = roots or Roots()
    accelerator_choice = accelerator_choice or os.environ.get(ACCEL_VARIABLE) or "auto"
    if accelerator_choice not in ACCEL_CHOICES:
        raise UsageError(f"accelerator {accelerator_choice!r}: expected one of {', '.join(ACCEL_CHOICES)}")
    if accelerator_choice == "tcg":
        return ["tcg"]
    reason = _without_kvm(roots)
    if accelerator_choice == "kvm":
        if reason is not None:
            raise EnvironmentLacks(f"cannot use KVM: {reason}", "use --accel tcg")
        return ["kvm"]
    return ["tcg"] if reason is not None or _silent_kvm_path(roots).exists() else ["kvm", "tcg"]


def remember_silent_kvm(roots: Roots | None = None) -> None:
    """Remembers, if possible, that KVM did not answer, until the next boot."""
    path = _silent_kvm_path(roots or Roots())
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{_NOTED}*"):
            old.unlink()
        path.touch()


def _silent_kvm_path(roots: Roots) -> Path:
    boot = read_text(roots.proc / "sys/kernel/random/boot_id") or "unknown"
    return directory() / f"{_NOTED}{boot}"


def _without_kvm(roots: Roots) -> str | None:
    """Returns why KVM cannot work, None if it may."""
    device = roots.dev / "kvm"
    if not device.exists():
        return f"{device} not found"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device}: permission denied (the group kvm may use it)"
    flags = set((read_text(roots.proc / "cpuinfo") or "").split())
    # Without the processor's own virtualisation, /dev/kvm is paravirtual (PVM): guests hang there.
    return "the processor has no virtualisation (vmx, svm)" if not flags & {"vmx", "svm"} else None


QMP_PATIENCE = 30.0  # Seconds that QEMU may take for an answer


class QmpConnection:
    """A connection to QEMU's monitor (docs/interop/qmp-spec.txt). A thread calls `on_event` with each event."""

    def __init__(self, connection: socket.socket, on_event: Callable[[Mapping[str, Any]], object]) -> None:
        limit_sending(connection, QMP_PATIENCE)
        self._socket = connection
        self._heard = on_event
        self._calls = threading.Lock()
        self._answers: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()  # None: QEMU has ended
        self._negotiated = False
        self._thread = threading.Thread(target=self._listen, name="blklab-qmp", daemon=True)
        self._thread.start()

    def call(self, command: str, **arguments: Any) -> Any:
        """Returns the answer to a command. Raises BlklabError with QEMU's message if it fails."""
        with self._calls:
            if not self._negotiated:
                self._exchange("qmp_capabilities", {})
                self._negotiated = True
            return self._exchange(command, arguments)

    def close(self) -> None:
        """Ends the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _exchange(self, command: str, arguments: Mapping[str, Any]) -> Any:
        request = json.dumps({"execute": command, "arguments": dict(arguments)}) + "\n"
        with suppress(Empty):  # an answer that came too late
            while self._answers.get_nowait() is not None:
                pass
            self._answers.put(None)
        try:
            self._socket.sendall(request.encode())
        except BlockingIOError:
            raise BlklabError(f"QEMU took no data for {QMP_PATIENCE:g} s: cannot send {command}") from None
        except OSError:
            raise BlklabError(f"QEMU has ended: cannot send {command}") from None
        try:
            answer = self._answers.get(timeout=QMP_PATIENCE)
        except Empty:
            raise BlklabError(f"QEMU did not answer {command} within {QMP_PATIENCE:g} s") from None
        if answer is None:
            self._answers.put(None)
            raise BlklabError(f"QEMU has ended: it did not answer {command}")
        if "error" in answer:
            error = answer["error"]
            reason = error.get("desc", "") if isinstance(error, dict) else error
            raise BlklabError(f"QEMU refused {command}: {printable(str(reason))}")
        return answer.get("return")

    def _listen(self) -> None:
        with suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            for line in lines:
                message: object = json.loads(line)
                if not isinstance(message, dict):
                    break
                if "event" in message:
                    self._heard(message)
                elif "return" in message or "error" in message:
                    self._answers.put(message)
        self._answers.put(None)
