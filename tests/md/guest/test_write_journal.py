"""Write journals of RAID-5 on a real kernel: what is printed when one is missing or has failed, and what is lost."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from blklab.runners.lab.agent import ProgramExit
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 20 << 20) for at in range(5)]
MD = "/sys/block/md0/md"


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        yield booted


def make(machine: Rig) -> list[str]:
    """Makes md0 of three disks, with the fourth as its journal, and returns all disks."""
    result = machine.names(SHAPES)
    machine.run(
        "mdadm", "--create", "/dev/md0", "--run", "--level=5", "--chunk=64", "--raid-devices=3",
        f"--write-journal={result[3]}", *result[:3],
    )  # fmt: skip
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    write(machine, "4m")
    return result


@pytest.fixture
def disks(machine: Rig) -> Iterator[list[str]]:
    """The disks of md0, and one without anything on it."""
    result = make(machine)
    yield result
    machine.run("mdadm", "--stop", "/dev/md0", check=False)
    machine.run("mdadm", "--zero-superblock", *result, check=False)


def write(machine: Rig, size: str, *, check: bool = True) -> ProgramExit:
    return machine.run(
        "fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=64k", f"--size={size}", "--direct=1",
        "--buffer_pattern=0x5a17", check=check,
    )  # fmt: skip


def shell(machine: Rig, line: str) -> ProgramExit:
    return machine.run("/run/python/bin/dash", "-c", line, check=False)


def findings(machine: Rig) -> dict[str, dict[str, Any]]:
    document = json.loads(machine.blklab("md", "audit", "--json").stdout)
    return {finding["code"]: finding for finding in document["findings"]}


def commands(finding: dict[str, Any], new: str = "") -> list[str]:
    return [line.replace("NEW-DISK", new) for line in finding["remedy"] if line[0] != "#"]


def fail_journal(machine: Rig, disk: str) -> None:
    machine.run("mdadm", "/dev/md0", "--fail", disk)
    time.sleep(1)
    assert write(machine, "64k", check=False).status != 0


def assert_it_writes(machine: Rig, policy: str) -> None:
    assert machine.read(f"{MD}/consistency_policy") == policy
    assert machine.read(f"{MD}/array_state") in {"clean", "active"}
    assert write(machine, "64k").status == 0


@pytest.mark.guest
def test_a_healthy_journal_is_no_finding(machine: Rig, disks: list[str]) -> None:
    assert disks
    wrong = {"journal-missing", "degraded", "cannot-run", "inactive", "faulty", "events", "half-rebuilt"}
    for state in ("clean", "active"):
        machine.guest.agent.write(f"{MD}/array_state", state)
        assert not wrong & set(findings(machine))


@pytest.mark.guest
@pytest.mark.parametrize("choice", ["new", "none"])
def test_a_journal_that_fails_in_a_running_array(machine: Rig, disks: list[str], choice: str) -> None:
    before = machine.digest("/dev/md0")
    fail_journal(machine, disks[3])
    found = findings(machine)
    assert "degraded" not in found
    assert "faulty" not in found
    lines = commands(found["journal-missing"], disks[4])
    assert lines == [
        "mdadm --readonly /dev/md0",
        f"mdadm /dev/md0 --remove {disks[3]}",
        f"mdadm /dev/md0 --add-journal {disks[4]}",
        "echo resync > /sys/block/md0/md/consistency_policy",
        "mdadm --readwrite /dev/md0",
    ]
    steps = lines[:3] if choice == "new" else [*lines[:2], *lines[3:]]
    for line in steps:
        exit_ = shell(machine, line)
        assert exit_.status == 0, exit_.stderr
    policy = "journal" if choice == "new" else "resync"
    assert machine.digest("/dev/md0") == before
    assert_it_writes(machine, policy)
    # All of them, again and late: none changes what was chosen, or any data.
    for line in lines[1:]:
        shell(machine, line)
    assert machine.digest("/dev/md0") == before
    assert_it_writes(machine, policy)
    # It starts again; the journal that failed is not taken back.
    machine.run("mdadm", "--stop", "/dev/md0")
    machine.run("mdadm", "--assemble", "/dev/md0", *disks[: 5 if choice == "new" else 4])
    assert machine.digest("/dev/md0") == before
    assert_it_writes(machine, policy)
    assert "journal-missing" not in findings(machine)


@pytest.mark.guest
@pytest.mark.parametrize("choice", ["new", "none"])
def test_a_journal_that_is_lost_at_assembly(machine: Rig, disks: list[str], choice: str) -> None:
    before = machine.digest("/dev/md0")
    machine.run("mdadm", "--stop", "/dev/md0")
    machine.run("mdadm", "--zero-superblock", disks[3])
    machine.run("mdadm", "--assemble", "--force", "/dev/md0", *disks[:3])
    lines = commands(findings(machine)["journal-missing"], disks[4])
    assert [line.split()[0] for line in lines] == ["mdadm", "echo", "mdadm"]
    for line in lines[:1] if choice == "new" else lines[1:]:
        exit_ = shell(machine, line)
        assert exit_.status == 0, exit_.stderr
    policy = "journal" if choice == "new" else "resync"
    for line in lines:  # Again
        shell(machine, line)
    assert machine.digest("/dev/md0") == before
    assert_it_writes(machine, policy)


@pytest.mark.guest
def test_a_journal_that_comes_back_has_the_newest_writes(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    """With write-back, only the journal has what was written before the power failed."""
    machine = rig(SHAPES)
    make(machine)
    machine.guest.agent.write(f"{MD}/journal_mode", "write-back")
    machine.run(
        "fio", "--name=w", "--filename=/dev/md0", "--rw=write", "--bs=4k", "--size=1m", "--direct=1",
        "--buffer_pattern=0xbeef", "--end_fsync=1",
    )  # fmt: skip
    expected = machine.digest("/dev/md0")
    machine.cut()
    machine.power()
    disks = machine.names(SHAPES)
    # udev saw the members, but not the journal.
    for disk in disks[:3]:
        machine.run("mdadm", "--incremental", disk, check=False)
    journal = disks[3]
    found = findings(machine)
    assert f"it waits for its write journal, {journal}, which is there" in found["inactive"]["message"]
    machine.run("mdadm", "--stop", "/dev/md0")
    machine.run("mdadm", "--assemble", "--force", "--run", "/dev/md0", *disks[:3])
    assert machine.read(f"{MD}/array_state") == "readonly"
    without = machine.digest("/dev/md0")
    found = findings(machine)
    assert "Assemble the array with it, and add no new journal" in found["journal-missing"]["message"]
    lines = commands(found["journal-missing"])
    assert lines[-1].endswith(journal)
    assert not [line for line in lines if "--add-journal" in line]
    for line in lines:
        exit_ = shell(machine, line)
        assert exit_.status == 0, exit_.stderr
    assert machine.digest("/dev/md0") == expected
    assert without != expected
    assert_it_writes(machine, "journal")


@pytest.mark.guest
def test_an_array_that_was_not_started_needs_its_journal(machine: Rig, disks: list[str]) -> None:
    machine.run("mdadm", "--stop", "/dev/md0")
    found = findings(machine)
    assert "All members are current" in found["absent"]["message"]
    machine.run("mdadm", "--zero-superblock", disks[3])
    found = findings(machine)
    assert "its write journal" in found["absent"]["message"]
    assert commands(found["absent"]) == []
    refused = machine.run("mdadm", "--assemble", "--scan", check=False)
    assert "Not safe to assemble" in refused.stderr
