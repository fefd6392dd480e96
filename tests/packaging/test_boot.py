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


def moved(tmp_path: Path) -> Path:
    """Returns a copy of md-boot that has its files below a directory, and does not wait for a minute."""
    text = md_boot().read_text().replace("/sys/block", f"{tmp_path}/there/sys/block")
    for path in ("/etc/blklab/md-boot.conf", "/run/blklab-md-boot.log", "/run/blklab-md-boot"):
        text = re.sub(rf"={path}$", f"={tmp_path}/there{path}", text, flags=re.M)
    script = tmp_path / "md-boot"
    script.write_text(text.replace("STEP_LIMIT=60 ", "STEP_LIMIT=2 ").replace("WAIT=10 ", "WAIT=1 "))
    script.chmod(0o755)
    return script


def md_boot() -> Path:
    (script,) = (script for script in SCRIPTS if script.name == "md-boot")
    return script


@pytest.mark.parametrize("word", ["run", "recover"])
def test_without_a_list_of_arrays_nothing_happens(word: str, tmp_path: Path) -> None:
    for name in ("mdadm", "udevadm"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $* >> {tmp_path}/called\n")
        (tmp_path / name).chmod(0o755)
    script = moved(tmp_path)
    done = subprocess.run(
        ["sh", str(script), word], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    called = tmp_path / "called"
    # Even if something else held udev's queue, it runs again.
    expected = "udevadm control --start-exec-queue --timeout=10\n" if word == "recover" else None
    assert (called.read_text() if called.exists() else None) == expected
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("blkid", "mdadm", "told"),
    [
        ("exec sleep 60", "exit 1", ["given up: images took more than 2 seconds", "all arrays are left as they are"]),
        ("echo /dev/sda2", "exit 1", ["all arrays are left as they are"]),
        ("exit 127", "exit 1", ["all arrays are left as they are"]),
        ("exit 2", "exec sleep 60", ["given up: step 00112233:44556677:8899aabb:ccddeeff took more"]),
        ("exit 2", "exit 1", ["array 00112233:44556677:8899aabb:ccddeeff: left as it is"]),
    ],
)
def test_a_disk_that_hangs_does_not_stop_the_boot(blkid: str, mdadm: str, told: list[str], tmp_path: Path) -> None:
    for name, line in {"mdadm": mdadm, "udevadm": "", "blkid": blkid}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    script = moved(tmp_path)
    for directory in ("etc/blklab", "run", "sys/block/md0/md/dev-sda"):
        (tmp_path / "there" / directory).mkdir(parents=True)
    # As an editor leaves it: without a last line break.
    (tmp_path / "there/etc/blklab/md-boot.conf").write_text("# mine\n00112233:44556677:8899aabb:ccddeeff")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run([str(script), "run"], env=env, capture_output=True, text=True, check=True, timeout=30)
    lines = done.stdout.splitlines()
    assert [line[: len(start)] for line, start in zip(lines, told, strict=True)] == told
