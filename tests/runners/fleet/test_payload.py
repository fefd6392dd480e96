"""What is sent to hosts: exactly these modules, for a bare Python."""

import subprocess
import sys
from pathlib import Path

from blklab import __version__
from blklab.runners.fleet.payload import PAYLOAD
from blklab.system import remote_program

LIST = """
import sys
sys.path.insert(0, {archive!r})
from blklab.runners.fleet import host_agent
import blklab
print(blklab.__version__)
ours = [name for name in sys.modules if name.startswith("blklab")]
print(*sorted(name for name in ours if not sys.modules[name].__spec__.submodule_search_locations))
print(*sorted(name for name in sys.modules if "site-packages" in str(getattr(sys.modules[name], "__file__", ""))))
"""


def test_a_bare_python_imports_exactly_the_modules_of_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "blklab.zip"
    archive.write_bytes(remote_program.make_archive(PAYLOAD))
    command = [sys.executable, "-I", "-S", "-c", LIST.format(archive=str(archive))]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    version, modules, others = printed.splitlines()
    assert version == __version__
    assert modules.split() == sorted(f"blklab.{name}" for name in PAYLOAD)
    assert others == ""


def test_an_old_python_is_refused_in_one_line() -> None:
    size = len(remote_program.make_archive(PAYLOAD))
    loader = remote_program.LOADER.format(oldest=(4, 0), wanted="4.0", size=size, main="x")
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", loader], check=False, capture_output=True, text=True)
    major, minor = sys.version_info[:2]
    result = f"found Python {major}.{minor}, expected 4.0 or newer"
    assert ran.stderr == f"{result}: install it, or name another Python\n"
    assert ran.returncode == 1
