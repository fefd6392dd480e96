"""A measurement finds exactly the pages that cannot be read."""

import os
import threading

import pytest

from blklab.errors import BlklabError
from blklab.md.model import ArrayMember
from blklab.md.repair import measure
from blklab.md.repair.measure import Measurement
from blklab.md.superblocks import SectorRange
from tests.md.conftest import Arrays
from tests.md.repair.model_of_slots import OFFSET, array_of

MEMBER_SECTORS = 8192


@pytest.fixture
def members(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> tuple[ArrayMember, ...]:
    machine.mirror(component_size=str(MEMBER_SECTORS // 2))
    monkeypatch.setattr(measure, "device_number", lambda _: 0)  # That of every file
    monkeypatch.setattr(os, "O_DIRECT", 0)
    return array_of("md0", machine.roots).members


def read(machine: Arrays, members: tuple[ArrayMember, ...]) -> dict[str, tuple[SectorRange, ...]]:
    return Measurement(array_of("md0", machine.roots), members, machine.roots).read(lambda *_: None)


def test_all_can_be_read(machine: Arrays, members: tuple[ArrayMember, ...]) -> None:
    assert read(machine, members) == {}
    assert read(machine, ()) == {}


def test_exactly_these_pages(
    machine: Arrays, members: tuple[ArrayMember, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [OFFSET, OFFSET + 8, OFFSET + 4096, OFFSET + MEMBER_SECTORS - 8]  # And what is outside is not read
    bad += [OFFSET - 8, OFFSET + MEMBER_SECTORS]
    reads: list[tuple[int, int]] = []

    def is_readable(_descriptor: int, buffer: memoryview, begin: int) -> bool:
        reads.append((begin, len(buffer)))
        return not any(begin // 512 < at + 8 and at < (begin + len(buffer)) // 512 for at in bad)

    monkeypatch.setattr(measure, "_is_readable", is_readable)
    found = read(machine, members[:1])
    assert found == {
        members[0].path: (
            SectorRange(OFFSET, 16), SectorRange(OFFSET + 4096, 8), SectorRange(OFFSET + MEMBER_SECTORS - 8, 8),
        )
    }  # fmt: skip
    assert min(reads)[0] == OFFSET * 512
    assert max(begin + length for begin, length in reads) == (OFFSET + MEMBER_SECTORS) * 512


def test_another_device_is_refused(
    machine: Arrays, members: tuple[ArrayMember, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "device_number", lambda _: os.makedev(8, 0))
    with pytest.raises(BlklabError, match="it is another device than 8:0, the member of the array"):
        read(machine, members[:1])
    (machine.roots.dev / "sda").unlink()
    with pytest.raises(BlklabError, match="cannot be read"):
        read(machine, members[:1])


def test_a_disk_that_answers_nothing(
    machine: Arrays, members: tuple[ArrayMember, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_is_readable", lambda *_: False)
    monkeypatch.setattr(measure, "MAX_UNREADABLE_PAGES", 300)
    with pytest.raises(BlklabError, match="more than 300 pages cannot be read"):
        read(machine, members[:1])


def test_an_error_of_one_member_ends_the_others(
    machine: Arrays, members: tuple[ArrayMember, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading takes hours: who waits for them must learn at once that it was in vain."""
    (machine.roots.dev / "sdb").unlink()
    goes_on = threading.Event()
    reads: list[int] = []

    def is_slow(_descriptor: int, _buffer: memoryview, begin: int) -> bool:
        reads.append(begin)
        goes_on.wait(0.3)
        return False

    monkeypatch.setattr(measure, "_is_readable", is_slow)
    with pytest.raises(BlklabError, match="sdb: cannot be read"):
        read(machine, members)
    assert len(reads) <= 3


def test_an_interrupt_does_not_wait_for_bad_sectors(
    machine: Arrays, members: tuple[ArrayMember, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    def is_slow(_descriptor: int, _buffer: memoryview, begin: int) -> bool:
        reads.append(begin)
        threading.Event().wait(0.2)
        return False

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "_is_readable", is_slow)
    monkeypatch.setattr(measure, "PROGRESS_INTERVAL_S", 0.05)
    measurement = Measurement(array_of("md0", machine.roots), members[:1], machine.roots)
    with pytest.raises(KeyboardInterrupt):
        measurement.read(interrupt)
    assert len(reads) <= 3
