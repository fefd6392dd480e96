"""Suspends writes to an array with parity while a member is out.

If power fails while such an array is degraded and written to, it is `dirty degraded`, and md does
not start it, because some stripes may be inconsistent ("write hole"). md starts a clean one. So
writes are suspended and reads continue: `suspend_lo` and `suspend_hi` (Documentation/admin-guide/
md.rst; drivers/md/md.c, `is_suspended`), which mdadm itself uses to reshape.
"""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.md import command_lines
from blklab.md.inventory import parse_number
from blklab.system.roots import Roots, open_descriptor, read_text

LONGEST_SUSPENSION_S = 10.0  # Time after which writes resume in any case
CLEAN_TIMEOUT_S = 2.0  # Time for an array without writes to become clean; md's safe_mode_delay is 0.2 s
GUARD_START_TIMEOUT_S = 60.0  # Time for the guard to start; writes are not suspended yet
PYTHON: tuple[str, ...] = (sys.executable,)  # The command that runs a Python program
GUARD = Path(__file__).with_name("write_suspension_guard.py")

MARK = (1 << 63) - 1 - 0xB10C1AB
"""Our value of `suspend_hi`. It is beyond the end of every array, and no other program writes it."""


class WriteSuspension:
    """Suspends the writes to one array.

    While they are suspended, this process must not write to the array, or it waits for itself.
    """

    def __init__(self, md: Path) -> None:
        """`md` is the array's directory in sysfs, `/sys/block/md0/md`."""
        self._md = md
        self._guard: subprocess.Popen[bytes] | None = None
        self._guard_socket: socket.socket | None = None
        self._since = 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether the guard may resume writes soon."""
        return time.monotonic() - self._since > LONGEST_SUSPENSION_S / 2

    def suspend(self) -> None:
        """Suspends writes, and waits until earlier writes are on the disks and the array is clean.

        A separate process (`write_suspension_guard`) resumes writes if this one dies or takes too
        long. Raises BlklabError if another program has suspended writes, or reshapes the array,
        or if the array does not become clean.
        """
        if is_reshaping(self._md) or has_other_suspension(self._md):
            raise BlklabError(f"{self._md}: another program has suspended writes, or reshapes the array: wait for it")
        try:
            with open_descriptor(self._md / "suspend_hi", os.O_RDWR) as high:
                self._begin_guard(high)
                (self._md / "suspend_lo").write_text("0")
                os.write(high, b"%d" % MARK)
        except OSError as error:
            self.resume()
            raise BlklabError(f"{self._md}: cannot suspend writes: {error.strerror or error}") from None
        deadline = time.monotonic() + CLEAN_TIMEOUT_S
        while read_text(self._md / "array_state") != "clean":
            if time.monotonic() > deadline:
                self.resume()
                raise BlklabError(f"{self._md}: not clean {CLEAN_TIMEOUT_S:g} s after writes were suspended")
            with suppress(OSError):  # busy
                (self._md / "array_state").write_text("clean")
            time.sleep(0.02)

    def resume(self) -> None:
        """Resumes writes, even if the guard has died. Raises BlklabError if that fails."""
        resume_writes(self._md)
        if self._guard_socket is not None:
            self._guard_socket.close()
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None

    def _begin_guard(self, high: int) -> None:
        """Starts the guard and waits until it needs nothing from a disk any more."""
        own_end, guard_end = socket.socketpair()
        descriptors = [guard_end.fileno(), high]
        # The guard inherits the mask, so no signal ends it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._guard = subprocess.Popen(
                [
                    *PYTHON, "-I", "-S", str(GUARD), *map(str, descriptors),
                    str(LONGEST_SUSPENSION_S), str(MARK),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                pass_fds=descriptors,
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            guard_end.close()
            self._guard_socket = own_end
        own_end.settimeout(GUARD_START_TIMEOUT_S)
        ready = own_end.recv(64)
        if not ready:
            raise OSError(errno.ECHILD, f"{PYTHON[0]} does not run {GUARD}")
        self._since = float(ready)


def can_leave_cgroup(roots: Roots) -> bool:
    """Whether the guard can leave the cgroup of this process, so that it is not frozen or killed with it.

    Only the root of a hierarchy lacks `cgroup.events` (version 2; Documentation/admin-guide/cgroup-v2.rst) and
    `freezer.state` (version 1). A container sees its own cgroup as the root.
    """
    hierarchies = [roots.sys / "fs/cgroup" / name for name in (".", "unified", "freezer")]
    return all(
        os.access(root / "cgroup.procs", os.W_OK)
        and not (root / "cgroup.events").exists()
        and not (root / "freezer.state").exists()
        for root in hierarchies
        if (root / "cgroup.procs").exists()
    )


def is_reshaping(md: Path) -> bool:
    """Whether an array is being reshaped: mdadm may then have suspended writes to protect data."""
    return read_text(md / "reshape_position") not in {"none", "", None} or read_text(md / "sync_action") == "reshape"


def has_other_suspension(md: Path) -> bool:
    """Whether another program has suspended writes to an array."""
    low, high = (parse_number(read_text(md / name)) or 0 for name in ("suspend_lo", "suspend_hi"))
    return high > low and high != MARK


def resume_leftover(md: Path) -> None:
    """Resumes writes that a killed repair has suspended, and only these.

    Raises BlklabError if that fails, or during a reshape, whose own suspension may have begun.
    """
    if parse_number(read_text(md / "suspend_hi")) == MARK and is_reshaping(md):
        raise BlklabError(
            f"{md}: writes are suspended, and the array is being reshaped: blklab changes nothing now; when the"
            f" reshape has ended, run {command_lines.resume_fix()}"
        )
    resume_writes(md)


def resume_writes(md: Path) -> None:
    """Resumes writes to an array if blklab has suspended them. Raises BlklabError if that fails."""
    resume = command_lines.resume_writes(md.parent.name)
    with SystemErrors(BlklabError, md / "suspend_hi", f": writes may still be suspended; to resume them: {resume}"):
        if parse_number((md / "suspend_hi").read_text()) == MARK:
            (md / "suspend_hi").write_text("0")
