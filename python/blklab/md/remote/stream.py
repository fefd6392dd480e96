"""What the probe printed on another machine, as values. That machine may be anybody's: nothing in
its output may have files of this one read or written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, NoReturn

from blklab.errors import BlklabError
from blklab.md.superblocks import SECTOR

HEADER: Final = "blklab-probe 1"

MOST_BYTES: Final = 64 << 20
"""Of a stream: a member takes a few KiB of it usually, and 1 MiB at most."""

MOST_READ: Final = 256 << 20
"""Bytes of disks, when lines that were left out are there again."""

LONGEST_PIECE: Final = 256 << 10
"""Bytes of a disk that are read in a piece, at most."""

MOST_PATHS: Final = 100_000
"""Files and directories, those above them included."""

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
class Disk:
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
class Stream:
    """All of it. Paths are absolute, of the other machine, and none leads through a link."""

    files: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    """Files that are there, and may not be read."""
    directories: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    """To directories."""
    disks: dict[str, Disk] = field(default_factory=dict)
    mdadm: str = ""
    """What `mdadm --version` said; empty if it is not installed."""


def parse(data: bytes) -> Stream:
    """Returns what a probe printed; lines before it (a shell's greeting) do not count.

    Raises BlklabError if there is none, if it is torn, or not what a probe prints.
    """
    if len(data) > MOST_BYTES:
        raise BlklabError(f"its output has more than {MOST_BYTES >> 20} MiB, which no probe prints")
    lines = data.decode(errors="surrogateescape").split("\n")
    # A terminal in between (Ansible's raw, script(1)) ends lines its own way.
    plain = [line.removesuffix("\r") for line in lines]
    if HEADER not in plain:
        other = next((line for line in plain if re.fullmatch(r"blklab-probe \d{1,9}", line)), None)
        if other:
            raise BlklabError(
                f"it is of `{other}`, expected `{HEADER}`: take the probe of this blklab"
            )
        raise BlklabError(f"no output of the probe: expected a line `{HEADER}`")
    begin = plain.index(HEADER) + 1
    if "end" not in plain[begin:]:
        raise BlklabError("its output is torn: the line `end` is not there")
    found = Stream()
    read = 0
    for number, head, body in _records(plain[: plain.index("end", begin)], begin):
        read += _record(found, number, head, body)
        if read > MOST_READ:
            _malformed(number, f"more than {MOST_READ >> 20} MiB of disks")
    _sound(found)
    return found


def _records(lines: list[str], begin: int) -> Iterator[tuple[int, str, list[str]]]:
    """Yields records: the number of their first line, that line, and the lines below it."""
    number, head, body = 0, "", list[str]()
    for at, line in enumerate(lines[begin:], begin + 1):
        if line.startswith(" "):
            body.append(line[1:])
        elif line:
            if head:
                yield number, head, body
            number, head, body = at, line, []
    if head:
        yield number, head, body


def _record(found: Stream, number: int, head: str, body: list[str]) -> int:
    """Adds a record, and returns how many bytes of a disk it holds."""
    kind, _, path = head.partition(" ")
    if head == "mdadm":
        found.mdadm = "\n".join(body)
        return 0
    if kind not in ROOMS:
        _malformed(number, f"a record `{kind[:40]}`")
    _check(path, ROOMS[kind], number)
    if kind == "file":
        found.files[path] = "\n".join(body)
    elif kind == "unread":
        found.unread.add(path)
    elif kind == "directory":
        found.directories.add(path)
    elif kind == "link":
        if len(body) != 1:
            _malformed(number, f"{len(body)} targets of a link")
        _check(body[0], ROOMS[kind], number)
        found.links[path] = body[0]
    else:
        found.disks[path] = disk = _disk(body, number)
        return disk.bytes
    return 0


def _check(path: str, rooms: tuple[str, ...], number: int) -> None:
    root, *parts = path.split("/")
    bad = any(part in {"", ".", ".."} or len(part.encode(errors="replace")) > 255 for part in parts)
    if root or len(parts) < 2 or parts[0] not in rooms or bad or "\0" in path or len(path) > 2048:
        _malformed(number, f"the path {path[:80]!r}")


def _disk(body: list[str], number: int) -> Disk:
    """Reads what `dd | od -A d -t x1` printed: `*` stands for lines like the one before."""
    disk = Disk()
    piece: bytearray | None = None
    again = False
    for line in body:
        word, _, rest = line.partition(" ")
        if word in {"sectors", "at"} and (
            not re.fullmatch(r"\d{1,19}", rest, re.A) or int(rest) > LARGEST // SECTOR
        ):
            _malformed(number, f"the number {rest[:40]!r}")
        if word == "sectors":
            disk.size = int(rest) * SECTOR
        elif word == "refused":
            disk.refused = rest
        elif word == "at":
            piece, again = bytearray(), False
            disk.pieces.append((int(rest), piece))
            if len(disk.pieces) > 2:
                _malformed(number, "a third piece of a disk")
        elif line == "*":
            again = True
        elif piece is not None and re.fullmatch(r"\d{1,8}", word, re.A):
            at = int(word)
            if again and piece and at <= LONGEST_PIECE:
                piece += piece[-16:] * ((at - len(piece)) // 16)
            if at != len(piece):
                _malformed(number, f"offset {at} where {len(piece)} was expected")
            again = False
            try:
                piece += bytes.fromhex(rest)
            except ValueError:
                _malformed(number, f"bytes {rest[:60]!r}")
        else:
            _malformed(number, f"a disk's line {line[:60]!r}")
    return disk


def _sound(found: Stream) -> None:
    """Sees to it that what is to be made of it can be, and only where it is to be."""
    kinds = [set(found.files), found.unread, found.directories, set(found.links), set(found.disks)]
    named = set[str]().union(*kinds)
    if sum(map(len, kinds)) != len(named):
        raise BlklabError("its output names something twice, as things of different kinds")
    targets = set(found.links.values())
    inner = {str(above) for path in named | targets for above in PurePosixPath(path).parents}
    # A path through a link, or a link to a link, might lead anywhere, or around in circles.
    ends = named - found.directories
    if through := ends & (inner | targets):
        raise BlklabError(f"its output has {min(through)!r} above something else, or linked to")
    if len(named | inner | targets) > MOST_PATHS:
        raise BlklabError(f"its output names more than {MOST_PATHS:,} files")


def _malformed(number: int, what: str) -> NoReturn:
    raise BlklabError(f"line {number} of its output: {what}, which no probe prints")
