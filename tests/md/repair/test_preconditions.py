"""Arrays that are not touched, and why."""

from typing import Any

import pytest

from blklab.md import inventory
from blklab.md.model import Software
from blklab.md.repair.preconditions import check_preconditions
from tests.md.conftest import Arrays

SOUND = Software(kernel=(6, 1), mdadm=(4, 2), lists_off=False, config="", checked_by="")


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def reasons(machine: Arrays, known: Software = SOUND) -> list[str]:
    array = inventory.read_array(machine.roots.sys / "block/md0", machine.roots)
    return [item.sentence for item in check_preconditions(array, known, machine.roots)]


def member(machine: Arrays, name: str, **files: str) -> None:
    machine.write(machine.roots.sys / "block/md0/md" / f"dev-{name}", files)


def test_a_sound_mirror_is_not_refused(machine: Arrays) -> None:
    machine.mirror()
    assert not reasons(machine)


ARRAY: list[tuple[dict[str, str], str]] = [
    ({"level": "raid0"}, "raid0 does not tolerate the loss of a member"),
    ({"level": "linear"}, "linear does not tolerate the loss of a member"),
    ({"metadata_version": "external:imsm"}, "which have no bad-block lists of md"),
    ({"metadata_version": "0.90"}, "metadata 0.90 have no bad-block lists"),
    ({"array_state": "read-auto"}, "the array is read-auto"),
    ({"array_state": "readonly"}, "the array is readonly"),
    ({"array_state": "inactive"}, "the array is inactive"),
    ({"degraded": "1"}, "degraded: 1 of 2"),
    ({"sync_action": "resync"}, "a resync is running"),
    ({"sync_action": "check"}, "a check is running"),
    ({"sync_action": "frozen"}, "sync_action is frozen"),
    ({"reshape_position": "1024"}, "being reshaped"),
    ({"suspend_lo": "0", "suspend_hi": "258048"}, "another program has suspended writes"),
    ({"consistency_policy": "ppl"}, "its consistency policy is ppl"),
    ({"consistency_policy": "journal"}, "its consistency policy is journal"),
    ({"bitmap__location": "file"}, "its bitmap is in a file"),
    ({"bitmap__metadata": "clustered"}, "that of a cluster"),
    ({"llbitmap__bits": "unwritten 0"}, "its bitmap is lockless"),
]


@pytest.mark.parametrize(("md", "reason"), ARRAY)
def test_arrays(machine: Arrays, md: dict[str, str], reason: str) -> None:
    machine.mirror()
    machine.write(machine.roots.sys / "block/md0", {f"md__{key}": item for key, item in md.items()})
    assert any(reason in result for result in reasons(machine))


MEMBERS: list[tuple[dict[str, str], str]] = [
    ({"state": "faulty"}, "sdb is faulty"),
    ({"state": "in_sync,want_replacement"}, "sdb is being replaced, or must be replaced"),
    ({"state": "spare,replacement", "slot": "0"}, "sdb is being replaced"),
    ({"state": "journal"}, "sdb is a journal"),
    ({"unacknowledged_bad_blocks": "100 8"}, "not yet written to its disk"),
]


@pytest.mark.parametrize(("files", "reason"), MEMBERS)
def test_members(machine: Arrays, files: dict[str, str], reason: str) -> None:
    machine.mirror()
    member(machine, "sdb", **files)
    assert any(reason in result for result in reasons(machine))


def test_a_member_with_an_old_write_error_can_stay(machine: Arrays) -> None:
    machine.mirror()
    member(machine, "sdb", state="in_sync,want_replacement")
    (array,) = machine.seen().arrays
    refused = [each for each in check_preconditions(array, Software(), machine.roots) if each.code == "replacement"]
    assert refused[0].remedy[-1] == "echo -want_replacement > /sys/block/md0/md/dev-sdb/state"


def test_a_member_that_cannot_be_read(machine: Arrays) -> None:
    machine.mirror()
    (machine.roots.dev / "sdb").unlink()
    assert any("sdb: " in result for result in reasons(machine))


def overwrite(machine: Arrays, disk: str, offset: int, content: bytes) -> None:
    with (machine.roots.dev / disk).resolve().open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_a_checksum_that_does_not_hold(machine: Arrays) -> None:
    machine.mirror()
    overwrite(machine, "sdb", 4096 + 0x40, b"\1")
    assert any("sdb: the kernel refuses its superblock" in result for result in reasons(machine))


@pytest.mark.parametrize("state", [2, 4])
def test_a_bitmap_that_does_not_trust_itself(machine: Arrays, state: int) -> None:
    machine.mirror()
    # bitmap_super_t.state is at 48; the bitmap 8 sectors behind the superblock.
    overwrite(machine, "sda", 8192 + 48, bytes([state]))
    assert any("sda: its write-intent bitmap" in result for result in reasons(machine))


def test_a_member_of_events_behind(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    machine.mirror()
    with (machine.roots.dev / "sdb").resolve().open("r+b") as file:
        file.seek(4096)
        block = bytearray(file.read(4096))
        events = int.from_bytes(block[200:208], "little") + 9
        block[200:208] = events.to_bytes(8, "little")
        block[216:220] = bytes(4)
        words = int.from_bytes(block[220:224], "little") * 2 + 256
        total = sum(int.from_bytes(block[at : at + 4], "little") for at in range(0, words & ~3, 4))
        if words % 4:
            total += int.from_bytes(block[words & ~3 : words], "little")
        block[216:220] = ((total & 0xFFFFFFFF) + (total >> 32)).to_bytes(4, "little")
        file.seek(4096)
        file.write(block)
    (reason,) = reasons(machine)
    assert reason.startswith("sda is 9 events behind")


def spare(machine: Arrays) -> None:
    machine.mirror()
    machine.disk("sdc", "8:32", "raid1-12-bitmap.vda")
    node = machine.roots.sys / "block/md0/md/dev-sdc"
    attributes = {"slot": "none", "state": "spare", "errors": "0", "offset": "2048"}
    machine.write(node, {**attributes, "bad_blocks": "", "unacknowledged_bad_blocks": ""})
    (node / "block").symlink_to(machine.roots.sys / "class/block/sdc")


PAIRS: list[tuple[dict[str, Any], str]] = [
    ({"lists_off": False}, "would then make a list on it"),
    ({"lists_off": True, "kernel": (6, 12)}, "which may fail with this"),
    ({"lists_off": True}, ""),
]


@pytest.mark.parametrize(("known", "reason"), PAIRS)
def test_spares_must_be_able_to_come_back(machine: Arrays, known: dict[str, Any], reason: str) -> None:
    spare(machine)
    result = reasons(machine, Software(**{**vars(SOUND), **known}))
    assert (not result) if not reason else any(reason in item for item in result)


def test_others_than_root(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    machine.mirror()
    assert "run blklab as root" in reasons(machine)[0]


def test_other_programs_that_would_add_disks(machine: Arrays) -> None:
    machine.mirror()
    machine.disk("sdc", "8:32")
    machine.array("md1", "9:1", {"sdc": {"state": "spare", "slot": "none"}})
    machine.proc("77/cmdline", "mdadm\0--monitor\0--scan\0--config=/etc/other.conf\0")
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": "POLICY domain=d1 action=re-add"})
    moving, policy = reasons(machine)
    assert moving.endswith("it has another configuration file; stop it during the repair")
    assert "mdadm.conf has POLICY … action=re-add: udev would re-add" in policy
