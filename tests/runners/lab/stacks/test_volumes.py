"""What LVM, bcache, dmsetup and mkfs are told to make."""

from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.stacks import bcache, filesystem, lvm
from blklab.runners.lab.stacks.build import build, create_delay, create_writecache, delay_disk
from tests.runners.lab.stacks.recording import Recorder, guest

MAPPED = {"/sys/block/dm-0/dm/name": "vg0-data\n"}

STATUS = "0 524288 cache 8 27/2048 128 10/4096 100 20 30 40 1 9 2 3 metadata2 writethrough no_discard"


def test_a_volume() -> None:
    recorder = Recorder(on={"lvcreate": MAPPED})
    item = guest(recorder, "x", "y")
    table = {"name": "a-b", "level": None, "stripes": 2, "stripe_size": 65536}
    assert lvm.volume(item, table, {"members": ["/dev/vda", "/dev/vdb"]}) == "/dev/dm-0"
    assert recorder.ran == [
        "pvcreate -y -ff /dev/vda /dev/vdb",
        "vgcreate -y vg0 /dev/vda /dev/vdb",
        "lvcreate -y -Wn -Zn -n data -l 100%FREE -i 2 -I 65536b vg0",
    ]
    assert [layer.above for layer in item.layers] == [["a-b"], ["a-b"], []]
    assert item.undo() == []
    assert recorder.ran[3:] == ["vgremove -y -ff vg0", "pvremove -y -ff /dev/vda /dev/vdb"]


@pytest.mark.parametrize(
    ("level", "options"),
    [
        ("raid1", "--type raid1 -R 2097152b -m 3 --nosync"),
        ("raid10", "--type raid10 -R 2097152b -i 2 -I 65536b --nosync"),
        ("raid5", "--type raid5 -R 2097152b -i 3 -I 65536b --nosync"),
        ("raid6", "--type raid6 -R 2097152b -i 2 -I 65536b"),
    ],
)
def test_a_volume_with_redundancy(level: str, options: str) -> None:
    recorder = Recorder(on={"lvcreate": MAPPED}, answers={"lvs": "  100.00\n"})
    item = guest(recorder, "a", "b", "c", "d")
    table = {"name": "x", "level": level, "stripes": 1, "stripe_size": 65536, "region_size": 2 << 20}
    assert lvm.volume(item, table, {"members": ["/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/vdd"]}) == "/dev/dm-0"
    assert recorder.ran[-1] == f"lvcreate -y -Wn -Zn -n data -l 100%FREE {options} vg0"
    for prepare in item.readying:
        prepare()
    assert recorder.ran[-1] == "lvs --noheadings -o sync_percent vg0/data"


def test_volumes_of_names_that_are_alike() -> None:
    recorder = Recorder(on={"lvcreate -y -Wn -Zn -n data -l 100%FREE vg0": MAPPED})
    recorder.on["lvcreate -y -Wn -Zn -n data -l 100%FREE vg1"] = {"/sys/block/dm-1/dm/name": "vg1-data\n"}
    item = guest(recorder, "x")
    table = {"name": "a-b", "level": None, "stripes": 1}
    assert lvm.volume(item, table, {"members": ["/dev/vda"]}) == "/dev/dm-0"
    assert lvm.volume(item, {**table, "name": "a_b"}, {"members": ["/dev/dm-0"]}) == "/dev/dm-1"
    assert [(layer.name, layer.above) for layer in item.layers] == [("x", ["a-b"]), ("a-b", ["a_b"]), ("a_b", [])]


CACHED: Any = {
    "name": "a-b",
    "metadata": None,
    "chunk": 65536,
    "mode": "writeback",
    "policy": "smq",
    "migration_threshold": None,
}


def cached(extents: int, **changed: Any) -> tuple[Recorder, Any]:
    recorder = Recorder(on={"lvconvert": MAPPED}, answers={"pvs": f"  {extents}\n"})
    recorder.answers = {**recorder.answers, "dmsetup status": STATUS}
    item = guest(recorder, "x", "y")
    paths = {"origin": ["/dev/vda"], "cache": ["/dev/vdb"]}
    assert lvm.create_cache(item, {**CACHED, **changed}, paths) == "/dev/dm-0"
    return recorder, item


