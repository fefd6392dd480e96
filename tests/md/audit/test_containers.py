"""Containers of firmware's metadata and their volumes, RAIDs of device-mapper, and multipath."""

import pytest

from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.report import arrays_table, members_table
from tests.md.audit import test_cases
from tests.md.conftest import Arrays

IDLE = {"slot": "none", "state": "spare"}


def commands(findings: list[Diagnostic], machine: Arrays) -> list[str]:
    """Returns the commands of findings, with the paths of the machine."""
    return [line.replace(f"{machine.root}/", "/") for line in test_cases.commands(findings)]


def container(machine: Arrays, metadata: str, disks: str, **md: str) -> None:
    """Makes md127 as the kernel shows it: without a level, inactive, all disks spares (observed, Linux 6.1)."""
    for at, disk in enumerate(disks.split()):
        if not (machine.roots.dev / disk).exists():
            machine.disk(disk, f"8:{16 * at}")
    wanted = {
        "level": "", "raid_disks": "", "metadata_version": metadata, "array_state": "inactive",
        "consistency_policy": "unknown", "uuid": "00000000-0000-0000-0000-000000000000", **md,
    }  # fmt: skip
    machine.array("md127", "9:127", {disk: {**IDLE, "offset": "128862"} for disk in disks.split()}, **wanted)
    for file in ("degraded", "sync_action", "last_sync_action", "bitmap/location"):
        (machine.roots.sys / "block/md127/md" / file).unlink()


def volume(machine: Arrays, disks: str, **md: str) -> None:
    wanted = {
        "level": "raid5", "layout": "0", "chunk_size": "131072", "raid_disks": "3",
        "metadata_version": "external:/md127/0", "degraded": "1", "last_sync_action": "resync",
        "uuid": "00000000-0000-0000-0000-000000000000", "bitmap__location": "none", **md,
    }  # fmt: skip
    machine.array("md126", "9:126", {disk: {"offset": "0"} for disk in disks.split()}, size=str(1 << 30), **wanted)


def test_a_container_is_no_inactive_array(machine: Arrays) -> None:
    container(machine, "external:imsm", "sda sdb sdc")
    volume(machine, "sda sdb sdc", degraded="0")
    inventory = machine.seen()
    held, made = sorted(inventory.arrays, key=lambda array: not array.is_container)
    assert (held.level, [item.name for item in held.volumes], held.idle) == ("container", ["md126"], ())
    assert made.container_array is not None
    assert (made.container, made.container_array.name) == ("md127", "md127")
    findings = find_problems(inventory)
    about = {finding.subject: finding.message for finding in findings if finding.code == "external"}
    assert about["md127"].startswith("is a container of Intel IMSM with 3 disks, not an array; its volume is md126")
    assert about["md126"].startswith("is a volume of the container md127 (Intel IMSM)")
    assert {finding.code for finding in findings} == {"external", "config-bbl"}
    assert commands(findings, machine) == []
    rows = {row[0]: row for row in arrays_table(inventory).rows}
    assert "inactive" not in rows["md127"]
    assert rows["md127"][-2:] == ["assembled", "–"]
    states = [row[2] for row in members_table(held).rows]
    assert states == ["in md126"] * 3


def test_a_disk_is_added_to_the_container_not_to_its_volume(machine: Arrays) -> None:
    container(machine, "external:imsm", "sda sdb sdc")
    volume(machine, "sda sdb")
    found = {(finding.code, finding.subject): finding for finding in find_problems(machine.seen())}
    degraded = found["degraded", "md126"]
    assert "no rebuild runs, although no volume of the container md127 uses sdc" in degraded.message
    assert commands([degraded], machine) == ["mdadm --add /dev/md127 DISK"]
    unused = found["unused-disk", "md127"]
    assert (unused.severity, unused.member) == ("warning", "")
    assert unused.message.startswith("no volume uses sdc: it dropped out of md126, or mdmon did not take it")
    assert commands([unused], machine) == ["mdadm --detail /dev/md127", "mdadm --examine /dev/sdc"]


def test_a_spare_of_a_container_is_named(machine: Arrays) -> None:
    container(machine, "external:imsm", "sda sdb sdc sdd")
    volume(machine, "sda sdb sdc", degraded="0")
    found = machine.findings_by_code()
    assert found["unused-disk"].severity == "note"
    assert found["unused-disk"].message.startswith("no volume uses sdd: it is a spare, or dropped out of a volume")


@pytest.mark.parametrize(
    ("metadata", "md"),
    [
        ("external:ddf", {}),
        ("external:imsm", {"metadata_version": "external:-md127/0"}),
        ("external:imsm", {"array_state": "readonly"}),
        ("external:imsm", {"array_state": "read-auto"}),
        ("external:imsm", {"sync_action": "recover", "sync_completed": "1 / 10"}),
    ],
)
def test_no_command_is_printed_that_was_not_proven(machine: Arrays, metadata: str, md: dict[str, str]) -> None:
    container(machine, metadata, "sda sdb")
    volume(machine, "sda sdb", **md)
    findings = find_problems(machine.seen())
    assert "degraded" in {finding.code for finding in findings}
    assert commands(findings, machine) == []
    if metadata == "external:ddf":
        (degraded,) = [finding for finding in findings if finding.code == "degraded"]
        assert "has no proven command" in " ".join(degraded.remedy)


