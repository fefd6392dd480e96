"""Programs of blklab on other hosts: an archive of modules, for a Python without other packages.

Nothing is installed, written to a disk, or left running there.
"""

import ctypes
import io
import os
import signal
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import blklab

ROOT = Path(blklab.__file__).parent
OLDEST = (3, 11)  # As in pyproject.toml

COMMAND = "-I -S -c 'import sys; exec(sys.stdin.buffer.readline())'"
"""Arguments of Python on the host. Every login shell understands them, and the program is the first line of stdin."""

LOADER = """
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


def make_archive(modules: Sequence[str]) -> bytes:
    """Returns modules of blklab as a zip archive. Packages are empty, except the version of blklab."""
    packages = {"": f"__version__ = {blklab.__version__!r}\n"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in modules:
            path = Path(*module.split("."))
            packages |= {str(parent): "" for parent in path.parents[:-1]}
            archive.write(ROOT / path.with_suffix(".py"), f"blklab/{path}.py")
            if (texts := ROOT / path.with_suffix(".toml")).exists():
                archive.write(texts, f"blklab/{path}.toml")
        for package, content in packages.items():
            archive.writestr(f"blklab/{package}/__init__.py".replace("//", "/"), content)
    return buffer.getvalue()


def program(modules: Sequence[str], main: str) -> bytes:
    """Returns what Python reads from stdin: the loader in one line, and the archive.

    `main` is the module whose function `main` runs. All it imports must be in `modules`, or in the standard library.
    """
    archive = make_archive(modules)
    loader = LOADER.format(oldest=OLDEST, wanted=".".join(map(str, OLDEST)), size=len(archive), main=main)
    return f"exec({loader!r})\n".encode() + archive


PDEATHSIG = 1  # PR_SET_PDEATHSIG (prctl(2))
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def run_with_children(work: Callable[[], int], *, ending: int = signal.SIGKILL) -> int:
    """Returns the exit status of `work` when it has ended, and all that it started; these get the signal `ending`.

    Passes signals to it. If this process is killed, `work` gets SIGTERM.
    """
    _prctl(SUBREAPER, 1)  # what it started becomes a child of this process if its parent ends
    worker = os.fork()
    if not worker:
        _prctl(PDEATHSIG, signal.SIGTERM)
        os._exit(work())
    for number in SIGNALS:
        signal.signal(number, lambda received, _frame: os.kill(worker, received))
    _, status = os.waitpid(worker, 0)
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, ending)
        os.waitpid(-1, 0)
    return os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _children() -> list[int]:
    own_pid = str(os.getpid())
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if status.read_text(errors="replace").rpartition(")")[2].split()[1] == own_pid:
                children.append(int(status.parent.name))
    return children
