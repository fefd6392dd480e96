"""What the lab's commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import F

if TYPE_CHECKING:
    from blklab.runners.lab.image.kernels import Own


def accel_option(where: str = "") -> Callable[[F], F]:
    """Adds `--accel`; `where` says when it counts, for the help: `In the lab: `."""
    said = f"{where}how the guest runs; KVM if it works, else emulated (tcg). [BLKLAB_ACCEL]"
    return click.option(
        "--accel", type=click.Choice(["auto", "kvm", "tcg"]), help=said[0].upper() + said[1:]
    )


def kernel_options(where: str = "") -> Callable[[F], F]:
    """Adds `--kernel` and `--modules`, a kernel of the user's own."""

    def add(command: F) -> F:
        kernel = f"{where}a kernel of your own, instead of Debian's."
        modules = f"{where}that kernel's modules, lib/modules/VERSION."
        command = click.option(
            "--modules",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
            metavar="DIR",
            help=modules[0].upper() + modules[1:],
        )(command)
        return click.option(
            "--kernel",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            metavar="VMLINUZ",
            help=kernel[0].upper() + kernel[1:],
        )(command)

    return add


def own_kernel(kernel: Path | None, modules: Path | None) -> "Own | None":
    """Returns a kernel of the user's, None if Debian's is wanted. Raises UsageError."""
    from blklab.errors import UsageError
    from blklab.runners.lab.image.kernels import Own

    if kernel is None:
        if modules is not None:
            raise UsageError("--modules: of which kernel? --kernel VMLINUZ is wanted as well")
        return None
    return Own(kernel, modules)
