"""Reads a sample of files, and checks those that carry a checksum of their own.

A filesystem can be sound while its files are not: `fsck` does not read them. Members in the wrong order, or an old
member, show first in large files that prove themselves: gzip, xz, bzip2, zip (also .docx, .jar, .odt) and PNG.
"""

import bz2
import gzip
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

MOST_ENTRIES = 200_000  # Names that are looked at
MOST_FILES = 200  # Files that are read
MOST_BYTES = 64 << 20  # Of a file; larger ones are read up to here, and not checked
MOST_UNPACKED = 256 << 20  # Bytes that a packed file may have
PIECE = 1 << 20

SELF_CHECKING = {
    b"\x1f\x8b": "gzip",  # RFC 1952: CRC-32 of the content
    b"\xfd7zXZ\x00": "xz",  # The .xz file format, 2.1.1.1
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",  # APPNOTE.TXT 4.3.7: CRC-32 of each file
    b"\x89PNG\r\n\x1a\n": "png",  # RFC 2083, 3.2: CRC-32 of each chunk
}
"""How files begin that carry checksums."""


@dataclass(frozen=True)
class SampledFiles:
    """What a sample of files is like."""

    read: int  # Files that could be read
    proven: int  # Those of them whose own checksums hold
    broken: tuple[str, ...]  # Paths of files that cannot be read, or whose own checksums do not hold
    bytes: int


def read_sample(directory: Path) -> SampledFiles:
    """Reads a sample of the files below a directory, on the same filesystem. Follows no links."""
    paths = list(_list_files(directory))
    self_checking = [path for path, kind in paths if kind]
    other_paths = [path for path, kind in paths if not kind]
    half = MOST_FILES // 2
    sample = _spread(self_checking, max(half, MOST_FILES - len(other_paths)))
    sample += _spread(other_paths, MOST_FILES - len(sample))
    kinds = dict(paths)
    read = proven = size = 0
    broken = []
    for path in sample:
        try:
            size += _read_file(path)
            if kinds[path] and path.stat().st_size <= MOST_BYTES:
                check_file(path, kinds[path])
                proven += 1
            read += 1
        except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError):
            broken.append(str(path.relative_to(directory)))
        except RuntimeError:  # zipfile: the file is encrypted
            read += 1
    return SampledFiles(read, proven, tuple(broken), size)


def _list_files(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yields regular files, and which of the self-checking kinds each is; files that cannot be opened as no kind."""
    device = directory.stat().st_dev
    waiting = [directory]
    entry_count = 0
    while waiting and entry_count < MOST_ENTRIES:
        try:
            with os.scandir(waiting.pop()) as iterator:
                entries = sorted(iterator, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            entry_count += 1
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                yield Path(entry.path), ""
                continue
            if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                waiting.append(Path(entry.path))
            elif stat.S_ISREG(status.st_mode) and status.st_size:
                yield Path(entry.path), _recognise(Path(entry.path))


def _recognise(path: Path) -> str:
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError:
        return ""
    for signature, kind in SELF_CHECKING.items():
        if begin.startswith(signature):
            return kind
    return ""


def _spread(paths: list[Path], count: int) -> list[Path]:
    """Returns at most so many paths, evenly from the whole list."""
    if len(paths) <= count:
        return paths
    return [paths[index * len(paths) // count] for index in range(count)]


def _read_file(path: Path) -> int:
    """Reads a file, at most MOST_BYTES of it, and returns how many bytes it read. Raises OSError."""
    read = 0
    with path.open("rb", buffering=0) as file:
        while read < MOST_BYTES:
            piece = file.read(PIECE)
            if not piece:
                break
            read += len(piece)
    return read


def check_file(path: Path, kind: str) -> None:
    """Unpacks a file, which compares its checksums. Raises ValueError, EOFError, OSError or the library's errors."""
    if kind == "gzip":
        with gzip.open(path) as file:
            _drain(cast(IO[bytes], file))
    elif kind == "xz":
        with lzma.open(path) as file:
            _drain(file)
    elif kind == "bzip2":
        with bz2.open(path) as file:
            _drain(file)
    elif kind == "zip":
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) <= MOST_UNPACKED and archive.testzip():
                raise ValueError("a file in it has a wrong checksum")
    else:
        _check_png(path.read_bytes())


def _drain(file: IO[bytes]) -> None:
    remaining_bytes = MOST_UNPACKED
    while remaining_bytes > 0:
        piece = file.read(min(PIECE, remaining_bytes))
        if not piece:
            return
        remaining_bytes -= len(piece)


def _check_png(content: bytes) -> None:
    """Compares the checksum of each chunk: length, type, data, CRC-32 of type and data (RFC 2083, 3.2)."""
    offset = 8
    while offset + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, offset)
        end = offset + 8 + length
        if end + 4 > len(content):
            raise ValueError("a chunk is cut off")
        if zlib.crc32(content[offset + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise ValueError("a chunk has a wrong checksum")
        if content[offset + 4 : offset + 8] == b"IEND":
            return
        offset = end + 4
    raise ValueError("it has no end")
