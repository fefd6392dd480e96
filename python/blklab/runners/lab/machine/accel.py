"""How QEMU runs the guest's code: KVM where it works, else emulation (TCG).

KVM may hang instead of failing: nested in a guest whose host does not support that, say. So a
guest that does not answer in time with KVM is stopped and emulated, and that is remembered until
the machine boots again.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from blklab.errors import EnvironmentLacks, UsageError
from blklab.runners.lab.image.cache import directory
from blklab.system.roots import Roots, text

VARIABLE: Final = "BLKLAB_ACCEL"
"""The environment's choice, where `--accel` makes none."""

CHOICES: Final = ("auto", "kvm", "tcg")

PATIENCE: Final = {"kvm": 15.0, "tcg": 180.0}
"""Seconds until a guest must have said hello: emulated on a busy machine it may take a minute."""

_NOTED: Final = "no-kvm-"


def candidates(asked: str | None, roots: Roots | None = None) -> list[str]:
    """Returns the accelerators to try, in order. Raises UsageError, EnvironmentLacks."""
    roots = roots or Roots()
    asked = asked or os.environ.get(VARIABLE) or "auto"
    if asked not in CHOICES:
        raise UsageError(f"accelerator {asked!r}: allowed: {', '.join(CHOICES)}")
    if asked == "tcg":
        return ["tcg"]
    reason = _without_kvm(roots)
    if asked == "kvm":
        if reason is not None:
            raise EnvironmentLacks(f"KVM cannot be used: {reason}", "use --accel tcg")
        return ["kvm"]
    return ["tcg"] if reason is not None or _remembered(roots).exists() else ["kvm", "tcg"]


def remember(roots: Roots | None = None) -> None:
    """Notes that KVM did not answer, for as long as this kernel runs; if it can be noted."""
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
    """Says why KVM is not even tried, None if it can be."""
    device = roots.dev / "kvm"
    if not device.exists():
        return f"there is no {device}"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device}: permission denied (the group kvm may use it)"
    flags = set((text(roots.proc / "cpuinfo") or "").split())
    # Without the processor's own virtualisation, /dev/kvm is paravirtual (PVM): guests hang there.
    if not flags & {"vmx", "svm"}:
        return "the processor's virtualisation (vmx, svm) is not there"
    return None
