"""A disk with Python and blklab on it, so that a guest runs the very commands that users run."""

import compileall
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

MOUNTED: Final = "/run/python"
"""Where guests have it."""

PACKAGES: Final = (
    "blklab", "click", "rich", "pygments", "platformdirs", "typing_extensions",
    # of `md watch`
    "annotated_types", "bcrypt", "prometheus_client", "pydantic", "pydantic_core", "typing_inspection", "yaml",
    "msgspec",  # of `trace live`
)  # fmt: skip
"""What `blklab md` imports outside of the standard library."""

LEFT_OUT: Final = ("test", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data")

PROGRAMS: Final = ("cat", "dash", "dd", "mkdir", "tune2fs")
"""Programs of this machine that commands for users need, in /run/python/bin; guests of the lab lack them."""

BYTES: Final = 256 << 20

LAUNCH: Final = """\
import runpy, sys
sys.path.insert(0, "/run/python/packages")
from blklab.md.repair import write_suspension
write_suspension.PYTHON = tuple(sys.argv.pop(1).split())
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


PYTHON: Final = (f"{MOUNTED}/loader", "--library-path", f"{MOUNTED}/libraries", f"{MOUNTED}/python")
"""The command that runs Python in a guest: with the host's libraries, not its own."""


def command(module: str) -> list[str]:
    """Returns the command that runs a module in a guest."""
    return [*PYTHON, "-c", LAUNCH, " ".join(PYTHON), module]


def make(directory: Path) -> Path:
    """Returns an ext4 image that holds it all."""
    root, image = directory / "payload", directory / "payload.img"
    library = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns(*LEFT_OUT, "site-packages", "dist-packages", "config-3*")
    shutil.copytree(library, root / "lib" / library.name, ignore=ignored)
    packages = root / "packages"
    packages.mkdir()
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None, name
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, packages / name, ignore=shutil.ignore_patterns("_agent"))
        else:
            shutil.copy(origin, packages)
    inside = Path(__file__).with_name("inside")
    shutil.copytree(inside, packages / "inside", ignore=shutil.ignore_patterns("__pycache__"))
    # An emulated guest takes most of a minute to compile them, each time.
    compileall.compile_dir(packages, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    (root / "bin").mkdir()
    for program in PROGRAMS:
        path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
        assert path is not None, program
        shutil.copy(path, root / "bin")
    interpreter = Path(sys.executable).resolve()
    shutil.copy(interpreter, root / "python")
    _libraries(root, interpreter)
    with image.open("wb") as made:
        made.truncate(BYTES)
    command = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(root), str(image)]
    subprocess.run(command, check=True)
    return image


def _libraries(root: Path, interpreter: Path) -> None:
    """Copies the shared libraries of the interpreter and of all extensions, and their loader."""
    libraries = root / "libraries"
    libraries.mkdir()
    linked = subprocess.run(
        ["ldd", str(interpreter), *map(str, root.rglob("*.so"))],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    for line in linked.splitlines():
        path = next((word for word in line.split() if word.startswith("/") and word[-1] != ":"), "")
        if path and not line.startswith("/"):
            name = "loader" if "/ld-linux" in path else f"libraries/{Path(path).name}"
            if not (root / name).exists():
                shutil.copy(path, root / name)
