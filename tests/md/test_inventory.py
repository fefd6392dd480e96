"""Arrays of a machine, as sysfs tells them, and what is found."""

import io
import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from blklab.errors import UsageError
from blklab.md import members
from blklab.md.audit import findings
from blklab.md.superblocks import SectorRange
from blklab.report import arrays as report
from blklab.system import roots as system_roots
from tests.conftest import Run
from tests.md.conftest import Arrays, program

RIVALS = {"repair-corrupts", "bbl-entries", "degraded", "events", "bbl-disagree", "faulty"}


def test_a_sound_mirror(machine: Arrays) -> None:
    machine.mirror()
    (array,) = machine.seen().arrays
    assert (array.level, array.raid_disks, array.bitmap, array.degraded) == ("raid1", 2, True, 0)
    assert array.uuid == "3156a3e6:4a433ea3:f425167f:2e6739fd"
    assert [(one.name, one.slot, one.kind) for one in array.members] == [
        ("sda", 0, "flash"),
        ("sdb", 1, "flash"),
    ]
    assert all(one.superblock for one in array.members)
    assert not array.unseen
    found = machine.found()
    assert not RIVALS & found.keys()
    assert [one.severity for one in found.values()] == ["note", "note"]
    assert found["bbl-empty"].remedy == (f"blklab md fix bbl {machine.roots.dev}/md0",)


def test_0_90_whose_uuid_sysfs_turns_around(machine: Arrays) -> None:
    machine.mirror(
        "raid1-090", metadata_version="0.90", uuid="79a1b61a-7e6a-220a-3c6b-183d348f9553"
    )
    (array,) = machine.seen().arrays
    assert array.uuid == "1ab6a179:0a226a7e:3d186b3c:53958f34"
    assert all(one.superblock for one in array.members)
    assert "bbl-none" in machine.found()


