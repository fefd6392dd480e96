"""Files out of a guest that says what it likes of where they are."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab import event_trace, guest_files
from blklab.runners.lab.agent import ExportedFile
from blklab.runners.lab.machine.qemu import RESULTS, VirtualDisk, VirtualDiskShape

SIZE = 1 << 20


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Any]:
    """A guest with two traces on its disk for results; `said` is where it says that they are."""
    path = tmp_path / "disk"
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    disk = VirtualDisk(0, RESULTS, VirtualDiskShape(RESULTS, SIZE), descriptor)
    made = SimpleNamespace(results=disk, agent=SimpleNamespace())
    made.said = [ExportedFile("/run/t/vda.blktrace.0", 0, 3), ExportedFile("/run/t/vda.blktrace.1", 4096, 3)]

    def export(_paths: object, device: str) -> tuple[ExportedFile, ...]:
        assert device == "/dev/vdb"
        os.pwrite(descriptor, b"new", 0)
        os.pwrite(descriptor, b"too", 4096)
        return tuple(made.said)

    made.agent.read = lambda _: {"/sys/block/vda/serial": "x", "/sys/block/vdb/serial": RESULTS}
    made.agent.export = export
    yield made
    os.close(descriptor)


def test_files_come_out(machine: Any) -> None:
    assert guest_files.fetch(machine, ["/run/t/*"]) == {"/run/t/vda.blktrace.0": "new", "/run/t/vda.blktrace.1": "too"}


@pytest.mark.parametrize(
    "output",
    [
        [("/a", 0, SIZE + 1)],
        [("/a", SIZE, 1)],
        [("/a", -1, 1)],
        [("/a", 0, -1)],
        [("/a", 0, SIZE), ("/b", 0, SIZE)],
        [("/a", 4096, 8), ("/b", 0, 8)],
        [("/a", 0, 8)] * 3,
    ],
)
def test_no_more_than_the_disk_has(machine: Any, output: list[tuple[str, int, int]]) -> None:
    machine.said = [ExportedFile(*each) for each in output]
    with pytest.raises(BlklabError, match=r"the guest reports /\w at offset -?\d+ of the disk"):
        guest_files.fetch(machine, ["/*"])


def test_no_more_than_memory_should_hold(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_files, "MOST_FETCHED", 5)
    with pytest.raises(BlklabError, match="have 6 B, expected at most 5 B"):
        guest_files.fetch(machine, ["/run/t/*"])


def test_traces_of_an_earlier_run_do_not_stay(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_files, "_PART", 2)
    into, outside = tmp_path / "traces" / "001", tmp_path / "outside"
    into.mkdir(parents=True)
    outside.write_text("mine")
    for name in ("vda.blktrace.7", "vdc.blktrace.0", "notes.txt"):
        (into / name).write_text("old")
    (into / "vda.blktrace.0").symlink_to(outside)
    (into / "vda.blktrace.1").hardlink_to(outside)
    guest_files.save(machine, "/run/t/*", into, old=event_trace.TRACE)
    assert {path.name: path.read_text() for path in into.iterdir()} == {
        "notes.txt": "old",
        "vda.blktrace.0": "new",
        "vda.blktrace.1": "too",
    }
    assert outside.read_text() == "mine"


def test_no_link_is_followed(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "001").symlink_to("there")
    with pytest.raises(BlklabError, match=r"001: (Not a directory|Too many levels)"):
        guest_files.save(machine, "/run/t/*", tmp_path / "001", old=event_trace.TRACE)
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "", "x" * 200])
def test_names_of_files(machine: Any, tmp_path: Path, name: str) -> None:
    machine.said = [ExportedFile(f"/run/t/{name}", 0, 3)]
    with pytest.raises(BlklabError, match="invalid file name from the guest"):
        guest_files.save(machine, "/run/t/*", tmp_path / "into", old=re.compile("x"))


def test_events_that_were_dropped_are_a_warning() -> None:
    output = "Device: /dev/vda\nYou have 1234 ( 12.3%) dropped events\nConsider using a larger buffer"
    assert event_trace.warn_about_dropped_events(output) == [
        "blktrace dropped 1234 events: the guest was too slow to write the traces"
    ]
    assert event_trace.warn_about_dropped_events("") == []
