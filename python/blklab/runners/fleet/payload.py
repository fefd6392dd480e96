"""The part of blklab that runs on other hosts, as an archive that needs only Python's standard library."""

import io
import zipfile
from pathlib import Path
from typing import Final

import blklab

ROOT: Final = Path(blklab.__file__).parent
OLDEST: Final = (3, 11)  # As in pyproject.toml

MODULES: Final = (  # Of blklab; importing them imports no others
    *("child_process", "diagnostic", "errors", "outcome", "text", "units"),
    *("documents.cell", "documents.outcome"),
    *("fio.latency", "fio.logs", "fio.node", "fio.output"),
    *("runners.base", "runners.counter_deltas", "runners.load_ramp", "runners.fleet.host_agent"),
    *(f"runners.fio.{name}" for name in ("cell", "command", "jobfile", "process", "program", "steady_state")),
    "runners.fio.target_preparation",
    *(f"runners.host.{name}" for name in ("conditions", "device_safety", "journal", "machine_load", "observed_cell")),
    *(f"runners.host.{name}" for name in ("restore", "runner", "sampler", "scratch_directory", "settings")),
    *("runners.host.system_programs", "runners.host.target_locations"),
    *("spec.documents", "spec.fio_cell", "spec.fio_options", "store.finished_run", "store.series"),
    *(f"system.{name}" for name in ("diskstats", "environment", "identity", "layers", "mounts", "process", "roots")),
    *("system.state_directory", "system.users"),
)

COMMAND: Final = "-I -S -c 'import sys; exec(sys.stdin.buffer.readline())'"
"""Arguments of Python on the host. Every login shell understands them, and the program is the first line of stdin."""

LOADER: Final = """
import os, sys
if sys.version_info < {oldest}:
    sys.exit("found Python %d.%d, expected {wanted} or newer: install it, or name it in python of [fleet]"
             % sys.version_info[:2])
archive = os.memfd_create("blklab")
with open(archive, "wb", closefd=False) as file:
    file.write(sys.stdin.buffer.read({size}))
sys.path.insert(0, "/proc/self/fd/%d" % archive)
from blklab.runners.fleet import host_agent
host_agent.main()
"""


def archived() -> bytes:
    """Returns the modules as a zip archive. Packages are empty, except the version of blklab."""
    packages = {"": f"__version__ = {blklab.__version__!r}\n"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in MODULES:
            path = Path(*module.split("."))
            packages |= {str(parent): "" for parent in path.parents[:-1]}
            archive.write(ROOT / path.with_suffix(".py"), f"blklab/{path}.py")
        for package, content in packages.items():
            archive.writestr(f"blklab/{package}/__init__.py".replace("//", "/"), content)
    return buffer.getvalue()


def program() -> bytes:
    """Returns what Python reads from stdin: the loader in one line, and the archive."""
    archive = archived()
    wanted = ".".join(map(str, OLDEST))
    loader = LOADER.format(oldest=OLDEST, wanted=wanted, size=len(archive))
    return f"exec({loader!r})\n".encode() + archive
