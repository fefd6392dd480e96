"""Saved metadata are put back, and nothing else is ever written."""

import gzip
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.md.images import read_images
from blklab.md.rescue.restored_metadata import MetadataPlan, plan_restore, restore_metadata
from blklab.md.rescue.saved_index import INDEX, SavedDisk, SavedMember, SavedRange, write_index
from blklab.md.rescue.saved_metadata import save
from blklab.md.superblocks import read_superblocks
from blklab.system.roots import Roots
from tests.md.audit.test_cases import CASES
from tests.md.conftest import BYTES, Arrays, image, machine
from tests.md.crafted import changed, with_lockless_bitmap

__all__ = ["machine"]

MIB = 1 << 20


def recorded(level: str, directory: Path) -> list[Path]:
    """Returns two sparse members of 256 MiB, with some bytes of data at the beginning and the end of their data."""
    paths = [image(f"{level}.{disk}", directory) for disk in ("vda", "vdb")]
    for path in paths:
        (superblock,) = read_superblocks(path).members
        with path.open("r+b") as file:
            file.seek(superblock.data_offset * 512)
            file.write(b"data" * 1024)
            file.seek((superblock.data_offset + superblock.data_size) * 512 - 4096)
            file.write(b"data" * 1024)
    return paths


def old_members(directory: Path) -> list[Path]:
    """Returns four images of 2 MiB, of an array with metadata 0.90."""
    paths = []
    for packed in sorted((CASES / "01-raid5-three-of-four-stale").glob("*.gz")):
        path = directory / packed.stem
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        paths.append(path)
    return paths


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at if at >= 0 else path.stat().st_size + at)
        file.write(content)


def digest(path: Path) -> str:
    """Returns the SHA-256 of what is not zeros in a file, and where: images are sparse."""
    total = hashlib.sha256()
    at = 0
    with path.open("rb") as file:
        while True:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA) // 4096 * 4096
            except OSError:  # There is only a hole
                return total.hexdigest()
            piece = os.pread(file.fileno(), 4096, at)
            if any(piece):
                total.update(str(at).encode() + piece)
            at += 4096


def data_digest(path: Path, begin: int, end: int) -> str:
    with path.open("rb") as file:
        file.seek(begin)
        return hashlib.sha256(file.read(end - begin)).hexdigest()


def restore(directory: Path, *wanted: str, tables: bool = False) -> tuple[Path, list[str]]:
    """Plans and restores; returns where the content of before is, and the lines."""
    lines: list[str] = []
    plan = plan_restore(directory, wanted, Roots(), tables=tables)
    assert not plan.refused, plan.refused[0].refused
    return restore_metadata(plan, Roots(), lines.append), lines


def reasons(plan: MetadataPlan) -> list[str]:
    return [device.refused for device in plan.devices]


def rewrite_index(directory: Path, change: Callable[[Any], object]) -> None:
    document = json.loads((directory / INDEX).read_text())
    change(document)
    (directory / INDEX).write_text(json.dumps(document))


def zero_superblocks(paths: list[Path]) -> None:
    """Does what `mdadm --zero-superblock` does."""
    for path in paths:
        for superblock in read_superblocks(path).members:
            overwrite(path, superblock.offset, bytes(4096))


def create_wrongly(paths: list[Path]) -> None:
    """Does what a wrong `mdadm --create` does: another UUID, other device UUIDs, a new bitmap and list."""
    for path in paths:
        changed(path, 16, os.urandom(16))
        changed(path, 168, os.urandom(16))
        changed(path, 200, struct.pack("<Q", 90))  # More events than the array had
        overwrite(path, 8192, b"bitm" + os.urandom(4092))
        overwrite(path, 24 * 512, os.urandom(4096))


LEVELS = ["raid1-12-bitmap", "raid1-12-populated", "raid1-11", "raid1-10", "raid1-090", "raid10-n2"]


