"""Finds the real fio, and explains in one line why it failed."""

import re
import shutil
import signal
from collections.abc import Sequence
from typing import Final

from blklab import child_process
from blklab.errors import EnvironmentLacks

OLDEST: Final = (3, 12)  # Oldest supported fio: Debian 10's. Before 3.0, latencies were in µs.
HOW_TO_INSTALL: Final = "install it: apt-get install fio"


def find_fio(oldest: Sequence[int] = OLDEST) -> tuple[str, str]:
    """Returns fio's path and version. Raises EnvironmentLacks without fio, or if it is too old."""
    path = shutil.which("fio")
    if path is None:
        raise EnvironmentLacks("fio is not installed", HOW_TO_INSTALL)
    version = child_process.version(path, HOW_TO_INSTALL)[0].strip()
    match = re.match(r"fio-(\d{1,4})\.(\d{1,4})", version, re.A)
    if match is None:
        raise EnvironmentLacks(f"{path} is not fio: its version is {version!r}", HOW_TO_INSTALL)
    if (int(match[1]), int(match[2])) < tuple(oldest):
        wanted = ".".join(map(str, oldest))
        raise EnvironmentLacks(f"{path} is {version}, too old", f"fio {wanted} or newer is needed")
    return path, version


def complaint(output: str, status: int) -> str:
    """Returns the line of a program's output that best explains its failure."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern in (r"error=|err=.*[1-9]", r"^Bad option", r"^fio:", r"."):
        for line in lines:
            if re.search(pattern, line):
                return line[:300]
    return f"it {ending(status)} without a message"


def ending(status: int) -> str:
    """Returns how a process ended, `was killed by SIGKILL`, from its exit status (negative for a signal)."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
