"""When disks are read: seldom, for that wakes them, and whenever what was read may not hold."""

import threading
from pathlib import Path

import pytest

from blklab.md.probing import Probe
from blklab.md.superblocks import SuperblockReading
from blklab.system.roots import Roots
from tests.md.conftest import Arrays
from tests.md.exporter.conftest import Exported
from tests.md.exporter.test_metrics import SDA, SDB


def test_superblocks_are_read_once_an_hour_and_sysfs_each_time(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    exported.scrape()
    exported.clock.now += 3599
    mirrored.write(mirrored.roots.sys / "block/md0/md", {"mismatch_cnt": "8"})
    assert exported.series("array_mismatch_sectors", array="md0") == 8
    assert exported.series("member_events", **SDA) is not None
    assert exported.reader.read == ["sda", "sdb"]
    exported.clock.now += 1
    exported.scrape()
    assert exported.reader.read == ["sda", "sdb"] * 2


def test_and_when_md_has_just_written_them(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    exported.scrape()
    member = mirrored.roots.sys / "block/md0/md/dev-sdb"
    changes = (
        {"state": "in_sync,write_error"},
        {"bad_blocks": "4096 8"},
        {"unacknowledged_bad_blocks": "5000 8"},
        {"bad_blocks": "4096 8\n5000 8", "unacknowledged_bad_blocks": ""},
        {"slot": "none", "state": "faulty"},
    )
    for times, change in enumerate(changes, 2):
        mirrored.write(member, change)
        exported.scrape()
        exported.scrape()
        assert exported.reader.read == ["sda", "sdb"] * times


def test_a_disk_in_the_place_of_another_is_not_taken_for_it(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    disk = mirrored.roots.sys / "devices/block/sdb"
    mirrored.write(disk, {"diskseq": "7"})
    assert exported.series("member_events", **SDB) is not None
    (mirrored.roots.dev / "sdb").unlink()
    mirrored.write(disk, {"diskseq": "8"})
    assert exported.series("member_events", **SDB) is None


def test_never(mirrored: Arrays) -> None:
    exported = Exported(mirrored, every=None)
    assert exported.series("member_events", **SDA) is None
    assert exported.series("member_bad_blocks_entries", **SDA) == 0
    assert exported.series("superblocks_read_timestamp_seconds") is None
    # They were not requested.
    assert exported.series("unseen") == 0
    exported.clock.now += 1e6
    exported.scrape()
    assert exported.reader.read == []


def test_a_disk_that_hangs_hides_nothing_else(mirrored: Arrays) -> None:
    answers = threading.Event()

    class Hanging(Probe):
        def read_superblocks(self, path: Path) -> SuperblockReading:
            answers.wait()
            return super().read_superblocks(path)

    exported = Exported(mirrored, timeout=0, reader=Hanging)
    md = mirrored.roots.sys / "block/md0/md"
    mirrored.write(md, {"degraded": "1", "last_sync_action": "none"})
    result = exported.scrape()
    assert result["array_degraded_disks", frozenset({("array", "md0")})] == 1
    # What was not asked yet is not held against anybody.
    output = {dict(labels)["rule"] for name, labels in result if name == "findings"}
    assert "degraded" in output
    assert "never-checked" not in output
    assert exported.series("member_events", **SDA) is None
    assert exported.series("unseen") == 2
    answers.set()
    for thread in threading.enumerate():
        if thread.name == "superblocks":
            thread.join()
    assert exported.series("member_events", **SDA) is not None
    labels = {"array": "md0", "severity": "warning", "rule": "never-checked"}
    assert exported.series("findings", **labels) == 1
    # The hour is over, and the disk hangs again: what is known is still of these members.
    answers.clear()
    exported.clock.now += 3600
    assert exported.series("member_events", **SDA) is not None
    assert exported.series("unseen") == 0
    answers.set()


@pytest.mark.parametrize("every", [3600, None])
def test_no_file_beneath_a_loop_device_is_looked_at(
    mirrored: Arrays, monkeypatch: pytest.MonkeyPatch, every: float | None
) -> None:
    # On a dead NFS server the scrape would never end, nor would any after it.
    asked: list[object] = []
    monkeypatch.setattr(Roots, "status", lambda _roots, name: asked.append(name))
    mirrored.device("loop0", "7:0", loop__backing_file="/net/dead/image")
    assert Exported(mirrored, every=every).series("up") == 1
    assert asked == []


def test_repairs_that_may_not_be_seen_are_not_counted(mirrored: Arrays) -> None:
    mirrored.hide_state()
    exported = Exported(mirrored)
    assert exported.series("unseen") == 0
    assert exported.series("up") == 1


def test_programs_are_not_asked_at_each_scrape(mirrored: Arrays) -> None:
    from tests.md.conftest import program

    program(mirrored, "4.2")
    path = mirrored.root / "bin/mdadm"
    path.write_text(path.read_text() + f"echo asked >> {mirrored.root}/asked\n")
    exported = Exported(mirrored)
    exported.scrape()
    exported.scrape()
    assert (mirrored.root / "asked").read_text() == "asked\n"


def test_devices_outside_of_arrays_are_read_with_the_members_only(mirrored: Arrays) -> None:
    mirrored.disk("sdc", "8:32", "raid10-n2.vda")
    exported = Exported(mirrored)
    labels = {"array": "(none):0", "severity": "warning", "rule": "not-assembled"}
    assert exported.series("findings", **labels) == 1
    exported.scrape()
    assert exported.reader.read == ["sda", "sdb", "sdc"]
    # A new disk is read with the others, an hour later.
    mirrored.disk("sdd", "8:48", "raid10-n2.vdb")
    assert exported.series("unseen") == 0
    assert exported.reader.read == ["sda", "sdb", "sdc"]
    exported.clock.now += 3600
    assert exported.series("array_absent", array="(none):0", uuid="2209c185:47065937:54d2ed00:596b778a") == 1
    assert exported.reader.read == ["sda", "sdb", "sdc"] * 2 + ["sdd"]


def test_a_disk_outside_of_arrays_that_hangs_hides_no_member(mirrored: Arrays) -> None:
    answers = threading.Event()

    class Hanging(Probe):
        def read_superblocks(self, path: Path) -> SuperblockReading:
            if path.name == "sdc":
                answers.wait()
            return super().read_superblocks(path)

    mirrored.disk("sdc", "8:32", "raid10-n2.vda")
    read = threading.Event()
    exported = Exported(mirrored, timeout=0, reader=Hanging)
    exported.scrape()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "superblocks"]
    while exported.series("member_events", **SDA) is None:
        read.wait(0.01)
    assert exported.series("unseen") == 1
    assert any("sdc: not seen: the disks have not answered yet" in line for line in exported.log)
    answers.set()
    thread.join()
    assert exported.series("unseen") == 0


def test_an_array_that_disappears_is_absent(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    labels = {"array": "md0", "uuid": "3156a3e6:4a433ea3:f425167f:2e6739fd"}
    assert exported.series("array_absent", **labels) is None
    node = mirrored.roots.sys / "block/md0/md"
    mirrored.write(node, {"array_state": "clear"})
    for disk in ("sda", "sdb"):
        (mirrored.roots.sys / "class/block" / disk / "holders/md0").unlink()
    assert exported.series("array_absent", **labels) == 1
    assert exported.series("findings", array="md0", severity="critical", rule="absent") == 1
    mirrored.write(node, {"array_state": "clean"})
    assert exported.series("array_absent", **labels) is None


def test_an_array_of_mdadm_conf_is_absent_from_the_start(mirrored: Arrays) -> None:
    uuid = "99999999:4a433ea3:f425167f:2e6739fd"
    mirrored.write(mirrored.root, {"etc__mdadm.conf": f"ARRAY /dev/md9 UUID={uuid}"})
    assert Exported(mirrored).series("array_absent", array="md9", uuid=uuid) == 1
