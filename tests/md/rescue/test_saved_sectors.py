"""Sectors of an array are copied from one member: compared with where md's own map has them."""

import errno
import hashlib
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.md.images import make_array
from blklab.md.levels import NUMBERS
from blklab.md.model import Array, ArrayMember
from blklab.md.rescue import saved_sectors
from blklab.md.rescue.saved_sectors import find_on_member, parse_sectors, read_header, read_ranges, save_sectors
from blklab.md.superblocks import SectorRange, Superblock, SuperblockReading, read_superblocks
from blklab.system.roots import Roots
from tests.md.conftest import image
from tests.md.crafted import make_superblock
from tests.md.test_good_copies import CHUNK, OFFSET, SECTORS, SHAPES

LEVELS = {name: number for number, name in NUMBERS.items()}


def superblock_of(level: str, layout: int, disks: int, slot: int, **changes: Any) -> Superblock:
    chunk = 0 if level == "raid1" else CHUNK * 512
    return make_superblock(
        level=LEVELS[level], layout=layout, raid_disks=disks, slot=slot, chunk=chunk, size=SECTORS, data_offset=OFFSET,
        data_size=SECTORS, device_uuid="1:2:3:4", **changes,
    )  # fmt: skip


def array_of(superblock: Superblock) -> Array:
    return make_array([ArrayMember("sda", "/dev/sda", superblock.slot, superblock=superblock)])


