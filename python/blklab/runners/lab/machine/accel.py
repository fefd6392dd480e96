"""How QEMU runs the guest's code: with KVM if it works, otherwise with emulation (TCG).

KVM may hang instead of failing, for example nested in a guest whose host does not support that. A guest that does not
answer in time with KVM is therefore stopped and emulated, and this is remembered until the machine boots again.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from blklab.errors import EnvironmentLacks, UsageError
from blklab.runners.lab.image.cache import directory
from blklab.system.roots import Roots, text

VARIABLE: Final = "BLKLAB_ACCEL"  # The environment variable for the accelerator; `--accel` replaces it
CHOICES: Final = ("auto", "kvm", "tcg")

PATIENCE: Final = {"kvm": 15.0, "tcg": 180.0}
"""Seconds until a guest must have answered: emulated on a busy machine it may take a minute."""

_NOTED: Final = "no-kvm-"


def candidates(asked: str | None, roots: Roots | None = None) -> list[str]:
    """Returns the accelerators to try, in order. Raises UsageError, EnvironmentLacks."""
    roots = roots or Roots()
    asked = asked or os.environ.get(VARIABLE) or "auto"
    if asked not in CHOICES:
        raise UsageError(f"accelerator {asked!r}: expected one of {', '.join(CHOICES)}")
    if asked == "tcg":
        return ["tcg"]
    reason = _without_kvm(roots)
    if asked == "kvm":
        if reason is not None:
            raise EnvironmentLacks(f"cannot use KVM: {reason}", "use --accel tcg")
        return ["kvm"]
    return ["tcg"] if reason is not None or _remembered(roots).exists() else ["kvm", "tcg"]


def remember(roots: Roots | None = None) -> None:
    """Remembers, if possible, that KVM did not answer, until the next boot."""
    path = _remembered(roots or Roots())
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{_NOTED}*"):
            old.unlink()
        path.touch()


def _remembered(roots: Roots) -> Path:
    boot = text(roots.proc / "sys/kernel/random/boot_id") or "unknown"
    return directory() / f"{_NOTED}{boot}"


def _without_kvm(roots: Roots) -> str | None:
    """Returns why KVM cannot work, None if it may."""
    device = roots.dev / "kvm"
    if not device.exists():
        return f"{device} not found"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device}: permission denied (the group kvm may use it)"
    flags = set((text(roots.proc / "cpuinfo") or "").split())
    # Without the processor's own virtualisation, /dev/kvm is paravirtual (PVM): guests hang there.
    if not flags & {"vmx", "svm"}:
        return "the processor has no virtualisation (vmx, svm)"
    return None
