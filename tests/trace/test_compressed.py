"""Compressed recordings and archives: the same profile as from the plain files."""

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import QUEUED, READ, Q, Record, write_trace


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A recording of two devices on two CPUs, in a directory."""
    directory = tmp_path / "host"
    directory.mkdir()
    for at, name in enumerate(("sda", "sdb")):
        records = [
            Record(1000 * n, Q, QUEUED | READ, os.urandom(2)[0] * 8, 4096, device=(8 << 20) + 16 * at, cpu=n % 2)
            for n in range(1, 3000)
        ]
        write_trace(directory / name, records)
    return directory


def counts(run: Run, path: Path) -> dict[str, int]:
    outcome = run("trace", "stat", path, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    return {device["name"]: device["load"]["ops"]["read"]["ios"] for device in json.loads(outcome.out)["devices"]}


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_an_archive_is_the_recording_in_it(run: Run, plain: Path, tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"host.{suffix}"
    with tarfile.open(archive, "w:" + suffix.removeprefix("tar").removeprefix(".")) as made:  # type: ignore[call-overload]
        made.add(plain, "../../etc/host")
        note = tarfile.TarInfo("notes.txt")
        note.size = 5
        made.addfile(note, io.BytesIO(b"hello"))
        link = tarfile.TarInfo("sdc.blktrace.0")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(link)
    assert counts(run, archive) == counts(run, plain) == {"sda": 2999, "sdb": 2999}


def lz4_frame(content: bytes) -> bytes:
    """Returns a frame of uncompressed blocks of 64 KiB (lz4_Frame_format.md)."""
    blocks = [content[at : at + 65536] for at in range(0, len(content), 65536)]
    framed = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return bytes.fromhex("04224d18604082") + framed + bytes(4)


@pytest.mark.parametrize(("suffix", "compress"), [("bz2", bz2.compress), ("lz4", lz4_frame), ("gz", gzip.compress)])
def test_compressed_files_are_read(run: Run, plain: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    before = counts(run, plain)
    for path in list(plain.iterdir()):
        path.with_name(f"{path.name}.{suffix}").write_bytes(compress(path.read_bytes()))
        path.unlink()
    assert counts(run, plain) == before


def test_what_can_be_read_of_a_cut_off_xz_is_read(run: Run, plain: Path, tmp_path: Path) -> None:
    whole = lzma.compress((plain / "sda.blktrace.0").read_bytes())
    (tmp_path / "cut.xz").write_bytes(whole[: len(whole) // 2])
    outcome = run("trace", "stat", tmp_path / "cut.xz", "--json")
    assert outcome.status == 0
    assert "compressed data is damaged or cut off after " in outcome.err
    (device,) = json.loads(outcome.out)["devices"]
    assert 300 < device["load"]["ops"]["read"]["ios"] < 1500


@pytest.mark.parametrize("damage", ["empty", "cut", "no trace"])
def test_a_bad_archive_is_one_line(run: Run, plain: Path, tmp_path: Path, damage: str) -> None:
    archive = tmp_path / "host.tar"
    with tarfile.open(archive, "w") as made:
        note = tarfile.TarInfo("notes.txt")
        note.size = 5 if damage == "no trace" else 0
        made.addfile(note, io.BytesIO(b"hello"[: note.size]))
        if damage == "cut":
            made.add(plain, "host")
    if damage == "cut":
        archive.write_bytes(archive.read_bytes()[:1300])
    outcome = run("trace", "stat", archive)
    assert outcome.status == 1
    assert str(archive) in outcome.err
    assert outcome.err.splitlines()[-1].startswith("blklab: error: ")
