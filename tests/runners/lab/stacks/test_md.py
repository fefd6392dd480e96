"""What mdadm is told to make."""

from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.stacks import md
from tests.runners.lab.stacks.recording import Recorder, guest

SPEEDS = {"sync_speed_min": 1000, "sync_speed_max": 200_000}
PATHS = ["/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/vdd"]


def slot(**changed: Any) -> dict[str, Any]:
    return {"node": {"device": 0}, "write_mostly": False, "rebuilding": False, **changed}


def table(level: str, members: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    return {
        "name": "array",
        "level": level,
        "chunk": 0 if level in {"raid1", "linear"} else 512 << 10,
        "near": 2 if level == "raid10" else 0,
        "far": 1 if level == "raid10" else 0,
        "offset": False,
        "members": members,
        "stripe_cache": 256,
        "bitmap": False,
        "bitmap_chunk": 64 << 20,
        "sync": "idle",
        **SPEEDS,
        **changed,
    }


def made(
    level: str, many: int, *, slots: dict[int, dict[str, Any]] | None = None, **changed: Any
) -> tuple[Recorder, Any]:
    recorder = Recorder()
    item = guest(recorder, "a", "b", "c", "d")
    slots = slots or {}
    members = [slot(**slots.get(at, {})) for at in range(many)]
    paths = [None if member["node"] is None else PATHS[at] for at, member in enumerate(members)]
    assert md.create(item, table(level, members, **changed), paths) == "/dev/md0"
    return recorder, item


COMMON = "mdadm --create /dev/md0 --run --metadata=1.2 --homehost=any --name=md0"


@pytest.mark.parametrize(
    ("level", "many", "changed", "options"),
    [
        ("raid0", 2, {}, "--level=0 --raid-devices=2 --chunk=512"),
        ("linear", 2, {}, "--level=linear --raid-devices=2"),
        ("raid1", 2, {}, "--level=1 --raid-devices=2 --bitmap=none --assume-clean"),
        (
            "raid1",
            2,
            {"bitmap": True},
            "--level=1 --raid-devices=2 --bitmap=internal --bitmap-chunk=65536 --assume-clean",
        ),
        (
            "raid10",
            2,
            {"chunk": 64 << 10},
            "--level=10 --raid-devices=2 --chunk=64 --layout=n2 --bitmap=none --assume-clean",
        ),
        (
            "raid10",
            3,
            {"near": 1, "far": 2},
            "--level=10 --raid-devices=3 --chunk=512 --layout=f2 --bitmap=none --assume-clean",
        ),
        (
            "raid10",
            3,
            {"near": 1, "far": 3, "offset": True},
            "--level=10 --raid-devices=3 --chunk=512 --layout=o3 --bitmap=none --assume-clean",
        ),
        ("raid5", 3, {}, "--level=5 --raid-devices=3 --chunk=512 --bitmap=none --assume-clean"),
        ("raid1", 2, {"sync": "resync"}, "--level=1 --raid-devices=2 --bitmap=none --readonly"),
        ("raid5", 3, {"sync": "resync"}, "--level=5 --raid-devices=3 --chunk=512 --bitmap=none --readonly --force"),
    ],
)
def test_create(level: str, many: int, changed: dict[str, Any], options: str) -> None:
    recorder, _ = made(level, many, **changed)
    assert recorder.ran[:2] == [f"modprobe -q {md.MODULES[level]}", f"{COMMON} {options} {' '.join(PATHS[:many])}"]


def test_members_that_are_missing_or_come_later() -> None:
    slots: dict[int, dict[str, Any]] = {1: {"node": None}, 2: {"rebuilding": True}}
    recorder, item = made("raid1", 3, slots=slots, sync="recover")
    assert recorder.ran[1].endswith("/dev/vda missing missing")
    assert recorder.ran[2:] == ["mdadm /dev/md0 --add /dev/vdc"]
    assert [text for _, text in recorder.wrote if text.isalpha()] == ["frozen"]
    for start in item.starting:
        start()
    assert recorder.wrote[-1] == ("/sys/block/md0/md/sync_action", "idle")
    assert [layer.above for layer in item.layers] == [["array"], [], ["array"], [], []]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_member_that_comes_later_is_write_mostly_as_well(at: int) -> None:
    slots = {2: {"rebuilding": True, "write_mostly": True}}
    recorder, item = made("raid1", 3, slots=slots, sync="recover")
    state = ("/sys/block/md0/md/dev-vdc/state", "writemostly")
    assert recorder.ran[-1] == "mdadm /dev/md0 --add /dev/vdc"
    assert recorder.wrote[-1] == state
    for refused in ({}, {"mdadm /dev/md0 --re-add": 1}):
        recorder.wrote.clear()
        recorder.answers = refused
        md.re_add(item, "array", PATHS[at])
        assert recorder.wrote == ([state] if at == 2 else [])
    assert recorder.ran[-2:] == [f"mdadm /dev/md0 --re-add {PATHS[at]}", f"mdadm /dev/md0 --add {PATHS[at]}"]


def test_a_resync_waits_for_the_load_in_an_array_that_can_be_written() -> None:
    recorder, item = made("raid5", 3, sync="resync")
    action = "/sys/block/md0/md/sync_action"
    assert recorder.wrote[-1] == (action, "frozen")
    assert recorder.ran[-1] == "mdadm --readwrite /dev/md0"
    assert item.syncing == {"array": "resync"}
    item.starting[0]()
    assert recorder.wrote[-1] == (action, "idle")


def test_a_check_starts_with_the_load() -> None:
    recorder, item = made("raid6", 4, sync="check")
    item.starting[0]()
    assert recorder.wrote[-1] == ("/sys/block/md0/md/sync_action", "check")


def test_what_is_written_to_sysfs() -> None:
    recorder, _ = made("raid5", 3, stripe_cache=4096, group_thread_cnt=2, rmw_level=0)
    base = "/sys/block/md0/md"
    assert recorder.wrote == [
        (f"{base}/stripe_cache_size", "4096"),
        (f"{base}/group_thread_cnt", "2"),
        (f"{base}/rmw_level", "0"),
        (f"{base}/sync_speed_min", "1000"),
        (f"{base}/sync_speed_max", "200000"),
    ]
    recorder, _ = made("raid1", 2, slots={1: {"write_mostly": True}})
    assert recorder.wrote[-1] == (f"{base}/dev-vdb/state", "writemostly")
    assert made("raid0", 2)[0].wrote == []


def test_it_is_stopped_and_its_members_forget_it() -> None:
    recorder, item = made("raid1", 2)
    assert item.undo() == []
    assert recorder.ran[-2:] == ["mdadm --stop /dev/md0", "mdadm --zero-superblock --force /dev/vda /dev/vdb"]


def test_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.runners.lab.stacks.guest.PATIENCE", 0.1)
    recorder, item = made("raid1", 2)
    recorder.answers = {"mdadm --stop": 1}
    assert item.undo() == ["in the guest: not true after 0.1 s: /dev/md0 is stopped"]


def test_a_member_fails_and_comes_back() -> None:
    recorder, item = made("raid1", 2)
    assert md.member(item, "array", 1) == "/dev/vdb"
    with pytest.raises(BlklabError, match="array array has no member in slot 2"):
        md.member(item, "array", 2)
    md.fail(item, "array", "/dev/vdb")
    md.re_add(item, "array", "/dev/vdb")
    assert recorder.ran[-3:] == [
        "mdadm /dev/md0 --fail /dev/vdb",
        "mdadm /dev/md0 --remove /dev/vdb",
        "mdadm /dev/md0 --re-add /dev/vdb",
    ]
    recorder.answers = {"mdadm /dev/md0 --re-add": 1}
    md.re_add(item, "array", "/dev/vdb")
    assert recorder.ran[-1] == "mdadm /dev/md0 --add /dev/vdb"


def test_what_became_of_it() -> None:
    recorder, item = made("raid1", 2)
    base = "/sys/block/md0/md"
    recorder.files = {
        f"{base}/array_state": "clean\n",
        f"{base}/degraded": "0\n",
        f"{base}/sync_action": "idle\n",
        f"{base}/sync_completed": "none\n",
        f"{base}/dev-vda/state": "in_sync\n",
    }
    recorder.answers = {
        "mdadm --examine-badblocks /dev/vda": "Bad-blocks on /dev/vda:\n   8 for 8 sectors\n",
        "mdadm --examine-badblocks /dev/vdb": "No bad-blocks list configured on /dev/vdb\n",
    }
    (report,) = [report() for report in item.reports]
    assert report == {
        "name": "array",
        "kind": "md",
        "array_state": "clean",
        "degraded": "0",
        "sync_action": "idle",
        "sync_completed": "none",
        "mismatch_cnt": None,
        "members": [
            {"name": "a", "state": "in_sync", "bad_blocks": ["8 for 8 sectors"]},
            {"name": "b", "state": None, "bad_blocks": None},
        ],
    }
    recorder.answers = {"mdadm --examine-badblocks": "Bad-blocks list is empty in /dev/vda\n"}
    (report,) = [report() for report in item.reports]
    assert [member["bad_blocks"] for member in report["members"]] == [[], []]


def test_bad_block_lists_are_left_out_where_members_are_added() -> None:
    recorder = Recorder()
    md.configure(guest(recorder), bad_blocks=False)
    md.configure(guest(recorder), bad_blocks=True)
    assert recorder.wrote == [("/etc/mdadm/mdadm.conf", "CREATE bbl=no\n"), ("/etc/mdadm/mdadm.conf", "")]
