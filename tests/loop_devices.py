"""Loop devices of tests that run at the same time."""

import fcntl
import subprocess
import tempfile
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "blklab-tests-losetup.lock"


def attach_loop_device(file: Path, *options: str) -> str:
    """Returns a new loop device, /dev/loopN. Raises CalledProcessError, or OSError without losetup.

    Two losetup may find the same free device. The one that is late holds it open for a moment, and a test would see
    that as a program that uses the device. So one runs at a time.
    """
    with LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["losetup", *options, "--find", "--show", str(file)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
