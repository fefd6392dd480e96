"""Which kernel the guest has: one of those on offer, or the user's own."""

import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError, UsageError
from blklab.runners.lab.image.debian import SUFFIX
from blklab.text import printable

_SHOWN: Final = 6
"""Of the kernels on offer, in an error that says which there are."""

_HEAD: Final = 0x8000
"""Bytes of a bzImage that hold its header and its version: the set-up code is at most that long."""


@dataclass(frozen=True)
class PackagedKernel:
    """A kernel of Debian's: `6.1` for the newest such, `6.1.0-49`, or a whole name."""

    wanted: str


@dataclass(frozen=True)
class UserKernelOption:
    """A kernel of the user's, with its modules if it is not all of one piece.

    `modules` is lib/modules/VERSION, or a directory with exactly one such in it or in its
    lib/modules (what `make modules_install INSTALL_MOD_PATH=…` fills).
    """

    vmlinuz: Path
    modules: Path | None = None


def own_kernel(kernel: Path | None, modules: Path | None) -> UserKernelOption | None:
    """Returns a kernel of the user's, None if Debian's is wanted. Raises UsageError."""
    if kernel is None:
        if modules is not None:
            raise UsageError("--modules: of which kernel? --kernel VMLINUZ is wanted as well")
        return None
    return UserKernelOption(kernel, modules)


@dataclass(frozen=True)
class OfferedKernel:
    """A kernel that can be had: `6.1.0-49-cloud-amd64`, and its package's version."""

    name: str
    version: str


def in_order(kernels: dict[str, str]) -> list[OfferedKernel]:
    """Returns kernels, the newest first."""
    offers = [OfferedKernel(name, version) for name, version in kernels.items()]
    return sorted(offers, key=lambda offer: _numbers(offer.name), reverse=True)


def choose(wanted: str, offers: Collection[OfferedKernel]) -> OfferedKernel:
    """Returns the newest kernel on offer that `wanted` names. Raises UsageError if none is."""
    name = wanted.removeprefix("linux-image-")
    fitting = [
        offer
        for offer in offers
        # 6.1 is no beginning of 6.12; a whole name fits itself alone.
        if offer.name == name or re.match(re.escape(name) + r"(?![0-9])[-+.]", offer.name)
    ]
    if name and fitting:
        return max(fitting, key=lambda offer: _numbers(offer.name))
    near = sorted(offers, key=lambda offer: _distance(name, offer.name))[:_SHOWN]
    listed = ", ".join(offer.name.removesuffix(SUFFIX) for offer in near)
    more = ", …" if len(offers) > len(near) else ""
    raise UsageError(
        f"no kernel {printable(wanted)!r} is on offer; there are {listed}{more}, or your own"
        " (--kernel)"
    )


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", name.removesuffix(SUFFIX)))


def _distance(wanted: str, name: str) -> tuple[int, int, tuple[int, ...]]:
    """Returns how far a name is: the fewer leading numbers agree, and the farther the next."""
    left, right = _numbers(wanted), _numbers(name)
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    both = same < min(len(left), len(right))
    apart = abs(left[same] - right[same]) if both else 0
    return -same, apart, tuple(-number for number in right)


def version_of(vmlinuz: Path) -> str | None:
    """Returns the version that a kernel image states, or None of one that does not (vmlinux).

    Documentation/arch/x86/boot.rst (Linux 6.1): `HdrS` at 0x202, and at 0x20E where the version
    is. Raises BlklabError if the file cannot be read or is no kernel.
    """
    try:
        with vmlinuz.open("rb") as stream:
            head = stream.read(_HEAD + 0x200)
    except OSError as error:
        raise BlklabError(f"{printable(str(vmlinuz))}: {error.strerror}") from None
    if head.startswith(b"\x7fELF"):
        return None
    if head[0x202:0x206] != b"HdrS":
        raise BlklabError(
            f"{printable(str(vmlinuz))}: not a kernel: neither a bzImage (HdrS at 0x202) nor an ELF"
            " file"
        )
    (pointer,) = struct.unpack_from("<H", head, 0x20E)
    text = head[pointer + 0x200 :].split(b"\0", 1)[0].decode(errors="replace") if pointer else ""
    return text.split(" ", 1)[0] or None


def modules_of(modules: Path) -> Path:
    """Returns the directory lib/modules/VERSION that `modules` is, or has exactly one of.

    Raises BlklabError if there is none, or more than one.
    """
    if (modules / "modules.dep").is_file():
        return modules.resolve()
    where = printable(str(modules))
    try:
        directories = {
            path.parent.resolve()
            for pattern in ("*/modules.dep", "lib/modules/*/modules.dep")
            for path in modules.glob(pattern)
        }
        if not modules.is_dir():
            raise BlklabError(f"{where}: not a directory of modules")
    except OSError as error:
        raise BlklabError(f"{where}: {error.strerror}") from None
    if len(directories) != 1:
        names = ", ".join(sorted(printable(path.name) for path in directories)) or "none"
        raise BlklabError(
            f"{where}: one kernel's modules, with the modules.dep that depmod writes, are wanted;"
            f" found {names}"
        )
    return directories.pop()
