"""Lists are dropped only if all copies of each listed page agree."""

from dataclasses import replace
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.md.model import Array, ArrayMember
from blklab.md.repair import copied_lists, operations
from blklab.md.repair.copied_lists import drop_lists, find_disagreement
from blklab.md.repair.operations import CommandOutput
from blklab.md.superblocks import SectorRange, SuperblockReading
from tests.md.conftest import Arrays
from tests.md.crafted import make_superblock

OFFSET, SECTORS, CHUNK = 16, 192, 16
BAD = SectorRange(OFFSET + 8, 8)


@pytest.fixture(autouse=True)
def _no_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.O_DIRECT", 0)


def array_of(directory: Path, level: str, layout: int, disks: int, contents: list[int], bad: int) -> Array:
    """Members whose bytes are all the same; the first `bad` of them list a page."""
    members = []
    for slot, byte in enumerate(contents):
        path = directory / f"sd{slot}"
        path.write_bytes(bytes([byte]) * (OFFSET + SECTORS) * 512)
        listed = (BAD,) if slot < bad else ()
        superblock = make_superblock(slot=slot, device_uuid=f"{slot}:0:0:0", data_offset=OFFSET)
        members.append(
            ArrayMember(
                f"sd{slot}", str(path), slot, ("in_sync",), superblock=superblock, listed=listed, data_offset=OFFSET
            )
        )
    chunk = 0 if level == "raid1" else CHUNK * 512
    return Array(
        "md0", "/dev/md0", "a:b:c:d", level, layout, chunk, disks, "1.2", True, tuple(members), SECTORS,
        state="clean", degraded=0,
    )  # fmt: skip


CASES = [
    ("raid1", 0, [7, 7], 2, ""),
    ("raid1", 0, [7, 8], 2, "the copies of array sector 8 differ"),
    ("raid10", 0x102, [7, 7, 9, 9], 4, ""),
    ("raid10", 0x102, [7, 8, 9, 9], 4, "the copies of array sector 8 differ"),
    ("raid5", 2, [1, 2, 3], 2, ""),
    ("raid5", 2, [1, 2, 4], 2, "parity does not match the data at sector 8"),
    ("raid6", 2, [1, 2, 3, 9], 3, ""),
    ("raid6", 2, [1, 2, 4, 9], 3, "parity does not match the data at sector 8"),
]


@pytest.mark.parametrize(("level", "layout", "contents", "bad", "expected"), CASES)
def test_copies_and_parity(
    tmp_path: Path, level: str, layout: int, contents: list[int], bad: int, expected: str
) -> None:
    array = array_of(tmp_path, level, layout, len(contents), contents, bad)
    assert find_disagreement(array).startswith(expected)
    assert bool(find_disagreement(array)) == bool(expected)


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    array = array_of(tmp_path, "raid1", 0, 2, [7, 7], 2)
    first, second = array.members
    assert find_disagreement(replace(array, degraded=1)) == "not all members are there"
    assert find_disagreement(replace(array, reshaping=True)) == "not all members are there"
    assert find_disagreement(replace(array, raid_disks=3)).startswith("not all members")
    unseen = replace(array, members=(first, replace(second, unseen="denied")))
    assert find_disagreement(unseen) == "not all members are there"
    garbage = replace(second, listed=(SectorRange(1 << 30, 8),), size=4096)
    assert find_disagreement(replace(array, members=(first, garbage))) == "a list is damaged"
    other = replace(second, listed=(SectorRange(OFFSET + 64, 8),))
    assert "written again" in find_disagreement(replace(array, members=(first, other)))
    Path(second.path).unlink()
    assert "a member cannot read a listed sector" in find_disagreement(array)


class Stopping:
    """An mdadm that stops and assembles what it is told to, and a disk that changes meanwhile."""

    def __init__(self, machine: Arrays, array: Array, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.stops = True
        self.node = machine.roots.sys / "block/md0/md"
        self.node.mkdir(parents=True)
        self.on_disk = {member.path: member for member in array.members}
        monkeypatch.setattr(operations, "run_line", self.run)
        monkeypatch.setattr(copied_lists, "read_superblocks", self.read)
        monkeypatch.setattr(copied_lists, "read_array", lambda *_: replace(array, members=()))

    def run(self, line: str) -> CommandOutput:
        self.lines.append(line)
        if "--stop" in line and self.stops:
            self.node.rmdir()
        return CommandOutput(0, ())

    def read(self, path: Path) -> SuperblockReading:
        superblock = self.on_disk[str(path)].superblock
        return SuperblockReading((superblock,) if superblock else ())


def lines_of(machine: Arrays, array: Array, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    stopping = Stopping(machine, array, monkeypatch)
    drop_lists(array, machine.roots, lambda *_: None)
    return stopping.lines


def test_lists_are_dropped(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    array = array_of(machine.root, "raid1", 0, 2, [7, 7], 2)
    spare = ArrayMember("sdx", "/dev/sdx", None, ("spare",))
    stop, assemble = lines_of(machine, replace(array, members=(*array.members, spare)), monkeypatch)
    assert stop == "mdadm --stop /dev/md0"
    paths = " ".join(member.path for member in array.members)
    assert assemble == f"mdadm --assemble /dev/md0 --update=force-no-bbl {paths} /dev/sdx"


def test_lists_stay_if_the_copies_differ_when_it_is_stopped(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    array = array_of(machine.root, "raid1", 0, 2, [7, 8], 2)
    assert "force-no-bbl" not in lines_of(machine, array, monkeypatch)[1]


def test_lists_stay_if_they_have_grown(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    array = array_of(machine.root, "raid1", 0, 2, [7, 7], 2)
    entry = {"sector": OFFSET + 64, "sectors": 8}
    grown = make_superblock(
        slot=1, device_uuid="1:0:0:0",
        bad_blocks={"sector": 16, "sectors": 8, "shift": 0, "active": True, "entries": [entry]},
    )  # fmt: skip
    stopping = Stopping(machine, array, monkeypatch)
    second = array.members[1]
    stopping.on_disk[second.path] = replace(second, superblock=grown)
    reports: list[str] = []
    drop_lists(array, machine.roots, lambda step, _: reports.append(step))
    assert "force-no-bbl" not in stopping.lines[1]
    assert "has new entries now" in reports[1]


def test_an_array_that_cannot_be_stopped(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    array = array_of(machine.root, "raid1", 0, 2, [7, 7], 2)
    stopping = Stopping(machine, array, monkeypatch)
    stopping.stops = False
    with pytest.raises(BlklabError, match="cannot be stopped"):
        drop_lists(array, machine.roots, lambda *_: None)
    assert stopping.lines == ["mdadm --stop /dev/md0"]


def test_a_comment_is_not_run() -> None:
    with pytest.raises(BlklabError, match="cannot be typed"):
        operations.run_line("# Not a command, because a name in it has characters that cannot be typed: it's")
