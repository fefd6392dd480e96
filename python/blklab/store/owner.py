"""Which process works on a run: told from all others, and found dead after a crash.

An owner is `MACHINE BOOT PID START`: the machine's id, the kernel's boot id, the process and when
it started (field 22 of /proc/PID/stat, proc(5)), so that a number used again is another process.
"""

import os
import platform
from pathlib import Path

PROC = Path("/proc")


def me() -> str:
    """Returns this process as an owner."""
    return f"{_machine()} {_boot()} {os.getpid()} {_started(os.getpid())}"


def alive(owner: str) -> bool:
    """Tells whether an owner may still be at work: on another machine nobody knows, so it may."""
    machine, boot, pid, started = (*owner.split(), "", "", "", "")[:4]
    if machine != _machine():
        return True
    return boot == _boot() and pid.isdigit() and started == _started(int(pid)) != ""


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip() or platform.node()
    except OSError:
        return platform.node() or "unknown"


def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _started(pid: int) -> str:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    # A zombie has ended: only its parent has not asked yet.
    return "" if len(fields) < 20 or fields[0] in {"Z", "X"} else fields[19]
