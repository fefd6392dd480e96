"""`blklab md fix metadata`, as users type it."""

import json
from pathlib import Path

import pytest

from blklab.md.superblocks import read_superblocks
from tests.conftest import Run
from tests.md.conftest import Arrays, image, machine

__all__ = ["machine"]


@pytest.fixture(autouse=True)
def _here(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.cli.md.fix.Roots", lambda: machine.roots)
    monkeypatch.setattr("blklab.cli.md.rescue.Roots", lambda: machine.roots)


@pytest.fixture
def damaged(run: Run, tmp_path: Path) -> list[Path]:
    """Returns two members whose superblocks were saved and then erased."""
    paths = [image(f"raid1-12-bitmap.{disk}", tmp_path) for disk in ("vda", "vdb")]
    run("md", "rescue", *paths, "--save-metadata", tmp_path / "saved")
    for path in paths:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(bytes(4096))
    return paths


def test_the_plan_says_what_is_written_and_writes_nothing(run: Run, damaged: list[Path], tmp_path: Path) -> None:
    done = run("md", "fix", "metadata", tmp_path / "saved", "--plan")
    assert done.status == 0
    first, second = done.out.replace("\n", " ").split(str(damaged[1]))
    assert str(damaged[0]) in first
    assert "4 KiB of 12 KiB differ: they must be written" in second
    assert not any(read_superblocks(path).members for path in damaged)
    assert not list((tmp_path / "saved").glob("before-*"))


def test_superblocks_are_put_back_and_a_second_time_there_is_nothing_to_do(
    run: Run, damaged: list[Path], tmp_path: Path
) -> None:
    done = run("md", "fix", "metadata", tmp_path / "saved", "--yes")
    assert done.status == 0
    assert done.out.count("written, read again and compared") == 2
    assert [path.read_bytes()[4096:4100] for path in damaged] == [b"\xfc\x4e\x2b\xa9"] * 2
    done = run("md", "fix", "metadata", tmp_path / "saved")
    assert done.status == 0
    assert "nothing to do" in done.out
    (before,) = (tmp_path / "saved").glob("before-*")
    done = run("md", "fix", "metadata", before, "--yes", "--json")
    assert json.loads(done.out)["outcome"] == "done"
    assert not any(read_superblocks(path).members for path in damaged)


def test_one_member_as_json(run: Run, damaged: list[Path], tmp_path: Path) -> None:
    done = run("md", "fix", "metadata", tmp_path / "saved", "--member", damaged[1], "--yes", "--json")
    document = json.loads(done.out)
    (device,) = document["devices"]
    assert (document["format_version"], document["outcome"], device["differing_bytes"]) == (1, "done", 4096)
    assert Path(document["before"]).parent == tmp_path / "saved"
    assert [bool(read_superblocks(path).members) for path in damaged] == [False, True]


def test_a_missing_image_is_refused_and_nothing_is_written(run: Run, damaged: list[Path], tmp_path: Path) -> None:
    damaged[0].unlink()
    done = run("md", "fix", "metadata", tmp_path / "saved", "--yes")
    assert done.status == 1
    assert "there is no image with this path" in " ".join(done.out.split())
    assert "nothing was written; to restore only others, name them with --member" in " ".join(done.out.split())
    assert not read_superblocks(damaged[1]).members


@pytest.mark.usefixtures("damaged")
def test_a_restore_without_a_terminal_needs_yes(run: Run, tmp_path: Path) -> None:
    done = run("md", "fix", "metadata", tmp_path / "saved")
    assert (done.status, "cannot ask for confirmation without a terminal: use --yes" in done.err) == (2, True)


@pytest.mark.usefixtures("damaged")
def test_errors_are_one_line(run: Run, tmp_path: Path) -> None:
    done = run("md", "fix", "metadata", tmp_path / "saved", "--member", "/dev/nothing", "--yes")
    assert (done.status, "--member /dev/nothing: not one of the saved devices" in done.err) == (2, True)
    (tmp_path / "saved/1-raid1-12-bitmap.vda.img.head").write_bytes(b"")
    done = run("md", "fix", "metadata", tmp_path / "saved", "--yes")
    assert (done.status, len(done.err.splitlines())) == (1, 1)
    done = run("md", "fix", "metadata", tmp_path, "--yes")
    assert (done.status, len(done.err.splitlines())) == (1, 1)
    assert "members.json" in done.err
