"""A kernel of the user's, which lacks what an experiment wants."""

import shutil
import subprocess
from pathlib import Path

import pytest

from blklab.runners.lab.image import GuestImage, parts
from tests.conftest import Run
from tests.runners.lab.conftest import guests, left

pytestmark = [
    pytest.mark.guest,
    pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed: apt-get install cpio"),
]

EXPERIMENT = """
[devices]
fast = { kind = "throttled", iops_total = 1000, size = "64MiB" }
slow = { kind = "throttled", iops_total = 200, size = "64MiB" }
[stacks]
raid1 = { level = 1, members = ["fast", "slow"] }
near = { level = 10, layout = "n2", members = ["fast", "slow"] }
[workloads]
reads = { rw = "randread", size = "1MiB", runtime = "1s" }
"""


@pytest.fixture
def without_raid10(guest_image: GuestImage, cache: Path, tmp_path: Path) -> Path:
    """The image's modules in a directory, except one."""
    ours = [path / "modules.cpio" for path in cache.glob("kernel-*")]
    base = tmp_path / "modules"
    base.mkdir()
    directory = base / "usr" / "lib" / "modules" / guest_image.version
    for archive in ours:
        with archive.open("rb") as stream:
            subprocess.run(["cpio", "-idm", "--quiet"], cwd=base, stdin=stream, check=True, capture_output=True)
        if directory.is_dir():
            break
    (base / "lib").symlink_to("usr/lib")
    (raid10,) = directory.rglob("raid10.ko*")
    raid10.unlink()
    return parts.index(base, guest_image.version)


def test_a_module_that_is_not_there(
    guest_image: GuestImage, cache: Path, without_raid10: Path, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT)
    outcome = run(
        *("run", path, "--on", "lab", "--json"), *("--kernel", guest_image.kernel, "--modules", without_raid10)
    )
    assert outcome.status == 1
    assert "cell 2 (stack=near workload=reads repeat=1): in the guest: mdadm --create" in (outcome.err)
    assert f"(kernel {guest_image.version} has no module raid10)" in outcome.err
    assert outcome.err.count("\n") == 1
    assert '"stack": "raid1"' in outcome.out, "what needs no such module is measured"
    assert guests(cache) == []
    assert left(cache) == []
