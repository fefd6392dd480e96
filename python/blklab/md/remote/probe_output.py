"""What the probe printed on another machine, as values. That machine may be anybody's: nothing in
its output may have files of this one read or written.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from blklab.errors import BlklabError
from blklab.md.superblocks import SECTOR

HEADER: Final = b"blklab-probe 1"

MOST_BYTES: Final = 64 << 20
"""Of a stream: a member takes a few KiB of it usually, and 1 MiB at most."""

MOST_READ: Final = 256 << 20
"""Bytes of disks, when lines that were left out are there again."""

MOST_TEXT: Final = 8 << 20
"""Bytes of files: a list of bad blocks, of which a member has two, is 4 KiB."""

LONGEST_PIECE: Final = 256 << 10
"""Bytes of a disk that are read in a piece, at most."""

MOST_PATHS: Final = 100_000
"""Files and directories, those above them included."""

DEEPEST: Final = 64
"""Directories above one another: sysfs has some twenty."""

LARGEST: Final = 1 << 62
"""Bytes of a disk: offsets in files are signed."""

ROOMS: Final = {
    "file": ("proc", "sys", "etc"),
    "unread": ("proc", "etc"),
    "directory": ("sys",),
    "link": ("sys",),
    "disk": ("dev",),
}
"""Kinds of records, and where what they name may be."""


@dataclass
class ProbedDevice:
    """What was read of a device."""

    size: int = 0
    """Bytes."""
    pieces: list[tuple[int, bytearray]] = field(default_factory=list)
    """Where they begin, in bytes, and what is there."""
    refused: str = ""
    """Why nothing could be read, as dd said it."""

    @property
    def bytes(self) -> int:
        """How many were read."""
        return sum(len(piece) for _, piece in self.pieces)


@dataclass
class ProbeOutput:
    """All of it. Paths are absolute, of the other machine, and none leads through a link."""

    files: dict[str, bytes] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    """Files that are there, and may not be read."""
    directories: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    """To directories."""
    disks: dict[str, ProbedDevice] = field(default_factory=dict)
    mdadm: str = ""
    """What `mdadm --version` said; empty if it is not installed."""
    text: int = 0
    """Bytes of files, those that were named twice included."""
    read: int = 0
    """Bytes of disks, likewise."""

    @property
    def named(self) -> tuple[Collection[str], ...]:
        """What there is, by its kind."""
        return self.files, self.unread, self.directories, self.links, self.disks


class _MalformedRecord(Exception):
    """What no probe prints, of one record."""


def parse(data: bytes | bytearray) -> ProbeOutput:
    """Returns what a probe printed; lines before it (a shell's greeting) do not count.

    Raises BlklabError if there is none, if it is torn, or not what a probe prints.
    """
    if len(data) > MOST_BYTES:
        raise BlklabError(f"its output has more than {MOST_BYTES >> 20} MiB, which no probe prints")
    # A terminal in between (Ansible's raw, script(1)) ends lines its own way.
    data = data.replace(b"\r\n", b"\n")
    header = _line(HEADER).search(data)
    if header is None:
        if other := _line(rb"blklab-probe \d{1,9}").search(data):
            raise BlklabError(
                f"it is of `{other[0].decode()}`, expected `{HEADER.decode()}`: take the probe of"
                " this blklab"
            )
        raise BlklabError(f"no output of the probe: expected a line `{HEADER.decode()}`")
    end = _line(b"end").search(data, header.end())
    if end is None:
        raise BlklabError("its output is torn: the line `end` is not there")
    output = ProbeOutput()
    # Heads are lines without a blank before them: the last is the end.
    heads = re.compile(rb"^[^ \n].*", re.M).finditer(data, header.end(), end.end())
    for head, after in pairwise(heads):
        try:
            _record(output, _decoded(head[0]), bytes(data[head.end() + 1 : after.start()]))
            _bounded(output)
        except _MalformedRecord as malformed:
            number = data.count(b"\n", 0, head.start()) + 1
            raise BlklabError(
                f"line {number} of its output: {malformed}, which no probe prints"
            ) from None
    _sound(output)
    return output


def _line(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"^%b$" % pattern, re.M)


def _decoded(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _record(output: ProbeOutput, head: str, body: bytes) -> None:
    """Adds a record: its first line, and those below it."""
    kind, _, path = head.partition(" ")
    if head == "mdadm":
        output.mdadm = _decoded(_content(body))
        return
    if kind not in ROOMS:
        raise _MalformedRecord(f"a record `{kind[:40]}`")
    _check(path, ROOMS[kind])
    if kind == "file":
        output.files[path] = _content(body)
        output.text += len(body)
    elif kind == "unread":
        output.unread.add(path)
    elif kind == "directory":
        output.directories.add(path)
    elif kind == "link":
        target = _decoded(_content(body))
        _check(target, ROOMS[kind])
        output.links[path] = target
    else:
        output.disks[path] = disk = _disk(body)
        output.read += disk.bytes


def _content(body: bytes) -> bytes:
    """What lines hold, without the blank before each; empty ones are the shell's."""
    whole = b"\n" + body
    while b"\n\n" in whole:
        whole = whole.replace(b"\n\n", b"\n")
    return whole.replace(b"\n ", b"\n")[1:].removesuffix(b"\n")


def _bounded(output: ProbeOutput) -> None:
    """Sees to it, after each record, that what is kept does not grow without end."""
    if output.read > MOST_READ:
        raise _MalformedRecord(f"more than {MOST_READ >> 20} MiB of disks")
    if output.text > MOST_TEXT:
        raise _MalformedRecord(f"more than {MOST_TEXT >> 20} MiB of files")
    if sum(map(len, output.named)) > MOST_PATHS:
        raise _MalformedRecord(f"more than {MOST_PATHS:,} files")


def _check(path: str, rooms: tuple[str, ...]) -> None:
    root, *parts = path.split("/")
    bad = any(part in {"", ".", ".."} or len(part.encode(errors="replace")) > 255 for part in parts)
    deep = len(parts) > DEEPEST or len(path) > 1024
    if root or len(parts) < 2 or parts[0] not in rooms or bad or deep or {"\0", "\n"} & {*path}:
        raise _MalformedRecord(f"the path {path[:80]!r}")


def _disk(body: bytes) -> ProbedDevice:
    """Reads what `dd | od -A d -t x1` printed: `*` stands for lines like the one before."""
    disk = ProbedDevice()
    piece: bytearray | None = None
    again = False
    for raw in BytesIO(_content(body)):
        line = _decoded(raw.removesuffix(b"\n"))
        word, _, rest = line.partition(" ")
        if word in {"sectors", "at"} and (
            not re.fullmatch(r"\d{1,19}", rest, re.A) or int(rest) > LARGEST // SECTOR
        ):
            raise _MalformedRecord(f"the number {rest[:40]!r}")
        if word == "sectors":
            disk.size = int(rest) * SECTOR
        elif word == "refused":
            disk.refused = rest
        elif word == "at":
            piece, again = bytearray(), False
            disk.pieces.append((int(rest), piece))
            if len(disk.pieces) > 2:
                raise _MalformedRecord("a third piece of a disk")
        elif line == "*":
            again = True
        elif piece is not None and re.fullmatch(r"\d{1,8}", word, re.A):
            at = int(word)
            if again and piece and at <= LONGEST_PIECE:
                piece += piece[-16:] * ((at - len(piece)) // 16)
            if at != len(piece):
                raise _MalformedRecord(f"offset {at} where {len(piece)} was expected")
            again = False
            try:
                piece += bytes.fromhex(rest)
            except ValueError:
                raise _MalformedRecord(f"bytes {rest[:60]!r}") from None
        else:
            raise _MalformedRecord(f"a disk's line {line[:60]!r}")
    return disk


def _sound(output: ProbeOutput) -> None:
    """Sees to it that what is to be made of it can be, and only where it is to be."""
    named = set[str]().union(*output.named)
    if sum(map(len, output.named)) != len(named):
        raise BlklabError("its output names something twice, as things of different kinds")
    targets = set(output.links.values())
    inner = set[str]()
    for path in named | targets:
        inner.update(map(str, PurePosixPath(path).parents))
        if len(named) + len(inner) > MOST_PATHS:
            raise BlklabError(f"its output names more than {MOST_PATHS:,} files")
    # A path through a link, or a link to a link, might lead anywhere, or around in circles.
    ends = named - output.directories
    if through := ends & (inner | targets):
        raise BlklabError(f"its output has {min(through)!r} above something else, or linked to")