def test_entries_of_the_disk_and_of_memory(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-populated.vda")
    machine.disk("sdb", "8:16", "raid1-12-populated.vdb")
    known = "4096 8\n10000 100\n20000 512\n20512 512\n21024 476"
    machine.array("md0", "9:0", {"sda": {"bad_blocks": known}, "sdb": {}})
    found = machine.found()
    assert "5 entries, 1,608 sectors" in found["bbl-entries"].message
    assert "bbl-disagree" not in found
    assert "repair-corrupts" in found
    # The other member has all of it: this one can be written anew.
    assert [line.split()[0] for line in found["bbl-entries"].remedy] == [
        "smartctl", "mdadm", "mdadm", "mdadm", "mdadm",
    ]  # fmt: skip
    path = machine.roots.sys / "block/md0/md/dev-sdb/unacknowledged_bad_blocks"
    path.write_text("77777 3\n")
    found = machine.found()
    assert found["bbl-disagree"].member == "sdb"
    assert "the kernel's has 3 sectors in 1 range" in found["bbl-disagree"].message
    assert found["bbl-entries"].remedy == (f"mdadm --examine-badblocks {machine.roots.dev}/sda",)


def test_a_disk_that_could_not_be_added_again_is_not_to_be_taken_out(machine: Arrays) -> None:
    machine.mirror("raid1-12-populated")
    machine.proc("sys/kernel/osrelease", "6.12.111+deb12-cloud-amd64")
    program(machine, "4.2")
    found = machine.found()
    assert "Linux 6.12 with mdadm 4.2: --add to this array fails" in found["add-fails"].message
    assert len(found["bbl-entries"].remedy) == 1


@pytest.mark.parametrize(("kernel", "mdadm"), [("6.1.0-37", "4.2"), ("6.12.1", "4.5")])
def test_and_where_it_can(machine: Arrays, kernel: str, mdadm: str) -> None:
    machine.mirror("raid1-12-populated")
    machine.proc("sys/kernel/osrelease", kernel)
    program(machine, mdadm)
    assert "add-fails" not in machine.found()


def test_a_write_error_that_nobody_was_told_of(machine: Arrays) -> None:
    machine.mirror()
    path = machine.roots.sys / "block/md0/md/dev-sdb/state"
    path.write_text("in_sync,write_error,want_replacement\n")
    found = machine.found()["write-error"]
    assert (found.severity, found.member) == ("critical", "sdb")
    assert "write_error and want_replacement" in found.message


def test_a_list_that_sysfs_cuts(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-full.vda")
    machine.disk("sdb", "8:16", "raid1-12-full.vdb")
    shown = "\n".join(f"{10000 + 16 * at} 8" for at in range(511))[:4090]
    machine.array("md0", "9:0", {"sda": {"bad_blocks": shown}, "sdb": {}})
    found = machine.found()
    assert "512 entries" in found["bbl-full"].message
    assert "bbl-disagree" not in found


def test_a_degraded_array_that_is_rebuilt(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.array("md0", "9:0", {"sda": {}}, raid_disks="2", degraded="1")
    found = machine.found()
    assert found["degraded"].severity == "critical"
    assert "there is no spare; the next failure loses data" in found["degraded"].message
    node = machine.roots.sys / "block/md0"
    machine.write(
        node,
        {"md__sync_action": "recover", "md__sync_completed": "1024 / 522240",
         "md__sync_speed": "1000"},
    )  # fmt: skip
    found = machine.found()
    assert "it is being rebuilt" in found["degraded"].message
    assert found["under-way"].message == (
        "recovery is under way: at 0.2 %, 4m 21s left at 1,000 KiB/s"
    )


def test_a_faulty_member(machine: Arrays) -> None:
    machine.mirror(degraded="1")
    node = machine.roots.sys / "block/md0/md/dev-sdb"
    machine.write(node, {"state": "faulty", "slot": "none"})
    found = machine.found()["faulty"]
    assert found.member == "sdb"
    assert found.remedy == (f"mdadm {machine.roots.dev}/md0 --remove {machine.roots.dev}/sdb",)


def test_mismatches_and_checks(machine: Arrays) -> None:
    machine.mirror(mismatch_cnt="128", last_sync_action="none")
    found = machine.found()
    assert found["mismatches"].message.startswith("128 sectors do not match: of mirrors")
    assert "last_sync_action is none" in found["never-checked"].message
    cron = "57 0 * * 0 root /usr/share/mdadm/checkarray --cron --all\n"
    machine.write(machine.root, {"etc__cron.d__mdadm": cron})
    assert "never-checked" not in machine.found()
    machine.write(machine.root, {"etc__default__mdadm": "AUTOCHECK=false"})
    assert "never-checked" in machine.found()
    timers = machine.root / "etc/systemd/system/mdmonitor.service.wants"
    timers.mkdir(parents=True)
    (timers / "mdcheck_start.timer").symlink_to("/lib/systemd/system/mdcheck_start.timer")
    assert "never-checked" not in machine.found()


def test_the_configuration(machine: Arrays) -> None:
    machine.mirror()
    assert "there is no mdadm.conf" in machine.found()["config-bbl"].message
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": "# CREATE bbl=no\nCREATE owner=root"})
    assert "config-bbl" in machine.found()
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": "crea owner=root\n  BBL=no # off"})
    assert "config-bbl" not in machine.found()


def test_no_bitmap_matters_where_it_is_large(machine: Arrays) -> None:
    machine.mirror(bitmap__location="none")
    assert "no-bitmap" not in machine.found()
    machine.write(machine.roots.sys / "block/md0", {"size": str(200 << 21)})
    assert machine.found()["no-bitmap"].remedy == (
        f"mdadm --grow --bitmap=internal {machine.roots.dev}/md0",
    )
    machine.write(machine.roots.sys / "block/md0", {"md__consistency_policy": "journal"})
    assert "no-bitmap" not in machine.found()


def test_flash_and_rotating_disks(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid10-n2.vda")
    machine.disk("sdb", "8:16", "raid10-n2.vdb", queue__rotational="1")
    machine.array(
        "md0", "9:0", {"sda": {}, "sdb": {}}, level="raid10", layout="258", chunk_size="524288"
    )
    found = machine.found()
    assert "RAID-10 reads from sda alone" in found["mixed"].message
    machine.write(machine.roots.sys / "block/sdb", {"queue__rotational": "0"})
    machine.write(machine.roots.sys / "block/md0", {"md__layout": "513"})
    found = machine.found()
    assert "mixed" not in found
    assert "layout far2 of flash only" in found["layout"].message


def test_partitions_that_begin_within_a_block(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.device("sda1", "8:1", parent="sda", start="63")
    (machine.roots.dev / "sda1").write_bytes(b"")
    machine.array("md0", "9:0", {"sda1": {"offset": "0"}}, level="raid0", chunk_size="65536")
    found = machine.found()["alignment"]
    assert (found.severity, found.member) == ("warning", "sda1")
    assert "data begin at byte 32,256 of the disk" in found.message


def ext4(stride: int, width: int) -> bytes:
    head = bytearray(8192)
    struct.pack_into("<IH", head, 1024 + 0x18, 2, 0)
    head[1024 + 0x38 : 1024 + 0x3A] = b"\x53\xef"
    struct.pack_into("<H", head, 1024 + 0x164, stride)
    struct.pack_into("<I", head, 1024 + 0x170, width)
    return bytes(head)


def xfs(unit: int, width: int) -> bytes:
    head = bytearray(8192)
    head[:4] = b"XFSB"
    struct.pack_into(">I", head, 4, 4096)
    struct.pack_into(">II", head, 184, unit, width)
    return bytes(head)


@pytest.fixture
def parity(machine: Arrays) -> Arrays:
    for at, name in enumerate(("sda", "sdb", "sdc")):
        machine.disk(name, f"8:{16 * at}")
    machine.array(
        "md0", "9:0", {"sda": {}, "sdb": {}, "sdc": {}}, level="raid5", layout="2",
        chunk_size="524288",
    )  # fmt: skip
    machine.mount("9:0", Path("/srv"), "ext4", "/dev/md0")
    return machine


def test_filesystems_that_know_their_stripes(parity: Arrays) -> None:
    device = parity.roots.dev / "md0"
    for right in (ext4(128, 256), xfs(128, 256)):
        device.write_bytes(right)
        assert "filesystem-stripe" not in parity.found()


def test_filesystems_that_do_not(parity: Arrays) -> None:
    device = parity.roots.dev / "md0"
    device.write_bytes(ext4(0, 0))
    found = parity.found()["filesystem-stripe"]
    assert found.severity == "warning"
    assert "ext4 of" in found.message
    assert "on /srv was told nothing" in found.message
    assert "`mkfs.ext4 -b 4096 -E stride=128,stride-width" not in found.message
    assert "`mkfs.ext4 -b 4096 -E stride=128,stripe-width=256`" in found.message
    assert found.remedy == (f"tune2fs -E stride=128,stripe_width=256 {device}",)
    device.write_bytes(xfs(16, 32))
    found = parity.found()["filesystem-stripe"]
    assert "believes in 64 KiB × 128 KiB" in found.message
    assert "`mkfs.xfs -d su=512k,sw=2`" in found.message
    assert "sunit=1024,swidth=2048" in found.message


def test_partitions_of_an_array(parity: Arrays) -> None:
    parity.device("md0p1", "259:0", parent="md0", start="2048")
    (parity.roots.dev / "md0p1").write_bytes(ext4(0, 0))
    found = parity.found()
    assert "partition-alignment" not in found, "1 MiB is a stripe here"
    assert found["filesystem-stripe"].remedy[0].endswith("/md0p1")
    parity.write(parity.roots.sys / "block/md0/md0p1", {"start": "1024"})
    assert "begins within a stripe" in parity.found()["partition-alignment"].message


def test_what_firmware_reads(machine: Arrays) -> None:
    machine.mirror()
    machine.mount("9:0", Path("/boot/efi"), "vfat", "/dev/md0")
    assert "lie before the data" in machine.found()["firmware-metadata"].message


def test_what_may_not_be_read_is_said(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.mirror()

    def denied(path: Path, *_: object) -> str:
        raise UsageError(f"{path}: Permission denied (os error 13)")

    monkeypatch.setattr("blklab.md.superblocks.examine_md", denied)
    path = machine.roots.sys / "block/md0/md/dev-sda/bad_blocks"
    path.write_text("4096 8\n")
    (array,) = machine.seen().arrays
    assert array.unseen == tuple(
        f"{machine.roots.dev}/{name}: not seen: permission denied: as root more is seen"
        for name in ("sda", "sdb")
    )
    found = machine.found()
    assert "1 entry, 8 sectors" in found["bbl-entries"].message
    assert "4096-4103 (array 2048-2055)" in found["bbl-entries"].message
    assert "bbl-disagree" not in found
    assert "bbl-none" not in found


def test_members_that_are_gone(machine: Arrays) -> None:
    machine.mirror()
    (machine.roots.dev / "sda").unlink()
    (array,) = machine.seen().arrays
    assert "no such file" in array.unseen[0].lower()
    assert array.members[0].listed == ()
    assert "bbl-disagree" not in machine.found()


def test_firmware_raid_is_named(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.array(
        "md127", "9:127", {"sda": {"slot": "none", "state": "spare"}}, level="container",
        raid_disks="0", metadata_version="external:imsm", array_state="inactive",
    )  # fmt: skip
    found = machine.found()
    assert "Intel IMSM" in found["external"].message
    assert "inactive" not in found


def test_mdstat_that_knows_more(machine: Arrays) -> None:
    machine.proc("mdstat", "Personalities : [raid1]\nmd7 : active raid1 sda[0]\nunused devices:")
    assert "md7: " in machine.seen().unseen[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("4096 8\n10000 100\n", (SectorRange(4096, 8), SectorRange(10000, 100))),
        ("5 0\nnonsense\n-1 4\n1 2 3\n7 1", (SectorRange(7, 1),)),
    ],
)
def test_lists_as_sysfs_writes_them(text: str, found: tuple[SectorRange, ...]) -> None:
    assert members.ranges(text) == found


def test_from_the_command_line(machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_roots, "Roots", lambda: machine.roots)
    machine.mirror()
    assert run("md", "audit").status == 0
    machine.write(machine.roots.sys / "block/md0", {"md__degraded": "1"})
    done = run("md", "audit")
    assert done.status == 1
    assert "critical  md0: lacks 1 member of 2" in done.out
    assert "\x1b" not in done.out


def test_a_machine_without_arrays(
    machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_roots, "Roots", lambda: machine.roots)
    done = run("md", "audit")
    assert (done.status, done.err) == (0, "")
    assert "No md array was found." in done.out
    (machine.roots.sys / "block").rmdir()
    done = run("md", "audit")
    assert done.status == 3
    assert "nothing could be seen" in done.err


ATTRIBUTES = (
    "layout", "chunk_size", "raid_disks", "level", "metadata_version", "degraded", "sync_action",
    "sync_completed", "sync_speed", "mismatch_cnt", "reshape_position", "bitmap__location", "uuid",
    "component_size", "dev-sda__slot", "dev-sda__state", "dev-sda__errors", "dev-sda__offset",
    "dev-sda__bad_blocks", "dev-sdb__unacknowledged_bad_blocks",
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(ATTRIBUTES),
        st.one_of(
            st.integers(-(2**70), 2**70).map(str),
            st.sampled_from(
                ["raid10", "raid6", "linear", "recover", "258", "66049", "65536", "-1", "none",
                 "0 / 0", "5 / 3", "0 1023\n512 512", f"{2**64} 512", "9 (8)", "0"]
            ),
            st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=9),
        ),
        max_size=8,
    )
)  # fmt: skip
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_sysfs_says(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, str]
) -> None:
    machine = Arrays(tmp_path_factory.mktemp("machine"))
    machine.disk("sda", "8:0")
    machine.disk("sdb", "8:16", queue__rotational="1")
    machine.array("md0", "9:0", {"sda": {"bad_blocks": "4096 8"}, "sdb": {}})
    machine.write(
        machine.roots.sys / "block/md0", {f"md__{name}": text for name, text in said.items()}
    )
    found = machine.seen()
    document = report.as_dict(found, findings(found))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    console = Console(file=io.StringIO(), markup=False, emoji=False, highlight=False)
    report.show(console, found, findings(found))


def test_writes_that_are_held_back(machine: Arrays) -> None:
    machine.mirror(suspend_lo="0", suspend_hi="0")
    assert "writes-suspended" not in machine.found()
    node = machine.roots.sys / "block/md0"
    machine.write(node, {"md__suspend_hi": str((1 << 63) - 1)})
    found = machine.found()["writes-suspended"]
    assert found.severity == "critical"
    assert found.remedy == ("echo 0 > /sys/block/md0/md/suspend_hi",)
    # mdadm does it too, while it reshapes.
    machine.write(node, {"md__reshape_position": "1024"})
    assert "writes-suspended" not in machine.found()
