"""Fixtures of bisections on real kernels."""

import shutil
from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks
from blklab.runners.lab.image import GuestImage, image
from blklab.runners.lab.machine import qemu
from tests.bisect.md_history import SOURCES
from tests.runners.lab.conftest import KERNEL, own_cache

TOOLS = ("cpio", "gcc-12", "git", "make")

EXPERIMENT = """
[devices]
fast = { kind = "throttled", iops_total = 1000, size = "256MiB", rotational = false }
slow = { kind = "throttled", iops_total = 200, size = "256MiB", rotational = false }
[stacks.raid10]
level = 10
layout = "f2"
members = ["fast", "slow"]
[workloads.randread]
rw = "randread"
iodepth = 32
runtime = "1s"
time_based = true
"""


@pytest.fixture(scope="session")
def guest_image() -> GuestImage:
    """The image of the guests; skips the test if it cannot be made, or the modules cannot be built."""
    if not SOURCES.exists():
        pytest.skip("no sources of Linux 6.1: apt-get install linux-source-6.1")
    if not all(map(shutil.which, TOOLS)):
        pytest.skip(f"apt-get install {' '.join(TOOLS)}")
    try:
        qemu.find()
        return image(KERNEL, note=lambda _: None)
    except EnvironmentLacks as error:
        pytest.skip(f"no guest can be had: {error}")


@pytest.fixture
def lab_cache(guest_image: GuestImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the image, for guests that are emulated."""
    monkeypatch.setenv("BLKLAB_ACCEL", "tcg")
    cache = own_cache(guest_image, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """RAID-10 far of unequal disks."""
    path = tmp_path / "raid10.toml"
    path.write_text(EXPERIMENT)
    return path