def test_a_cache() -> None:
    recorder, _ = cached(64, migration_threshold=4096)
    assert recorder.ran[:2] == ["modprobe -q dm-cache", "modprobe -q dm-cache-smq"]
    assert recorder.ran[4:] == [
        "lvcreate -y -Wn -Zn -n data -l 100%PVS vg0 /dev/vda",
        "pvs --noheadings -o pv_pe_count /dev/vdb",
        "lvcreate -y --type cache-pool -n pool -l 62 --poolmetadatasize 8388608b"
        " --poolmetadataspare n --chunksize 65536b vg0 /dev/vdb",
        "lvconvert -y --type cache --cachepool vg0/pool --cachemode writeback"
        " --cachepolicy smq --cachesettings migration_threshold=4096 vg0/data",
    ]


def test_a_caches_metadata_grow_with_it() -> None:
    recorder, _ = cached(25_000)
    assert "-l 24975 --poolmetadatasize 104857600b" in recorder.ran[6]
    recorder, _ = cached(64, metadata=9 << 20)
    assert "-l 61 --poolmetadatasize 12582912b" in recorder.ran[6]
    with pytest.raises(BlklabError, match="a-b: the cache is too small for its metadata"):
        cached(2)


def test_a_cache_counts_from_the_loads_beginning() -> None:
    recorder, item = cached(64)
    item.readying[0]()
    later = STATUS.replace("100 20 30 40 1 9 2", "150 21 35 40 1 12 0")
    recorder.answers = {"dmsetup status vg0-data": later}
    (report,) = [report() for report in item.reports]
    assert report == {
        "name": "a-b",
        "kind": "lvmcache",
        "used_blocks": 10,
        "blocks": 4096,
        "read_hits": 50,
        "read_misses": 1,
        "write_hits": 5,
        "write_misses": 0,
        "demotions": 0,
        "promotions": 3,
        "dirty": 0,
        "status": later,
    }


@pytest.mark.parametrize("line", ["", "0 8 linear 254:0 0", "0 8 cache 8 1/2 128", STATUS[:40]])
def test_a_status_of_something_else(line: str) -> None:
    item = guest(Recorder(answers={"dmsetup": line}))
    with pytest.raises(BlklabError, match="expected the status of a cache"):
        lvm.status(item, "x")


BCACHE: Any = {
    "name": "fast",
    "mode": "writearound",
    "sequential_cutoff": 4 << 20,
    "bucket": 512 << 10,
    "block": 4096,
    "writeback_percent": 10,
    "congested_read_threshold_us": 2000,
    "congested_write_threshold_us": 20_000,
}


def test_a_bcache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bcache, "TICK", 0.0)
    base = "/sys/block/bcache0/bcache"
    there = {"/sys/block/bcache0/size": "100", "/sys/fs/bcache/uuid/average_key_size": "0", f"{base}/state": "clean"}
    recorder = Recorder(on={"/sys/fs/bcache/register": there})
    item = guest(recorder, "ssd", "hdd")
    paths = {"backing": ["/dev/vdb"], "cache": ["/dev/vda"]}
    assert bcache.create(item, BCACHE, paths) == "/dev/bcache0"
    assert recorder.ran == [
        "modprobe -q bcache",
        "make-bcache --wipe-bcache --block 4096 --bucket 524288 -B /dev/vdb -C /dev/vda",
    ]
    assert recorder.wrote == [
        ("/sys/fs/bcache/register", "/dev/vda"),
        ("/sys/fs/bcache/register", "/dev/vdb"),
        (f"{base}/cache_mode", "writearound"),
        (f"{base}/writeback_percent", "10"),
        (f"{base}/sequential_cutoff", "4194304"),
        (f"{base}/cache/congested_read_threshold_us", "2000"),
        (f"{base}/cache/congested_write_threshold_us", "20000"),
    ]
    assert [layer.above for layer in item.layers] == [["fast"], ["fast"], []]
    assert item.starting == [], "what waits does not delay what starts with the load"
    item.readying[0]()
    assert recorder.wrote[-1] == (f"{base}/clear_stats", "1")
    recorder.files |= {
        f"{base}/stats_total/cache_hits": "7\n",
        f"{base}/cache_mode": "writethrough [writearound]\n",
        f"{base}/cache/cache0/priority_stats": "Unused:\t\t40%\nClean:  50%\nMetadata: 1%\n",
    }
    (report,) = [report() for report in item.reports]
    assert (report["cache_hits"], report["cache_misses"]) == (7, None)
    assert (report["unused_percent"], report["clean_percent"]) == (40, 50)
    recorder.wrote.clear()
    with bcache.disable_bypass(item, BCACHE):
        assert [text for _, text in recorder.wrote] == ["0", "0", "0"]
    assert [text for _, text in recorder.wrote[3:]] == ["4194304", "2000", "20000"]


