"""`blklab md rescue --try-orders`, as users type it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from blklab.md.rescue import virtual_array
from tests.conftest import Run
from tests.md.rescue.dealt_arrays import DealtArray, deal
from tests.md.rescue.test_geometry_search import SBIN, make_filesystem

MKFS = shutil.which("mkfs.ext4", path=SBIN)
pytestmark = pytest.mark.skipif(MKFS is None, reason="mkfs.ext4 is not installed")


@pytest.fixture
def members(tmp_path: Path) -> list[Path]:
    """Returns the members of a RAID-5 with ext4, in the order of their slots."""
    volume = make_filesystem("ext4", tmp_path)
    paths = [tmp_path / f"{name}.img" for name in "abcd"]
    deal(volume, paths, DealtArray(5, "left-symmetric", 16384, [1 << 20] * 4))
    return paths


def test_one_geometry_is_printed_and_nothing_is_written(run: Run, members: list[Path]) -> None:
    before = [path.read_bytes() for path in members]
    done = run("md", "rescue", "--try-orders", members[2], members[0], members[3], members[1])
    assert done.status == 0
    assert done.out.startswith("One geometry explains the blocks")
    words = " ".join(done.out.split())
    for slot, path in enumerate(members):
        assert f"slot {slot}: {path}, data offset 1024 KiB (2048 sectors)" in words
    assert "Nothing was written" in words
    assert "proven only by overlays" in words
    assert "mdadm --create " not in words.replace("Do not run mdadm --create on the devices themselves.", "")
    assert [path.read_bytes() for path in members] == before


def test_json_has_the_verdict_and_the_order(run: Run, members: list[Path]) -> None:
    done = run("md", "rescue", "--try-orders", "--level", "5", "missing", members[3], members[0], members[1], "--json")
    document = json.loads(done.out)
    assert done.status == 0
    assert document["format_version"] == 1
    assert document["verdict"] == "unique"
    (geometry,) = document["geometries"]
    assert [member["path"] for member in geometry["members"]] == [
        str(members[0]), str(members[1]), None, str(members[3]),
    ]  # fmt: skip
    assert geometry["chunk"] == 16384
    assert "Nothing was written" in document["safety"][0]


def test_without_a_filesystem_the_status_is_1(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / "a.img", tmp_path / "b.img"]
    for path in paths:
        path.write_bytes(bytes(1 << 20))
    done = run("md", "rescue", "--try-orders", *paths)
    assert done.status == 1
    assert done.out.startswith("No geometry explains the content")


def test_what_cannot_be_searched_is_refused(run: Run, tmp_path: Path, members: list[Path]) -> None:
    gone = run("md", "rescue", "--try-orders", members[0], tmp_path / "gone.img")
    assert gone.status == 2
    assert "gone.img: expected a block device or an image of one" in gone.err
    alone = run("md", "rescue", "--try-orders", members[0])
    assert alone.status == 2
    assert "expected 2 to 8 devices" in alone.err
    level = run("md", "rescue", "--level", "5", members[0])
    assert level.status == 2
    assert "--level: expected only with --try-orders" in level.err
    saved = run("md", "rescue", "--try-orders", *members, "--save-metadata", tmp_path / "saved")
    assert saved.status == 2


def test_devices_are_opened_only_for_reading(run: Run, members: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened = {}

    def record(path: Path, flags: int) -> int:
        opened[path] = flags & os.O_ACCMODE
        return os.open(path, flags)

    monkeypatch.setattr(virtual_array, "open_device", record)
    assert run("md", "rescue", "--try-orders", *members).status == 0
    assert opened == dict.fromkeys(members, os.O_RDONLY)
