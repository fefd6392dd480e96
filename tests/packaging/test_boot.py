"""The scripts of the boot, as far as they go without one: tests/md/guest/test_boot.py boots with them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "packaging" / "boot").iterdir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_posix_shell_runs_them(script: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: scripts/setup test")
    done = subprocess.run(["shellcheck", "--shell=sh", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_command_forces_anything() -> None:
    commands = [line for line in md_boot().read_text().splitlines() if "mdadm --" in line]
    assert len(commands) > 5
    assert not re.search(r"--force|force-no-bbl|--fail|--run|--remove|--create|--zero", "\n".join(commands))


def md_boot() -> Path:
    (script,) = (script for script in SCRIPTS if script.name == "md-boot")
    return script


@pytest.mark.parametrize("word", ["run", "recover"])
def test_without_a_list_of_arrays_nothing_happens(word: str, tmp_path: Path) -> None:
    for name in ("mdadm", "udevadm"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $* >> {tmp_path}/called\n")
        (tmp_path / name).chmod(0o755)
    text = md_boot().read_text()
    for path in ("/etc/blklab/md-boot.conf", "/run/blklab-md-boot.log", "/run/blklab-md-boot"):
        text = re.sub(rf"{path}$", f"{tmp_path}/there{path}", text, flags=re.M)
    script = tmp_path / "md-boot"
    script.write_text(text)
    done = subprocess.run(
        ["sh", str(script), word], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    called = tmp_path / "called"
    # Even if something else held udev's queue, it runs again.
    expected = "udevadm control --start-exec-queue --timeout=10\n" if word == "recover" else None
    assert (called.read_text() if called.exists() else None) == expected
    assert done.stdout == ""
