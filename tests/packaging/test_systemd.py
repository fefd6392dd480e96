"""The units are what systemd understands, start what blklab understands, and give away no more than
they need.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from blklab.cli.md.watch import watch

UNITS = sorted((Path(__file__).parents[2] / "packaging" / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service" and unit.name != "blklab-md-boot.service"]
"""Those that start blklab. The other one is of the boot: it assembles arrays before filesystems are mounted."""


def analyze(*arguments: object) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed: apt-get install systemd")
    done = subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    """The units, of a blklab that is there."""
    for unit in UNITS:
        text = unit.read_text()
        (tmp_path / unit.name).write_text(text.replace("/usr/local/bin/blklab", "/bin/true"))
    return sorted(tmp_path.iterdir())


def test_systemd_takes_them(installed: list[Path]) -> None:
    assert "blklab" not in analyze("verify", "--man=no", *installed)


def test_they_are_shut_in(installed: list[Path]) -> None:
    # 0 is the best, 10 is a service that says nothing; it needs block devices and a socket. A mail server needs more.
    for unit in installed:
        if unit.name in {service.name for service in SERVICES}:
            limit = 67 if "alerts" in unit.name else 20
            analyze("security", "--offline=true", f"--threshold={limit}", unit)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_what_they_start_is_a_command(unit: Path) -> None:
    match = re.search(r"^ExecStart=/usr/local/bin/blklab md watch(.*)$", unit.read_text(), re.M)
    assert match
    words = match[1].replace("$ARGS", "").split()
    context = watch.make_context("watch", words)
    assert (context.params["textfile"] is None) == ("textfile" not in unit.name)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_they_wait_for_no_network(unit: Path) -> None:
    assert not re.search(r"^(After|Wants|Requires)=.*network", unit.read_text(), re.M)