def test_the_container_of_a_volume_may_be_missing(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.disk("sdb", "8:16")
    volume(machine, "sda sdb")
    found = machine.findings_by_code()
    assert found["external"].message.startswith("is a volume of the container md127:")
    assert commands(list(found.values()), machine) == []


def test_an_old_superblock_of_md_is_not_that_of_a_volume(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-full.vda")
    container(machine, "external:imsm", "sda sdb sdc")
    volume(machine, "sda sdb sdc", degraded="0", mismatch_cnt="8", sync_action="idle", suspend_lo="0", suspend_hi="8")
    inventory = machine.seen()
    assert {member.superblock for array in inventory.arrays for member in array.members} == {None}
    findings = find_problems(inventory)
    codes = {finding.code for finding in findings}
    assert {"two-superblocks", "mismatches", "writes-suspended", "external"} <= codes
    assert not {code for code in codes if code.startswith(("bbl", "absent", "split", "no-bitmap", "alignment"))}
    assert commands(findings, machine) == ["mdadm --examine --metadata=1.2 /dev/sda"]


def test_a_broken_volume_has_no_command(machine: Arrays) -> None:
    container(machine, "external:imsm", "sda sdb")
    volume(machine, "sda", degraded="2", array_state="broken")
    findings = find_problems(machine.seen())
    assert findings[0].code == "broken"
    assert not [line for line in commands(findings, machine) if "md fix" in line or "--add" in line]


def test_raids_of_dmraid_are_named(machine: Arrays) -> None:
    for at, disk in enumerate(("sda", "sdb")):
        machine.disk(disk, f"8:{16 * at}")
    machine.device("dm-0", "253:0", slaves="sda sdb", dm__name="jmicron_JRAID", dm__uuid="DMRAID-jmicron_JRAID")
    machine.device("dm-1", "253:1", slaves="dm-0", dm__name="jmicron_JRAID1", dm__uuid="DMRAID-jmicron_JRAID1")
    inventory = machine.seen()
    assert inventory.firmware_raids == ("jmicron_JRAID",)
    found = machine.findings_by_code()
    assert "jmicron_JRAID: RAID of the firmware (dmraid), not an md device" in found["firmware-raid"].message
    assert commands(list(found.values()), machine) == []


NAA = "naa.600508b400105e210000900000490000"
MPATH = "mpath-3600508b400105e210000900000490000"


def test_members_that_are_multipath_devices_are_named(machine: Arrays) -> None:
    for at, disk in enumerate(("sda", "sdb", "sdc")):
        machine.disk(disk, f"8:{16 * at}", device__wwid=NAA)
    machine.device("dm-0", "253:0", slaves="sda sdb", dm__name="mpatha", dm__uuid=MPATH)
    machine.device("dm-1", "253:1", slaves="sdc", dm__name="mpathb", dm__uuid="mpath-3600508b4")
    machine.device("dm-2", "253:2", slaves="dm-1", dm__name="mpathb-part1", dm__uuid="part1-mpath-3600508b4")
    machine.array("md0", "9:0", {"dm-0": {}, "dm-2": {}})
    found = machine.findings_by_code()
    assert found["multipath"].severity == "note"
    assert found["multipath"].message.startswith("has multipath devices as members: dm-0 (mpatha), dm-2 (mpathb)")
    assert "multipath-path" not in found


@pytest.mark.parametrize("held", ["sda sdb", "sdb"])
def test_a_path_in_an_array_instead_of_its_multipath_device(machine: Arrays, held: str) -> None:
    for at, disk in enumerate(("sda", "sdb")):
        machine.disk(disk, f"8:{16 * at}", device__wwid=NAA)
    machine.disk("sdc", "8:32", device__wwid="naa.5000c500a1b2c3d4")
    machine.device("dm-0", "253:0", slaves=held, dm__name="mpatha", dm__uuid=MPATH)
    machine.array("md0", "9:0", {"sda": {}, "sdc": {}})
    found = machine.findings_by_code()
    assert (found["multipath-path"].severity, found["multipath-path"].member) == ("warning", "sda")
    assert "is a path of the multipath device mpatha" in found["multipath-path"].message
    assert found["multipath-path"].remedy == ()


def test_two_paths_of_one_disk_in_one_array(machine: Arrays) -> None:
    for at, disk in enumerate(("sda", "sdb")):
        machine.disk(disk, f"8:{16 * at}", device__wwid=NAA)
        machine.device(f"{disk}1", f"8:{16 * at + 1}", parent=disk, start="2048")
    machine.array("md0", "9:0", {"sda1": {}, "sdb1": {}})
    found = machine.findings_by_code()
    assert found["same-disk"].severity == "critical"
    assert "sda1 and sdb1 have the same WWN" in found["same-disk"].message
    assert found["same-disk"].remedy == ()


def test_two_partitions_of_one_disk_are_no_paths(machine: Arrays) -> None:
    machine.disk("sda", "8:0", device__wwid=NAA)
    for at in (1, 2):
        machine.device(f"sda{at}", f"8:{at}", parent="sda", start="2048")
    machine.array("md0", "9:0", {"sda1": {}, "sda2": {}})
    assert "same-disk" not in machine.findings_by_code()
