"""What is exported of arrays: the values, and which series there are."""

import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from blklab.documents.superblock import Checksum
from blklab.md.audit import find_problems
from blklab.md.exporter import metrics
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.probing import Probe
from blklab.md.superblocks import SuperblockReading
from tests.md.conftest import Arrays
from tests.md.exporter.conftest import Exported, parsed, stats

SDA = {"array": "md0", "member": "sda"}
SDB = {"array": "md0", "member": "sdb"}


def test_a_sound_mirror(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    result = exported.scrape()

    def value(metric: str, **labels: str) -> float | None:
        return result.get((metric, frozenset(labels.items())))

    assert value("up") == 1
    assert value("unseen") == 0
    assert exported.log == []
    assert value(
        "array_info",
        array="md0",
        uuid="3156a3e6:4a433ea3:f425167f:2e6739fd",
        level="raid1",
        layout="0",
        metadata="1.2",
        name=mirrored.seen().arrays[0].label,
    )
    assert value("array_size_bytes", array="md0") == 522240 * 512
    assert value("array_state", array="md0", state="clean") == 1
    assert value("array_state", array="md0", state="inactive") == 0
    assert value("array_raid_disks", array="md0") == 2
    assert value("array_degraded_disks", array="md0") == 0
    assert value("array_bitmap", array="md0") == 1
    assert value("array_writes_suspended", array="md0") == 0
    assert value("array_sync_action", array="md0", action="idle") == 1
    assert value("array_sync_done_ratio", array="md0") is None
    assert value("member_info", **SDB, slot="1", kind="flash") == 1
    assert value("member_state", **SDB, state="in_sync") == 1
    assert value("member_state", **SDB, state="faulty") == 0
    assert value("member_bad_blocks_configured", **SDB) == 1
    assert value("member_bad_blocks_entries", **SDB) == 0
    assert value("member_events_behind", **SDB) == 0
    assert value("member_superblock_checksum_ok", **SDB) == 1
    # The findings are those of the audit, so an alert can fire on each.
    for item in find_problems(mirrored.seen()):
        assert value("findings", array=item.subject, severity=item.severity, rule=item.code) == 1


def test_bad_blocks_of_disk_and_memory(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-populated.vda")
    machine.disk("sdb", "8:16", "raid1-12-populated.vdb")
    shown = "\n".join(f"{10000 + 16 * at} 8" for at in range(511))[:4090]
    attributes = {
        "bad_blocks": shown,
        "unacknowledged_bad_blocks": "77777 3",
        "state": "in_sync,write_error,want_replacement",
        "errors": "5",
    }
    machine.array("md0", "9:0", {"sda": {}, "sdb": attributes}, mismatch_cnt="128")
    exported = Exported(machine)
    # On the disk, and not (yet) in sysfs: 5 entries of 1608 sectors.
    assert exported.series("member_bad_blocks_entries", **SDA) == 5
    assert exported.series("member_bad_blocks_sectors", **SDA) == 1608
    assert exported.series("member_bad_blocks_unacknowledged", **SDA) == 0
    assert exported.series("member_bad_blocks_cut", **SDA) == 0
    listed = len(shown.splitlines())
    assert exported.series("member_bad_blocks_entries", **SDB) == listed + 1
    assert exported.series("member_bad_blocks_sectors", **SDB) == 8 * (listed - 1) + 8 + 3
    assert exported.series("member_bad_blocks_unacknowledged", **SDB) == 1
    assert exported.series("member_bad_blocks_cut", **SDB) == 1
    assert exported.series("member_state", **SDB, state="want_replacement") == 1
    assert exported.series("member_read_errors_total", **SDB) == 5
    assert exported.series("array_mismatch_sectors", array="md0") == 128
    labels = {"array": "md0", "severity": "critical"}
    assert exported.series("findings", **labels, rule="bbl-entries") == 2
    assert exported.series("findings", **labels, rule="repair-corrupts") == 1


def test_suspended_writes(mirrored: Arrays) -> None:
    node = mirrored.roots.sys / "block/md0"
    mirrored.write(node, {"md__suspend_lo": "0", "md__suspend_hi": "258048"})
    assert Exported(mirrored).series("array_writes_suspended", array="md0") == 1


def test_a_rebuild(mirrored: Arrays) -> None:
    node = mirrored.roots.sys / "block/md0"
    mirrored.write(
        node,
        {"md__sync_action": "recover", "md__sync_completed": "1024 / 4096",
         "md__sync_speed": "1000", "md__degraded": "1"},
    )  # fmt: skip
    exported = Exported(mirrored)
    assert exported.series("array_sync_action", array="md0", action="recover") == 1
    assert exported.series("array_sync_action", array="md0", action="idle") == 0
    assert exported.series("array_sync_done_ratio", array="md0") == 0.25
    assert exported.series("array_sync_speed_bytes_per_second", array="md0") == 1000 * 1024
    assert exported.series("array_sync_left_seconds", array="md0") == 3072 / 2 / 1000
    assert exported.series("array_degraded_disks", array="md0") == 1


def test_a_member_that_is_behind(mirrored: Arrays) -> None:
    (array,) = mirrored.seen().arrays
    counted = ((1000, True, "active"), (995, True, "active"), (7, True, "spare"),
               (1 << 60, False, "active"))  # fmt: skip
    members = []
    for at, (events, holds, role) in enumerate(counted):
        facts = array.members[0].superblock
        assert facts
        checksum = Checksum(stored=1, computed=1 if holds else 2)
        superblock = msgspec.structs.replace(facts, events=events, checksum=checksum, role=role)
        members.append(replace(array.members[0], name=f"sd{at}", superblock=superblock))
    samples = list(metrics.member_samples(replace(array, members=tuple(members))))
    behind = {labels[1]: value for metric, labels, value in samples if metric is metrics.MEMBER_EVENTS_BEHIND}
    # Spares are written when they like, and what is damaged may say anything.
    assert behind == {"sd0": 0, "sd1": 5}
    holds_of = [value for metric, _, value in samples if metric is metrics.MEMBER_SUPERBLOCK_CHECKSUM_OK]
    assert holds_of == [True, True, True, False]


def test_what_goes_leaves_no_series(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    assert exported.series("member_writes_completed_total", **SDB) == 0
    (mirrored.roots.sys / "block/md0").unlink()
    left = {name for name, labels in exported.scrape() if dict(labels).get("array") == "md0"}
    assert left == {"array_absent", "findings"}
    # Another array takes its name, of another disk.
    mirrored.disk("sdc", "8:32", "raid1-12-populated.vda")
    node = mirrored.roots.sys / "devices/block/md0"
    node.rename(node.with_name("gone"))
    (mirrored.roots.sys / "class/block/md0").unlink()
    (mirrored.roots.sys / "dev/block/9:0").unlink()
    mirrored.array("md0", "9:0", {"sdc": {}}, raid_disks="2", degraded="1")
    result = exported.scrape()
    assert {dict(key[1]).get("member") for key in result} == {None, "sdc"}
    assert result["member_bad_blocks_entries", frozenset({"array": "md0", "member": "sdc"}.items())]
    assert sum(key[0] == "array_info" for key in result) == 1


def test_what_cannot_be_seen_is_counted_and_said_once(mirrored: Arrays) -> None:
    (mirrored.roots.dev / "sdb").unlink()
    exported = Exported(mirrored)
    assert exported.series("unseen") == 1
    assert exported.series("up") == 1
    assert exported.series("member_events", **SDB) is None
    assert exported.series("member_state", **SDB, state="in_sync") == 1
    (line,) = exported.log
    assert "sdb: not seen" in line
    (mirrored.roots.proc / "diskstats").unlink()
    assert exported.series("unseen") == 2
    assert exported.series("member_reads_completed_total", **SDA) == 0
    assert len(exported.log) == 2


def test_a_failure_is_a_metric_and_the_next_scrape_works(mirrored: Arrays) -> None:
    class Failing(Probe):
        def read_superblocks(self, path: Path) -> SuperblockReading:
            raise RuntimeError(f"{path.name}: boo")

    readers: list[Probe] = [Failing(), Probe()]
    exported = Exported(mirrored, reader=lambda: readers.pop(0))
    assert exported.series("up") == 0
    assert exported.log == ["no metrics were collected: RuntimeError: sda: boo"]
    assert exported.series("up") == 1
    assert exported.series("member_events", **SDA) is not None


def test_hostile_names_are_harmless_and_parsed() -> None:
    name = 'a"b\\c\nd\x1b[31m\udcff\u202e'
    member = ArrayMember(name=name, path="/dev/x", slot=0, states=("in_sync",))
    array = Array(
        name=name, path="", uuid="", level="raid1", layout=0, chunk=0, raid_disks=1,
        metadata="1.2", live=True, members=(member,), label=name,
    )  # fmt: skip
    from prometheus_client import CollectorRegistry, generate_latest

    class Collector:
        def collect(self) -> list[metrics.Family]:
            samples = [*metrics.array_samples(array), *metrics.member_samples(array)]
            return metrics.make_families([*samples, *metrics.finding_samples(find_problems(Inventory((array,))))])

    registry = CollectorRegistry()
    registry.register(Collector())
    result = parsed(generate_latest(registry).decode())
    shown = 'a"b\\c\\x0ad\\x1b[31m\\udcff\\u202e'
    assert result["member_info", frozenset(
        {"array": shown, "member": shown, "slot": "0", "kind": ""}.items()
    )] == 1  # fmt: skip


def test_every_metric_is_exported(machine: Arrays) -> None:
    machine.mirror("raid1-12-populated", sync_action="check", sync_completed="1 / 2",
                   sync_speed="1")  # fmt: skip
    stats(machine, [f"8 {at} {name} " + "1 " * 11 for at, name in ((0, "sda"), (16, "sdb"))])
    machine.write(machine.root, {"etc__mdadm.conf": "ARRAY /dev/md9 name=host:9"})
    result = {name for name, _ in Exported(machine).scrape()}
    # tests/caches has a machine with caches.
    assert result == {name for name in metrics.METRICS if not name.startswith("cache_")}


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=1.0.0", ""])
def test_it_is_either_format(mirrored: Arrays, accept: str) -> None:
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    encode, _ = choose_encoder(accept)
    text = encode(Exported(mirrored).registry).decode()
    if accept:
        families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        assert "blklab_md_up" in {family.name for family in families}
    else:
        assert parsed(text)


def test_scrapes_at_once_wait_for_one_another(mirrored: Arrays) -> None:
    exported = Exported(mirrored)
    result: list[object] = []
    threads = [threading.Thread(target=lambda: result.append(exported.scrape().keys())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 8
    assert all(keys == result[0] for keys in result)
    assert exported.reader.read == ["sda", "sdb"]
