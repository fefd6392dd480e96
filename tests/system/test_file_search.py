"""The walk over a filesystem: what is opened, what is told, what is not seen."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.system import file_search
from blklab.system.file_search import UNREACHED, Extent, FilesFound, OwnedExtent
from blklab.system.spans import Span

Search = Callable[..., tuple[list[FilesFound], dict[str, int]]]


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Searches a directory as if it were a filesystem with files in these places."""
    root = tmp_path / "mounted"
    root.mkdir()

    def run(
        files: dict[str, list[Extent] | OSError], owned: list[OwnedExtent] | None, *spans: Span
    ) -> tuple[list[FilesFound], dict[str, int]]:
        places = {(root / name).lstat().st_ino: result for name, result in files.items()}

        def of_file(descriptor: int) -> Iterator[Extent]:
            result = places.get(os.fstat(descriptor).st_ino, [])
            if isinstance(result, OSError):
                raise result
            yield from result

        def of_filesystem(_root: int, _device: int, _begin: int, _end: int) -> Iterator[OwnedExtent]:
            if owned is None:
                raise OSError(errno.ENOTTY, "not supported")
            yield from owned

        monkeypatch.setattr(file_search, "read_file_extents", of_file)
        monkeypatch.setattr(file_search, "read_owned_extents", of_filesystem)
        result, failures = file_search.find_files(str(root), root.stat().st_dev, spans, lambda _: None)
        return sorted(result), dict(failures)

    return run


def place(begin: int, many: int = 4096, offset: int = 0, *, shared: bool = False) -> list[Extent]:
    return [Extent(offset, begin, many, shared)]


def test_names_that_are_hostile(search: Search, tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    name = "a\n\x1b[31m \udcff"
    (root / "directory").mkdir()
    (root / "directory" / name).write_text("")
    result, failures = search({f"directory/{name}": place(8192, offset=100)}, None, Span(8200, 8300, 0))
    assert result == [FilesFound(8200, 8300, f"{root}/directory/{name}", 108, "")]
    assert not failures


def test_nothing_else_is_opened(search: Search, tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    os.mkfifo(root / "pipe")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "gone").symlink_to("nowhere")
    result, failures = search({"link/file": place(0)}, None, Span(0, 10, 0))
    assert result == [FilesFound(0, 10, "", None, UNREACHED)]
    assert not failures


def test_what_may_not_be_read_is_counted(search: Search, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / "mounted" / name).write_text("")
    denied = PermissionError(errno.EACCES, "Permission denied")
    files: dict[str, list[Extent] | OSError] = {"one": denied, "two": denied, "three": place(0)}
    result, failures = search(files, None, Span(0, 4096, 0), Span(9000, 9001, 0))
    assert failures == {"permission denied": 2}
    assert [item.purpose for item in result] == ["", UNREACHED]


def test_a_file_with_two_names_is_told_once(search: Search, tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    (root / "one").write_text("")
    (root / "two").hardlink_to(root / "one")
    result, _ = search({"one": place(0)}, None, Span(0, 10, 0), Span(9000, 9001, 0))
    assert len([item for item in result if item.path]) == 1


def test_files_that_share_a_block_are_all_told(search: Search, tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    for name in ("one", "two"):
        (root / name).write_text("")
    files: dict[str, list[Extent] | OSError] = {name: place(0, shared=True) for name in ("one", "two")}
    result, _ = search(files, None, Span(0, 10, 0))
    assert [item.path for item in result] == [f"{root}/one", f"{root}/two"]


def test_what_the_filesystem_knows(search: Search, tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    (root / "directory").mkdir()
    (root / "file").write_text("")
    inode, directory = (root / "file").stat().st_ino, (root / "directory").stat().st_ino
    owned = [
        OwnedExtent(0, 100, "free space", None, None),
        OwnedExtent(100, 200, "", inode, 7000),
        OwnedExtent(200, 300, "extended attributes", inode, None),
        OwnedExtent(300, 400, "", directory, 0),
        OwnedExtent(400, 500, "", 1, 0),
    ]
    # The filesystem has the answer, so no file is looked at.
    files: dict[str, list[Extent] | OSError] = {"file": OSError("was asked")}
    result, failures = search(files, owned, Span(0, 500, 0))
    assert result == [
        FilesFound(0, 100, "", None, "free space"),
        FilesFound(100, 200, f"{root}/file", 7000, ""),
        FilesFound(200, 300, f"{root}/file", None, "extended attributes"),
        FilesFound(300, 400, f"{root}/directory", 0, ""),
        FilesFound(400, 500, "", None, UNREACHED),
    ]
    assert not failures


def test_another_filesystem_over_it(tmp_path: Path) -> None:
    with pytest.raises(BlklabError, match="mounted over it"):
        file_search.find_files(str(tmp_path), 1, [Span(0, 1, 0)], lambda _: None)
