"""`blklab md audit` on a guest with arrays, compared with mdadm."""

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(13)]

HOSTILE = "$(reboot);<b>\x1b[31m"
"""An array's name, which goes into its superblocks as it is."""


def bad(machine: Rig, array: str, disk: str, entries: str) -> None:
    node = disk.removeprefix("/dev/")
    machine.guest.agent.write(f"/sys/block/{array}/md/dev-{node}/bad_blocks", entries)
    # The list reaches the disk with the next superblock, which a write brings about.
    machine.guest.agent.write(f"/dev/{array}", "written")
    machine.guest.agent.write(f"/sys/block/{array}/md/array_state", "clean")


def make(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md1", disks[:2], "--level=1", "--bitmap=internal", f"--name={HOSTILE}")
    # A list that is copied: the only source of a rebuild has it.
    bad(machine, "md1", disks[0], "10000 8")
    machine.run("mdadm", "/dev/md1", "--fail", disks[1], "--remove", disks[1])
    machine.run("mdadm", "--zero-superblock", disks[1])
    machine.run("mdadm", "/dev/md1", "--add", disks[2])
    until = time.monotonic() + 600
    while machine.read("/sys/block/md1/md/degraded") != "0" and time.monotonic() < until:
        time.sleep(0.2)
    machine.create("/dev/md6", disks[3:7], "--level=6", "--bitmap=none", "--chunk=64")
    bad(machine, "md6", disks[4], "9000 16")
    bad(machine, "md6", disks[6], "12000 1")
    machine.create("/dev/md10", disks[7:11], "--level=10", "--bitmap=none", "--metadata=1.0")
    machine.create("/dev/md5", disks[11:13], "--level=5", "--bitmap=none", "--chunk=64")
    # A superblock that something else has written over, of an array that runs on.
    machine.run(
        "fio", "--name=over", f"--filename={disks[12]}", "--rw=write", "--bs=512", "--size=512",
        "--offset=4096", "--direct=1", "--buffer_pattern=0xa92b4efc",
    )  # fmt: skip


def field_of(text: str, name: str) -> str:
    result = re.search(rf"^ *{name} : (.*?) *$", text, re.M)
    return result[1] if result else ""


def equal(machine: Rig, array: dict[str, Any]) -> None:
    detail = machine.run("mdadm", "--detail", array["path"]).stdout
    assert field_of(detail, "Raid Level") == array["level"]
    assert field_of(detail, "UUID").split()[0] == array["uuid"]
    assert int(field_of(detail, "Raid Devices")) == array["raid_disks"]
    assert int(field_of(detail, "Array Size").split()[0]) * 1024 == array["size_bytes"]
    assert field_of(detail, "State") == array["state"]
    for member in array["members"]:
        examined = machine.run("mdadm", "--examine", member["path"], check=False).stdout
        listed = machine.run("mdadm", "--examine-badblocks", member["path"], check=False).stdout
        result = member["superblock"]
        if result is None:
            assert not examined
            continue
        assert field_of(examined, "Version") == result["version"]
        assert int(field_of(examined, "Events")) == result["events"]
        assert field_of(examined, "Device UUID") == result["device_uuid"]
        assert field_of(examined, "Device Role") == f"Active device {member['slot']}"
        entries = re.findall(r"^ *(\d+) for (\d+) sectors$", listed, re.M)
        facts = [(str(item["sector"]), str(item["sectors"])) for item in member["bad_blocks"]["disk"]]
        assert facts == entries
        assert ("is empty" in listed) == (not entries)


@pytest.mark.guest
def test_the_audit_of_a_running_machine(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig(SHAPES)
    make(machine, machine.names(SHAPES))
    output = machine.blklab("md", "audit", "--json")
    assert output.status == 1, output.stderr
    document = json.loads(output.stdout)
    arrays = {array["name"]: array for array in document["arrays"]}
    assert set(arrays) == {"md1", "md5", "md6", "md10"}
    for array in arrays.values():
        equal(machine, array)
    assert arrays["md1"]["label"].endswith(HOSTILE)
    copied = arrays["md1"]["members"]
    assert [item["bad_blocks"]["disk"] for item in copied] == [[{"sector": 10000, "sectors": 8}]] * 2
    rules = {name: {item["rule"] for item in document["findings"] if item["array"] == name} for name in arrays}
    assert rules["md1"] >= {"repair-corrupts", "bbl-entries", "bbl-copied", "bbl-lost"}
    assert rules["md6"] >= {"bbl-entries"}
    assert not rules["md6"] & {"repair-corrupts", "bbl-lost", "bbl-copied"}
    assert rules["md10"] >= {"bbl-empty", "metadata-end"}
    (broken,) = [item for item in arrays["md5"]["members"] if item["superblock"] is None]
    assert broken["unseen"]
    shown = machine.blklab("md", "audit")
    assert shown.status == 1
    assert "\x1b[31m" not in shown.stdout
    # What the kernel has no name for is passed by, and what is refused says why.
    refused = machine.blklab("md", "fix", "bbl", "/dev/md5", "--plan")
    assert (refused.status, "not repaired" in refused.stdout) == (1, True)
