"""Locks of files (flock) with a deadline: a process that hangs must not hang all others."""

import fcntl
import time

WAIT_STEP_S = 0.05


def wait_for_lock(descriptor: int, seconds: float, how: int = fcntl.LOCK_EX) -> None:
    """Locks an open file. Raises TimeoutError if another process holds it for `seconds`."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(f"another process holds the lock for {seconds:g} s") from None
            time.sleep(WAIT_STEP_S)
        else:
            return
