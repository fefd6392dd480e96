"""`--files`: the files of a mounted filesystem that the I/Os of a trace went to."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.system import file_search
from blklab.system.file_search import FilesFound, read_file_extents
from blklab.system.layers import number_of
from blklab.trace.profile import read_mounted_files
from tests.conftest import Run
from tests.loop_devices import attach_loop_device
from tests.system.machine import Machine
from tests.trace.generated import QUEUED, READ, WRITE, Q, Record, write_trace

MIB = 1 << 20


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """An ext4 on a loop device with two files: its mount point and its device."""
    image, point = tmp_path / "image", tmp_path / "srv"
    image.touch()
    os.truncate(image, 64 * MIB)
    point.mkdir()
    device = ""
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        device = attach_loop_device(image)
        subprocess.run(["mount", device, point], check=True)
    except (OSError, subprocess.CalledProcessError):
        if device:
            subprocess.run(["losetup", "--detach", device], check=True)
        pytest.skip("ext4 on a loop device cannot be mounted here")
    try:
        for name in ("hot", "cold\x1b[31m"):
            with (point / name).open("wb") as file:
                file.write(os.urandom(MIB))
                file.flush()
                os.fsync(file.fileno())
        yield point, device
    finally:
        subprocess.run(["umount", point], check=True)
        subprocess.run(["losetup", "--detach", device], check=True)


def first_sector(path: Path) -> int:
    with path.open("rb") as file:
        return next(read_file_extents(file.fileno())).begin // 512


def record(base: Path, device: str, ios: list[tuple[int, int, int]]) -> Path:
    status = os.stat(device)  # noqa: PTH116
    number = os.major(status.st_rdev) << 20 | os.minor(status.st_rdev)
    events = [
        Record(at * 1000, Q, side | QUEUED, sector, size, device=number) for at, (sector, size, side) in enumerate(ios)
    ]
    return write_trace(base, events)


def test_files_of_a_real_filesystem(run: Run, tmp_path: Path, mounted: tuple[Path, str]) -> None:
    point, device = mounted
    hot, cold = (first_sector(point / name) for name in ("hot", "cold\x1b[31m"))
    ios = [(hot, 8192, READ)] * 5 + [(hot + 16, 4096, WRITE)] * 2 + [(cold, 4096, WRITE)] + [(2, 512, WRITE)]
    trace = record(tmp_path / "traced", device, [*ios, (64 * MIB // 512, 4096, READ)])
    outcome = run("trace", "stat", trace, "--json", "--files", point)
    assert (outcome.status, outcome.err) == (0, "")
    (files,) = [entry["files"] for entry in json.loads(outcome.out)["devices"]]
    assert files["mount"] == str(point)
    by_name = {file["name"]: file for file in files["files"]}
    assert files["files"][0] == {
        "name": str(point / "hot"), "is_file": True,
        "reads": 5, "writes": 2, "read_bytes": 5 * 8192, "write_bytes": 2 * 4096,
    }  # fmt: skip
    assert by_name[f"{point}/cold\\x1b[31m"]["write_bytes"] == 4096
    assert by_name["the filesystem's own metadata"]["writes"] == 1
    assert by_name["outside of the filesystem"]["reads"] == 1
    shown = run("trace", "stat", trace, "--files", device).out
    assert f"Files of {point} on " in shown and "cold\\x1b[31m" in shown
    page = tmp_path / "page.html"
    assert run("trace", "report", trace, "--files", point, "-o", page).status == 0
    assert f">{point}/hot<" in page.read_text() and f"--files {point}" in page.read_text()


def test_a_trace_of_another_device(run: Run, tmp_path: Path, mounted: tuple[Path, str]) -> None:
    trace = write_trace(tmp_path / "sdq", [Record(0, Q, READ | QUEUED, 8, 4096)])
    outcome = run("trace", "stat", trace, "--files", mounted[0])
    expected = f"no I/O of {Path(mounted[1]).name} was selected, only of sdq"
    assert (outcome.status, outcome.err) == (1, f"blklab: error: --files {mounted[0]}: {expected}\n")


def test_paths_without_a_filesystem(run: Run, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "sdq", [Record(0, Q, READ | QUEUED, 8, 4096)])
    outcome = run("trace", "stat", trace, "--files", tmp_path / "gone")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "No such file or directory; expected a mount point or a device" in outcome.err
    outcome = run("trace", "stat", trace, "--files", "/proc")
    assert (outcome.status, outcome.err.endswith("expected a mounted ext4 or XFS\n")) == (1, True)


def test_sectors_of_a_partition_are_those_of_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path / "machine")
    point = tmp_path / "point"
    point.mkdir()
    number = number_of(point.stat().st_dev)
    machine.device("sdq", "65:0")
    machine.device("sdq2", number, parent="sdq", start="2048", size="4096")
    pieces = [FilesFound(512, 1024, "/a", 0, ""), FilesFound(0, 512, "", None, "journal")]
    monkeypatch.setattr(file_search, "find_files", lambda *_: (pieces, {"permission denied": 1}))
    machine.mount(number, point, "btrfs", "/dev/sdq2")
    with pytest.raises(BlklabError, match="it has btrfs; expected a mounted ext4 or XFS"):
        read_mounted_files(str(point), machine.roots, lambda _: None)
    machine.mounted.clear()
    machine.mount(number, point, "ext4", "/dev/sdq2")
    files, warnings = read_mounted_files(str(point), machine.roots, lambda _: None)
    assert files.devices == [number.replace(":", ","), "sdq2", "65,0", "sdq"]
    assert (files.owners, files.extents) == ([("/a", True), ("journal", False)], [(2049, 2050, 0), (2048, 2049, 1)])
    assert warnings == [(str(point), "1 file or directory not examined: permission denied")]
