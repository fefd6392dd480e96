"""Holds back writes to an array with parity, for the moments in which a member is out.

Such an array that loses power while it is degraded and written to is `dirty degraded`: md does not
start it, for stripes that were being written cannot be told from others ("write hole"). One that is
clean starts. So writes wait, and reads go on: `suspend_lo` and `suspend_hi` (Documentation/
admin-guide/md.rst; drivers/md/md.c, `is_suspended`), by which mdadm itself reshapes.
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
from typing import Final

from blklab.errors import BlklabError
from blklab.system.roots import text

MOST: Final = 10.0
"""Seconds after which writes go on in any case."""

CLEAN: Final = 2.0
"""Seconds that an array without writes may take to be clean: md's safe_mode_delay is 0.2."""

STARTS: Final = 60.0
"""Seconds that the guard may take to start; nothing waits for it yet."""

PYTHON: tuple[str, ...] = (sys.executable,)
"""The command that runs a Python program."""

GUARD: Final = Path(__file__).with_name("write_suspension_guard.py")

ALL: Final = b"%d" % ((1 << 63) - 1)


class WriteSuspension:
    """The writes of one array: held back, or not.

    Whoever holds them must write nothing that may be on the array itself, or would wait for itself.
    """

    def __init__(self, md: Path) -> None:
        """`md` is the array's directory in sysfs, `/sys/block/md0/md`."""
        self._md = md
        self._guard: subprocess.Popen[bytes] | None = None
        self._tell: socket.socket | None = None
        self._since = 0.0

    @property
    def long(self) -> bool:
        """Whether they have waited so long that nobody may rely on it any more."""
        return time.monotonic() - self._since > MOST / 2

    def hold(self) -> None:
        """Has writes wait, until all that came before are on the disks and the array is clean.

        A program of its own (`guard`) lets them go on if this one dies, or takes too long. Raises
        BlklabError if the array does not get clean.
        """
        try:
            high = os.open(self._md / "suspend_hi", os.O_WRONLY | os.O_CLOEXEC)
            try:
                self._begin_guard(high)
                (self._md / "suspend_lo").write_text("0")
                os.write(high, ALL)
            finally:
                os.close(high)
        except OSError as error:
            self.release()
            raise BlklabError(
                f"{self._md}: writes cannot be held back: {error.strerror or error}"
            ) from None
        until = time.monotonic() + CLEAN
        while text(self._md / "array_state") != "clean":
            if time.monotonic() > until:
                self.release()
                raise BlklabError(f"{self._md}: not clean, though nothing is written to it")
            with suppress(OSError):  # busy
                (self._md / "array_state").write_text("clean")
            time.sleep(0.02)

    def release(self) -> None:
        """Has writes go on, whatever became of the guard. Raises BlklabError if they do not."""
        go_on(self._md)
        if self._tell is not None:
            self._tell.close()
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None

    def _begin_guard(self, high: int) -> None:
        """Starts the guard and waits until nothing needs to be read for it any more."""
        ours, theirs = socket.socketpair()
        numbers = [theirs.fileno(), high]
        # It inherits the mask: no signal ends it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._guard = subprocess.Popen(
                [*PYTHON, "-I", "-S", str(GUARD), *map(str, numbers), str(MOST)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                pass_fds=numbers,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
            self._tell = ours
        ours.settimeout(STARTS)
        ready = ours.recv(64)
        if not ready:
            raise OSError(errno.ECHILD, f"{PYTHON[0]} does not run {GUARD}")
        self._since = float(ready)


def go_on(md: Path) -> None:
    """Has the writes of an array go on. Raises BlklabError if they do not."""
    try:
        (md / "suspend_hi").write_text("0")
    except OSError as error:
        raise BlklabError(
            f"{md}/suspend_hi: {error.strerror}: writes may be waiting: echo 0 > {md}/suspend_hi"
        ) from None
