"""Files on bad blocks, from an array's list to what is printed."""

import json
import os
from pathlib import Path

import pytest

from blklab.md import report
from blklab.md.audit import find_problems
from blklab.md.contents import add_contents
from blklab.system import file_search
from blklab.system.file_search import FilesFound
from blklab.system.layers import number_of
from blklab.system.spans import Span
from tests.conftest import Run
from tests.md.conftest import Arrays

BAD = {"bad_blocks": "4096 16\n9000 8"}


@pytest.fixture
def point(machine: Arrays, tmp_path: Path) -> Path:
    """Where an array with bad blocks is said to be mounted."""
    directory = tmp_path / "mounted \x1b[31m"
    directory.mkdir()
    number = number_of(directory.stat().st_dev)
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.disk("sdb", "8:16", "raid1-12-bitmap.vdb")
    machine.array("md0", number, {"sda": BAD, "sdb": {"bad_blocks": "4100 4"}})
    return directory


@pytest.fixture
def asked_spans(monkeypatch: pytest.MonkeyPatch, point: Path) -> list[Span]:
    """What is asked for; answered with a file in two pieces, and free space."""
    asked: list[Span] = []

    def find(where: str, _device: int, spans: tuple[Span, ...], _tell: object) -> object:
        assert where == str(point)
        asked.extend(spans)
        begin, end = spans[0].begin, spans[0].end
        half = (begin + end) // 2
        return [
            FilesFound(begin, half, f"{where}/file", 1 << 20, ""),
            FilesFound(half, end, f"{where}/file", (1 << 20) + half - begin, ""),
            FilesFound(spans[1].begin - 4096, spans[1].end + 4096, "", None, "free space"),
        ], {"permission denied": 3}

    monkeypatch.setattr(file_search, "find_files", find)
    return asked


def mount(machine: Arrays, point: Path, kind: str = "ext4", root: str = "/") -> None:
    name = str(point).replace(" ", "\\040")
    number = number_of(point.stat().st_dev)
    line = f"30 1 {number} {root} {name} rw - {kind} /dev/md0 rw"
    machine.proc("self/mountinfo", line)


def test_files_of_ranges(machine: Arrays, point: Path, asked_spans: list[Span]) -> None:
    mount(machine, point)
    result = add_contents(machine.seen(), machine.roots)
    # The list counts from the member's start, whose data begin at 2048.
    assert asked_spans == [Span(2048 << 9, 2064 << 9, 2048 << 9), Span(6952 << 9, 6960 << 9, 6952 << 9)]
    entries = [item for item in find_problems(result) if item.code == "bbl-entries"]
    path, device = f"{point}/file", str(machine.roots.dev / "md0")
    assert entries[0].ranges[0]["files"] == [
        {"device": device, "path": path, "offset_bytes": 1 << 20, "bytes": 8192, "what": None}
    ]
    assert entries[0].ranges[1]["others"] == [{"device": device, "what": "free space", "bytes": 4096}]
    # Of the other member's it is the part that its range has.
    assert entries[1].ranges[0]["files"][0]["bytes"] == 2048
    assert entries[1].ranges[0]["files"][0]["offset_bytes"] == (1 << 20) + 2048
    lost = next(item for item in find_problems(result) if item.code == "bbl-lost")
    assert [item["bytes"] for item in lost.ranges[0]["files"]] == [2048]
    assert f"{point}: not seen: 3 files or directories: permission denied" in result.arrays[0].unseen
    document = report.as_dict(result, find_problems(result))
    assert json.loads(json.dumps(document)) == document


def test_it_is_printed_without_what_terminals_obey(
    machine: Arrays, point: Path, asked_spans: list[Span], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    mount(machine, point)
    plain = run("md", "audit").out
    assert "free space" not in plain
    assert not asked_spans
    shown = run("md", "audit", "--map-files").out
    assert "\x1b" not in shown
    assert "from byte 1,048,576" in shown
    assert "4 KiB of " in shown
    assert ": free space" in shown


@pytest.mark.parametrize(
    ("kind", "root", "reason"),
    [("btrfs", "/", "it has btrfs, expected ext4 or XFS"), ("ext4", "/srv", "its mount cannot be read")],
)
def test_mounts_that_do_not_serve(machine: Arrays, point: Path, kind: str, root: str, reason: str) -> None:
    mount(machine, point, kind, root)
    result = add_contents(machine.seen(), machine.roots)
    assert [reason in line for line in result.arrays[0].unseen] == [True]
    assert result.arrays[0].contents == ()


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (bytes(8192), "it has no ext4 or XFS"),
        (b"XFSB" + bytes(8192), "mount it (`-o ro` is enough)"),
        (b"", "it has no ext4 or XFS"),
    ],
)
def test_what_is_not_mounted(machine: Arrays, point: Path, head: bytes, reason: str) -> None:
    assert point.is_dir()
    (machine.roots.dev / "md0").write_bytes(head)
    result = add_contents(machine.seen(), machine.roots)
    assert reason in result.arrays[0].unseen[-1]


def test_levels_that_are_not_mapped(machine: Arrays, point: Path) -> None:
    machine.write(machine.roots.sys / "block/md0", {"md__level": "linear"})
    result = add_contents(machine.seen(), machine.roots)
    assert any("bad blocks of sda" in line for line in result.arrays[0].unseen)
    assert os.fspath(point)


def test_images_have_no_files(run: Run, tmp_path: Path) -> None:
    done = run("md", "audit", "--map-files", "--image", str(tmp_path / "x"))
    assert (done.status, "--map-files: works only on this host" in done.err) == (2, True)
