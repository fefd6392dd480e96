"""Lets the writes of an array go on when whoever holds them back ends, or takes too long.

A program of its own: `python -I -S guard.py LISTENING HIGH SECONDS`. Once writes wait,
nothing may have to be started or read from a disk any more, for the array may hold it. So all is
imported and locked in memory before the other end is told that it is ready.
"""

import os
import select
import sys
import time


def lock_memory() -> None:
    """Keeps all of this process in memory, where that is allowed (mlockall(2))."""
    try:
        import ctypes

        ctypes.CDLL(None).mlockall(3)  # MCL_CURRENT | MCL_FUTURE
    except (ImportError, OSError, AttributeError):
        pass


def main() -> None:
    """Says on the socket LISTENING since when it waits; writes 0 to the file HIGH at its end."""
    listening, high = int(sys.argv[1]), int(sys.argv[2])
    seconds = float(sys.argv[3])
    try:
        # By another name `killall` misses it.
        with open("/proc/self/comm", "w") as name:  # noqa: PTH123  # pathlib is slow to import
            name.write("md-go-on")
    except OSError:
        pass
    lock_memory()
    os.write(listening, b"%f" % time.monotonic())
    select.select([listening], [], [], seconds)
    os.pwrite(high, b"0", 0)


if __name__ == "__main__":
    main()
