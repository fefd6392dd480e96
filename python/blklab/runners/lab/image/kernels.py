"""Chooses the guest's kernel: one of Debian's, or the user's own."""

import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.runners.lab.image.debian import SUFFIX
from blklab.text.printing import printable

_SHOWN = 6  # Most kernels that an error lists
_HEAD = 0x8000  # Bytes of a bzImage that contain its header and its version: its set-up code is not longer


@dataclass(frozen=True)
class UserKernelOption:
    """A user's kernel, with its modules unless all are built in.

    `modules` is lib/modules/VERSION, or a directory with exactly one such directory in it or in
    its lib/modules (the result of `make modules_install INSTALL_MOD_PATH=…`).
    """

    vmlinuz: Path
    modules: Path | None = None


@dataclass(frozen=True)
class ReplacedModules:
    """A packaged kernel with some modules built from other sources.

    `modules` are files by their path below `kernel/`, such as `drivers/md/raid10.ko`.
    """

    kernel: str
    modules: Mapping[str, Path]


def own_kernel(kernel: Path | None, modules: Path | None) -> UserKernelOption | None:
    """Returns a user's kernel, None for Debian's. Raises UsageError."""
    if kernel is None:
        if modules is not None:
            raise UsageError("--modules: also give --kernel VMLINUZ, the kernel of these modules")
        return None
    return UserKernelOption(kernel, modules)


@dataclass(frozen=True)
class OfferedKernel:
    """An available kernel: `6.1.0-49-cloud-amd64`, and its package's version."""

    name: str
    version: str


def in_order(kernels: dict[str, str]) -> list[OfferedKernel]:
    """Returns kernels, the newest first."""
    offers = [OfferedKernel(name, version) for name, version in kernels.items()]
    return sorted(offers, key=lambda offer: _numbers(offer.name), reverse=True)


def choose(kernel: str, offers: Collection[OfferedKernel]) -> OfferedKernel:
    """Returns the newest available kernel that `kernel` names. Raises UsageError without one."""
    name = kernel.removeprefix("linux-image-")
    fitting = [
        offer
        for offer in offers
        # 6.1 is no beginning of 6.12; a whole name fits itself alone.
        if offer.name == name or re.match(re.escape(name) + r"(?![0-9])[-+.]", offer.name)
    ]
    if name and fitting:
        return max(fitting, key=lambda offer: _numbers(offer.name))
    near = sorted(offers, key=lambda offer: _distance(name, offer.name))[:_SHOWN]
    choices = ", ".join(offer.name.removesuffix(SUFFIX) for offer in near)
    dots = ", …" if len(offers) > len(near) else ""
    raise UsageError(
        f"no kernel {printable(kernel)!r} in Debian's packages; choose one of {choices}{dots}, or your own (--kernel)"
    )


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", name.removesuffix(SUFFIX)))


def _distance(kernel: str, name: str) -> tuple[int, int, tuple[int, ...]]:
    """Returns how different a name is: first by the number of equal leading numbers, then by the next."""
    numbers, other_numbers = _numbers(kernel), _numbers(name)
    prefix_length = 0
    while (
        prefix_length < min(len(numbers), len(other_numbers)) and numbers[prefix_length] == other_numbers[prefix_length]
    ):
        prefix_length += 1
    both_continue = prefix_length < min(len(numbers), len(other_numbers))
    difference = abs(numbers[prefix_length] - other_numbers[prefix_length]) if both_continue else 0
    return -prefix_length, difference, tuple(-number for number in other_numbers)


def version_of(vmlinuz: Path) -> str | None:
    """Returns the version in a kernel image, or None if it has none (vmlinux).

    Documentation/arch/x86/boot.rst (Linux 6.1): `HdrS` at 0x202, and the position of the version
    at 0x20E. Raises BlklabError if the file cannot be read or is not a kernel.
    """
    with SystemErrors(BlklabError, printable(str(vmlinuz))), vmlinuz.open("rb") as stream:
        head = stream.read(_HEAD + 0x200)
    if head.startswith(b"\x7fELF"):
        return None
    if head[0x202:0x206] != b"HdrS":
        raise BlklabError(f"{printable(str(vmlinuz))}: not a kernel: neither a bzImage (HdrS at 0x202) nor an ELF file")
    (pointer,) = struct.unpack_from("<H", head, 0x20E)
    text = head[pointer + 0x200 :].split(b"\0", 1)[0].decode(errors="replace") if pointer else ""
    return text.split(" ", 1)[0] or None


def modules_of(modules: Path) -> Path:
    """Returns the directory lib/modules/VERSION, which is `modules` or the only one below it.

    Raises BlklabError if there is none, or more than one.
    """
    if (modules / "modules.dep").is_file():
        return modules.resolve()
    path_text = printable(str(modules))
    with SystemErrors(BlklabError, path_text):
        directories = {
            path.parent.resolve()
            for pattern in ("*/modules.dep", "lib/modules/*/modules.dep")
            for path in modules.glob(pattern)
        }
        if not modules.is_dir():
            raise BlklabError(f"{path_text}: not a directory of modules")
    if len(directories) != 1:
        names = ", ".join(sorted(printable(path.name) for path in directories)) or "none"
        raise BlklabError(
            f"{path_text}: found {names}, expected one kernel's modules with the modules.dep that depmod writes"
        )
    return directories.pop()