WRITECACHE: Any = {"name": "fast", "block": 4096, "high_watermark": 60, "low_watermark": 40, "max_age_ns": 5 * 10**9}


def test_a_writecache() -> None:
    recorder = Recorder(files={"/sys/block/vda/size": "2049\n"})
    recorder.on = {"dmsetup create": {"/sys/block/dm-3/dm/name": "writecache_vda\n"}}
    status = "0 2048 writecache 0 400 300 2 10 1 200 3 4 50 6 7 8 9"
    recorder.answers = {"dmsetup status": status}
    item = guest(recorder, "hdd", "ssd")
    assert create_writecache(item, WRITECACHE, {"origin": ["/dev/vda"], "cache": ["/dev/vdb"]}) == "/dev/dm-3"
    assert recorder.wrote == [("/dev/vdb", "\0" * 4096)]
    mapping = "0 2048 writecache s /dev/vda /dev/vdb 4096 6 high_watermark 60 low_watermark 40 max_age 5000"
    assert recorder.ran == ["modprobe -q dm-writecache", f"dmsetup create writecache_vda --table {mapping}"]
    assert [layer.above for layer in item.layers] == [["fast"], ["fast"], []]
    item.readying[0]()
    recorder.answers = {"dmsetup status": status.replace("400 300 2 10 1 200 3 4 50", "400 200 0 15 2 300 3 4 60")}
    report: Any = item.reports[0]()
    assert (report["kind"], report["blocks"], report["free_blocks"]) == ("writecache", 400, 200)
    assert (report["reads"], report["read_hits"], report["writes"], report["writes_around"]) == (5, 1, 100, 10)
    recorder.answers = {"dmsetup status": "0 2048 linear"}
    with pytest.raises(BlklabError, match="expected the status of a writecache"):
        item.reports[0]()
    item.undo()
    assert recorder.ran[-1] == "dmsetup remove --retry writecache_vda"


def test_a_delay_is_of_whole_milliseconds() -> None:
    recorder = Recorder(files={"/sys/block/vda/size": "2048\n"})
    recorder.on = {"dmsetup create": {"/sys/block/dm-3/dm/name": "delay_vda\n"}}
    item = guest(recorder, "x")
    assert delay_disk(item, item.layers[0], 1_600_000) == "/dev/dm-3"
    assert recorder.ran[-1] == ("dmsetup create delay_vda --table 0 2048 delay /dev/vda 0 2")
    item.undo()
    assert recorder.ran[-1] == "dmsetup remove --retry delay_vda"


def test_a_delay_of_a_stack() -> None:
    recorder = Recorder(files={"/sys/block/vda/size": "2048\n"})
    recorder.on = {"dmsetup create": {"/sys/block/dm-3/dm/name": "delay_vda\n"}}
    item = guest(recorder, "x")
    table = {"name": "slow", "read_ns": 5_000_000, "write_ns": 0, "flush_ns": 9_000_000}
    assert create_delay(item, table, {"origin": ["/dev/vda"]}) == "/dev/dm-3"
    mapping = "0 2048 delay /dev/vda 0 5 /dev/vda 0 0 /dev/vda 0 9"
    assert recorder.ran[-1] == f"dmsetup create delay_vda --table {mapping}"
    assert [(layer.name, layer.above) for layer in item.layers] == [("x", ["slow"]), ("slow", [])]


