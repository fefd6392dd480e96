"""The process that owns a run: identified uniquely, and recognised as dead after a crash.

An owner is `MACHINE BOOT PID START`: the machine's id, and the values of `blklab.system.process`.
"""

import os
import platform
from pathlib import Path

from blklab.system.process import boot_id, start_of
from blklab.system.roots import Roots, text


def me() -> str:
    """Returns this process as an owner."""
    pid = os.getpid()
    return f"{_machine()} {_boot()} {pid} {start_of(pid, Roots())}"


def alive(owner: str) -> bool:
    """Tells whether an owner may still be alive; on another machine it always may."""
    machine, boot, pid, started = (*owner.split(), "", "", "", "")[:4]
    if machine != _machine():
        return True
    if boot != _boot() or not pid.isdigit():
        return False
    now = start_of(int(pid), Roots())
    return now is not None and str(now) == started


def _machine() -> str:
    return text(Path("/etc/machine-id")) or platform.node() or "unknown"


def _boot() -> str:
    return boot_id(Roots()) or "unknown"
