"""Holds back writes to an array with parity, for the moments in which a member is out.

Such an array that loses power while it is degraded and written to is `dirty degraded`: md does not
start it, for stripes that were being written cannot be told from others ("write hole"). One that is
clean starts. So writes wait, and reads go on: `suspend_lo` and `suspend_hi` (Documentation/
admin-guide/md.rst; drivers/md/md.c, `is_suspended`), by which mdadm itself reshapes.
"""

import os
import select
import signal
import socket
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.system.roots import text

MOST: Final = 10.0
"""Seconds after which writes go on in any case."""

CLEAN: Final = 2.0
"""Seconds that an array without writes may take to be clean: md's safe_mode_delay is 0.2."""

ALL: Final = b"%d" % ((1 << 63) - 1)


class Writes:
    """The writes of one array: held back, or not.

    Whoever holds them must write nothing that may be on the array itself, or would wait for itself.
    """

    def __init__(self, md: Path) -> None:
        """`md` is the array's directory in sysfs, `/sys/block/md0/md`."""
        self._md = md
        self._guard = 0
        self._tell = -1
        self._since = 0.0

    @property
    def long(self) -> bool:
        """Whether they have waited so long that nobody may rely on it any more."""
        return time.monotonic() - self._since > MOST / 2

    def hold(self) -> None:
        """Has writes wait, until all that came before are on the disks and the array is clean.

        A process of its own lets them go on if this one dies, or takes too long. Raises BlklabError
        if the array does not get clean.
        """
        try:
            high = os.open(self._md / "suspend_hi", os.O_WRONLY | os.O_CLOEXEC)
            try:
                self._since = time.monotonic()
                self._begin_guard(high)
                (self._md / "suspend_lo").write_text("0")
                os.write(high, ALL)
            finally:
                os.close(high)
        except OSError as error:
            self.release()
            raise BlklabError(f"{self._md}: writes cannot be held back: {error.strerror}") from None
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
        if self._guard:
            guard, self._guard = self._guard, 0
            os.close(self._tell)
            os.waitpid(guard, 0)

    def _begin_guard(self, high: int) -> None:
        ours, theirs = socket.socketpair()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():
                # That there are threads is no harm: what the child does takes no locks.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._guard = os.fork()
            if not self._guard:
                _guarded(theirs.fileno(), high)
            ours.recv(1)  # it is ready
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._tell = ours.detach()


def go_on(md: Path) -> None:
    """Has the writes of an array go on. Raises BlklabError if they do not."""
    try:
        (md / "suspend_hi").write_text("0")
    except OSError as error:
        raise BlklabError(
            f"{md}/suspend_hi: {error.strerror}: writes may be waiting: echo 0 > {md}/suspend_hi"
        ) from None


def _guarded(listening: int, high: int) -> None:
    """Waits for the other end to be closed, by whatever, and lets writes go on."""
    try:
        os.setsid()
        # What else is open would stay so: locks, pipes. By another name `killall` misses it.
        lower, upper = sorted((listening, high))
        os.closerange(0, lower)
        os.closerange(lower + 1, upper)
        os.closerange(upper + 1, os.sysconf("SC_OPEN_MAX"))
        with suppress(OSError):
            Path("/proc/self/comm").write_text("md-go-on")
        os.write(listening, b"!")
        select.select([listening], [], [], MOST)
        os.pwrite(high, b"0", 0)
    finally:
        os._exit(0)
