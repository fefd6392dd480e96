"""Build dist/blklab-rescue_VERSION_x86_64.tar.gz: blklab with a Python and the libraries of its own.

It is for a rescue system or an initramfs: nothing is installed, and the system needs no Python. The archive has one
directory; `blklab` in it is the command. It has what `md audit`, `md rescue`, `md overlays`, `md fix` and `trace stat`
need, and no other command.

    .venv/bin/python scripts/rescue_archive.py DIRECTORY

Environment: SOURCE_DATE_EPOCH, the time of all files. The same commit and the same Python give the same archive.
Exit codes: 0 built, 1 a library was not found, 2 wrong usage.
"""

import compileall
import gzip
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib.metadata import version
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory

PACKAGES = ("blklab", "click", "msgspec", "platformdirs", "pygments", "rich", "markdown_it", "mdurl")
"""What the commands import outside of the standard library."""

STANDARD_LIBRARY_WITHOUT = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "site-packages"),
    *("dist-packages", "config-3*", "__pycache__", "turtle.py", "_test*.so", "_ctypes_test*.so", "_tkinter*.so"),
    *("*.a", "distutils", "venv", "unittest", "sqlite3", "_sqlite3*.so", "dbm", "curses"),
)
"""Parts of the standard library that no command needs."""

BLKLAB_WITHOUT = ("_agent", "__pycache__", "web", "docs", "*.js")

COMMAND = """\
#!/bin/sh
# blklab {version}, with its own Python and libraries: works in a directory that can execute programs.
directory=$(cd -P -- "${{0%/*}}" && pwd -P) || exit 3
exec "$directory/loader" --library-path "$directory/libraries" "$directory/python" -I "$directory/start.py" \\
    "$directory" "$@"
"""

START = '''\
"""Starts blklab from this directory; a process that it starts uses the same Python."""

import runpy
import sys

directory = sys.argv.pop(1)
sys.path.insert(0, f"{directory}/packages")

from blklab.md.repair import write_suspension  # noqa: E402

write_suspension.PYTHON = (f"{directory}/loader", "--library-path", f"{directory}/libraries", f"{directory}/python")
sys.argv[0] = f"{directory}/blklab"
runpy.run_module("blklab.cli", run_name="__main__", alter_sys=False)
'''

README = """\
blklab {version} for rescue systems on x86-64

Nothing is installed. Unpack the archive on a filesystem that can execute programs (a USB disk, /run, /tmp), and type,
as root:

    ./blklab md rescue                 why an array does not start, and what to do; only reads
    ./blklab md audit                  all arrays of this host; only reads
    ./blklab md audit mail.txt         output of mdadm that you have as text
    ./blklab trace stat TRACE          a trace

It needs a kernel and a shell (busybox has one). Commands that blklab prints need mdadm.
Licences: see THIRD-PARTY-LICENSES, and those of Python and of the GNU C library in licences/.
"""


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    release = version("blklab")
    name = f"blklab-rescue_{release}_{platform.machine()}"
    with TemporaryDirectory() as work:
        root = Path(work) / name
        root.mkdir()
        copy_packages(root)
        copy_python(root)
        write_texts(root, release)
        archive = Path(sys.argv[1]) / f"{name}.tar.gz"
        write_archive(root, archive)
    print(f"{archive}: {archive.stat().st_size / (1 << 20):.1f} MiB")
    return 0


def copy_packages(root: Path) -> None:
    """Copies blklab and the libraries that it imports."""
    packages = root / "packages"
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SystemExit(f"rescue_archive: error: {name} is not installed: run scripts/setup demo")
        without = BLKLAB_WITHOUT if name == "blklab" else ("__pycache__", "tests")
        shutil.copytree(Path(spec.origin).parent, packages / name, ignore=shutil.ignore_patterns(*without))
    compile_directory(packages)


def copy_python(root: Path) -> None:
    """Copies the interpreter, the standard library, and the shared libraries of both with their loader."""
    library = Path(sysconfig.get_path("stdlib"))
    target = root / "lib" / library.name
    shutil.copytree(library, target, ignore=shutil.ignore_patterns(*STANDARD_LIBRARY_WITHOUT))
    compile_directory(target)
    interpreter = Path(sys.executable).resolve()
    shutil.copy(interpreter, root / "python")
    (root / "libraries").mkdir()
    extensions = sorted(map(str, root.rglob("*.so*")))
    listing = subprocess.run(["ldd", str(interpreter), *extensions], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        if "not found" in line:
            raise SystemExit(f"rescue_archive: error: a library is missing: {line.strip()}")
        paths = [word for word in line.split() if word.startswith("/") and not word.endswith(":")]
        if not paths or line.startswith("/"):
            continue
        is_loader = "/ld-linux" in paths[0]
        copy = root / "loader" if is_loader else root / "libraries" / Path(paths[0]).name
        if not copy.exists():
            shutil.copy(paths[0], copy)


def compile_directory(directory: Path) -> None:
    """Compiles Python in place of its sources, which a rescue system does not need, but for __file__ in messages."""
    compileall.compile_dir(directory, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH, stripdir=directory)


def write_texts(root: Path, release: str) -> None:
    command = root / "blklab"
    command.write_text(COMMAND.format(version=release))
    command.chmod(0o755)
    (root / "start.py").write_text(START)
    (root / "README").write_text(README.format(version=release))
    licences = root / "licences"
    licences.mkdir()
    for package in ("libc6", "libpython3.11-minimal", "zlib1g", "libssl3"):
        copyright_file = Path("/usr/share/doc") / package / "copyright"
        if copyright_file.is_file():
            shutil.copy(copyright_file, licences / package)
    for name in ("LICENSE", "THIRD-PARTY-LICENSES"):
        if Path(name).is_file():
            shutil.copy(name, root / name)


def write_archive(root: Path, archive: Path) -> None:
    """Writes a directory as an archive: sorted, with one time and owner."""
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = moment
        return entry

    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=moment) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in (root, *sorted(root.rglob("*"))):
                tar.add(path, path.relative_to(root.parent), recursive=False, filter=plain)


if __name__ == "__main__":
    sys.exit(main())
