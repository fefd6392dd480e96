"""Lost sectors are written to an array only if they are proved to be unchanged."""

import errno
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.md.repair import pages
from blklab.md.repair import plan as plans
from blklab.md.repair.rewrite import StoppedRepair
from blklab.md.rescue import restored_sectors
from blklab.md.rescue.restored_sectors import SectorsPlan, plan_sectors, write_sectors
from blklab.md.rescue.saved_sectors import read_header, save_sectors
from blklab.md.superblocks import SectorRange, read_superblocks
from blklab.system.identity import BlockDevice, of_node
from blklab.system.roots import Roots
from tests.md.conftest import Arrays, image, machine

__all__ = ["machine"]

BITMAP = 8192  # Where the recorded members have it, bytes
LOST = SectorRange(2048, 8)  # Of the array
OFFSET = 2048  # Of its data on the members
GOOD = b"good" * 1024
SIZE = 4 << 20  # Bytes of the array that the tests look at


class DegradedMirror:
    """A RAID-1 without its second member: md cannot read what the first one lists, and stores what is written."""

    def __init__(self, machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self.outside = image("raid1-12-bitmap.vdb", machine.root)
        with self.outside.open("r+b") as file:
            file.seek((OFFSET + LOST.sector) * 512)
            file.write(GOOD)
        machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
        self.node = machine.array(
            "md0",
            "0:0",
            {"sda": {"bad_blocks": f"{OFFSET + LOST.sector} {LOST.sectors}"}},
            raid_disks="2",
            degraded="1",
        )
        self.path = machine.roots.dev / "md0"
        with self.path.open("r+b") as file:
            file.truncate(SIZE)
        self.member = machine.roots.dev / "sda"
        (superblock,) = read_superblocks(self.member).members
        self.events = superblock.events
        self.stores = True
        self.writes = 0
        self.set_bitmap()
        self.file = machine.root / "sectors"
        monkeypatch.setattr("os.O_DIRECT", 0)
        monkeypatch.setattr(restored_sectors, "read_page", self.read_page)
        monkeypatch.setattr(restored_sectors, "write_page", self.write_page)
        monkeypatch.setattr("time.sleep", lambda _: None)

    def set_bitmap(self, *, cleared: int = 0, events: int | None = None, bits: bytes = bytes(8)) -> None:
        with self.member.open("r+b") as file:
            file.seek(BITMAP + 24)
            file.write(struct.pack("<QQ", self.events if events is None else events, cleared))
            file.seek(BITMAP + 256)
            file.write(bits)

    def is_array(self, descriptor: int) -> bool:
        return os.fstat(descriptor).st_ino == self.path.stat().st_ino

    @property
    def listed(self) -> str:
        return (self.node / "md/dev-sda/bad_blocks").read_text().strip()

    def read_page(self, descriptor: int, begin: int, length: int) -> bytes:
        at = LOST.sector * 512
        if self.is_array(descriptor) and self.listed and begin < at + 4096 and at < begin + length:
            raise OSError(errno.EIO, "Input/output error")
        return pages.read_page(descriptor, begin, length)

    def write_page(self, descriptor: int, begin: int, data: bytes) -> None:
        assert self.is_array(descriptor)
        self.writes += 1
        if not self.stores:
            (self.node / "md/dev-sda/state").write_text("in_sync,write_error\n")
            raise OSError(errno.EIO, "Input/output error")
        assert (begin, len(data)) == (LOST.sector * 512, 4096)
        os.pwrite(descriptor, data, begin)
        (self.node / "md/dev-sda/bad_blocks").write_text("\n")
        self.set_bitmap(bits=b"\x01" + bytes(7))

    def save(self, wanted: SectorRange = LOST) -> Path:
        save_sectors(wanted, self.outside, self.file, Roots())
        return self.file

    def plan(self) -> SectorsPlan:
        return plan_sectors("md0", self.file, self.machine.roots)

    def write(self) -> tuple[str, list[str]]:
        steps: list[str] = []
        result = write_sectors(self.plan(), self.machine.roots, lambda step, _: steps.append(step))
        return result, steps

    def content(self) -> bytes:
        return self.path.read_bytes()[LOST.sector * 512 : LOST.end * 512]


@pytest.fixture
def mirror(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> DegradedMirror:
    def resolve(name: str, roots: Roots) -> BlockDevice:
        return of_node((roots.sys / "class/block" / Path(name).name).resolve(strict=True), roots)

    monkeypatch.setattr(plans, "resolve", resolve)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    machine.roots.state.mkdir(mode=0o700)
    return DegradedMirror(machine, monkeypatch)


def rewrite_header(file: Path, change: Callable[[Any], object]) -> None:
    line, _, data = file.read_bytes().partition(b"\n")
    document = json.loads(line)
    change(document)
    file.write_bytes(json.dumps(document).encode() + b"\n" + data)


def reasons(plan: SectorsPlan) -> str:
    return "; ".join(reason.message for reason in plan.refused)


def test_lost_sectors_are_written_and_leave_the_list(mirror: DegradedMirror) -> None:
    mirror.save()
    plan = mirror.plan()
    assert not plan.refused, reasons(plan)
    assert plan.lost == (LOST,)
    assert mirror.writes == 0
    result, steps = mirror.write()
    assert mirror.content() == GOOD
    assert mirror.listed == ""
    assert "4 KiB written" in result
    assert len(steps) == 4
    assert list(mirror.machine.roots.state.iterdir()) == []
    assert mirror.plan().nothing_to_do


def test_sectors_that_md_can_read_must_be_equal(mirror: DegradedMirror) -> None:
    """The file has 8 more sectors, which are zeros on both."""
    mirror.save(SectorRange(LOST.sector, 16))
    with mirror.path.open("r+b") as file:
        file.seek(LOST.end * 512)
        file.write(b"newer")
    with pytest.raises(StoppedRepair, match="other data at array 2056-2063 than the file"):
        mirror.write()
    assert mirror.writes == 0
    with mirror.path.open("r+b") as file:
        file.seek(LOST.end * 512)
        file.write(bytes(5))
    mirror.write()
    assert mirror.content() == GOOD


@pytest.mark.parametrize(
    ("bitmap", "reason"),
    [
        ({"bits": b"\x01" + bytes(7)}, "something was written near array 2048-2055"),
        ({"cleared": 7}, "knows only what was written since event 7"),
    ],
)
def test_sectors_that_may_have_changed_are_refused(bitmap: dict[str, Any], reason: str, mirror: DegradedMirror) -> None:
    mirror.save()
    mirror.set_bitmap(**bitmap)
    assert reason in reasons(mirror.plan())
    with pytest.raises(StoppedRepair):
        mirror.write()
    assert mirror.writes == 0


def test_other_bits_do_not_matter(mirror: DegradedMirror) -> None:
    mirror.save()
    mirror.set_bitmap(bits=b"\xfe" + b"\xff" * 7)
    assert not mirror.plan().refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"array_uuid": "1:2:3:4"}, "the file is of array 1:2:3:4"),
        ({"raid_disks": 3}, "another level, layout, chunk or size"),
        ({"chunk_bytes": 512}, "another level, layout, chunk or size"),
        ({"events": 99}, "written to apart from the array"),
    ],
)
def test_sectors_of_something_else_are_refused(changes: dict[str, Any], reason: str, mirror: DegradedMirror) -> None:
    rewrite_header(mirror.save(), lambda document: document.update(changes))
    assert reason in reasons(mirror.plan())
    with pytest.raises(StoppedRepair):
        mirror.write()
    assert mirror.writes == 0


