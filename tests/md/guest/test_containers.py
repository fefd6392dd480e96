"""RAIDs of firmware (IMSM, DDF) on a real kernel with mdmon: what is printed for them is accepted and loses no data."""

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from blklab.runners.lab.agent import ProgramExit
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 48 << 20) for at in range(6)]

NO_PLATFORM = "export IMSM_NO_PLATFORM=1 IMSM_TEST_OROM=1 IMSM_DEVNAME_AS_SERIAL=1; "
"""The guest has no controller of Intel, and its disks no serial numbers."""


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        yield booted


@pytest.fixture
def disks(machine: Rig) -> Iterator[list[str]]:
    """Disks without anything on them."""
    result = machine.names(SHAPES)
    yield result
    for name in ("md126", "md127"):
        run(machine, f"mdadm --stop /dev/{name}", check=False)
    for disk in result:
        run(machine, f"mdadm --zero-superblock {disk}", check=False)


def run(machine: Rig, line: str, *, check: bool = True) -> ProgramExit:
    return machine.run("/run/python/bin/dash", "-c", NO_PLATFORM + line, check=check)


def make(machine: Rig, metadata: str, disks: Sequence[str]) -> None:
    run(machine, f"mdadm --create /dev/md127 --run --metadata={metadata} -n {len(disks)} {' '.join(disks)}")
    run(machine, "mdadm --create /dev/md126 --run -l 5 -n 3 -z 12M /dev/md127")
    run(machine, "mdadm --wait /dev/md126", check=False)
    machine.run(
        "fio", "--name=w", "--filename=/dev/md126", "--rw=write", "--bs=256k", "--size=24m", "--direct=1",
    )  # fmt: skip


def audit(machine: Rig) -> dict[str, Any]:
    output = machine.blklab("md", "audit", "--json")
    return dict(json.loads(output.stdout))


def by_code(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["code"]: finding for finding in document["findings"]}


def printed(document: dict[str, Any]) -> list[str]:
    return [line for finding in document["findings"] for line in finding["remedy"] if line[0] != "#"]


def until(machine: Rig, path: str, value: str) -> str:
    limit = time.monotonic() + 120
    while (text := machine.read(path)) != value and time.monotonic() < limit:
        time.sleep(0.2)
    return text


@pytest.mark.guest
def test_a_disk_for_a_volume_of_imsm_goes_into_the_container(machine: Rig, disks: list[str]) -> None:
    make(machine, "imsm", disks[:3])
    document = audit(machine)
    arrays = {array["name"]: array for array in document["arrays"]}
    assert (arrays["md127"]["level"], arrays["md127"]["volumes"]) == ("container", ["md126"])
    assert arrays["md126"]["container"] == "md127"
    assert {finding["code"] for finding in document["findings"]} == {"external", "config-bbl"}
    assert printed(document) == []
    before = machine.digest("/dev/md126")
    run(machine, f"mdadm /dev/md126 --fail {disks[0]}")
    assert until(machine, "/sys/block/md126/md/degraded", "1") == "1"
    time.sleep(1)  # mdmon removes it from the volume
    document = audit(machine)
    found = by_code(document)
    assert disks[0][5:] in found["unused-disk"]["message"]
    (command,) = [line for line in found["degraded"]["remedy"] if line[0] != "#"]
    assert command == "mdadm --add /dev/md127 DISK"
    # What mdadm refuses, and what is printed instead.
    refused = run(machine, f"mdadm --add /dev/md126 {disks[3]}", check=False)
    assert "perform this operation on the parent container" in refused.stderr
    for line in found["unused-disk"]["remedy"]:
        run(machine, line)
    run(machine, command.replace("DISK", shlex.quote(disks[3])))
    assert until(machine, "/sys/block/md126/md/degraded", "0") == "0"
    run(machine, "mdadm --wait /dev/md126", check=False)
    assert machine.digest("/dev/md126") == before
    # Late, twice, and with the disk that dropped out: mdadm refuses disks that the container has.
    for disk in (disks[3], disks[0]):
        again = run(machine, command.replace("DISK", disk), check=False)
        assert (again.status != 0, "busy" in again.stderr) == (True, True)
    # A spare of the container is taken at once.
    run(machine, command.replace("DISK", disks[4]))
    assert by_code(audit(machine))["unused-disk"]["severity"] == "note"
    run(machine, f"mdadm /dev/md126 --fail {disks[1]}")
    assert until(machine, f"/sys/block/md126/md/dev-{disks[4][5:]}/state", "in_sync,external_bbl").startswith("in_sync")
    assert machine.digest("/dev/md126") == before
    # Every stripe: the parity of what was rebuilt matches.
    machine.guest.agent.write("/sys/block/md126/md/sync_action", "check")
    run(machine, "mdadm --wait /dev/md126", check=False)
    assert machine.read("/sys/block/md126/md/mismatch_cnt") == "0"


@pytest.mark.guest
def test_no_command_is_printed_for_ddf(machine: Rig, disks: list[str]) -> None:
    make(machine, "ddf", disks[:3])
    document = audit(machine)
    assert {finding["code"] for finding in document["findings"]} == {"external", "config-bbl"}
    run(machine, f"mdadm /dev/md126 --fail {disks[0]}")
    assert until(machine, "/sys/block/md126/md/degraded", "1") == "1"
    time.sleep(1)
    document = audit(machine)
    found = by_code(document)
    assert not [line for line in found["degraded"]["remedy"] if line[0] != "#"]
    assert disks[0][5:] in found["unused-disk"]["message"]
    for line in printed(document):
        run(machine, line)
