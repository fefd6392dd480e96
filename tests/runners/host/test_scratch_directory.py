"""The directory that files are made in: made and removed without being led astray."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.fio import target_preparation
from blklab.runners.fio.target_preparation import FioTarget
from blklab.runners.host import scratch_directory as module
from blklab.runners.host.journal import DirectoryEntry, HostJournal
from blklab.runners.host.restore import restore
from blklab.runners.host.scratch_directory import remove, scratch
from blklab.system.roots import Roots

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
NAME = ".blklab-" + "0" * 32


@pytest.fixture
def journal(here: Roots) -> Iterator[HostJournal]:
    with HostJournal(here) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "srv"
    made.mkdir(mode=0o755)
    return made


def test_made_private_and_removed_with_all_that_is_in_it(journal: HostJournal, place: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / "precious").write_text("yes")
    with scratch(place, journal, size=4096) as made:
        assert made.path.parent == place
        assert made.path.stat().st_mode & 0o777 == 0o700
        assert made.warnings == ()
        assert journal.path is not None
        assert made.path.name in journal.path.read_text()
        (made.path / "sub/deeper").mkdir(parents=True)
        (made.path / "sub/deeper/data").write_text("x")
        (made.path / "link").symlink_to(keep)
        (made.path / "sub/up").symlink_to("../..")
        os.mkfifo(made.path / "pipe")
        made.verify()
    assert list(place.iterdir()) == []
    assert (keep / "precious").read_text() == "yes"


def test_it_is_removed_when_the_block_fails(journal: HostJournal, place: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch(place, journal, size=1) as made:
        (made.path / "data").write_text("x")
        raise KeyboardInterrupt
    assert list(place.iterdir()) == []


def test_a_link_to_a_directory_is_followed_once(journal: HostJournal, place: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place)
    with scratch(link, journal, size=1) as made:
        assert made.path.parent == place
        link.unlink()
        link.symlink_to(tmp_path)
    assert list(place.iterdir()) == []


def test_a_link_that_replaces_it_is_detected_and_not_followed(
    journal: HostJournal, place: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("yes")
    with (
        pytest.raises(BlklabError, match="not the directory that blklab made"),
        scratch(place, journal, size=1) as made,
    ):
        made.path.rename(place / "moved")
        made.path.symlink_to(victim)
        with pytest.raises(BlklabError, match="has replaced"):
            made.verify()
        made.path.unlink()
        with pytest.raises(BlklabError, match="removed during the run"):
            made.verify()
        made.path.symlink_to(victim)
    assert (victim / "precious").read_text() == "yes"


@ROOT_ONLY
def test_a_directory_put_in_its_place_is_not_written_to(journal: HostJournal, place: Path, tmp_path: Path) -> None:
    """The owner of the parent directory replaces ours with one that contains a link."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed: apt-get install fio")
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious" * 512)
    with scratch(place, journal, size=1 << 20) as made:
        made.path.rename(place / "away")
        made.path.mkdir()
        (made.path / "data").symlink_to(victim)
        target_preparation.fill(FioTarget("fio", made.place("data"), 1 << 20, tmp_path, seed=1))
        assert victim.read_bytes() == b"precious" * 512
        assert (place / "away" / "data").stat().st_size == 1 << 20
        with pytest.raises(BlklabError, match="has replaced"):
            made.verify()


def test_what_is_mounted_in_it_stays(journal: HostJournal, place: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("yes")
    inside = None
    try:
        with pytest.raises(BlklabError, match="something is mounted there"), scratch(place, journal, size=1) as made:
            inside = made.path / "mounted"
            inside.mkdir()
            # Of the same filesystem: its device number does not tell.
            subprocess.run(["mount", "--bind", victim, inside], check=True)
        assert (victim / "precious").read_text() == "yes"
    finally:
        subprocess.run(["umount", str(inside)], check=True)


@pytest.mark.parametrize("name", ["none", "file", "loop", "a\0b", "none/../srv"])
def test_what_is_no_directory(journal: HostJournal, place: Path, name: str) -> None:
    (place / "file").write_text("x")
    (place / "loop").symlink_to("loop")
    before = sorted(place.iterdir())
    with (
        pytest.raises(UsageError, match=r"name (one|a directory) to make files in"),
        scratch(f"{place}/{name}", journal, size=1),
    ):
        pass
    assert sorted(place.iterdir()) == before


def test_no_room(journal: HostJournal, place: Path) -> None:
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    with (
        pytest.raises(EnvironmentLacks, match=rf"found space for \d+ bytes .*expected {free}"),
        scratch(place, journal, size=free),
    ):
        pass
    assert list(place.iterdir()) == []


def test_a_filesystem_that_is_not_mounted(journal: HostJournal, place: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"found a directory.*, expected a mounted filesystem"),
        scratch(place, journal, size=1, mounted=True),
    ):
        pass


@ROOT_ONLY
def test_a_filesystem_in_memory_and_read_only(journal: HostJournal, place: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=True)
    try:
        with scratch(place, journal, size=1, mounted=True) as made:
            assert "memory would be measured, not a device" in made.warnings[0]
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        with pytest.raises(UsageError, match="mounted read-only"), scratch(place, journal, size=1):
            pass
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_directory_that_others_may_change_is_said(journal: HostJournal, place: Path) -> None:
    place.chmod(0o777)
    with scratch(place, journal, size=1) as made:
        assert "other users can write here" in made.warnings[0]
    place.chmod(0o1777)
    with scratch(place, journal, size=1) as made:
        assert made.warnings == ()


def test_a_directory_left_behind_is_removed_by_restore(
    here: Roots, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(module, "remove_in", lambda *_arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError), HostJournal(here) as journal, scratch(place, journal, size=1) as made:
            (made.path / "data").write_text("x")
    assert made.path.is_dir()
    assert restore(here).done == [f"{made.path}: removed"]
    assert list(place.iterdir()) == []
    assert restore(here).done == []


def test_only_what_blklab_makes_is_removed(here: Roots, place: Path) -> None:
    for name in ("precious", ".blklab-x", f"{NAME}/..", f"../srv/{NAME}"):
        with pytest.raises(BlklabError, match="not a name that blklab uses"):
            remove(DirectoryEntry(str(place), name, "ext4", "/"), here)
    (place / NAME).write_text("a file")
    with pytest.raises(BlklabError, match="not the directory that blklab made"):
        remove(DirectoryEntry(str(place), NAME, "ext4", "/"), here)
    assert (place / NAME).read_text() == "a file"


def test_a_directory_out_of_sight_is_not_forgotten(here: Roots, place: Path) -> None:
    with pytest.raises(BlklabError, match="its xfs is not mounted at /mnt/elsewhere"):
        remove(DirectoryEntry(str(place), NAME, "xfs", "/mnt/elsewhere"), here)
    assert not remove(DirectoryEntry("/run/none", NAME, "tmpfs", "/run"), here)
