"""Arrays of a machine, as sysfs tells them, and what is found."""

import io
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from blklab.errors import UsageError
from blklab.md import inventory, report
from blklab.md.audit import find_problems
from blklab.md.good_copies import find_rewritable_pages
from blklab.md.model import Inventory
from blklab.md.superblocks import SectorRange
from tests.conftest import Run
from tests.md.conftest import Arrays, program
from tests.md.crafted import with_block_size, with_lockless_bitmap

RIVALS = {"repair-corrupts", "bbl-entries", "degraded", "events", "bbl-disagree", "faulty"}


def test_a_sound_mirror(machine: Arrays) -> None:
    machine.mirror()
    (array,) = machine.seen().arrays
    assert (array.level, array.raid_disks, array.bitmap, array.degraded) == ("raid1", 2, True, 0)
    assert array.uuid == "3156a3e6:4a433ea3:f425167f:2e6739fd"
    assert [(item.name, item.slot, item.kind) for item in array.members] == [("sda", 0, "flash"), ("sdb", 1, "flash")]
    assert all(item.superblock for item in array.members)
    assert not array.unseen
    result = machine.findings_by_code()
    assert not RIVALS & result.keys()
    assert [item.severity for item in result.values()] == ["note", "note"]
    assert result["bbl-empty"].remedy == (f"blklab md fix bbl {machine.roots.dev}/md0",)


def test_0_90_whose_uuid_sysfs_turns_around(machine: Arrays) -> None:
    machine.mirror("raid1-090", metadata_version="0.90", uuid="79a1b61a-7e6a-220a-3c6b-183d348f9553")
    (array,) = machine.seen().arrays
    assert array.uuid == "1ab6a179:0a226a7e:3d186b3c:53958f34"
    assert all(item.superblock for item in array.members)
    assert "bbl-none" in machine.findings_by_code()


