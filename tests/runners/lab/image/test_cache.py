"""What is kept is whole, or not there."""

import errno
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.image.cache import Cache


def silent(_: str) -> None:
    pass


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "lab")

    def fill(into: Path) -> None:
        (into / "half").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(BlklabError, match="no space is left"), cache.locked(silent):
        cache.make("key", fill)
    assert [path.name for path in cache.root.iterdir()] == ["lock"]


def test_what_a_killed_one_left_is_removed_and_what_is_kept_is_recalled(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / ".unfinished-x").mkdir()
    with cache.locked(silent):
        cache.make("key", lambda into: (into / "file").write_text("whole"))
        cache.make("other", lambda into: (into / "file").write_text("whole"))
        cache.keep("name", "key")
    assert not (tmp_path / ".unfinished-x").exists()
    assert cache.recall("name") == "key"
    with cache.locked(silent):
        assert cache.remove_others({"key"}) == len("whole")
    assert cache.find("other") is None
    assert (tmp_path / "key" / "file").read_text() == "whole"
    (tmp_path / "pointers.json").write_text("{")
    assert cache.recall("name") is None
