"""The Debian package in a guest with systemd: its units start in their sandbox, restart, stop and disappear."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.image.build import AGENT
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import debian
from tests.md.guest.conftest import _emulated, guest_image, python
from tests.md.guest.rig import SystemRig
from tests.packaging.test_dist import packages

__all__ = ["_emulated", "guest_image", "packages", "python"]

pytestmark = pytest.mark.guest

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(2)]
UNIT = "blklab-md-watch"
AGENT_UNIT = "etc/systemd/system/agent.service"
WANTED = "etc/systemd/system/sysinit.target.wants/agent.service"
INCLUDED = "kmod,mdadm,procps,python3-yaml,systemd,udev"

SCRAPE = """
import time, urllib.request
for _ in range(600):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:19809/metrics").read().decode())
        break
    except OSError:
        time.sleep(0.5)
"""


@pytest.fixture(scope="module")
def machine(
    guest_image: GuestImage, python: Path, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SystemRig]:
    """Boots Debian 12, with the package in /p and an array md0."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed: apt-get install mmdebstrap")
    root = tmp_path_factory.mktemp("units") / "root"
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={INCLUDED}", "bookworm", root],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(root / "var/cache/apt")
    (root / "p").mkdir()
    for deb in packages.glob("blklab_*_amd64.deb"):
        shutil.copy(deb, root / "p")
    shutil.copy(AGENT, root / "usr/lib/agent")
    (root / AGENT_UNIT).write_text(debian.FILES[AGENT_UNIT])
    (root / WANTED).parent.mkdir(parents=True, exist_ok=True)
    (root / WANTED).symlink_to(debian.LINKS[WANTED])
    for unit in debian.MASKED:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    image = root.with_name("system.img")
    with image.open("wb") as made:
        made.truncate(1 << 30)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", "debian", "-d", str(root), str(image)], check=True)
    with SystemRig(guest_image, python, SHAPES, memory=768 << 20, system=image) as booted:
        booted.create("/dev/md0", booted.names(SHAPES), "--level=1", "--bitmap=internal")
        yield booted


def shown(machine: SystemRig, field: str) -> str:
    return machine.run("systemctl", "show", "--value", f"--property={field}", UNIT).stdout.strip()


def scraped_arrays(machine: SystemRig) -> set[str]:
    """Returns the arrays in what Prometheus's parser reads."""
    text = machine.run("python3", "-c", SCRAPE).stdout
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.labels["array"] for sample in samples if sample.name == "blklab_md_array_degraded_disks"}


def test_units_of_the_package_in_a_guest(machine: SystemRig) -> None:
    machine.run("sh", "-c", "dpkg --install /p/*_amd64.deb")
    for unit in (UNIT, "blklab-md-textfile.timer"):
        assert machine.run("systemctl", "is-enabled", unit, check=False).stdout.strip() == "disabled"
    machine.run("systemctl", "enable", "--now", UNIT)
    assert scraped_arrays(machine) == {"md0"}
    first = shown(machine, "MainPID")
    status = machine.read(f"/proc/{first}/status")
    assert "CapEff:\t0000000000000000" in status
    assert "Uid:\t0" not in status
    assert "NoNewPrivs:\t1" in status

    machine.run("kill", "-KILL", first)
    restarted = f"[ $(systemctl show --value -p NRestarts {UNIT}) = 1 ] && systemctl is-active -q {UNIT}"
    machine.run("sh", "-c", f"until {restarted}; do sleep 1; done")
    assert scraped_arrays(machine) == {"md0"}
    assert shown(machine, "MainPID") not in {first, "0"}

    machine.run("systemctl", "stop", UNIT)
    assert (shown(machine, "ActiveState"), shown(machine, "Result")) == ("inactive", "success")

    machine.run("mkdir", "-p", "/var/lib/prometheus/node-exporter")
    machine.run("systemctl", "enable", "--now", "blklab-md-textfile.timer")
    written = "/var/lib/prometheus/node-exporter/blklab_md.prom"
    machine.run("sh", "-c", f"until [ -e {written} ]; do sleep 0.5; done")
    assert 'array="md0"' in machine.read(written)

    # An upgrade restarts what runs; removing the package stops and disables it.
    machine.run("systemctl", "start", UNIT)
    before = shown(machine, "MainPID")
    machine.run("sh", "-c", "dpkg --install /p/*_amd64.deb")
    assert shown(machine, "MainPID") not in {before, "0"}
    machine.run("dpkg", "--purge", "blklab")
    assert shown(machine, "LoadState") == "not-found"
    assert machine.run("sh", "-c", "find /etc/systemd /lib/systemd -name 'blklab*'").stdout == ""
    assert "blklab" not in machine.run("systemctl", "--failed", "--plain").stdout
