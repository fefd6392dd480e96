"""Programs of blklab on other hosts: an archive of modules, for a Python without other packages.

Nothing is installed, or written to a disk, there.
"""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import blklab

ROOT: Final = Path(blklab.__file__).parent
OLDEST: Final = (3, 11)  # As in pyproject.toml

COMMAND: Final = "-I -S -c 'import sys; exec(sys.stdin.buffer.readline())'"
"""Arguments of Python on the host. Every login shell understands them, and the program is the first line of stdin."""

LOADER: Final = """
import os, sys
if sys.version_info < {oldest}:
    sys.exit("found Python %d.%d, expected {wanted} or newer: install it, or name another Python"
             % sys.version_info[:2])
archive = os.memfd_create("blklab")
with open(archive, "wb", closefd=False) as file:
    file.write(sys.stdin.buffer.read({size}))
sys.path.insert(0, "/proc/self/fd/%d" % archive)
from blklab.{main} import main
main()
"""


def archived(modules: Sequence[str]) -> bytes:
    """Returns modules of blklab as a zip archive. Packages are empty, except the version of blklab."""
    packages = {"": f"__version__ = {blklab.__version__!r}\n"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in modules:
            path = Path(*module.split("."))
            packages |= {str(parent): "" for parent in path.parents[:-1]}
            archive.write(ROOT / path.with_suffix(".py"), f"blklab/{path}.py")
        for package, content in packages.items():
            archive.writestr(f"blklab/{package}/__init__.py".replace("//", "/"), content)
    return buffer.getvalue()


def program(modules: Sequence[str], main: str) -> bytes:
    """Returns what Python reads from stdin: the loader in one line, and the archive.

    `main` is the module whose function `main` runs. All it imports must be in `modules`, or in the standard library.
    """
    archive = archived(modules)
    wanted = ".".join(map(str, OLDEST))
    loader = LOADER.format(oldest=OLDEST, wanted=wanted, size=len(archive), main=main)
    return f"exec({loader!r})\n".encode() + archive
