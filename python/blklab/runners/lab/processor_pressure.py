"""Measures how long tasks wait for a processor of this machine."""

import re
import time

from blklab.system.roots import Roots, read_text


def read_cpu_wait_us(roots: Roots) -> int | None:
    """Returns how long a task has waited for a CPU since boot, µs.

    None before 4.20 and where it is switched off. Documentation/accounting/psi.rst: the total of
    the line `some` of /proc/pressure/cpu.
    """
    match = re.match(r"some .*?\btotal=(\d{1,20})", read_text(roots.proc / "pressure/cpu") or "", re.A)
    return int(match[1]) if match else None


class PressureMeter:
    """Measures the share of the time since its creation in which a task waited for a processor of this machine."""

    def __init__(self) -> None:
        self._roots = Roots()
        self._began = time.monotonic()
        self._before = read_cpu_wait_us(self._roots)

    def share(self) -> float | None:
        """Returns the share so far, 0 to 1; None if the kernel does not report it."""
        after = read_cpu_wait_us(self._roots)
        seconds = time.monotonic() - self._began
        if self._before is None or after is None or seconds <= 0:
            return None
        return min(1.0, (after - self._before) / 1e6 / seconds)