@pytest.mark.parametrize(("level", "layout", "disks"), [*SHAPES, ("raid10", 0x20201, 4), ("raid10", 0x103, 4)])
def test_places_are_those_of_the_map(level: str, layout: int, disks: int) -> None:
    """Each sector of the array is found on as many slots as it has copies, where the map has it."""
    copies = Counter[int]()
    for slot in range(disks):
        superblock = superblock_of(level, layout, disks, slot)
        array = array_of(superblock)
        if array.sector_map is None:
            pytest.skip("no map of this layout")
        capacity = array.sector_map.capacity
        places = list(find_on_member(array, superblock, SectorRange(0, capacity + 100)))
        for place in places:
            on_member = SectorRange(place.member_sector - OFFSET, place.sectors)
            mapped = array.map_pieces(slot, on_member)
            assert mapped == [SectorRange(place.array_sector, place.sectors)]
            copies.update(range(place.array_sector, place.array_sector + place.sectors))
        assert [place.array_sector for place in places] == sorted(place.array_sector for place in places)
    near, far = layout & 0xFF, layout >> 8 & 0xFF
    expected = {"raid1": disks, "raid10": near * far}.get(level, 1)
    assert set(copies.values()) == {expected}
    assert set(copies) == set(range(capacity))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a member of random bytes, slot 1 of a RAID-5 of three disks."""
    path = tmp_path / "sdb"
    path.write_bytes(random.Random(5).randbytes((OFFSET + SECTORS) * 512))
    entry = {"sector": OFFSET + 40, "sectors": 8}
    bad = {"sector": 24, "sectors": 8, "shift": 0, "active": True, "entries": [entry]}
    superblock = superblock_of("raid5", 2, 3, 1, bad_blocks=bad)
    monkeypatch.setattr(saved_sectors, "read_superblocks", lambda _: SuperblockReading((superblock,)))
    return path


def test_the_file_has_the_bytes_of_the_member(disk: Path, tmp_path: Path) -> None:
    file = tmp_path / "sectors"
    content = disk.read_bytes()
    saved = save_sectors(SectorRange(8, 320), disk, file, Roots())
    assert file.stat().st_mode & 0o777 == 0o600
    header = read_header(file)
    assert header == saved.header
    assert (header.array_uuid, header.slot, header.events, header.data_offset) == ("a:b:c:d", 1, 100, OFFSET)
    data = file.read_bytes().partition(b"\n")[2]
    for place in header.ranges:
        length = place.sectors * 512
        expected = content[place.member_sector * 512 :][:length]
        assert data[:length] == expected
        assert hashlib.sha256(expected).hexdigest() == place.sha256
        data = data[length:]
    assert data == b""
    assert disk.read_bytes() == content
    # The bad block is in chunk 2 of the member: the first data of stripe 2, array sectors 64 to 79.
    assert saved.listed == (SectorRange(72, 8),)
    saved_ranges = [SectorRange(place.array_sector, place.sectors) for place in header.ranges]
    in_file = {sector for at in saved_ranges for sector in range(at.sector, at.end)}
    rest = [saved.elsewhere, saved.listed, saved.unread]
    others = {sector for ranges in rest for at in ranges for sector in range(at.sector, at.end)}
    assert in_file | others == set(range(8, 328))
    assert not in_file & others


def test_what_cannot_be_read_is_left_out(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pread

    def pread(source: int, length: int, offset: int) -> bytes:
        if offset <= (OFFSET + 4) * 512 < offset + length:
            raise OSError(errno.EIO, "Input/output error")
        return whole(source, length, offset)

    monkeypatch.setattr("os.pread", pread)
    saved = save_sectors(SectorRange(0, 64), disk, tmp_path / "sectors", Roots())
    monkeypatch.undo()
    assert not saved.is_complete
    assert [at.sectors for at in saved.unread] == [8]
    assert sum(place.sectors for place in saved.header.ranges) + 8 + sum(at.sectors for at in saved.elsewhere) == 64
    assert list(read_ranges(tmp_path / "sectors", saved.header))


def test_sectors_of_other_members_make_no_file(disk: Path, tmp_path: Path) -> None:
    saved = save_sectors(SectorRange(0, 64), disk, tmp_path / "sectors", Roots())
    with pytest.raises(BlklabError, match="they are on other members"):
        save_sectors(saved.elsewhere[0], disk, tmp_path / "another", Roots())
    assert not (tmp_path / "another").exists()
    with pytest.raises(UsageError, match="exists, expected a new file"):
        save_sectors(SectorRange(0, 64), disk, tmp_path / "sectors", Roots())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"role": "spare", "slot": None}, "not a complete member"),
        ({"recovery_offset": 8}, "not a complete member"),
        ({"reshape_position": 8}, "being reshaped"),
        ({"layout": 99}, "does not know where"),
    ],
)
def test_members_in_doubt_are_refused(
    changes: dict[str, Any], reason: str, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"level": 5, "raid_disks": 3, "slot": 1, **changes}
    superblock = make_superblock(**values)
    monkeypatch.setattr(saved_sectors, "read_superblocks", lambda _: SuperblockReading((superblock,)))
    with pytest.raises(BlklabError, match=reason):
        save_sectors(SectorRange(0, 8), disk, tmp_path / "sectors", Roots())
    assert not (tmp_path / "sectors").exists()


def test_a_recorded_mirror(tmp_path: Path) -> None:
    """The sectors that the list of the member has are not saved."""
    path = image("raid1-12-populated.vda", tmp_path)
    (superblock,) = read_superblocks(path).members
    assert superblock.bad_blocks is not None
    first = superblock.bad_blocks.ranges[0]
    with path.open("r+b") as file:
        file.seek((first.sector - 8) * 512)
        file.write(b"good" * 1024)
    at = first.sector - superblock.data_offset
    saved = save_sectors(SectorRange(at - 8, 8 + first.sectors), path, tmp_path / "sectors", Roots())
    assert saved.listed == (SectorRange(at, first.sectors),)
    ((place, _, content),) = read_ranges(tmp_path / "sectors", saved.header)
    assert (place.array_sector, place.sectors) == (at - 8, 8)
    assert content == b"good" * 1024


def test_damaged_files_are_one_error(disk: Path, tmp_path: Path) -> None:
    file = tmp_path / "sectors"
    header = save_sectors(SectorRange(0, 64), disk, file, Roots()).header
    sound = file.read_bytes()
    file.write_bytes(sound[:-1])
    with pytest.raises(BlklabError, match="bytes follow its first line"):
        read_header(file)
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(BlklabError, match="SHA-256 of array sector"):
        list(read_ranges(file, header))
    source = random.Random(6)
    line, _, data = sound.partition(b"\n")
    for _ in range(300):
        document = json.loads(line)
        place: Any = source.choice([document, document["ranges"][0]])
        key = source.choice(list(place))
        place[key] = source.choice([None, -1, 0, 1 << 70, "x", [], {}, 1.5, True])
        file.write_bytes(json.dumps(document).encode() + b"\n" + data)
        try:
            changed = read_header(file)
            list(read_ranges(file, changed))
        except BlklabError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["", "-", "8-", "9-8", "a-b", "0-2097152", "-1", "1 2"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError, match="expected the first and the last sector"):
        parse_sectors(text)


def test_ranges_include_their_last_sector() -> None:
    assert parse_sectors("2048-2055") == SectorRange(2048, 8)
    assert parse_sectors("5") == SectorRange(5, 1)
