"""A guest: booted, watched, and removed completely when the block ends."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from blklab.errors import BlklabError
from blklab.outcome import IoCost
from blklab.runners.fio.process import ending
from blklab.runners.lab.agent import COMPLAINT, Agent, AgentHello, GuestGone
from blklab.runners.lab.image.build import GuestImage
from blklab.runners.lab.machine import qemu
from blklab.runners.lab.machine.qemu import QmpConnection, VirtualDisk, VirtualDisks, VirtualDiskShape
from blklab.system import child_process
from blklab.text.printing import printable

MOST_KEPT = 256 << 10  # Bytes that are kept: the last ones
ERROR_LINES = 6  # Most lines in an error
LONGEST_LINE = 160  # Most characters of a line in an error
TELLING = ("Kernel panic", "blklab-agent:", "Out of memory")
"""Phrases in lines that explain an end, the most likely first."""

_TIME = re.compile(r"^\[\s*\d{1,9}\.\d{6}\]\s*", re.A)

_DUMP = re.compile(  # Beginnings of lines of a dump: registers and call traces
    r"CPU: |Hardware name: |Call Trace:|Code: |Kernel Offset: |Modules linked|---\[|</?[A-Z]+>$"
    r"|(\? )?[\w.]+\+0x[0-9a-f]+/0x|[A-Z0-9]{2,4}: ?[0-9a-f]{4,}",
    re.A,
)


class GuestConsole:
    """Reads a pipe until its end, and keeps the last part."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="blklab-console", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """Returns the last lines, without times and dumps, harmless on a terminal."""
        return [line for line in self._every() if not _DUMP.match(line)][-ERROR_LINES:]

    def reason(self) -> str | None:
        """Returns the line that best explains why a guest ended, None if there is none."""
        lines = self._every()
        for phrase in TELLING:
            for line in lines:
                if phrase in line:
                    return line
        return None

    def join(self) -> None:
        """Waits until everything has been read, once its writer has ended."""
        self._thread.join(5)

    def _every(self) -> list[str]:
        with self._lock:
            text = self._kept.decode(errors="replace")
        lines = (_TIME.sub("", line.strip()) for line in text.splitlines())
        return [printable(line)[:LONGEST_LINE] for line in lines if line]

    def _read(self) -> None:
        with suppress(OSError):
            while chunk := os.read(self._descriptor, 1 << 16):
                with self._lock:
                    self._kept += chunk
                    del self._kept[:-MOST_KEPT]


HEARTBEAT = 5.0  # Seconds between two checks whether the guest is alive
HANGS = 90.0  # Seconds without an answer after which it is ended: a busy host slows an emulated guest
LAST = 5.0  # Seconds that QEMU may take to end after its guest
COMPLAINTS = ["dmesg", "--level=emerg,alert,crit,err,warn"]

Limits = Mapping[str, int]
"""QEMU's limits by name: `iops_total`, `iops_read`, `iops_write`, `bps_total`, …; 0 is no limit."""

NAMES = {  # Their names in `block_set_io_throttle`
    "iops_total": "iops",
    "iops_read": "iops_rd",
    "iops_write": "iops_wr",
    "iops_burst": "iops_max",
    "bps_total": "bps",
    "bps_read": "bps_rd",
    "bps_write": "bps_wr",
    "bps_burst": "bps_max",
}


class GuestSilent(BlklabError):
    """The guest did not answer in time."""


class GuestLost(BlklabError):
    """The guest ended during a call."""


