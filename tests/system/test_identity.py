"""Names of disks that stay: from udev's database and from sysfs alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.system.identity import find_by_id, is_bare, of_number, resolve, same_disk
from blklab.system.users import openers, uses
from tests.system.machine import Machine


def udev(machine: Machine, number: str, *lines: str) -> None:
    machine.write(machine.roots.udev, {f"b{number}": "\n".join(lines)})


def ids(machine: Machine, number: str) -> tuple[str, ...]:
    return of_number(number, machine.roots).ids


def test_what_udev_says(machine: Machine) -> None:
    udev(
        machine,
        "8:32",
        "S:disk/by-id/wwn-0x5000c500a1b2c3d4",
        "S:disk/by-path/pci-0000:00:1f.2-ata-1",
        "S:disk/by-id/ata-ST4000DM004-2CV104_ZFN0",
        "E:ID_SERIAL=ST4000DM004-2CV104_ZFN0",
        "E:ID_SERIAL_SHORT=ZFN0",
        "E:ID_WWN=0x5000c500a1b2c3d4",
    )
    device = of_number("8:32", machine.roots)
    assert device.id == "ata-ST4000DM004-2CV104_ZFN0"
    for name in (
        "ata-ST4000DM004-2CV104_ZFN0",
        "/dev/disk/by-id/ata-ST4000DM004-2CV104_ZFN0",
        "ZFN0",
        "wwn-0x5000c500a1b2c3d4",
        "0x5000C500A1B2C3D4",
        "naa.5000c500a1b2c3d4",
    ):
        assert device.is_called(name), name
    for name in ("", "sdc", "/dev/sdc", "ZFN", "pci-0000:00:1f.2-ata-1", "ata-ST4000DM004"):
        assert not device.is_called(name), name


def test_partitions_are_told_from_their_disk(machine: Machine) -> None:
    udev(machine, "8:33", "E:ID_SERIAL_SHORT=ZFN0", "E:PARTN=1", "S:disk/by-id/ata-X_ZFN0-part1")
    udev(machine, "8:32", "E:ID_SERIAL_SHORT=ZFN0", "S:disk/by-id/ata-X_ZFN0")
    machine.write(machine.roots.sys / "block/sdc", {"device/wwid": "naa.5000c500a1b2c3d4"})
    assert [device.name for device in find_by_id("ZFN0", machine.roots)] == ["sdc"]
    assert [device.name for device in find_by_id("ZFN0-part1", machine.roots)] == ["sdc1"]
    assert [d.name for d in find_by_id("wwn-0x5000c500a1b2c3d4-part1", machine.roots)] == ["sdc1"]
    assert resolve("ZFN0", machine.roots).number == "8:32"


def test_without_udev_sysfs_is_asked(machine: Machine) -> None:
    machine.device("nvme0n1", "259:0", wwid="eui.0025385a01b2c3d4", device__serial="S4EV  ")
    assert ids(machine, "259:0") == ("eui.0025385a01b2c3d4", "S4EV")
    assert of_number("259:0", machine.roots).is_called("nvme-eui.0025385a01b2c3d4")
    machine.device("vda", "254:0", serial="disk-7")
    assert ids(machine, "254:0") == ("disk-7",)
    node = machine.roots.sys / "block/sdc/device"
    (node / "vpd_pg80").write_bytes(b"\0\x80\0\x08  WD-123" + b"rubbish")
    machine.write(node, {"wwid": "t10.ATA     WDC X    WD-123"})
    assert ids(machine, "8:32") == ("t10.ATA WDC X WD-123", "WD-123")
    machine.write(machine.roots.sys / "block/dm-0/dm", {"uuid": "LVM-abc"})
    assert ids(machine, "253:0") == ("dm-uuid-LVM-abc", "dm-name-vg-lv")


@pytest.mark.parametrize(
    "name",
    [
        "md-uuid-3ebbee71:642cda15:bf9f3c84:501d7989",
        "/dev/disk/by-id/md-uuid-3ebbee71:642cda15:bf9f3c84:501d7989",
        "md-uuid-3ebbee71-642c-da15-bf9f-3c84501d7989",
    ],
)
def test_an_array_has_one_uuid_however_it_is_written(machine: Machine, name: str) -> None:
    """As sysfs of a 6.1 kernel had it, and mdadm 4.2 of the same array."""
    machine.device("md9", "9:9", md__uuid="3ebbee71-642c-da15-bf9f-3c84501d7989")
    device = of_number("9:9", machine.roots)
    assert device.is_called(name)
    assert device.id == "md-uuid-3ebbee71:642cda15:bf9f3c84:501d7989"


def test_a_loop_device_is_its_file(machine: Machine) -> None:
    machine.device("loop0", "7:0", loop__backing_file="/srv/disk image")
    assert ids(machine, "7:0") == ("file:/srv/disk image",)
    machine.write(machine.roots.sys / "block/loop0/loop", {"backing_file": "/srv/x (deleted)"})
    assert ids(machine, "7:0") == ()


def test_shared_serial_numbers_name_nothing(machine: Machine) -> None:
    for number in ("8:0", "8:16"):
        udev(machine, number, "E:ID_SERIAL_SHORT=0123456789ABCDEF")
    with pytest.raises(BlklabError, match=r"found 2 devices with this id \(sda, sdb\)"):
        resolve("0123456789ABCDEF", machine.roots)
    with pytest.raises(UsageError, match="no device has this id"):
        resolve("unknown", machine.roots)
    with pytest.raises(BlklabError, match=r"no device 8:99 in .* it is gone"):
        of_number("8:99", machine.roots)


def test_bare_names(machine: Machine) -> None:
    names = ("sda", "/dev/sda", "/dev/disk/by-path/x", "/dev/mapper/x", "md127")
    assert all(is_bare(name, machine.roots) for name in names)
    assert not any(is_bare(name, machine.roots) for name in ("ata-X", "/dev/disk/by-id/ata-X", "file:/dev/x"))


def test_the_same_disk(machine: Machine) -> None:
    udev(machine, "8:32", "E:ID_SERIAL_SHORT=A")
    old = of_number("8:32", machine.roots)
    assert (old.diskseq, old.size) == (None, 1 << 30)
    assert same_disk(old, replace(old, ids=("A", "lvm-pv-uuid-x"), size=7))
    assert not same_disk(old, replace(old, ids=("B",)))
    assert not same_disk(replace(old, ids=()), replace(old, ids=(), size=7))
    assert not same_disk(replace(old, diskseq=3), replace(old, diskseq=4))
    assert same_disk(replace(old, diskseq=3), replace(old, diskseq=3, ids=()))
    assert not same_disk(old, replace(old, name="sdd"))
    machine.write(machine.roots.sys / "block/sdc", {"diskseq": "12"})
    assert of_number("8:33", machine.roots).diskseq == 12


def reasons(machine: Machine, number: str) -> list[str]:
    return uses(of_number(number, machine.roots), machine.roots)


def test_who_uses_a_disk(machine: Machine) -> None:
    machine.mount("253:0", Path("/srv"), "ext4", "/dev/mapper/vg-lv")
    machine.proc("swaps", "Filename Type Size Used Priority\n/dev/sdc1 partition 1 0 -2")
    assert reasons(machine, "9:127") == ["md127 is mounted at /srv through /dev/mapper/vg-lv", "md127 is part of dm-0"]
    assert "sda1 is part of md127" in reasons(machine, "8:0")
    assert "sda1 is mounted at /srv through /dev/mapper/vg-lv" in reasons(machine, "8:1")
    assert reasons(machine, "8:32") == ["sdc1 is used as swap (/dev/sdc1; to free it, run swapoff)"]
    machine.proc("swaps", "Filename Type Size Used Priority\n")
    assert reasons(machine, "8:32") == []


def test_a_free_partition_next_to_a_used_one(machine: Machine) -> None:
    machine.device("sdc2", "8:34", parent="sdc")
    machine.mount("8:33", Path("/srv"), "ext4", "/dev/sdc1")
    assert reasons(machine, "8:34") == []
    assert reasons(machine, "8:32") == ["sdc1 is mounted at /srv"]
    machine.mount("8:32", Path("/whole"), "ext4", "/dev/sdc")
    assert "sdc is mounted at /whole" in reasons(machine, "8:34")


def test_every_device_of_a_btrfs(machine: Machine) -> None:
    members = machine.roots.sys / "fs/btrfs/uuid/devices"
    members.mkdir(parents=True)
    machine.device("sdd", "8:48")
    for name in ("sdc1", "sdd"):
        (members / name).symlink_to(machine.roots.sys / "class/block" / name)
    machine.mount("0:45", Path("/pool"), "btrfs", "/dev/sdd")
    assert reasons(machine, "8:33") == ["sdc1 is mounted at /pool"]


def test_bcache_has_a_device_without_a_holder(machine: Machine) -> None:
    machine.write(machine.roots.sys / "block/sdc/bcache", {"state": "no cache"})
    assert reasons(machine, "8:32") == ["sdc is registered with bcache"]


def test_what_cannot_be_read_is_no_opener(machine: Machine) -> None:
    machine.proc("77/comm", "qemu")
    (machine.roots.proc / "77/fd").mkdir()
    (machine.roots.proc / "77/fd/3").symlink_to("/dev/null")
    (machine.roots.proc / "77/fd/4").symlink_to("socket:[1]")
    (machine.roots.proc / "77/fd/5").symlink_to("/dev/blklab-none")
    assert openers(of_number("8:32", machine.roots), machine.roots) == []
