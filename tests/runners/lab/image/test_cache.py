"""What is kept is whole, or not there."""

import errno
import fcntl
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.lab.image.cache import ImageCache, hold_directory


def silent(_: str) -> None:
    pass


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path / "lab")

    def fill(into: Path) -> None:
        (into / "half").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(BlklabError, match="too little space"), cache.hold_lock(silent):
        cache.make("key", fill)
    assert [path.name for path in cache.root.iterdir()] == ["lock"]


def test_what_a_killed_one_left_is_removed_and_what_is_kept_is_recalled(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    (tmp_path / ".unfinished-x").mkdir()
    with cache.hold_lock(silent):
        cache.make("key", lambda into: (into / "file").write_text("whole"))
        cache.make("kernel-0123456789abcdef", lambda into: (into / "file").write_text("whole"))
        cache.keep("name", "key")
    assert not (tmp_path / ".unfinished-x").exists()
    assert cache.recall("name") == "key"
    with cache.hold_lock(silent):
        assert cache.remove_others({"key"}) == len("whole")
    assert cache.find("kernel-0123456789abcdef") is None
    assert (tmp_path / "key" / "file").read_text() == "whole"
    (tmp_path / "pointers.json").write_text("{")
    assert cache.recall("name") is None


def test_only_what_is_ours_and_not_held_is_removed(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    for name in ("image-0123456789abcdef", "kernel-0123456789abcdef", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("12345")
    (tmp_path / "programs-0123456789abcdef").symlink_to(tmp_path / "mine")
    with hold_directory(tmp_path / "kernel-0123456789abcdef"):
        assert cache.remove_others(set()) == 5
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"kernel-0123456789abcdef", "mine", "programs-0123456789abcdef"}
    assert cache.remove_others(set()) == 5


@pytest.mark.parametrize("again", [False, True])
def test_what_was_removed_between_opening_and_locking_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    path = tmp_path / "image-0123456789abcdef"
    path.mkdir()
    flock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        path.rename(tmp_path / "removed")
        if again:
            path.mkdir()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(FileNotFoundError), hold_directory(path):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "lock").symlink_to(precious)
    with pytest.raises(EnvironmentLacks), ImageCache(tmp_path / "cache").hold_lock(silent):
        pass
    assert precious.read_text() == "kept"
