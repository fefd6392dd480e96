import os
from pathlib import Path

import pytest

from blklab.errors import UsageError
from blklab.report import output


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    output.write(path, b"one")
    path.chmod(0o640)
    output.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        output.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_bytes(b"old")
    link = tmp_path / "link.html"
    link.symlink_to("real.html")
    output.write(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "real.html").read_bytes() == b"new"


def test_a_device_file_is_written_to_as_it_is() -> None:
    output.check(Path("/dev/null"))
    output.write(Path("/dev/null"), b"x")
    assert Path("/dev/null").is_char_device()


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "x.html", "no such directory"),
        (tmp_path / "file" / "x.html", "is not a directory"),
        (Path("/proc/x.html"), "cannot be written"),
    ):
        with pytest.raises(UsageError, match=reason):
            output.check(path)
    with pytest.raises(UsageError):
        output.folder(tmp_path / "file")
