"""Load of other programs, time taken by a hypervisor, and heat, before and during a measurement."""

import os
import resource
import time
from collections.abc import Iterator, Mapping

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.system import diskstats
from blklab.system.diskstats import CpuTimes
from blklab.system.roots import Roots, entries, text

BUSY_CPUS = 0.2  # Share of all CPUs that other programs, or a hypervisor, may use
CODE = "cpu-busy"


def cpu_times(roots: Roots) -> CpuTimes | None:
    """Returns the times of all CPUs; None if the kernel does not report them."""
    try:
        return diskstats.cpu(roots)
    except BlklabError:
        return None


def busy_cpus(used: float, stolen: float) -> Iterator[Diagnostic]:
    """Yields a warning for each share of all CPUs (0 to 1) that is above BUSY_CPUS."""
    if used > BUSY_CPUS:
        message = f"other programs use {100 * used:.0f} % of the CPUs, expected at most {100 * BUSY_CPUS:.0f} %"
        yield Diagnostic(CODE, "warning", "CPUs", message, ("find the program with top, or set wait in [host]",))
    if stolen > BUSY_CPUS:
        message = (
            f"the hypervisor takes {100 * stolen:.0f} % of the CPUs (steal), expected at most {100 * BUSY_CPUS:.0f} %"
        )
        yield Diagnostic(CODE, "warning", "CPUs", message, ("measure when its other guests are idle",))


class MachineLoad:
    """Finds what disturbed a measurement, from its start on.

    The load of other programs is their time in user mode: time in the kernel also belongs to the
    devices that are measured, such as md's threads.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._began = time.monotonic()
        self._own = _own_user_seconds()
        self._throttled = _throttled(roots)

    def warnings(self, cpu: Mapping[str, float]) -> list[str]:
        """Returns the warnings; `cpu` has the shares of all CPUs during the measurement."""
        available = max(1e-9, time.monotonic() - self._began) * (os.cpu_count() or 1)
        own = (_own_user_seconds() - self._own) / available
        diagnostics = list(busy_cpus(cpu.get("user", 0.0) - own, cpu.get("steal", 0.0)))
        if (times := _throttled(self._roots) - self._throttled) > 0:
            diagnostics.append(
                Diagnostic(
                    "cpu-throttled",
                    "warning",
                    "CPUs",
                    f"the CPUs were slowed down {times} times because of heat, expected none",
                    ("improve the cooling, and measure again",),
                )
            )
        return [str(diagnostic) for diagnostic in diagnostics]


def _own_user_seconds() -> float:
    """Returns the time in user mode of blklab and of its programs that have ended, s."""
    return sum(resource.getrusage(kind).ru_utime for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _throttled(roots: Roots) -> int:
    """Returns how often the CPUs were throttled (arch/x86/kernel/cpu/mce/therm_throt.c)."""
    counts = (text(cpu / "thermal_throttle/core_throttle_count") for cpu in entries(roots.sys / "devices/system/cpu"))
    return sum(int(count) for count in counts if count and count.isdigit())