def test_entries_of_the_disk_and_of_memory(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-populated.vda")
    machine.disk("sdb", "8:16", "raid1-12-populated.vdb")
    known = "4096 8\n10000 100\n20000 512\n20512 512\n21024 476"
    machine.array("md0", "9:0", {"sda": {"bad_blocks": known}, "sdb": {}})
    result = machine.findings_by_code()
    assert "5 entries, 1,608 sectors" in result["bbl-entries"].message
    assert "bbl-disagree" not in result
    assert "repair-corrupts" in result
    # The other member has all of it: the ranges can be written again without taking a member out.
    remedy = result["bbl-entries"].remedy
    dev = machine.roots.dev
    assert [line for line in remedy if line[0] != "#"] == [f"blklab md fix entries {dev}/md0"]
    assert "the only good copy is on sdb" in result["bbl-entries"].message
    path = machine.roots.sys / "block/md0/md/dev-sdb/unacknowledged_bad_blocks"
    path.write_text("77777 3\n")
    result = machine.findings_by_code()
    assert result["bbl-disagree"].member == "sdb"
    assert "the kernel's list has 3 sectors in 1 range" in result["bbl-disagree"].message
    path.write_text("4096 3\n")
    result = machine.findings_by_code()
    assert "bbl-lost" in result
    # The page without a good copy is left out.
    pages = find_rewritable_pages(machine.seen().arrays[0])
    assert sorted(pages) == [*range(994, 1007), *range(2244, 2432)]


def test_an_array_that_refuses_writes_is_critical_and_has_the_way_out(machine: Arrays) -> None:
    machine.mirror(array_state="broken")
    result = machine.findings_by_code()["broken"]
    assert result.severity == "critical"
    assert "every write to it fails" in result.message
    assert "What was written before can still be read" in result.message
    restart = f"blklab md fix restart {machine.roots.dev}/md0"
    assert [line for line in result.remedy if line[0] != "#"] == [restart]
    assert "Copy the disk with the error (see dmesg) first (ddrescue)" in result.remedy[0]


def test_the_read_error_that_broke_an_array_is_named(machine: Arrays) -> None:
    machine.mirror(array_state="broken")
    (machine.roots.dev / "kmsg").write_text(
        "6,1,1,-;md/raid1:md0: active with 2 out of 2 mirrors\n SUBSYSTEM=block\n"
        "4,2,2,-;md/raid1:md0: Disk failure on sdb, disabling device.\n"
        "1,3,3,-;md/raid1:md0: sda: unrecoverable I/O read error for block 4096\n"
        "1,4,4,-;md/raid1:md0: sdz: unrecoverable I/O read error for block 1\n"
        "1,5,5,-;md/raid1:md1: sda: unrecoverable I/O read error for block 2\n"
        "12,6,6,-;md/raid1:md0: sda: unrecoverable I/O read error for block 3\n"
        "1,7,7,-;md/raid1:md0: sda: unrecoverable I/O read error for block 4; rm\x1b[2J\n"
        "1,8,8,-;md/raid1:md0: sda: unrecoverable I/O read error for block 4096\n"
    )
    result = machine.findings_by_code()["broken"]
    errors = "Disk failure on sdb, disabling device; sda: unrecoverable I/O read error for block 4096. What"
    assert f"The kernel says: {errors}" in result.message
    assert f"Copy {machine.roots.dev}/sda first (ddrescue)" in result.remedy[0]


@pytest.mark.parametrize(
    ("name", "label", "shown"),
    [("md127", "home/nas:0", "md127 (home/nas:0)"), ("md0", "nas:0", "md0"), ("md0", "", "md0"), ("md5", "5", "md5")],
)
def test_the_name_in_the_superblocks_is_shown_if_it_differs(machine: Arrays, name: str, label: str, shown: str) -> None:
    machine.mirror()
    array = replace(machine.seen().arrays[0], name=name, label=label)
    assert array.title == shown
    assert report.arrays_table(Inventory((array,))).rows[0][0] == shown
    assert report.members_table(array).title == shown


def test_a_disk_that_could_not_be_added_again_is_not_to_be_taken_out(machine: Arrays) -> None:
    machine.mirror("raid1-12-populated")
    machine.proc("sys/kernel/osrelease", "6.12.111+deb12-cloud-amd64")
    program(machine, "4.2")
    result = machine.findings_by_code()
    assert "Linux 6.12 with mdadm 4.2: --add to this array fails" in result["add-fails"].message
    assert "--add" not in " ".join(result["bbl-entries"].remedy)


@pytest.mark.parametrize(("kernel", "mdadm"), [("6.1.0-37", "4.2"), ("6.12.1", "4.5")])
def test_and_where_it_can(machine: Arrays, kernel: str, mdadm: str) -> None:
    machine.mirror("raid1-12-populated")
    machine.proc("sys/kernel/osrelease", kernel)
    program(machine, mdadm)
    assert "add-fails" not in machine.findings_by_code()


def test_a_write_error_without_a_mail(machine: Arrays) -> None:
    machine.mirror()
    path = machine.roots.sys / "block/md0/md/dev-sdb/state"
    path.write_text("in_sync,write_error,want_replacement\n")
    result = machine.findings_by_code()["write-error"]
    assert (result.severity, result.member) == ("critical", "sdb")
    assert "write_error and want_replacement" in result.message


def test_a_list_that_sysfs_cuts(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-full.vda")
    machine.disk("sdb", "8:16", "raid1-12-full.vdb")
    shown = "\n".join(f"{10000 + 16 * at} 8" for at in range(511))[:4090]
    machine.array("md0", "9:0", {"sda": {"bad_blocks": shown}, "sdb": {}})
    result = machine.findings_by_code()
    assert "512 entries" in result["bbl-full"].message
    assert "bbl-disagree" not in result


def test_a_degraded_array_that_is_rebuilt(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.array("md0", "9:0", {"sda": {}}, raid_disks="2", degraded="1")
    result = machine.findings_by_code()
    assert result["degraded"].severity == "critical"
    assert "there is no spare; the next failure loses data" in result["degraded"].message
    assert result["degraded"].remedy[-1] == f"blklab md fix add {machine.roots.dev}/md0 DISK"
    node = machine.roots.sys / "block/md0"
    machine.write(
        node,
        {"md__sync_action": "recover", "md__sync_completed": "1024 / 522240",
         "md__sync_speed": "1000"},
    )  # fmt: skip
    result = machine.findings_by_code()
    assert "a rebuild is running" in result["degraded"].message
    assert result["under-way"].message == ("recovery is running: 0.2 %, 4m 21s left at 1,000 KiB/s")


def test_a_faulty_member(machine: Arrays) -> None:
    machine.mirror(degraded="1")
    node = machine.roots.sys / "block/md0/md/dev-sdb"
    machine.write(node, {"state": "faulty", "slot": "none"})
    result = machine.findings_by_code()["faulty"]
    assert result.member == "sdb"
    assert not result.remedy, "it may be the only source"
    machine.write(node.parent, {"degraded": "0"})
    remove = f"blklab md fix remove {machine.roots.dev}/md0 {machine.roots.dev}/sdb"
    assert machine.findings_by_code()["faulty"].remedy == (remove,)


def test_mismatches_and_checks(machine: Arrays) -> None:
    machine.mirror(mismatch_cnt="128", last_sync_action="none")
    result = machine.findings_by_code()
    assert result["mismatches"].message.startswith("128 sectors do not match: on mirrors")
    assert "last_sync_action is none" in result["never-checked"].message
    cron = "57 0 * * 0 root /usr/share/mdadm/checkarray --cron --all\n"
    machine.write(machine.root, {"etc__cron.d__mdadm": cron})
    assert "never-checked" not in machine.findings_by_code()
    machine.write(machine.root, {"etc__default__mdadm": "AUTOCHECK=false"})
    assert "never-checked" in machine.findings_by_code()
    timers = machine.root / "etc/systemd/system/mdmonitor.service.wants"
    timers.mkdir(parents=True)
    (timers / "mdcheck_start.timer").symlink_to("/lib/systemd/system/mdcheck_start.timer")
    assert "never-checked" not in machine.findings_by_code()


def test_only_installed_timers_are_enabled(machine: Arrays) -> None:
    machine.mirror(last_sync_action="none")
    lines = machine.findings_by_code()["never-checked"].remedy
    assert not any("systemctl" in line for line in lines)
    assert "let cron run this command" in " ".join(lines)
    check = f"mdadm --action=check {machine.roots.dev}/md0"
    machine.write(machine.root, {"lib__systemd__system__raid-check.timer": ""})
    lines = machine.findings_by_code()["never-checked"].remedy
    assert lines == ("# For a check every month:", "systemctl enable --now raid-check.timer", check)
    machine.write(machine.root, {"lib__systemd__system__mdcheck_start.timer": ""})
    assert "systemctl enable --now mdcheck_start.timer" in machine.findings_by_code()["never-checked"].remedy
    machine.write(machine.root, {"lib__systemd__system__mdcheck_continue.timer": ""})
    both = "systemctl enable --now mdcheck_start.timer mdcheck_continue.timer"
    assert both in machine.findings_by_code()["never-checked"].remedy
    masked = machine.root / "etc/systemd/system/mdcheck_start.timer"
    masked.parent.mkdir(parents=True)
    masked.symlink_to("/dev/null")
    assert "systemctl enable --now raid-check.timer" in machine.findings_by_code()["never-checked"].remedy
    cron = "57 0 * * 0 root /usr/share/mdadm/checkarray --cron --all\n"
    machine.write(machine.root, {"etc__cron.d__mdadm": cron, "etc__default__mdadm": 'AUTOCHECK="false"'})
    lines = machine.findings_by_code()["never-checked"].remedy
    assert lines == ("# For a check every month, write AUTOCHECK=true into /etc/default/mdadm.", check)


def test_the_configuration(machine: Arrays) -> None:
    machine.mirror()
    assert "there is no mdadm.conf" in machine.findings_by_code()["config-bbl"].message
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": "# CREATE bbl=no\nCREATE owner=root"})
    assert "config-bbl" in machine.findings_by_code()
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": "crea owner=root\n  BBL=no # off"})
    assert "config-bbl" not in machine.findings_by_code()


def test_no_bitmap_matters_where_it_is_large(machine: Arrays) -> None:
    machine.mirror(bitmap__location="none")
    assert "no-bitmap" not in machine.findings_by_code()
    machine.write(machine.roots.sys / "block/md0", {"size": str(200 << 21)})
    assert machine.findings_by_code()["no-bitmap"].remedy == (
        f"mdadm --grow --bitmap=internal {machine.roots.dev}/md0",
    )
    machine.write(machine.roots.sys / "block/md0", {"md__consistency_policy": "journal"})
    assert "no-bitmap" not in machine.findings_by_code()


def test_flash_and_rotating_disks(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid10-n2.vda")
    machine.disk("sdb", "8:16", "raid10-n2.vdb", queue__rotational="1")
    machine.array("md0", "9:0", {"sda": {}, "sdb": {}}, level="raid10", layout="258", chunk_size="524288")
    result = machine.findings_by_code()
    assert "RAID-10 reads only from sda" in result["mixed"].message
    machine.write(machine.roots.sys / "block/sdb", {"queue__rotational": "0"})
    machine.write(machine.roots.sys / "block/md0", {"md__layout": "513"})
    result = machine.findings_by_code()
    assert "mixed" not in result
    assert "layout far2 on flash" in result["layout"].message


def test_partitions_that_begin_within_a_block(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.device("sda1", "8:1", parent="sda", start="63")
    (machine.roots.dev / "sda1").write_bytes(b"")
    machine.array("md0", "9:0", {"sda1": {"offset": "0"}}, level="raid0", chunk_size="65536")
    result = machine.findings_by_code()["alignment"]
    assert (result.severity, result.member) == ("warning", "sda1")
    assert "data begin at byte 32,256 of the disk" in result.message


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
        assert "filesystem-stripe" not in parity.findings_by_code()


def test_filesystems_that_do_not(parity: Arrays) -> None:
    device = parity.roots.dev / "md0"
    device.write_bytes(ext4(0, 0))
    result = parity.findings_by_code()["filesystem-stripe"]
    assert result.severity == "warning"
    assert "ext4 of" in result.message
    assert "on /srv does not know" in result.message
    assert "`mkfs.ext4 -b 4096 -E stride=128,stride-width" not in result.message
    assert "`mkfs.ext4 -b 4096 -E stride=128,stripe-width=256`" in result.message
    assert result.remedy == (f"tune2fs -E stride=128,stripe_width=256 {device}",)
    device.write_bytes(xfs(16, 32))
    result = parity.findings_by_code()["filesystem-stripe"]
    assert "assumes a chunk of 64 KiB and a stripe of 128 KiB" in result.message
    assert "`mkfs.xfs -d su=512k,sw=2`" in result.message
    assert "sunit=1024,swidth=2048" in result.message


def test_partitions_of_an_array(parity: Arrays) -> None:
    parity.device("md0p1", "259:0", parent="md0", start="2048")
    (parity.roots.dev / "md0p1").write_bytes(ext4(0, 0))
    result = parity.findings_by_code()
    assert "partition-alignment" not in result, "1 MiB is a stripe here"
    assert result["filesystem-stripe"].remedy[0].endswith("/md0p1")
    parity.write(parity.roots.sys / "block/md0/md0p1", {"start": "1024"})
    assert "begins inside a stripe" in parity.findings_by_code()["partition-alignment"].message


def test_what_firmware_reads(machine: Arrays) -> None:
    machine.mirror()
    machine.mount("9:0", Path("/boot/efi"), "vfat", "/dev/md0")
    assert "precede the data" in machine.findings_by_code()["firmware-metadata"].message


def test_what_may_not_be_read_is_said(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.mirror()

    def denied(path: Path, *_: object) -> str:
        raise UsageError(f"{path}: Permission denied (os error 13)")

    monkeypatch.setattr("blklab.md.superblocks.examine_md", denied)
    path = machine.roots.sys / "block/md0/md/dev-sda/bad_blocks"
    path.write_text("4096 8\n")
    (array,) = machine.seen().arrays
    assert array.unseen == tuple(
        f"{machine.roots.dev}/{name}: not seen: permission denied: run blklab as root" for name in ("sda", "sdb")
    )
    result = machine.findings_by_code()
    assert "1 entry, 8 sectors" in result["bbl-entries"].message
    assert "4096-4103 (array 2048-2055)" in result["bbl-entries"].message
    assert "bbl-disagree" not in result
    assert "bbl-none" not in result


def test_members_that_are_gone(machine: Arrays) -> None:
    machine.mirror()
    (machine.roots.dev / "sda").unlink()
    (array,) = machine.seen().arrays
    assert "no such file" in array.unseen[0].lower()
    assert array.members[0].listed == ()
    assert "bbl-disagree" not in machine.findings_by_code()


def test_firmware_raid_is_named(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.array(
        "md127", "9:127", {"sda": {"slot": "none", "state": "spare"}}, level="container",
        raid_disks="0", metadata_version="external:imsm", array_state="inactive",
    )  # fmt: skip
    result = machine.findings_by_code()
    assert "Intel IMSM" in result["external"].message
    assert "inactive" not in result


def test_mdstat_that_knows_more(machine: Arrays) -> None:
    machine.proc("mdstat", "Personalities : [raid1]\nmd7 : active raid1 sda[0]\nunused devices:")
    assert "md7: " in machine.seen().unseen[0]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", ()),
        ("4096 8\n10000 100\n", (SectorRange(4096, 8), SectorRange(10000, 100))),
        ("5 0\nnonsense\n-1 4\n1 2 3\n7 1", (SectorRange(7, 1),)),
    ],
)
def test_lists_as_sysfs_writes_them(text: str, result: tuple[SectorRange, ...]) -> None:
    assert inventory.parse_bad_blocks(text) == result


def test_from_the_command_line(machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    machine.mirror()
    assert run("md", "audit").status == 0
    machine.write(machine.roots.sys / "block/md0", {"md__degraded": "1"})
    done = run("md", "audit")
    assert done.status == 1
    assert "critical  md0: 1 of 2 members is missing" in done.out
    assert "\x1b" not in done.out


def test_arrays_are_in_the_order_of_their_numbers(machine: Arrays) -> None:
    names = ["sdaa", "sdb", "sda", "sdz"]
    for at, name in enumerate(names):
        machine.disk(name, f"8:{16 * at}")
    for number, name in zip((10, 2, 100), names, strict=False):
        machine.array(f"md{number}", f"9:{number}", {name: {"slot": "none"}, "sdz": {"slot": "none"}})
    arrays = machine.seen().arrays
    assert [array.name for array in arrays] == ["md2", "md10", "md100"]
    assert [member.name for member in arrays[1].members] == ["sdz", "sdaa"]


def test_the_audit_of_chosen_arrays(machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    machine.mirror()
    for number in (1, 10):
        machine.array(f"md{number}", f"9:{number}", {"sda": {}, "sdb": {}}, degraded="1")
    path = machine.roots.dev / "md0"
    link = machine.root / "home"
    link.symlink_to(path)
    for chosen, expected in (
        (["md0"], ["md0"]),
        ([path], ["md0"]),
        ([link], ["md0"]),
        (["md10", path], ["md0", "md10"]),
    ):
        outcome = run("md", "audit", "--json", *(f"--array={name}" for name in chosen))
        document = json.loads(outcome.out)
        assert [array["name"] for array in document["arrays"]] == expected
        assert {finding["subject"] for finding in document["findings"]} <= {None, *expected}
        assert outcome.status == ("md10" in expected)
    outcome = run("md", "audit", "--array", "md0", "--array", "md7")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "blklab: error: --array md7: this host has no array md7: expected md0, md1, md10\n"
    assert run("md", "audit", "--array", "md0", "--keep").status == 2


def test_a_machine_without_arrays(machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    done = run("md", "audit")
    assert (done.status, done.err) == (0, "")
    assert "No md array found." in done.out
    (machine.roots.sys / "block").rmdir()
    done = run("md", "audit")
    assert done.status == 3
    assert "cannot read any array" in done.err


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
@example(output={"dev-sda__slot": "-1"})
@example(output={"degraded": "1", "raid_disks": "9" * 18})
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_any_content_of_sysfs(tmp_path_factory: pytest.TempPathFactory, output: dict[str, str]) -> None:
    machine = Arrays(tmp_path_factory.mktemp("machine"))
    machine.disk("sda", "8:0")
    machine.disk("sdb", "8:16", queue__rotational="1")
    machine.array("md0", "9:0", {"sda": {"bad_blocks": "4096 8"}, "sdb": {}})
    machine.write(machine.roots.sys / "block/md0", {f"md__{name}": text for name, text in output.items()})
    result = machine.seen()
    document = report.as_dict(result, find_problems(result))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    console = Console(file=io.StringIO(), markup=False, emoji=False, highlight=False)
    report.show(console, result, find_problems(result))


def test_writes_that_are_held_back(machine: Arrays) -> None:
    machine.mirror(suspend_lo="0", suspend_hi="0")
    assert "writes-suspended" not in machine.findings_by_code()
    node = machine.roots.sys / "block/md0"
    machine.write(node, {"md__suspend_hi": str((1 << 63) - 1)})
    result = machine.findings_by_code()["writes-suspended"]
    assert result.severity == "critical"
    assert result.remedy == ("echo 0 > /sys/block/md0/md/suspend_hi",)
    # mdadm does it too, while it reshapes.
    machine.write(node, {"md__reshape_position": "1024"})
    assert "writes-suspended" not in machine.findings_by_code()


def test_installed_kernels_that_are_too_old_are_named(machine: Arrays) -> None:
    for name, number, made in (("sda", "8:0", with_block_size), ("sdb", "8:16", with_lockless_bitmap)):
        machine.disk(name, number)
        (machine.roots.dev / name).write_bytes(b"")
        made(f"vd{name[-1]}", machine.root).rename(machine.roots.dev / name)
    machine.array("md0", "9:0", {"sda": {}, "sdb": {}})
    said = [finding.message for finding in find_problems(machine.seen()) if finding.code == "newer-kernel"]
    assert len(said) == 2
    assert all("rescue media are often older" in message for message in said)
    assert not any("installed" in message for message in said)
    kernels = (
        "vmlinuz-6.12.48+deb13-amd64",
        "vmlinuz-6.18.1",
        "vmlinuz-6.19.0",
        "vmlinuz-0-rescue-9f",
        "initrd.img-6.1.0",
    )
    machine.write(machine.root, {f"boot__{name}": "" for name in kernels} | {"lib__modules__6.1.9__vmlinuz": ""})
    said = [finding.message for finding in find_problems(machine.seen()) if finding.code == "newer-kernel"]
    assert said[0].endswith("; installed here and too old to assemble it: 6.12.48+deb13-amd64, 6.18.1, 6.1.9")
    assert said[1].endswith("; installed here and too old to assemble it: 6.12.48+deb13-amd64, 6.1.9")
