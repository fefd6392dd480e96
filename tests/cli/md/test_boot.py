"""`blklab md boot`, on a machine of files: its systemctl and update-initramfs write down how they were called."""

import json
import os
from pathlib import Path

import pytest

from blklab.cli.md import boot
from blklab.md.repair import plan as plans
from blklab.system.identity import BlockDevice, of_node
from blklab.system.roots import Roots
from tests.conftest import Run
from tests.md.conftest import Arrays, machine

__all__ = ["machine"]

CALLED = ["systemctl enable blklab-md-boot.service", "update-initramfs -u -k all"]


@pytest.fixture
def root(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine, with everything that the package installs."""

    def resolve(name: str, roots: Roots) -> BlockDevice:
        return of_node((roots.sys / "class/block" / Path(name).name).resolve(strict=True), roots)

    monkeypatch.setattr(boot, "Roots", lambda: machine.roots)
    monkeypatch.setattr(plans, "resolve", resolve)
    root = machine.roots.dev.parent
    for path in boot.INSTALLED:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    for path in ("usr/bin/systemctl", "usr/sbin/update-initramfs"):
        program(root / path, f'echo "{Path(path).name} $*" >> {root}/called')
    machine.mirror()
    return root


def program(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def called(root: Path) -> list[str]:
    return (root / "called").read_text().splitlines()


def test_enable_writes_the_list_and_disable_removes_it(machine: Arrays, root: Path, run: Run) -> None:
    done = run("md", "boot", "enable", "md0")
    assert done.status == 0, done.err
    assert "blklab.md_boot=off" in done.out
    (array,) = machine.seen().arrays
    config = root / boot.CONFIG
    assert f"\n{array.uuid} # {array.path}\n" in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o644
    assert called(root) == CALLED
    assert run("md", "boot", "enable", "md0").status == 0
    assert config.read_text().count(array.uuid) == 1
    config.write_text(f"# mine\n{'01234567:' * 3}01234567\n{config.read_text()}")
    done = run("md", "boot", "disable", "md0")
    assert (done.status, array.uuid in config.read_text(), "01234567" in config.read_text()) == (0, False, True)
    done = run("md", "boot", "disable", "md0")
    assert (done.status, "md0: not enabled" in done.err) == (2, True)
    done = run("md", "boot", "disable", "01234567:" * 3 + "01234567")
    assert (done.status, config.exists(), "the next boot leaves all" in done.out) == (0, False, True)
    assert called(root)[-2:] == ["systemctl disable blklab-md-boot.service", "update-initramfs -u -k all"]
    assert run("md", "boot", "disable").status == 0


def test_status_says_what_is_missing(machine: Arrays, root: Path, run: Run) -> None:
    done = run("md", "boot", "status")
    assert (done.status, "off: no array is enabled" in done.out) == (0, True)
    run("md", "boot", "enable", "md0")
    done = run("md", "boot", "status")
    assert done.status == 1
    assert "systemctl enable blklab-md-boot.service" in done.out
    assert "older than the list of arrays: update-initramfs -u -k all" in done.out
    wants = root / "etc/systemd/system/sysinit.target.wants"
    wants.mkdir(parents=True)
    (wants / boot.UNIT).symlink_to(f"/lib/systemd/system/{boot.UNIT}")
    initramfs = root / f"boot/initrd.img-{os.uname().release}"
    initramfs.parent.mkdir()
    initramfs.touch()
    (root / "run").mkdir(exist_ok=True)
    (root / "run/blklab-md-boot.log").write_text("md0: left as it is: \x1b[2J\n")
    done = run("md", "boot", "status")
    assert done.status == 0, done.out
    assert "md0: left as it is: \\x1b[2J" in done.out
    (array,) = machine.seen().arrays
    document = json.loads(run("md", "boot", "status", "--json").out)
    assert (document["arrays"], document["problems"]) == ({array.uuid: array.path}, [])
    os.utime(initramfs, (1, 1))
    assert run("md", "boot", "status").status == 1


def test_arrays_whose_lists_cannot_be_removed_are_refused(machine: Arrays, root: Path, run: Run) -> None:
    done = run("md", "boot", "enable", "sda")
    assert (done.status, "not an md array" in done.err) == (2, True)
    machine.write(machine.roots.sys / "class/block/md0", {"md__metadata_version": "0.90"})
    done = run("md", "boot", "enable", "md0")
    assert (done.status, "metadata 0.90: expected RAID-1" in done.err) == (1, True)
    machine.write(
        machine.roots.sys / "class/block/md0", {"md__metadata_version": "1.2", "md__dev-sdb__bad_blocks": "8 8"}
    )
    done = run("md", "boot", "enable", "md0")
    assert (done.status, "sdb have entries" in done.err, "blklab md audit" in done.err) == (1, True, True)
    assert not (root / boot.CONFIG).exists()


def test_without_the_package_it_says_what_is_missing(root: Path, run: Run) -> None:
    (root / boot.HOOK).unlink()
    done = run("md", "boot", "enable", "md0")
    assert (done.status, f"/{boot.HOOK}: not found" in done.err, "howto/install.md" in done.err) == (3, True, True)


def test_a_failure_of_update_initramfs_is_told(root: Path, run: Run) -> None:
    program(root / "usr/sbin/update-initramfs", "echo no space left; exit 1")
    done = run("md", "boot", "enable", "md0")
    assert (done.status, "update-initramfs -u failed: no space left" in done.err) == (1, True)
    (root / "usr/sbin/update-initramfs").unlink()
    done = run("md", "boot", "enable", "md0")
    assert (done.status, "update-initramfs: not found" in done.err) == (0, True)
