"""Members that lie outside of arrays, and arrays that are not assembled."""

from pathlib import Path

import pytest

from blklab.md.inventory import read_inventory
from blklab.md.probing import Probe
from blklab.md.remote import read_recorded_inventory
from blklab.md.remote.probe_output import parse_output
from blklab.md.superblocks import SuperblockReading
from tests.md.conftest import BYTES, Arrays, image
from tests.md.remote.conftest import probe

RAID1_UUID = "3156a3e6:4a433ea3:f425167f:2e6739fd"


def names(machine: Arrays) -> list[str]:
    return [member.name for member in machine.seen().outside]


def test_a_removed_member_is_outside_of_its_array(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.disk("sdb", "8:16", "raid1-12-bitmap.vdb")
    machine.array("md0", "9:0", {"sda": {}}, raid_disks="2", degraded="1")
    seen = machine.seen()
    (array,) = seen.arrays
    (member,) = array.outside
    assert (member.name, member.slot, member.size, member.rotational) == ("sdb", 1, BYTES, False)
    assert seen.outside == (member,)
    assert seen.unassembled == ()


def test_an_array_without_any_assembled_member(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.disk("sdb", "8:16", "raid1-12-bitmap.vdb")
    seen = machine.seen()
    assert seen.arrays == ()
    (array,) = seen.unassembled
    assert (array.uuid, array.live, array.path, array.raid_disks, array.usable) == (RAID1_UUID, False, "", 2, 2)
    assert [member.name for member in array.members] == ["sda", "sdb"]
    machine.write(machine.root, {"etc__mdadm.conf": f"ARRAY /dev/md/home UUID={RAID1_UUID}"})
    assert [array.name for array in machine.seen().unassembled] == ["home"]


def test_0_90_is_recognised_in_both_byte_orders(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.disk("sdb", "8:16", "raid1-090.vdb")
    uuid = "79a1b61a-7e6a-220a-3c6b-183d348f9553"
    machine.array("md0", "9:0", {"sda": {}}, raid_disks="2", metadata_version="0.90", uuid=uuid)
    (array,) = machine.seen().arrays
    assert [member.name for member in array.outside] == ["sdb"]


@pytest.mark.parametrize("recorded", ["raid1-10", "raid1-090"])
@pytest.mark.parametrize("assembled", [True, False])
def test_a_superblock_at_the_end_of_disk_and_partition_is_of_the_partition(
    machine: Arrays, recorded: str, assembled: bool
) -> None:
    # The partition begins at 1 MiB, a multiple of 64 KiB as 0.90 needs, and ends with the disk.
    machine.disk("sda", "8:0", size=str((BYTES + (1 << 20)) // 512))
    machine.device("sda1", "8:1", parent="sda", start="2048", size=str(BYTES // 512))
    part = image(f"{recorded}.vda", machine.root)
    (machine.roots.dev / "sda1").symlink_to(part)
    (machine.roots.dev / "sda").write_bytes(bytes(1 << 20) + part.read_bytes())
    if assembled:
        machine.array("md0", "9:0", {"sda1": {}}, raid_disks="2", metadata_version=recorded)
    assert names(machine) == ([] if assembled else ["sda1"])


def test_what_something_else_holds_is_not_read(machine: Arrays) -> None:
    for at, name in enumerate(("sda", "sdb", "zram0", "sr0", "ram0")):
        machine.disk(name, f"8:{at}", "raid1-12-bitmap.vda")
    machine.disk("sdc", "8:32", "raid1-12-bitmap.vda", size="0")
    machine.device("dm-0", "253:0", slaves="sda sdb", dm__name="mpatha", size=str(BYTES // 512))
    (machine.roots.dev / "dm-0").symlink_to(image("raid1-12-bitmap.vda", machine.root))
    assert names(machine) == ["dm-0"]


def test_a_partition_of_a_disk_that_is_in_an_array_belongs_to_the_array(machine: Arrays) -> None:
    machine.mirror()
    machine.device("sda1", "8:1", parent="sda", start="2048", size="1000")
    (machine.roots.dev / "sda1").symlink_to(image("raid1-11.vda", machine.root))
    assert names(machine) == []


def test_devices_in_use_say_what_uses_them(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.device("sda1", "8:1", parent="sda", start="2048", size="1000")
    machine.disk("sdb", "8:16", "raid1-12-bitmap.vdb")
    machine.mount("8:1", Path("/srv"), "ext4", "/dev/sda1")
    machine.proc("swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb partition 1 0 -2")
    users = {member.name: member.users for member in machine.seen().outside}
    assert users == {"sda": ("sda1 is mounted at /srv",), "sdb": ("used as swap",)}


def test_devices_that_cannot_be_read_are_one_line(machine: Arrays) -> None:
    class Denied(Probe):
        def read_superblocks(self, path: Path) -> SuperblockReading:  # noqa: ARG002
            return SuperblockReading(failure="permission denied: run blklab as root")

    for at in range(8):
        machine.disk(f"sd{'abcdefgh'[at]}", f"8:{16 * at}")
    machine.device("sda1", "8:1", parent="sda", start="2048", size="1000")
    (line,) = read_inventory(machine.roots, Denied()).unread
    shown = ", ".join(f"{machine.roots.dev}/{name}" for name in ("sda1", "sdb", "sdc", "sdd", "sde", "sdf"))
    assert line == f"{shown} and 2 more: not seen: permission denied: run blklab as root"


def test_the_probe_records_unused_devices_with_superblocks(machine: Arrays) -> None:
    machine.mirror()
    machine.disk("sdc", "8:32", "raid1-12-bitmap.vda")
    machine.disk("sdd", "8:48", "raid1-10.vda")
    machine.disk("sde", "8:64", "raid1-090.vda")
    machine.disk("sdf", "8:80")
    (machine.roots.dev / "sdf").write_bytes(bytes(range(256)) * 4096)
    output = parse_output(probe(machine.root))
    assert output.disks["/dev/sdf"].bytes == 0
    here, there = machine.seen(), read_recorded_inventory(output)
    assert [member.name for member in there.outside] == ["sdc", "sdd", "sde"]
    assert [member.superblock for member in there.outside] == [member.superblock for member in here.outside]
    assert [array.name for array in there.unassembled] == [array.name for array in here.unassembled]


def test_a_probe_reads_a_limited_number_of_unused_devices(machine: Arrays) -> None:
    for at in range(258):
        machine.device(f"sd_{at}", f"8:{at}")
        (machine.roots.dev / f"sd_{at}").write_bytes(b"")
    (line,) = read_recorded_inventory(parse_output(probe(machine.root))).unread
    assert line.startswith("/dev/sd_98, /dev/sd_99: not seen: this probe did not read it")


def test_old_recordings_name_the_devices_that_they_lack(machine: Arrays) -> None:
    machine.mirror()
    machine.disk("sdc", "8:32", "raid1-12-bitmap.vda")
    machine.disk("sdd", "8:48", size="8")
    recorded = probe(machine.root)
    before, _, rest = recorded.partition(b"disk /dev/sdc\n")
    old = before + rest[rest.index(b"link /sys/class/block/sdd") :].partition(b"disk /dev/sdd\n")[0] + b"\nend\n"
    assert len(old) < len(recorded)
    seen = read_recorded_inventory(parse_output(old))
    (line,) = seen.unread
    assert line.startswith("/dev/sdc: not seen: this probe did not read it: record it again")
    assert seen.outside == ()
