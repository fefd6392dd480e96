"""Metadata of members that are copied before anything is tried."""

import errno
import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.md.images import read_images
from blklab.md.rescue.saved_index import PIECE
from blklab.md.rescue.saved_metadata import LEAST, save
from blklab.system.roots import Roots
from tests.md.audit.test_cases import CASES


@pytest.fixture
def members(tmp_path: Path) -> list[Path]:
    """Returns four images of 2 MiB, of an array with metadata 0.90 at their ends."""
    paths = []
    for packed in sorted((CASES / "01-raid5-three-of-four-stale").glob("*.gz")):
        path = tmp_path / packed.stem
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        paths.append(path)
    return paths


def test_both_ends_are_saved_and_members_stay_as_they_are(members: list[Path], tmp_path: Path) -> None:
    before = [path.read_bytes() for path in members]
    saved = tmp_path / "saved"
    lines = save(read_images(members).arrays, saved, Roots())
    assert [path.read_bytes() for path in members] == before
    document = json.loads((saved / "members.json").read_text())
    assert len(document["members"]) == 4
    for member in document["members"]:
        content = Path(member["path"]).read_bytes()
        assert member["array_uuid"]
        assert member["slot"] in range(4)
        ends = [(part["offset_bytes"], part["length_bytes"]) for part in member["ranges"]]
        assert ends == [(0, LEAST), (len(content) - LEAST, LEAST)]
        for part in member["ranges"]:
            copy = (saved / part["file"]).read_bytes()
            assert copy == content[part["offset_bytes"] : part["offset_bytes"] + part["length_bytes"]]
            assert hashlib.sha256(copy).hexdigest() == part["sha256"]
    assert len(lines) == 5


def test_a_directory_that_exists_is_refused(members: list[Path], tmp_path: Path) -> None:
    """What an earlier call saved, before a mistake, must not be replaced by what is there after it."""
    with pytest.raises(UsageError, match="exists, expected a new directory"):
        save(read_images(members).arrays, tmp_path, Roots())


def test_a_missing_parent_is_refused(members: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        save(read_images(members).arrays, tmp_path / "missing" / "saved", Roots())


def test_a_member_that_is_gone_is_named_and_the_others_are_saved(members: list[Path], tmp_path: Path) -> None:
    arrays = read_images(members).arrays
    members[1].unlink()
    with pytest.raises(BlklabError, match=members[1].name):
        save(arrays, tmp_path / "saved", Roots())
    document = json.loads((tmp_path / "saved/members.json").read_text())
    assert sorted(len(member["ranges"]) for member in document["members"]) == [0, 2, 2, 2]


def test_what_cannot_be_read_is_zeros_and_named(
    members: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pread

    def pread(source: int, length: int, offset: int) -> bytes:
        if offset == PIECE:
            raise OSError(errno.EIO, "Input/output error")
        return whole(source, length, offset)

    arrays = read_images(members[:1]).arrays
    monkeypatch.setattr("os.pread", pread)
    with pytest.raises(BlklabError, match="64 KiB cannot be read, from byte 65,536 on"):
        save(arrays, tmp_path / "saved", Roots())
    (member,) = json.loads((tmp_path / "saved/members.json").read_text())["members"]
    assert member["ranges"][0]["unread"] == [{"offset_bytes": PIECE, "length_bytes": PIECE}]
    copy = (tmp_path / "saved" / member["ranges"][0]["file"]).read_bytes()
    assert copy[PIECE : 2 * PIECE] == bytes(PIECE)
    assert copy[:PIECE] == members[0].read_bytes()[:PIECE]


def test_copies_are_only_for_their_owner(members: list[Path], tmp_path: Path) -> None:
    """The end of a member can contain data of users."""
    save(read_images(members).arrays, tmp_path / "saved", Roots())
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "saved").iterdir()} == {0o600}


def test_too_little_space_is_found_before_anything_is_written(
    members: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.statvfs(tmp_path)

    def report_full(_: object) -> os.statvfs_result:
        return os.statvfs_result([*whole[:4], 1, *whole[5:]])

    monkeypatch.setattr("blklab.md.rescue.saved_metadata.os.statvfs", report_full)
    with pytest.raises(UsageError, match="are free, and the metadata need 8 MiB: choose a directory on another disk"):
        save(read_images(members).arrays, tmp_path / "saved", Roots())
    assert not (tmp_path / "saved").exists()
