"""The journal of a repair survives blklab, and is checked when it is read."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.md import probing
from blklab.md.repair import journal
from blklab.md.repair.task import MemberSlot, RemovedSpare, RepairTask
from blklab.system.roots import Roots

DATA = Path(__file__).parents[2] / "data/journals"

TASK = RepairTask(
    "0123:4567",
    "/dev/md0",
    "raid5",
    3,
    2,
    tuple(MemberSlot(at, f"device{at}", f"/dev/sd{at}") for at in range(3)),
    (RemovedSpare("spare", "/dev/sd9"),),
    bitmap_added=True,
    taken="device1",
    returned=True,
    suspect=True,
    tried=frozenset({"device0"}),
)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return Roots(state=tmp_path / "state")


def test_what_is_written_is_read(roots: Roots) -> None:
    assert probing.find_journals(roots) == []
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    assert path.stat().st_mode & 0o777 == 0o600
    assert journal.read_journal(path) == TASK
    journal.write_journal(replace(TASK, taken=""), roots)
    assert journal.read_journal(path).taken == ""
    journal.remove_journal(TASK, roots)
    assert probing.find_journals(roots) == []
    assert list(roots.state.iterdir()) == []


DAMAGES: list[dict[str, Any]] = [
    {"task": 4},
    {"raid_disks": "3"},
    {"raid_disks": True},
    {"taken": "a device of no slot"},
    {"taken": None},
    {"slots": [{"slot": 0}]},
    {"slots": 7},
    {"bitmap_added": 1},
    {"tried": [7]},
    {"array": "/dev/md0\0"},
    {"more": 1},
]


def test_the_previous_format_is_read(roots: Roots) -> None:
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    path.write_bytes((DATA / "md-fix-format-1.json").read_bytes())
    assert journal.read_journal(path) == TASK


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_one_is_not_acted_on(roots: Roots, damage: dict[str, Any]) -> None:
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    path.write_text(json.dumps({**TASK.as_dict(), **damage}))
    with pytest.raises(BlklabError, match="damaged: expected the journal of a repair by blklab"):
        journal.read_journal(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_journal_is_not_acted_on(roots: Roots, content: bytes) -> None:
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    path.write_bytes(content)
    with pytest.raises(BlklabError, match="damaged"):
        journal.read_journal(path)


def test_a_link_is_not_followed(roots: Roots, tmp_path: Path) -> None:
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BlklabError, match=r"md-fix-.*: "):
        journal.read_journal(path)


def test_only_one_repairs_an_array(tmp_path: Path) -> None:
    roots = Roots(dev=tmp_path / "dev")
    with journal.lock_array("md0", roots):
        with pytest.raises(BlklabError, match="md0: another blklab"), journal.lock_array("md0", roots):
            pass
        with journal.lock_array("md1", roots):
            pass
    with journal.lock_array("md0", roots):
        pass


def test_no_other_user_can_lock_an_array(tmp_path: Path) -> None:
    """A flock on a directory that everyone can open blocked repairs for ever."""
    roots = Roots(dev=tmp_path / "dev")
    with journal.lock_array("md0", roots):
        assert roots.repair_locks.stat().st_mode & 0o777 == 0o700
        (lock,) = roots.repair_locks.iterdir()
        assert lock.stat().st_mode & 0o777 == 0o600
    roots.repair_locks.chmod(0o777)
    with pytest.raises(BlklabError, match="without write permission for others"), journal.lock_array("md0", roots):
        pass


@pytest.mark.parametrize("version", [1, 2])
def test_journals_of_earlier_versions_are_read_without_their_commands(roots: Roots, version: int) -> None:
    """They had commands with the names of disks then, which may be other disks now."""
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    document = json.loads(path.read_bytes())
    document |= {"task": version, "stopped": ["sdx has the slot", "mdadm --zero-superblock /dev/sda"]}
    if version == 1:
        document["seats"] = document.pop("slots")
    path.write_text(json.dumps(document))
    assert journal.read_journal(path) == TASK


def test_a_copy_under_another_name_is_not_acted_on(roots: Roots) -> None:
    journal.write_journal(TASK, roots)
    (path,) = probing.find_journals(roots)
    copy = path.with_name("md-fix-copy.json")
    copy.write_bytes(path.read_bytes())
    with pytest.raises(BlklabError, match="damaged"):
        journal.read_journal(copy)


def test_nothing_is_begun_that_cannot_be_written_down(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BlklabError, match="No space left on device; without it, blklab changes nothing"):
        journal.write_journal(TASK, roots)
    assert probing.find_journals(roots) == []
