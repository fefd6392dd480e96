"""The search for the geometry of an array whose superblocks were overwritten, on real filesystems."""

import os
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from blklab import _core
from blklab.errors import BlklabError, UsageError
from blklab.md.rescue.blocks_ext4 import Ext4, is_superblock
from blklab.md.rescue.crc32c import ONES, crc32c, find_word, pack_word, take_back
from blklab.md.rescue.geometry_search import (
    GeometryHints,
    GeometrySearch,
    OldGeometry,
    describe_search,
    find_geometries,
)
from blklab.md.rescue.virtual_array import FAR2, NEAR2, NEAR3, OFFSET2, Layout
from tests.md.rescue.dealt_arrays import DealtArray, deal, mirror_rows, overwrite_with_created, parity_row

PARITY_LAYOUTS = ("left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric")
MIRROR_LAYOUTS = {"n2": NEAR2, "n3": NEAR3, "f2": FAR2, "o2": OFFSET2}
OFFSETS = (0, 8192, 139264, 1 << 20, 2 << 20, 4 << 20)  # Bytes; those of old and new mdadm on small disks
TOOLS = {"ext4": "mkfs.ext4", "ext4-1k": "mkfs.ext4", "xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs"}
SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def make_files(directory: Path, random: Random) -> None:
    for number in range(24):
        folder = directory / f"directory-{number}"
        folder.mkdir(parents=True)
        for file in range(12):
            (folder / f"file-{file}").write_bytes(random.randbytes(random.randrange(1, 9000)))


def make_filesystem(kind: str, directory: Path) -> Path:
    """Makes a filesystem with files in an image of 64 to 304 MiB, sparse."""
    program = shutil.which(TOOLS[kind], path=SBIN)
    if program is None:
        pytest.skip(f"{TOOLS[kind]} is not installed")
    source, image = directory / "source", directory / f"{kind}.img"
    if not source.exists():
        make_files(source, Random(1))
    size = {"xfs": 304}.get(kind, 128 if kind == "btrfs" else 64)
    with image.open("wb") as file:
        file.truncate(size << 20)
    prototype = directory / "prototype"
    options = {
        "ext4": ["-q", "-F", "-b", "4096", "-g", "2048", "-O", "metadata_csum,64bit", "-d", str(source)],
        "ext4-1k": ["-q", "-F", "-b", "1024", "-O", "metadata_csum", "-d", str(source)],
        "xfs": ["-q", "-f", "-m", "crc=1", "-p", str(prototype)],
        "btrfs": ["-q", "--rootdir", str(source)],
    }[kind]
    if kind == "xfs":
        write_prototype(prototype, source)
    subprocess.run([program, *options, str(image)], check=True, capture_output=True)
    return image


def write_prototype(path: Path, source: Path) -> None:
    """Writes what mkfs.xfs -p reads: the files to make (mkfs.xfs(8))."""
    lines = ["/none", "0 0", "d--755 0 0"]
    for folder in sorted(source.iterdir()):
        lines.append(f"{folder.name} d--755 0 0")
        lines += [f"{file.name} ---644 0 0 {file}" for file in sorted(folder.iterdir())]
        lines.append("$")
    path.write_text("\n".join([*lines, "$", ""]))


