"""Files of an ext4 that is not mounted: against what is read out of its image."""

import shutil
import subprocess
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.md.contents import find_unmounted_files
from blklab.system.spans import Span
from tests.md.guest.inside.patterns import BLOCK, find, write

pytestmark = pytest.mark.skipif(
    not shutil.which("debugfs"), reason="e2fsprogs is not installed: apt-get install e2fsprogs"
)

MIB = 1 << 20


@pytest.fixture
def image(tmp_path: Path) -> tuple[Path, Path]:
    """A filesystem, and the files that it was made of."""
    path, root = tmp_path / "ext4.img", tmp_path / "root"
    write(root)
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mke2fs", "-q", "-b", "4096", "-d", root, path], check=True)
    return path, root


def test_blocks_of_files(image: tuple[Path, Path]) -> None:
    path, root = image
    names = ["/plain", "/deep/deeper/file", "/a", "/deep/sparse"]
    blocks = find(path)
    assert len(blocks) > 150
    spans = [Span(512 * at, 512 * at + BLOCK, 0) for at, _, _ in sorted(blocks)]
    result = {item.begin: item for item in find_unmounted_files(str(path), 4096, spans)}
    for at, which, place in blocks:
        item = result[512 * at]
        # A name that holds a line's end is told up to there.
        known = {names[which], "/deep/plain-again"} if which == 0 else {names[which]}
        assert item.path in known
        # Without extents, as mke2fs makes ext2, it is not told where in the file.
        assert item.offset in {None, place * BLOCK}
    assert root.is_dir()


def test_offsets_where_there_are_extents(tmp_path: Path, image: tuple[Path, Path]) -> None:
    path = tmp_path / "extents.img"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", image[1], path], check=True)
    blocks = find(path)
    spans = [Span(512 * at, 512 * at + BLOCK, 0) for at, _, _ in sorted(blocks)]
    result = {item.begin: item for item in find_unmounted_files(str(path), 4096, spans)}
    assert all(result[512 * at].offset == place * BLOCK for at, _, place in blocks)


def test_what_is_no_file(image: tuple[Path, Path]) -> None:
    path, _ = image
    spans = [Span(0, 4096, 0), Span(63 * MIB, 63 * MIB + 512, 0)]
    first, last = find_unmounted_files(str(path), 4096, spans)
    assert first.purpose == "the filesystem's own metadata"
    assert last.purpose == "free space"


def test_what_cannot_be_told(tmp_path: Path, image: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty.img"
    empty.write_bytes(bytes(MIB))
    with pytest.raises(BlklabError, match=r"debugfs: .*magic number"):
        find_unmounted_files(str(empty), 4096, [Span(0, 1, 0)])
    with pytest.raises(BlklabError, match="debugfs can find only"):
        find_unmounted_files(str(image[0]), 4096, [Span(0, 63 * MIB, 0)])
    monkeypatch.setattr("blklab.md.contents.PATH", str(tmp_path))
    with pytest.raises(BlklabError, match="apt-get install e2fsprogs"):
        find_unmounted_files(str(image[0]), 4096, [Span(0, 1, 0)])
