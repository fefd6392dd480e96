"""What the lab's commands share."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.runners.lab.image.kernels import Own


def own_kernel(kernel: Path | None, modules: Path | None) -> "Own | None":
    """Returns a kernel of the user's, None if Debian's is wanted. Raises UsageError."""
    from blklab.errors import UsageError
    from blklab.runners.lab.image.kernels import Own

    if kernel is None:
        if modules is not None:
            raise UsageError("--modules: of which kernel? --kernel VMLINUZ is wanted as well")
        return None
    return Own(kernel, modules)