@pytest.fixture(scope="session")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns images of filesystems by their kind; a kind whose program is not installed is left out."""
    directory = tmp_path_factory.mktemp("volumes")
    return {
        kind: make_filesystem(kind, directory)
        for kind, program in TOOLS.items()
        if shutil.which(program, path=SBIN) is not None
    }


@dataclass
class Case:
    truth: DealtArray
    given: list[Path]  # Shuffled, without the removed ones
    missing: int
    title: str


def make_case(seed: int, volumes: dict[str, Path], directory: Path) -> Case:
    """Deals a filesystem out, overwrites the superblocks, removes a member, and shuffles the rest."""
    random = Random(seed)
    kind = sorted(volumes)[seed % len(volumes)]
    level = random.choice([0, 1, 4, 5, 5, 5, 6, 6, 10, 10])
    layout = random.choice(PARITY_LAYOUTS) if level in {5, 6} else ""
    if level == 10:
        layout = random.choice(sorted(MIRROR_LAYOUTS))
    least = {0: 2, 1: 2, 4: 3, 5: 3, 6: 4, 10: 4 if layout == "n3" else 3}[level]
    disks = random.randint(least, 4 if level == 1 else 7)
    chunk = 0 if level == 1 else 4096 << random.randrange(9)
    common = random.choice(OFFSETS)
    offsets = [random.choice(OFFSETS) if seed % 3 == 0 else common for _ in range(disks)]
    paths = [directory / f"member-{number}.img" for number in random.sample(range(100), disks)]
    truth = DealtArray(level, layout, chunk, offsets, list(paths))
    deal(volumes[kind], paths, truth, spare_bytes=random.choice([0, 65536, 1 << 20]))
    order = random.sample(range(disks), disks)
    if random.random() < 0.8:
        for slot, path in zip(order, paths, strict=True):
            overwrite_with_created(path, slot, disks, random, data_offset=2048)
    missing = 0
    if level != 0 and random.random() < 0.5:
        missing = random.randint(1, 2 if level == 6 else 1)
        for slot in random.sample(range(disks), missing):
            truth.paths[slot] = None
    given = [path for path in truth.paths if path is not None]
    random.shuffle(given)
    title = f"{seed}: {kind} RAID-{level} {layout} {disks} disks, {missing} missing, chunk {chunk}, {offsets}"
    return Case(truth, given, missing, title)


def is_true(found: OldGeometry, truth: DealtArray) -> bool:
    """Whether a geometry is the one that was dealt, apart from the order of slots with the same content."""
    if (found.level, found.layout, found.chunk) != (truth.level, truth.layout, truth.chunk):
        return False
    expected = [
        None if path is None else (str(path), offset) for path, offset in zip(truth.paths, truth.offsets, strict=True)
    ]
    members = [
        None if member.path is None or member.data_offset is None else (member.path, member.data_offset)
        for member in found.members
    ]
    groups = {slot: group for group in found.equal_slots for slot in group}
    for slot, member in enumerate(members):
        if member not in [expected[other] for other in groups.get(slot, (slot,))]:
            return False
    return sorted(members, key=str) == sorted(expected, key=str)


def judge(search: GeometrySearch, truth: DealtArray) -> str:
    if search.verdict == "none":
        return "none"
    is_among = any(is_true(geometry, truth) for geometry in search.geometries)
    if search.verdict == "unique":
        return "unique" if is_among else "WRONG"
    return "several" if is_among or not search.complete else "several without the true one"


def run_cases(seeds: range, volumes: dict[str, Path], directory: Path) -> Counter[str]:
    results: Counter[str] = Counter()
    report = []
    for seed in seeds:
        place = directory / str(seed)
        place.mkdir()
        case = make_case(seed, volumes, place)
        before = [(path.stat().st_mtime_ns, path.stat().st_size) for path in case.given]
        search = find_geometries(case.given, GeometryHints(missing=case.missing))
        result = judge(search, case.truth)
        assert [(path.stat().st_mtime_ns, path.stat().st_size) for path in case.given] == before
        assert result in {"unique", "several", "none"}, (case.title, describe_search(search))
        results[result] += 1
        report.append(f"{result:8} {case.title}")
        shutil.rmtree(place)
    (directory / "report.txt").write_text("\n".join([*report, str(dict(results)), ""]))
    return results


def test_twenty_arrays_are_found_or_left_open(volumes: dict[str, Path], tmp_path: Path) -> None:
    """Nothing wrong is ever called unique, and what is listed contains the true geometry."""
    results = run_cases(range(20), volumes, tmp_path)
    assert results["unique"] >= 10
    assert results["none"] <= 2


@pytest.mark.proof
def test_two_hundred_arrays_are_found_or_left_open(volumes: dict[str, Path], tmp_path: Path) -> None:
    results = run_cases(range(1000, 1200), volumes, tmp_path)
    assert results["unique"] >= 100
    assert results["none"] <= 20


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("level", "disks"), [(4, 3), (4, 5), (5, 3), (5, 6), (6, 4), (6, 7)])
def test_parity_is_dealt_as_by_hand(level: int, disks: int, number: int) -> None:
    layout = Layout(level, disks, 4096, number if level != 4 else 0)
    for row in range(3 * disks):
        cells = parity_row(level, PARITY_LAYOUTS[number], disks, row)
        data = [cells.index(f"d{column}") for column in range(layout.data_disks)]
        assert layout.data_slots(row) == data
        assert layout.parity_slots(row) == [cells.index(parity) for parity in ("p", "q")[: layout.parities]]
        (place,) = layout.find_copies(4096 * row * layout.data_disks + 5)
        assert (place.slot, place.offset) == (data[0], row * 4096 + 5)


@pytest.mark.parametrize("name", MIRROR_LAYOUTS)
@pytest.mark.parametrize("disks", [3, 4, 5, 8])
def test_mirrors_are_dealt_as_by_hand(name: str, disks: int) -> None:
    rows = mirror_rows(name, disks, 24)
    stride = len(rows) // 2 * 4096 if name == "f2" else 0
    layout = Layout(10, disks, 4096, MIRROR_LAYOUTS[name], stride)
    for chunk in range(24):
        expected = {
            (slot, number * 4096) for number, row in enumerate(rows) for slot, cell in enumerate(row) if cell == chunk
        }
        assert {(place.slot, place.offset) for place in layout.find_copies(chunk * 4096)} == expected


@pytest.mark.parametrize(
    ("level", "number", "disks"),
    [
        (0, 0, 3),
        (4, 0, 4),
        (5, 0, 3),
        (5, 1, 4),
        (5, 2, 5),
        (5, 3, 3),
        (6, 0, 5),
        (6, 1, 4),
        (6, 2, 6),
        (6, 3, 5),
        (10, NEAR2, 4),
        (10, NEAR3, 5),
        (10, OFFSET2, 3),
        (10, FAR2, 4),
    ],
)
def test_the_map_is_the_inverse_of_the_core_map(level: int, number: int, disks: int) -> None:
    """The core maps from members to the array; RAID-10's copies and the data of other levels must come back."""
    chunk, rows = 8, 30  # Sectors, and chunks of each member
    stride = rows // 2 * chunk * 512 if number == FAR2 else 0
    layout = Layout(level, disks, chunk * 512, number, stride)
    core = _core.MdMap(f"raid{level}", number, chunk, [rows * chunk] * disks)
    for sector in range(0, min(core.capacity, 40 * chunk), 3):
        for place in layout.find_copies(sector * 512):
            assert core.array_ranges(place.slot, place.offset // 512, 1, False) == [(sector, 1)]


def test_the_word_of_a_checksum_is_computed_back() -> None:
    random = Random(2)
    for _ in range(50):
        seed, word, content = random.getrandbits(32), random.getrandbits(32), random.randbytes(37)
        after = crc32c(crc32c(seed, pack_word(word)), content)
        assert find_word(seed, take_back(after, content)) == word
    assert crc32c(ONES, b"123456789") ^ ONES == 0xE3069283  # RFC 3720


def test_damage_in_a_superblock_is_seen(volumes: dict[str, Path]) -> None:
    content = volumes["ext4"].read_bytes()[1024:2048] if "ext4" in volumes else pytest.skip("no mkfs.ext4")
    assert is_superblock(content)
    assert Ext4(content).size == 64 << 20
    assert not is_superblock(content[:200] + b"?" + content[201:])


def test_random_bytes_have_no_geometry(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.img" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(Random(number).randbytes(4 << 20))
    search = find_geometries(paths)
    assert search.verdict == "none"
    assert search.geometries == ()
    assert "No block was found that says where it belongs" in search.notes[0]


def test_impossible_numbers_of_devices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.img"
    path.write_bytes(bytes(4096))
    with pytest.raises(UsageError, match="1 slots: expected 2 to 8 devices"):
        find_geometries([path])
    with pytest.raises(UsageError, match="named twice"):
        find_geometries([path, path])
    with pytest.raises(BlklabError, match=r"gone.img: No such file"):
        find_geometries([path, tmp_path / "gone.img"])


def test_the_report_has_the_geometry_in_terms_of_mdadm(volumes: dict[str, Path], tmp_path: Path) -> None:
    if "xfs" not in volumes:
        pytest.skip("mkfs.xfs is not installed")
    paths = [tmp_path / f"{name}.img" for name in "abc"]
    deal(volumes["xfs"], paths, DealtArray(5, "left-symmetric", 65536, [1 << 20] * 3), spare_bytes=1 << 20)
    search = find_geometries([paths[2], paths[0], paths[1]])
    lines = describe_search(search)
    assert lines[0] == "One geometry explains the blocks that were checked; all others explain fewer."
    assert lines[1:4] == ["level: RAID-5", "layout: left-symmetric", "chunk: 64 KiB"]
    assert f"slot 1: {paths[1]}, data offset 1024 KiB (2048 sectors)" in lines
    document = search.as_dict()
    assert document["verdict"] == "unique"
    assert document["geometries"][0]["members"][0]["data_offset_sectors"] == 2048


def test_a_lost_device_that_is_not_named_gives_no_geometry(volumes: dict[str, Path], tmp_path: Path) -> None:
    if "xfs" not in volumes:
        pytest.skip("mkfs.xfs is not installed")
    paths = [tmp_path / f"{name}.img" for name in "abcd"]
    deal(volumes["xfs"], paths, DealtArray(5, "left-symmetric", 16384, [1 << 20] * 4))
    assert find_geometries(paths[:3]).verdict == "none"


def make_disk(volume: Path, disk: Path, table: str) -> Path:
    """Writes a disk with one partition, or one logical volume, that holds a filesystem from 1 MiB on."""
    content = volume.read_bytes()
    sectors = (len(content) >> 9) + 4096
    with disk.open("wb") as file:
        file.truncate(sectors * 512)
        file.seek(1 << 20)
        file.write(content)
        for sector, written in TABLES[table](sectors):
            file.seek(sector * 512)
            file.write(written)
    return disk


def make_gpt(sectors: int) -> Iterator[tuple[int, bytes]]:
    entries = bytearray(128 * 128)
    struct.pack_into("<16s16s2Q", entries, 0, b"L" * 16, b"U" * 16, 2048, sectors - 34)
    for own, other, at in ((1, sectors - 1, 2), (sectors - 1, 1, sectors - 33)):
        header = bytearray(512)
        struct.pack_into("<8s4I", header, 0, b"EFI PART", 0x10000, 92, 0, 0)
        struct.pack_into("<4Q16sQ3I", header, 24, own, other, 34, sectors - 34, b"G" * 16, at, 128, 128,
                         zlib.crc32(entries))  # fmt: skip
        struct.pack_into("<I", header, 16, zlib.crc32(header[:92]))
        yield own, bytes(header)
        yield at, bytes(entries)


def make_mbr(sectors: int) -> Iterator[tuple[int, bytes]]:
    entry = struct.pack("<4B4B2I", 0, 0, 2, 0, 0x83, 0, 0, 0, 2048, sectors - 4096)
    yield 0, bytes(446) + entry + bytes(48) + b"\x55\xaa"


def make_lvm(sectors: int) -> Iterator[tuple[int, bytes]]:
    label = bytearray(512)
    struct.pack_into("<8sQII8s", label, 0, b"LABELONE", 1, 0, 32, b"LVM2 001")
    struct.pack_into("<32sQQQQQ", label, 32, b"P" * 32, sectors * 512, 1 << 20, 0, 0, 0)
    struct.pack_into("<I", label, 16, zlib.crc32(label[20:], 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF)
    yield 1, bytes(label)


TABLES = {"GPT": make_gpt, "MBR": make_mbr, "LVM": make_lvm}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_a_filesystem_may_begin_in_a_partition(volumes: dict[str, Path], tmp_path: Path, table: str, kind: str) -> None:
    if kind not in volumes:
        pytest.skip(f"{TOOLS[kind]} is not installed")
    disk = make_disk(volumes[kind], tmp_path / "disk.img", table)
    paths = [tmp_path / f"{name}.img" for name in "abcd"]
    truth = DealtArray(6, "left-symmetric", 65536, [1 << 20] * 4, list(paths))
    deal(disk, paths, truth)
    search = find_geometries([paths[number] for number in (3, 0, 2, 1)])
    assert judge(search, truth) in {"unique", "several"}, describe_search(search)
    if table != "MBR":  # An MBR does not say where it is
        assert search.verdict == "unique", describe_search(search)
        assert {f"{table} label", f"{table} header"} & set(search.blocks_found)


def test_a_mirror_keeps_its_data_offset_in_a_partition(volumes: dict[str, Path], tmp_path: Path) -> None:
    """Without its partition table, the filesystem of a mirror would be 1 MiB further on each member."""
    if "ext4" not in volumes:
        pytest.skip("mkfs.ext4 is not installed")
    disk = make_disk(volumes["ext4"], tmp_path / "disk.img", "GPT")
    paths = [tmp_path / "a.img", tmp_path / "b.img"]
    truth = DealtArray(1, "", 0, [2 << 20] * 2, list(paths))
    deal(disk, paths, truth)
    search = find_geometries(paths)
    assert judge(search, truth) == "unique", describe_search(search)


def test_parity_that_was_never_computed_does_not_hide_the_order(volumes: dict[str, Path], tmp_path: Path) -> None:
    """As after `mdadm --create --assume-clean`: the data decide, and the report says that parity does not fit."""
    if "xfs" not in volumes:
        pytest.skip("mkfs.xfs is not installed")
    paths = [tmp_path / f"{name}.img" for name in "abc"]
    truth = DealtArray(4, "", 16384, [1 << 20] * 3, list(paths))
    deal(volumes["xfs"], paths, truth)
    with paths[2].open("r+b") as file:
        for megabyte in range(1, 40):
            file.seek(megabyte << 20)
            file.write(Random(megabyte).randbytes(1 << 20))
    search = find_geometries(paths, GeometryHints(levels=(4,)))
    assert judge(search, truth) in {"unique", "several"}, describe_search(search)
    assert any("compared pieces of parity or copies do not fit" in note for note in search.notes)