class GuestMachine:
    """A running guest. Use `boot`."""

    def __init__(self, image: GuestImage, shapes: Sequence[VirtualDiskShape], *, cpus: int, memory: int) -> None:
        self.image = image
        self.accel = ""
        self.hello: AgentHello
        self.agent: Agent
        self.spoilt = False  # Whether a cell left something behind, so that no other cell must be measured here
        self.io_cost: IoCost | None = None  # None until it is measured
        self._cpus = cpus
        self._memory = memory
        self._disks = VirtualDisks(shapes)
        self._stack = ExitStack()
        self._qmp: QmpConnection
        self.console: GuestConsole
        self._process: child_process.Process
        self._ended_by: str | None = None
        self._stop = threading.Event()

    def start(self, accelerator: str) -> None:
        """Boots with an accelerator and waits for the agent's hello. Raises BlklabError."""
        self.accel = accelerator
        program, _ = qemu.find()
        self._stack.enter_context(self._disks)
        pairs = [socket.socketpair() for _ in range(2)]
        try:
            (agent, agents), (monitor, monitors) = pairs
            disks = self._disks.every()
            command = qemu.arguments(
                program,
                self.image,
                disks,
                accel=accelerator,
                cpus=self._cpus,
                memory=self._memory,
                agent=agents.fileno(),
                monitor=monitors.fileno(),
            )
            descriptors = [*(disk.descriptor for disk in disks), agents.fileno(), monitors.fileno()]
            self._process, pipes = self._stack.enter_context(
                child_process.start_process(command, Path("/"), separate_stderr=True, descriptors=descriptors)
            )
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        self.console, self._errors = GuestConsole(pipes[0]), GuestConsole(pipes[1])
        self._stack.callback(self._join_consoles)
        self._qmp = QmpConnection(monitor, self._heard)
        self._stack.callback(self._qmp.close)
        self.agent = Agent(agent)
        self._stack.callback(self.agent.close)
        self._stack.callback(self._stop.set)
        self._greet(qemu.PATIENCE[accelerator])
        threading.Thread(target=self._watch, name="blklab-watchdog", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Ends the guest at once: nothing in it is kept."""
        self.end()

    def end(self) -> None:
        """Kills QEMU: with a hanging guest it would not even handle its own `quit`."""
        self._stop.set()
        if hasattr(self, "_process"):
            self._process.kill()
        self._stack.close()

    def disk(self, shape: VirtualDiskShape) -> VirtualDisk:
        return self._disks.disks[shape]

    @property
    def ended(self) -> bool:
        """Whether the guest is known to have ended."""
        return not self.agent.connected or child_process.has_ended(self._process)

    @property
    def results(self) -> VirtualDisk:
        """The disk for results, which carries files out of the guest."""
        return self._disks.results

    @contextmanager
    def add_kernel_complaints(self) -> Iterator[None]:
        """Adds the guest kernel's complaints during the block to an error of the block."""
        began = self._uptime()
        try:
            yield
        except GuestGone:
            raise
        except BlklabError as error:
            lines = complaints_since(self.agent.run(COMPLAINTS, check=False).stdout, began)
            if not lines:
                raise
            raise BlklabError(f"{error} (the guest's kernel: {'; '.join(lines)})") from error

    def _uptime(self) -> float:
        """Returns the guest's time as in its kernel log; s."""
        match = re.match(r"\d{1,9}\.\d{1,9}", self.agent.read(["/proc/uptime"])["/proc/uptime"] or "", re.A)
        return float(match[0]) if match else 0.0

    def throttle(self, disk: VirtualDisk, limits: Limits) -> None:
        """Sets a disk's limits; others are unlimited.

        Without bursts QEMU allows a tenth of a second's worth (util/throttle.c, `throttle_compute_wait`).
        """
        qemu_limits = {theirs: int(limits.get(ours, 0)) for ours, theirs in NAMES.items()}
        length = max(1, int(limits.get("burst_seconds", 0)))
        qemu_limits |= {f"{key}_max_length": length for key in ("iops", "bps") if qemu_limits[f"{key}_max"]}
        device_path = f"/machine/peripheral/{disk.id}/virtio-backend"
        self._qmp.call("block_set_io_throttle", id=device_path, **qemu_limits)

    def explain_loss(self, error: BlklabError) -> GuestLost:
        """Returns why the guest ended, after `error` of its agent, and the console's last lines."""
        deadline = time.monotonic() + LAST
        while not child_process.has_ended(self._process) and time.monotonic() < deadline:
            time.sleep(0.05)
        signal_text = self._describe_signal()
        self._process.kill()  # one that is still there would have us wait for what it says
        self._join_consoles()
        reason = self._ended_by or self.console.reason() or self._last_output() or signal_text or str(error)
        return GuestLost(f"the guest is lost: {reason}{self._last_lines()}")

    def _greet(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while True:
            try:
                self.hello = self.agent.hello(0.5)
                return
            except GuestGone as error:
                if not self.agent.connected or child_process.has_ended(self._process):
                    raise self.explain_loss(error) from None
            if time.monotonic() > deadline:
                raise GuestSilent(f"the guest did not answer within {patience:g} s ({self.accel}){self._last_lines()}")

    def _watch(self) -> None:
        """Ends a guest that does not answer. While the host is suspended, this clock stops too."""
        last_answer = time.monotonic()
        while not self._stop.wait(HEARTBEAT):
            if self.agent.alive(HEARTBEAT):
                last_answer = time.monotonic()
            elif child_process.has_ended(self._process):
                return
            elif time.monotonic() - last_answer > HANGS:
                self._kill(f"it did not answer for {HANGS:g} s")
                return

    def _heard(self, event: Mapping[str, Any]) -> None:
        if event.get("event") == "BLOCK_IO_ERROR":
            data = event.get("data") or {}
            if data.get("nospace"):
                self._kill(f"no space left for its disks in {self._disks.directory}")
            else:
                reason = printable(str(data.get("reason", "unknown")))
                self._kill(f"cannot read or write its disks: {reason}")

    def _kill(self, reason: str) -> None:
        self._ended_by = self._ended_by or reason
        with suppress(ProcessLookupError):
            self._process.kill()

    def _last_output(self) -> str | None:
        """Returns QEMU's own error message."""
        lines = [line for line in self._errors.lines() if "warning:" not in line]
        return lines[-1] if lines else None

    def _describe_signal(self) -> str | None:
        """Returns the signal that ended QEMU, None if none did."""
        number = child_process.fatal_signal(self._process)
        if number is None:
            return None
        why = ", as the kernel does when it runs out of memory" if number == signal.SIGKILL else ""
        return f"QEMU {ending(-number)}{why}"

    def _last_lines(self) -> str:
        lines = self.console.lines()
        return f" (last lines of its console: {' | '.join(lines)})" if lines else ""

    def _join_consoles(self) -> None:
        self.console.join()
        self._errors.join()


def complaints_since(log: str, began: float) -> list[str]:
    """Returns the last two complaints in `dmesg` since a time: why the kernel refused a request."""
    matches = re.findall(r"^\[\s*(\d{1,9}\.\d{6})\] (.*)$", log, re.A | re.M)
    lines = [line for seconds, line in matches if float(seconds) >= began]
    return [printable(line)[:200] for line in lines if COMPLAINT.search(line)][-2:]


def boot(
    image: GuestImage,
    shapes: Sequence[VirtualDiskShape],
    *,
    accelerator_choice: str | None,
    cpus: int,
    memory: int,
    note: Callable[[str], object],
) -> GuestMachine:
    """Boots a guest, with KVM if it works. Raises BlklabError; the caller leaves the block."""
    choices = qemu.accelerators(accelerator_choice)
    for index, accelerator in enumerate(choices):
        machine = GuestMachine(image, shapes, cpus=cpus, memory=memory)
        try:
            machine.start(accelerator)
        except (GuestSilent, GuestLost):
            machine.end()
            if index == len(choices) - 1:
                raise
            qemu.remember_silent_kvm()
            note(f"KVM does not work here: guests are emulated ({choices[index + 1]}) and slower")
        except BaseException:
            machine.end()
            raise
        else:
            return machine
    raise AssertionError(choices)