def array(level: str, members: int, **changed: Any) -> Any:
    table = {"level": level, "chunk": 64 << 10, "members": [{}] * members, "near": 1, "far": 1}
    return {"md": {**table, **changed}}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"device": 0}, None),
        (array("raid1", 2, chunk=0), None),
        (array("raid0", 3), (64 << 10, 3)),
        (array("raid10", 4, near=2), (64 << 10, 2)),
        (array("raid10", 3, near=2), (64 << 10, 3)),
        (array("raid10", 6, far=2), (64 << 10, 6)),
        (array("raid10", 6, near=2, far=2), (64 << 10, 3)),
        (array("raid10", 2, near=2), (64 << 10, 1)),
        (array("raid4", 3), (64 << 10, 2)),
        (array("raid5", 5), (64 << 10, 4)),
        (array("raid6", 6), (64 << 10, 4)),
        ({"lvmcache": {"name": "x"}}, None),
        ({"lvm": {"name": "x", "members": [array("raid5", 3)]}}, None),
    ],
)
def test_geometry(node: Any, expected: tuple[int, int] | None) -> None:
    assert filesystem.geometry(node) == expected


def test_filesystems_are_made_for_the_stripes() -> None:
    recorder = Recorder()
    item = guest(recorder)
    assert filesystem.create(item, "ext4", "/dev/md0", array("raid5", 5)) == "/mnt"
    assert recorder.ran[1:] == [
        "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=1,lazy_journal_init=1,stride=16,stripe_width=64 /dev/md0",
        "mount -t ext4 -o noinit_itable /dev/md0 /mnt",
    ]
    item.undo()
    assert recorder.ran[-1] == "umount /mnt"
    filesystem.create(item, "xfs", "/dev/md0", array("raid5", 5))
    assert "mkfs.xfs -q -f -d su=65536,sw=4 /dev/md0" in recorder.ran
    filesystem.create(item, "xfs", "/dev/vda", {"device": 0})
    assert "mkfs.xfs -q -f /dev/vda" in recorder.ran


def test_filesystems_with_a_journal_elsewhere() -> None:
    recorder = Recorder({"/sys/block/vdb/size": str(4 << 21)})
    item = guest(recorder)
    filesystem.create(item, "ext4", "/dev/vda", {"device": 0}, "/dev/vdb")
    assert recorder.ran[1:] == [
        "mkfs.ext4 -q -F -b 4096 -O journal_dev /dev/vdb",
        "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=1,lazy_journal_init=1 -J device=/dev/vdb /dev/vda",
        "mount -t ext4 -o noinit_itable /dev/vda /mnt",
    ]
    filesystem.create(item, "xfs", "/dev/vda", {"device": 0}, "/dev/vdb")
    assert recorder.ran[-2:] == [
        "mkfs.xfs -q -f -l logdev=/dev/vdb,size=1073741824 /dev/vda",
        "mount -t xfs -o logdev=/dev/vdb /dev/vda /mnt",
    ]


def test_a_module_that_is_missing_is_named_with_its_kernel() -> None:
    answers = {"modprobe -q xfs": 1, "mkfs.xfs": 0, "mount": 32}
    recorder = Recorder({"/sys/block/vda/serial": "disk", "/sys/block/vda/queue/rotational": "0"})
    recorder.answers = answers
    document: Any = {
        "devices": [
            {"name": "disk", "queue": {"rotational": False}, "virtual": {"queue": {}}, "model": {"kind": "ssd"}}
        ],
        "stack": {"device": 0},
        "failures": [],
        "filesystem": {"type": "xfs"},
    }
    with pytest.raises(BlklabError, match=r"status 32 \(kernel 6\.1\.0-9 has no module xfs\)"):
        build(guest(recorder), document, ["disk"])
    recorder.answers = {"modprobe": 1}  # it is part of the kernel
    assert build(guest(recorder), document, ["disk"]) == "/mnt/data"
