"""Parses the output of the probe. It may come from an untrusted host: no path in it may lead to a file of this host."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import PurePosixPath

from blklab.errors import BlklabError
from blklab.units import SECTOR

HEADER = b"blklab-probe 1"
MAX_OUTPUT_BYTES = 64 << 20  # A member usually needs a few KiB, and at most 1 MiB
MAX_DISK_BYTES = 256 << 20  # Limit for the content of all disks, repeated lines included
MAX_FILE_BYTES = 8 << 20  # Limit for the content of all files; a member has two bad-block lists of up to 4 KiB
MAX_PIECE_BYTES = 256 << 10  # Limit for one piece of a disk
MAX_PATHS = 100_000  # Limit for files and directories, parent directories included
MAX_DEPTH = 64  # Limit for the depth of a path; sysfs has about twenty levels
MAX_DISK_SIZE = 1 << 62  # Bytes; file offsets are signed

ALLOWED_ROOTS = {  # Kinds of records, and the top directories that their paths may have
    "file": ("proc", "sys", "etc", "boot", "lib"),
    "unread": ("proc", "etc"),
    "directory": ("sys",),
    "link": ("sys",),
    "disk": ("dev",),
}


@dataclass
class ProbedDevice:
    """The content of a device that the probe read."""

    size: int = 0  # Bytes
    pieces: list[tuple[int, bytearray]] = field(default_factory=list)  # Positions in bytes, and contents
    refused: str = ""  # dd's message if the device could not be read

    @property
    def bytes(self) -> int:
        return sum(len(piece) for _, piece in self.pieces)


@dataclass
class ProbeOutput:
    """The whole output. Paths are absolute paths of the other host; none leads through a link."""

    files: dict[str, bytes] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # Files that exist and could not be read
    directories: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)  # Links to directories, and their targets
    disks: dict[str, ProbedDevice] = field(default_factory=dict)
    mdadm: str = ""  # Output of `mdadm --version`; empty if it is not installed
    file_bytes: int = 0  # Bytes of all file records, also of the same file
    disk_bytes: int = 0  # Bytes of all disk records, also of the same disk

    @property
    def paths(self) -> tuple[Collection[str], ...]:
        return self.files, self.unread, self.directories, self.links, self.disks


_LAST = re.compile(rb"^end\r?$", re.M)


class _MalformedRecord(Exception):
    """A record that no probe prints."""


def is_complete(data: bytes | bytearray, checked_bytes: int) -> bool:
    """Whether output has its last line; its first `checked_bytes` bytes had not."""
    begin = data.find(HEADER)
    return begin >= 0 and _LAST.search(data, max(begin, checked_bytes - len("\nend\r"))) is not None


def parse_output(data: bytes | bytearray) -> ProbeOutput:
    """Returns the output of a probe; lines before it (a shell's greeting) are ignored.

    Raises BlklabError if it is missing, incomplete or malformed.
    """
    if len(data) > MAX_OUTPUT_BYTES:
        raise BlklabError(f"the output has more than {MAX_OUTPUT_BYTES >> 20} MiB: expected the output of a probe")
    # A terminal (Ansible's raw module, script(1)) ends lines with CR LF.
    data = data.replace(b"\r\n", b"\n")
    header = _line(HEADER).search(data)
    if header is None:
        if other := _line(rb"blklab-probe \d{1,9}").search(data):
            raise BlklabError(
                f"the output is of `{other[0].decode()}`, expected `{HEADER.decode()}`: "
                "run the script that this version of `blklab md probe` prints"
            )
        raise BlklabError(f"not the output of a probe: expected a line `{HEADER.decode()}`")
    end = _line(b"end").search(data, header.end())
    if end is None:
        raise BlklabError("the output is incomplete: expected a last line `end`")
    output = ProbeOutput()
    # A record begins with a line without a leading blank; the last such line is `end`.
    heads = re.compile(rb"^[^ \n].*", re.M).finditer(data, header.end(), end.end())
    for head, after in pairwise(heads):
        try:
            _add_record(output, _decode(head[0]), bytes(data[head.end() + 1 : after.start()]))
            _check_limits(output)
        except _MalformedRecord as malformed:
            number = data.count(b"\n", 0, head.start()) + 1
            raise BlklabError(f"line {number} of the output: {malformed}, which no probe prints") from None
    _check_paths(output)
    return output


def _line(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"^%b$" % pattern, re.M)


def _decode(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _add_record(output: ProbeOutput, head: str, body: bytes) -> None:
    """Adds a record: its first line, and the lines below it."""
    kind, _, path = head.partition(" ")
    if head == "mdadm":
        output.mdadm = _decode(_content(body))
        return
    if kind not in ALLOWED_ROOTS:
        raise _MalformedRecord(f"a record `{kind[:40]}`")
    _check_path(path, ALLOWED_ROOTS[kind])
    if kind == "file":
        output.files[path] = _content(body)
        output.file_bytes += len(body)
    elif kind == "unread":
        output.unread.add(path)
    elif kind == "directory":
        output.directories.add(path)
    elif kind == "link":
        target = _decode(_content(body))
        _check_path(target, ALLOWED_ROOTS[kind])
        output.links[path] = target
    else:
        output.disks[path] = disk = _parse_disk(body)
        output.disk_bytes += disk.bytes


def _content(body: bytes) -> bytes:
    """Returns lines without the blank before each, and without empty lines, which a shell adds."""
    lines = b"\n" + body
    while b"\n\n" in lines:
        lines = lines.replace(b"\n\n", b"\n")
    return lines.replace(b"\n ", b"\n")[1:].removesuffix(b"\n")


def _check_limits(output: ProbeOutput) -> None:
    """Raises _MalformedRecord if the output exceeds a limit; called after each record."""
    if output.disk_bytes > MAX_DISK_BYTES:
        raise _MalformedRecord(f"more than {MAX_DISK_BYTES >> 20} MiB of disks")
    if output.file_bytes > MAX_FILE_BYTES:
        raise _MalformedRecord(f"more than {MAX_FILE_BYTES >> 20} MiB of files")
    if sum(map(len, output.paths)) > MAX_PATHS:
        raise _MalformedRecord(f"more than {MAX_PATHS:,} files")


def _check_path(path: str, top_directories: tuple[str, ...]) -> None:
    root, *parts = path.split("/")
    bad = any(part in {"", ".", ".."} or len(part.encode(errors="replace")) > 255 for part in parts)
    deep = len(parts) > MAX_DEPTH or len(path) > 1024
    if root or len(parts) < 2 or parts[0] not in top_directories or bad or deep or {"\0", "\n"} & {*path}:
        raise _MalformedRecord(f"the path {path[:80]!r}")


def _parse_disk(body: bytes) -> ProbedDevice:
    """Parses the output of `dd | od -A d -t x1`; `*` stands for repeated lines."""
    disk = ProbedDevice()
    piece: bytearray | None = None
    is_repeated = False
    for raw in BytesIO(_content(body)):
        line = _decode(raw.removesuffix(b"\n"))
        word, _, value = line.partition(" ")
        if word in {"sectors", "at"} and (
            not re.fullmatch(r"\d{1,19}", value, re.A) or int(value) > MAX_DISK_SIZE // SECTOR
        ):
            raise _MalformedRecord(f"the number {value[:40]!r}")
        if word == "sectors":
            disk.size = int(value) * SECTOR
        elif word == "refused":
            disk.refused = value
        elif word == "at":
            piece = bytearray()
            is_repeated = False
            disk.pieces.append((int(value), piece))
            if len(disk.pieces) > 2:
                raise _MalformedRecord("a third piece of a disk")
        elif line == "*":
            is_repeated = True
        elif piece is not None and re.fullmatch(r"\d{1,8}", word, re.A):
            offset = int(word)
            if is_repeated and piece and offset <= MAX_PIECE_BYTES:
                piece += piece[-16:] * ((offset - len(piece)) // 16)
            if offset != len(piece):
                raise _MalformedRecord(f"offset {offset}, expected {len(piece)}")
            is_repeated = False
            try:
                piece += bytes.fromhex(value)
            except ValueError:
                raise _MalformedRecord(f"bytes {value[:60]!r}") from None
        else:
            raise _MalformedRecord(f"the line {line[:60]!r} of a disk")
    return disk


def _check_paths(output: ProbeOutput) -> None:
    """Raises BlklabError if paths contradict each other or lead through links."""
    paths = set[str]().union(*output.paths)
    if sum(map(len, output.paths)) != len(paths):
        raise BlklabError("the output has the same path in records of different kinds")
    targets = set(output.links.values())
    parents = set[str]()
    for path in paths | targets:
        parents.update(map(str, PurePosixPath(path).parents))
        if len(paths) + len(parents) > MAX_PATHS:
            raise BlklabError(f"the output has more than {MAX_PATHS:,} files")
    # A path through a link, or a link to a link, might lead anywhere or form a loop.
    leaves = paths - output.directories
    if conflicts := leaves & (parents | targets):
        raise BlklabError(f"the output has {min(conflicts)!r}, which is not a directory, as a parent or a target")