@pytest.mark.parametrize("level", LEVELS)
def test_erased_superblocks_are_put_back(level: str, tmp_path: Path) -> None:
    paths = recorded(level, tmp_path)
    original = [digest(path) for path in paths]
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    zero_superblocks(paths)
    assert not any(read_superblocks(path).members for path in paths)
    before, lines = restore(tmp_path / "saved")
    assert [digest(path) for path in paths] == original
    assert len(lines) == 2
    assert str(before) in lines[0]


def test_a_wrong_create_is_undone_with_bitmap_and_list(tmp_path: Path) -> None:
    paths = recorded("raid1-12-populated", tmp_path)
    original = [digest(path) for path in paths]
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    create_wrongly(paths)
    restore(tmp_path / "saved")
    assert [digest(path) for path in paths] == original


def test_data_are_never_written(tmp_path: Path) -> None:
    """The first and last MiB, which are saved, have data: other data are there meanwhile, and stay."""
    paths = old_members(tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    data_end = {}
    for path in paths:
        (superblock,) = read_superblocks(path).members
        data_end[path] = min(superblock.data_size * 512, superblock.offset)
    zero_superblocks(paths)
    for path in paths:
        overwrite(path, 0, b"new" * 1000)
        overwrite(path, data_end[path] - 3000, b"new" * 1000)
    data = [data_digest(path, 0, data_end[path]) for path in paths]
    restore(tmp_path / "saved", tables=True)
    assert [data_digest(path, 0, data_end[path]) for path in paths] == data
    assert all(read_superblocks(path).members for path in paths)


def test_a_second_restore_has_nothing_to_do(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    assert plan_restore(tmp_path / "saved", (), Roots()).nothing_to_do
    zero_superblocks(paths)
    assert not plan_restore(tmp_path / "saved", (), Roots()).nothing_to_do
    restore(tmp_path / "saved")
    assert plan_restore(tmp_path / "saved", (), Roots()).nothing_to_do


def test_a_restore_is_undone_and_done_again(tmp_path: Path) -> None:
    """The directory of before, and that inside of it, put back what each of them has."""
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    original = [digest(path) for path in paths]
    create_wrongly(paths)
    wrong = [digest(path) for path in paths]
    before, _ = restore(tmp_path / "saved")
    assert before.parent == tmp_path / "saved"
    again, _ = restore(before)
    assert [digest(path) for path in paths] == wrong
    assert plan_restore(before, (), Roots()).nothing_to_do
    restore(again)
    assert [digest(path) for path in paths] == original


def test_a_superblock_of_another_version_that_create_wrote_is_removed_and_can_come_back(tmp_path: Path) -> None:
    """`--create --metadata=1.0` over an array with metadata 1.2: the new superblocks are at the end, in the data."""
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    original = [digest(path) for path in paths]
    heads = [path.read_bytes()[4096:8192] for path in paths]
    zero_superblocks(paths)
    for path, head in zip(paths, heads, strict=True):
        size = path.stat().st_size
        content = bytearray(head)
        struct.pack_into("<16s", content, 16, b"another array...")
        struct.pack_into("<Q", content, 144, (size - 8192) // 4096 * 8)  # super_offset
        content[216:220] = bytes(4)
        total = sum(struct.unpack_from(f"<{64 + (2 * struct.unpack_from('<I', content, 220)[0]) // 4}I", content))
        struct.pack_into("<I", content, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
        overwrite(path, (size - 8192) // 4096 * 4096, bytes(content))
    assert [superblock.version for superblock in read_superblocks(paths[0]).members] == ["1.0"]
    wrong = [digest(path) for path in paths]
    before, _ = restore(tmp_path / "saved")
    assert [digest(path) for path in paths] == original
    restore(before)
    assert [digest(path) for path in paths] == wrong


def test_what_was_changed_since_a_restore_is_not_undone(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    zero_superblocks(paths)
    before, _ = restore(tmp_path / "saved")
    changed(paths[0], 200, struct.pack("<Q", 90))
    kept = digest(paths[0])
    first, second = reasons(plan_restore(before, (), Roots()))
    assert "something has changed it" in first
    assert not second
    assert digest(paths[0]) == kept


def test_a_partition_table_over_a_member_is_removed_only_on_request(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    original = [digest(path) for path in paths]
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    for path in paths:
        overwrite(path, 0, os.urandom(34 * 512))
        overwrite(path, -33 * 512, os.urandom(33 * 512))
    (superblock,) = read_superblocks(paths[0]).members or (None,)
    assert superblock is None
    restore(tmp_path / "saved")
    assert all(read_superblocks(path).members for path in paths)
    plan = plan_restore(tmp_path / "saved", (), Roots())
    assert plan.nothing_to_do
    assert "--partition-tables puts this back" in plan.devices[0].notes[0]
    restore(tmp_path / "saved", tables=True)
    # The last sectors of these members are data by their superblocks: they are not written.
    for path, whole in zip(paths, original, strict=True):
        overwrite(path, -33 * 512, bytes(33 * 512))
        with path.open("r+b") as file:
            (superblock,) = read_superblocks(path).members
            file.seek((superblock.data_offset + superblock.data_size) * 512 - 4096)
            file.write(b"data" * 1024)
        assert digest(path) == whole


def test_a_newer_superblock_of_the_same_member_stays(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    for path in paths:
        changed(path, 200, struct.pack("<Q", 90))
    kept = [digest(path) for path in paths]
    plan = plan_restore(tmp_path / "saved", (), Roots())
    assert all("the array was written to since" in reason for reason in reasons(plan))
    assert [digest(path) for path in paths] == kept


@pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="no mkfs.ext4: apt-get install e2fsprogs")
def test_a_filesystem_that_was_made_since_is_named(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    subprocess.run(["mkfs.ext4", "-q", "-F", str(paths[0])], check=True)
    first, second = plan_restore(tmp_path / "saved", (), Roots()).devices
    assert "it has ext4 at byte 1,080 now, which this can damage" in first.notes
    assert not second.notes


def test_an_older_superblock_of_the_same_member_is_replaced(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    for path in paths:
        changed(path, 200, struct.pack("<Q", 90))
    original = [digest(path) for path in paths]
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    for path in paths:
        changed(path, 200, struct.pack("<Q", 89))
    restore(tmp_path / "saved")
    assert [digest(path) for path in paths] == original


def test_one_member_is_restored_and_the_other_stays(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    original = [digest(path) for path in paths]
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    zero_superblocks(paths)
    other = digest(paths[1])
    restore(tmp_path / "saved", str(paths[0]))
    assert [digest(path) for path in paths] == [original[0], other]
    with pytest.raises(UsageError, match="not one of the saved devices"):
        plan_restore(tmp_path / "saved", [str(tmp_path / "another")], Roots())


def test_images_of_another_size_or_missing_are_refused(tmp_path: Path) -> None:
    paths = old_members(tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    paths[0].unlink()
    with paths[1].open("r+b") as file:
        file.truncate(3 * MIB)
    paths[2].rename(tmp_path / "moved")
    paths[2].symlink_to(tmp_path / "moved")
    found = {device.path: device.refused for device in plan_restore(tmp_path / "saved", (), Roots()).devices}
    assert "no image with this path" in found[str(paths[0])]
    assert "expected 2,097,152 as when it was saved" in found[str(paths[1])]
    assert "no regular file" in found[str(paths[2])]
    assert not found[str(paths[3])]


def test_swapped_files_are_found(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    first, second = (tmp_path / "saved" / f"{number}-{path.name}.head" for number, path in enumerate(paths, 1))
    first.rename(tmp_path / "x")
    second.rename(first)
    (tmp_path / "x").rename(second)
    with pytest.raises(BlklabError, match="its SHA-256 is not that in"):
        plan_restore(tmp_path / "saved", (), Roots())


def test_swapped_members_of_the_index_get_no_other_superblock(tmp_path: Path) -> None:
    """Whoever edits the index so that each member gets the files of the other one is refused by its superblock."""
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    zero_superblocks(paths)

    def swap(document: Any) -> None:
        first, second = document["members"]
        first["ranges"], second["ranges"] = second["ranges"], first["ranges"]

    rewrite_index(tmp_path / "saved", swap)
    plan = plan_restore(tmp_path / "saved", (), Roots())
    assert all("does not have the superblock that its index names" in reason for reason in reasons(plan))


def test_another_order_of_members_is_the_same(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    original = [digest(path) for path in paths]
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    rewrite_index(tmp_path / "saved", lambda document: document["members"].reverse())
    zero_superblocks(paths)
    restore(tmp_path / "saved")
    assert [digest(path) for path in paths] == original


@pytest.mark.parametrize("length", [0, 1, 100, 1000])
def test_a_truncated_index_is_one_error(length: int, tmp_path: Path) -> None:
    paths = old_members(tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    path = tmp_path / "saved" / INDEX
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BlklabError, match="damaged") as error:
        plan_restore(tmp_path / "saved", (), Roots())
    assert "\n" not in str(error.value)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    paths = old_members(tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    (tail,) = (tmp_path / "saved").glob(f"*-{paths[0].name}.tail")
    os.truncate(tail, 1000)
    with pytest.raises(BlklabError, match="it has 1,000 bytes, expected"):
        plan_restore(tmp_path / "saved", (), Roots())


def test_parts_that_were_not_read_stay(tmp_path: Path) -> None:
    """The list was not read: zeros in the copy must not become an empty list on the disk."""
    paths = recorded("raid1-12-populated", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    place = 24 * 512

    def mark(document: Any) -> None:
        for member in document["members"]:
            saved = member["ranges"][0]
            saved["unread"] = [{"offset_bytes": place, "length_bytes": 4096}]
            file = tmp_path / "saved" / saved["file"]
            content = bytearray(file.read_bytes())
            content[place : place + 4096] = bytes(4096)
            file.write_bytes(content)
            saved["sha256"] = hashlib.sha256(content).hexdigest()

    rewrite_index(tmp_path / "saved", mark)
    original = [digest(path) for path in paths]
    zero_superblocks(paths)
    plan = plan_restore(tmp_path / "saved", (), Roots())
    assert "4 KiB of its metadata were not read" in plan.devices[0].notes[0]
    restore(tmp_path / "saved")
    assert [digest(path) for path in paths] == original


def test_a_superblock_that_was_not_read_is_refused(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())

    def mark(document: Any) -> None:
        document["members"][0]["ranges"][0]["unread"] = [{"offset_bytes": 7168, "length_bytes": 512}]

    rewrite_index(tmp_path / "saved", mark)
    first, second = reasons(plan_restore(tmp_path / "saved", (), Roots()))
    assert "could not be read completely" in first
    assert not second


@pytest.mark.parametrize(("at", "value"), [(96, 2048), (188, 2048)])
def test_metadata_within_the_data_are_refused(at: int, value: int, tmp_path: Path) -> None:
    """A superblock with a right checksum that names its bitmap, or its list, in the data."""
    paths = recorded("raid1-12-bitmap", tmp_path)
    if at == 96:  # There is a bitmap, so that the place counts
        (superblock,) = read_superblocks(paths[0]).members
        assert superblock.bitmap_superblock is not None
        with paths[0].open("r+b") as file:
            file.seek(superblock.bitmap_superblock.offset)
            bitmap = file.read(256)
            file.seek(4096 + value * 512)
            file.write(bitmap)
    changed(paths[0], at, struct.pack("<I", value))
    save(read_images(paths[:1]).arrays, tmp_path / "saved", Roots())
    document = json.loads((tmp_path / "saved" / INDEX).read_text())
    saved = document["members"][0]["ranges"][0]
    longer = 3 * MIB  # What the copy has of the data
    with paths[0].open("rb") as file:
        content = file.read(longer)
    (tmp_path / "saved" / saved["file"]).write_bytes(content)
    saved |= {"length_bytes": longer, "sha256": hashlib.sha256(content).hexdigest()}
    (tmp_path / "saved" / INDEX).write_text(json.dumps(document))
    zero_superblocks(paths)
    kept = digest(paths[0])
    (reason,) = reasons(plan_restore(tmp_path / "saved", (), Roots()))
    assert "in the data" in reason
    assert digest(paths[0]) == kept


def test_a_lockless_bitmap_is_put_back(tmp_path: Path) -> None:
    path = with_lockless_bitmap("vda", tmp_path)
    overwrite(path, 8192 + 1024, bytes([3] * 17))
    original = digest(path)
    save(read_images([path]).arrays, tmp_path / "saved", Roots())
    overwrite(path, 4096, bytes(64 << 10))
    restore(tmp_path / "saved")
    assert digest(path) == original


def test_an_image_behind_a_loop_device_is_refused(tmp_path: Path, machine: Arrays) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    machine.device("loop0", "7:0", loop__backing_file=str(paths[0]))
    first, second = reasons(plan_restore(tmp_path / "saved", (), machine.roots))
    assert "it is the file of loop0" in first
    assert not second


def test_a_device_that_changes_after_the_plan_is_not_written(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    zero_superblocks(paths)
    plan = plan_restore(tmp_path / "saved", (), Roots())
    kept = digest(paths[0])
    with paths[0].open("r+b") as file:
        file.truncate(MIB)
    with pytest.raises(BlklabError, match="it has another size now"):
        restore_metadata(plan, Roots(), lambda _: None)
    with paths[0].open("r+b") as file:
        file.truncate(256 * MIB)
    assert digest(paths[0]) != kept  # Its end is gone, and its beginning is as it was
    assert not read_superblocks(paths[0]).members


def test_a_full_directory_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    zero_superblocks(paths)
    kept = [digest(path) for path in paths]
    plan = plan_restore(tmp_path / "saved", (), Roots())

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(BlklabError, match="No space left on device; nothing was changed"):
        restore_metadata(plan, Roots(), lambda _: None)
    monkeypatch.undo()
    assert [digest(path) for path in paths] == kept


def write_gpt(path: Path, first: int, entries: bytes) -> None:
    """Writes a protective MBR and both GPTs with blocks of 512 bytes; the first partition begins at a block."""
    last = path.stat().st_size // 512 - 1
    entries = entries.ljust(16 << 10, b"\0")
    overwrite(path, 0, bytes(510) + b"\x55\xaa")
    for own, other, place in ((1, last, 2), (last, 1, last - 32)):
        checksums = [0, 0]
        for _ in range(2):
            header = struct.pack(
                "<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, checksums[0], 0, own, other, first, last - 33,
                b"g" * 16, place, 128, 128, zlib.crc32(entries),
            )  # fmt: skip
            checksums[0] = zlib.crc32(header)
        overwrite(path, own * 512, header.ljust(512, b"\0"))
        overwrite(path, place * 512, entries)


def save_disk(path: Path, directory: Path) -> None:
    """Saves the ends of a disk as those of a member that is a partition of it."""
    directory.mkdir()
    size = path.stat().st_size
    ranges = []
    for name, at in (("head", 0), ("tail", size - MIB)):
        with path.open("rb") as file:
            file.seek(at)
            content = file.read(MIB)
        (directory / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        ranges.append(SavedRange(str(path), at, MIB, name, digest, ()))
    disk = SavedDisk(path=str(path), ids=(), image=True, size_bytes=size, ranges=tuple(ranges))
    write_index(directory, [], [disk])


def test_a_partition_table_is_put_back_and_nothing_between(tmp_path: Path) -> None:
    path = tmp_path / "sda"
    path.write_bytes(random.Random(2).randbytes(4 * MIB))
    write_gpt(path, 2048, b"old" * 100)
    old = path.read_bytes()
    save_disk(path, tmp_path / "saved")
    write_gpt(path, 34, b"new" * 100)
    for at in (40 * 512, MIB, 4 * MIB - 40 * 512):  # What the new partitions have
        overwrite(path, at, b"data" * 100)
    new = path.read_bytes()
    with pytest.raises(UsageError, match="--partition-tables"):
        plan_restore(tmp_path / "saved", (), Roots())
    before, _ = restore(tmp_path / "saved", tables=True)
    now = path.read_bytes()
    assert now[: 34 * 512] == old[: 34 * 512]
    assert now[-33 * 512 :] == old[-33 * 512 :]
    assert now[34 * 512 : -33 * 512] == new[34 * 512 : -33 * 512]
    assert plan_restore(tmp_path / "saved", (), Roots(), tables=True).nothing_to_do
    again, _ = restore(before, tables=True)
    assert path.read_bytes() == new
    assert plan_restore(before, (), Roots(), tables=True).nothing_to_do
    restore(again, tables=True)
    assert path.read_bytes() == now


def test_of_a_dos_table_only_the_first_sector_is_written(tmp_path: Path) -> None:
    path = tmp_path / "sda"
    path.write_bytes(random.Random(3).randbytes(4 * MIB))
    overwrite(path, 510, b"\x55\xaa")
    old = path.read_bytes()
    save_disk(path, tmp_path / "saved")
    path.write_bytes(bytes(4 * MIB))
    restore(tmp_path / "saved", tables=True)
    assert path.read_bytes() == old[:512] + bytes(4 * MIB - 512)


def test_a_disk_without_a_partition_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sda"
    path.write_bytes(bytes(4 * MIB))
    save_disk(path, tmp_path / "saved")
    (reason,) = reasons(plan_restore(tmp_path / "saved", (), Roots(), tables=True))
    assert "no partition table" in reason


def disk_index(directory: Path, *ids: str, size: int = BYTES) -> Path:
    """Writes the index of a disk that was called /dev/sda when it was saved."""
    directory.mkdir()
    member = SavedMember(
        path="/dev/sda", ids=ids, image=False, size_bytes=size, ranges=(), array_uuid="1:2:3:4", device_uuid=None,
        slot=0, events=1, version="1.2",
    )  # fmt: skip
    write_index(directory, [member], [])
    return directory


def test_disks_are_found_by_their_ids_and_never_by_their_names(tmp_path: Path, machine: Arrays) -> None:
    machine.disk("sda", "8:0", device__serial="OTHER")
    machine.disk("sdb", "8:16", device__serial="WD-1", holders__md0="")
    (found,) = plan_restore(disk_index(tmp_path / "a", "WD-1"), (), machine.roots).devices
    assert found.path == str(machine.roots.dev / "sdb")
    assert "it is in use: sdb is part of md0" in found.refused
    another = disk_index(tmp_path / "another", "WD-2")
    assert "no device has one of its ids (WD-2)" in reasons(plan_restore(another, (), machine.roots))[0]
    assert "no stable id" in reasons(plan_restore(disk_index(tmp_path / "none"), (), machine.roots))[0]
    smaller = disk_index(tmp_path / "smaller", "WD-1", size=BYTES - 512)
    assert "no device has one of its ids" in reasons(plan_restore(smaller, (), machine.roots))[0]


def test_disks_with_the_same_serial_number_are_ambiguous(tmp_path: Path, machine: Arrays) -> None:
    machine.disk("sda", "8:0", device__serial="0123", device__wwid="naa.5000000000000001")
    machine.disk("sdb", "8:16", device__serial="0123", device__wwid="naa.5000000000000002")
    saved = disk_index(tmp_path / "a", "0123")
    assert "several devices have its ids" in reasons(plan_restore(saved, (), machine.roots))[0]
    third = disk_index(tmp_path / "b", "0123", "wwn-0x5000000000000003")
    assert "no device has one of its ids" in reasons(plan_restore(third, (), machine.roots))[0]
    second = disk_index(tmp_path / "c", "0123", "wwn-0x5000000000000002")
    (found,) = plan_restore(second, (), machine.roots).devices
    assert found.path == str(machine.roots.dev / "sdb")


def test_two_members_of_the_index_that_are_one_device_are_refused(tmp_path: Path) -> None:
    paths = recorded("raid1-12-bitmap", tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())

    def double(document: Any) -> None:
        document["members"][1]["path"] = document["members"][0]["path"]

    rewrite_index(tmp_path / "saved", double)
    plan = plan_restore(tmp_path / "saved", (), Roots())
    assert reasons(plan) == ["several of the saved devices are this one now"] * 2


def mutate(source: random.Random, document: Any) -> None:
    """Changes one value somewhere in a document."""
    place: Any = document
    while True:
        key = source.choice(list(place) if isinstance(place, dict) else range(len(place)))
        value = place[key]
        if not isinstance(value, dict | list) or not value or source.random() < 0.05:
            break
        place = value
    hostile: list[Any] = [
        None, -1, 0, 1, 511, 1 << 20, 1 << 31, 1 << 63, 1 << 70, 1.5, True, "", "x", "\0", "../../x", "/etc/passwd",
        [], {}, [1], "a" * 5000, "\u202e", INDEX,
    ]  # fmt: skip
    if isinstance(value, int) and source.random() < 0.5:
        place[key] = value + source.choice([-4096, -512, -1, 1, 512, 4096])
    elif source.random() < 0.1 and isinstance(place, dict):
        del place[key]
    else:
        place[key] = source.choice(hostile)


def test_hostile_indexes_change_nothing_but_metadata(tmp_path: Path) -> None:
    """300 changed indexes: each is refused, or puts back what was saved; data and other files stay."""
    paths = old_members(tmp_path)
    save(read_images(paths).arrays, tmp_path / "saved", Roots())
    original = (tmp_path / "saved" / INDEX).read_bytes()
    sound = [path.read_bytes() for path in paths]
    zero_superblocks(paths)
    damaged = [path.read_bytes() for path in paths]
    source = random.Random(68)
    refused = 0
    for _ in range(300):
        document = json.loads(original)
        for _ in range(source.choice([1, 1, 2, 5])):
            mutate(source, document)
        (tmp_path / "saved" / INDEX).write_text(json.dumps(document))
        try:
            plan = plan_restore(tmp_path / "saved", (), Roots())
        except BlklabError as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        assert [path.read_bytes() for path in paths] == damaged
        for device in plan.devices:
            if not device.refused:
                at = [str(path) for path in paths].index(device.path)
                for part in device.parts:
                    assert sound[at][part.begin : part.begin + len(part.content)] == part.content
    assert refused > 100
    assert [path.read_bytes() for path in paths] == damaged


def test_random_bytes_are_no_index(tmp_path: Path) -> None:
    source = random.Random(1)
    (tmp_path / "saved").mkdir()
    for length in range(0, 400, 7):
        (tmp_path / "saved" / INDEX).write_bytes(source.randbytes(length))
        with pytest.raises(BlklabError, match="damaged"):
            plan_restore(tmp_path / "saved", (), Roots())
    (tmp_path / "saved" / INDEX).write_text("[" * 100_000)
    with pytest.raises(BlklabError, match="damaged"):
        plan_restore(tmp_path / "saved", (), Roots())
