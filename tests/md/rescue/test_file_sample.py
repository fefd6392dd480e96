"""Files that prove themselves: each kind is recognised, and a changed byte in it is found."""

import bz2
import gzip
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from blklab.md.rescue.file_sample import MOST_FILES, read_sample

CONTENT = os.urandom(50_000)


def make_png() -> bytes:
    """Returns a PNG of one grey row, with noise as its data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 64, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", CONTENT) + chunk(b"IEND", b"")


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content", CONTENT)


MAKERS: dict[str, Callable[[Path], object]] = {
    "gzip": lambda path: path.write_bytes(gzip.compress(CONTENT)),
    "bzip2": lambda path: path.write_bytes(bz2.compress(CONTENT)),
    "xz": lambda path: path.write_bytes(lzma.compress(CONTENT)),
    "png": lambda path: path.write_bytes(make_png()),
    "zip": write_zip,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_file_that_proves_itself_is_proven_and_a_changed_byte_is_found(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    MAKERS[kind](path)
    sample = read_sample(tmp_path)
    assert (sample.read, sample.proven, sample.broken) == (1, 1, ())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert read_sample(tmp_path).broken == ("file",)
    path.write_bytes(content[: len(content) // 2])
    assert read_sample(tmp_path).broken == ("file",)


def test_other_files_are_read_and_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(CONTENT)
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("/etc/shadow")
    os.mkfifo(tmp_path / "pipe")
    sample = read_sample(tmp_path)
    assert (sample.read, sample.proven, sample.broken, sample.bytes) == (1, 0, (), len(CONTENT))


def test_of_many_files_those_that_prove_themselves_come_first(tmp_path: Path) -> None:
    for number in range(MOST_FILES * 2):
        (tmp_path / f"text{number}").write_bytes(b"text")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    for number in range(20):
        MAKERS["gzip"](deep / f"{number}.gz")
    sample = read_sample(tmp_path)
    assert sample.read == MOST_FILES
    assert sample.proven == 20


def test_a_bomb_is_not_unpacked_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.md.rescue.file_sample.MOST_UNPACKED", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(8 << 20)))
    assert read_sample(tmp_path).broken == ()
