"""Resumes writes to an array when the process that suspended them ends or takes too long.

A separate program: `python -I -S write_suspension_guard.py SOCKET HIGH SECONDS MARK`. While writes are
suspended, it must not read anything from a disk, which may be on the array. So it first imports and
locks everything in memory, and only then reports that it is ready.
"""

import os
import select
import sys
import time


def lock_memory() -> None:
    """Locks this process in memory if that is allowed (mlockall(2))."""
    try:
        import ctypes

        ctypes.CDLL(None).mlockall(3)  # MCL_CURRENT | MCL_FUTURE
    except (ImportError, OSError, AttributeError):
        pass


def leave_cgroup() -> None:
    """Moves this process to the root cgroup if that is allowed: `docker pause` and OOM kills of a group stop others."""
    for hierarchy in ("", "unified/", "freezer/"):
        try:
            with open(f"/sys/fs/cgroup/{hierarchy}cgroup.procs", "w") as processes:  # noqa: PTH123
                processes.write("0")
        except OSError:
            pass


def main() -> None:
    """Sends the start time to the socket; at the end, writes 0 to the file HIGH if it has MARK."""
    socket = int(sys.argv[1])
    high = int(sys.argv[2])
    seconds = float(sys.argv[3])
    mark = sys.argv[4].encode()
    try:
        # With another name, `killall python3` does not end it.
        with open("/proc/self/comm", "w") as name:  # noqa: PTH123  # pathlib is slow to import
            name.write("md-go-on")
    except OSError:
        pass
    leave_cgroup()
    lock_memory()
    os.write(socket, b"%f" % time.monotonic())
    select.select([socket], [], [], seconds)
    if os.pread(high, 64, 0).strip() == mark:  # otherwise another program has suspended writes since
        os.pwrite(high, b"0", 0)


if __name__ == "__main__":
    main()