def test_sectors_of_a_member_that_is_in_the_array_are_refused(mirror: DegradedMirror) -> None:
    (superblock,) = read_superblocks(mirror.member).members
    rewrite_header(mirror.save(), lambda document: document.update(device_uuid=superblock.device_uuid))
    assert "sda, of which the sectors are, is in the array" in reasons(mirror.plan())


def test_an_array_without_a_bitmap_is_refused(mirror: DegradedMirror) -> None:
    mirror.save()
    with mirror.member.open("r+b") as file:
        file.seek(BITMAP)
        file.write(bytes(4))
    assert "it has no internal bitmap" in reasons(mirror.plan())


def test_a_damaged_file_is_one_error(mirror: DegradedMirror) -> None:
    file = mirror.save()
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")
    with pytest.raises(BlklabError, match="SHA-256"):
        mirror.plan()
    assert mirror.writes == 0


def test_an_interrupted_run_can_be_repeated_although_its_own_write_made_the_bits_dirty(mirror: DegradedMirror) -> None:
    mirror.save()
    mirror.stores = False
    with pytest.raises(StoppedRepair, match="the command can be repeated with it"):
        mirror.write()
    (recorded,) = mirror.machine.roots.state.iterdir()
    assert json.loads(recorded.read_text())["array_uuid"] == read_header(mirror.file).array_uuid
    mirror.set_bitmap(bits=b"\x01" + bytes(7))
    (mirror.node / "md/dev-sda/state").write_text("in_sync\n")
    mirror.stores = True
    assert not mirror.plan().refused
    mirror.write()
    assert mirror.content() == GOOD
    assert list(mirror.machine.roots.state.iterdir()) == []


def test_the_proof_of_one_file_is_none_for_another(mirror: DegradedMirror) -> None:
    mirror.save()
    mirror.stores = False
    with pytest.raises(StoppedRepair):
        mirror.write()
    (mirror.node / "md/dev-sda/state").write_text("in_sync\n")
    mirror.set_bitmap(bits=b"\x01" + bytes(7))
    rewrite_header(mirror.file, lambda document: document.update(updated=1))
    assert "something was written near" in reasons(mirror.plan())


def test_lists_that_change_after_the_plan_stop_it(mirror: DegradedMirror) -> None:
    mirror.save()
    plan = mirror.plan()
    (mirror.node / "md/dev-sda/bad_blocks").write_text(f"{OFFSET + LOST.sector} 4\n")
    with pytest.raises(StoppedRepair, match="its lists have changed since the plan"):
        write_sectors(plan, mirror.machine.roots, lambda *_: None)
    assert mirror.writes == 0


def test_parity_is_refused_because_md_refuses_such_writes(mirror: DegradedMirror) -> None:
    mirror.save()
    header = read_header(mirror.file)
    array = plan_sectors("md0", mirror.file, mirror.machine.roots).array
    found = list(restored_sectors._check_origin(replace(array, level="raid5"), header))
    assert "parity" in [code for code, *_ in found]
