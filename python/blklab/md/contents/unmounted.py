"""Which files of an ext4 that is not mounted lie in some bytes of it: debugfs(8) is asked.

It opens the filesystem for reading only unless told `-w`. Not for one that is mounted, whose disk
is behind what the kernel knows; there is nothing like it for XFS (xfs_db wants it unmounted, has
no names, and reads all of it).
"""

import re
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from blklab.errors import BlklabError
from blklab.md.contents.mounted import UNREACHED, FilesFound
from blklab.md.contents.spans import Span
from blklab.md.host_software import PATH

MOST_BLOCKS: Final = 4096
"""Blocks that are asked for: debugfs compares each with every block of every file."""

RESERVED: Final = {7: "room for group descriptors", 8: "journal"}
"""Inodes that are no files (fs/ext4/ext4.h)."""


def find(path: str, block: int, spans: Sequence[Span]) -> list[FilesFound]:
    """Returns what lies in spans of a device, whose filesystem has blocks of `block` bytes.

    Raises BlklabError if it cannot be told.
    """
    program = shutil.which("debugfs", path=PATH)
    if program is None:
        raise BlklabError("not mounted, and debugfs is not installed: apt-get install e2fsprogs")
    blocks = sorted(
        {at for span in spans for at in range(span.begin // block, -(-span.end // block))}
    )
    if len(blocks) > MOST_BLOCKS:
        raise BlklabError(f"not mounted, and {len(blocks):,} blocks are too many for debugfs")
    asked = _DebugfsAnswers(program, path)
    used = asked.used(blocks)
    owners = asked.owners([at for at in blocks if used.get(at, True)])
    inodes = sorted(set(owners.values()) - set(RESERVED))
    names = asked.names(inodes)
    places = {inode: asked.offsets(inode, blocks) for inode in inodes}
    located = []
    for at in blocks:
        inode = owners.get(at)
        name, offset, what = "", None, ""
        if not used.get(at, True):
            what = "free space"
        elif inode is None:
            what = "the filesystem's own metadata"
        elif inode in RESERVED:
            what = RESERVED[inode]
        else:
            name = names.get(inode, "")
            logical = places[inode].get(at)
            offset = None if logical is None else logical * block
            what = "" if name else UNREACHED
        located.append(FilesFound(at * block, (at + 1) * block, name, offset, what))
    return located


class _DebugfsAnswers:
    """What debugfs says, a question a process: names in its answers are never questions."""

    def __init__(self, program: str, path: str) -> None:
        self._program = program
        self._path = path

    def _answer(self, question: str) -> str:
        try:
            ran = subprocess.run(
                [self._program, "-R", question, "--", self._path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                env={"LC_ALL": "C", "PATH": PATH, "DEBUGFS_PAGER": "cat", "PAGER": "cat"},
            )
        except OSError as error:
            raise BlklabError(f"debugfs: {error.strerror}") from None
        if b": Filesystem not open" in ran.stdout + ran.stderr or ran.returncode:
            lines = ran.stderr.decode(errors="replace").splitlines()[1:]
            raise BlklabError(f"debugfs: {lines[0] if lines else 'it did not open it'}")
        return ran.stdout.decode(errors="surrogateescape")

    def used(self, blocks: Sequence[int]) -> dict[int, bool]:
        counts = {}
        for first, many in _runs(blocks):
            answer = self._answer(f"testb {first} {many}")
            for number, state in re.findall(
                r"^Block (\d+) (marked in use|not in use)$", answer, re.M
            ):
                counts[int(number)] = state == "marked in use"
        return counts

    def owners(self, blocks: Sequence[int]) -> dict[int, int]:
        answer = self._answer(f"icheck {' '.join(map(str, blocks))}") if blocks else ""
        return {int(at): int(inode) for at, inode in re.findall(r"^(\d+)\t(\d+)$", answer, re.M)}

    def names(self, inodes: Sequence[int]) -> dict[int, str]:
        """Names of files, which may hold ends of lines: then they are told up to there."""
        answer = self._answer(f"ncheck {' '.join(map(str, inodes))}") if inodes else ""
        paths: dict[int, str] = {}
        for inode, name in re.findall(r"^(\d+)\t(/.*)$", answer, re.M):
            if int(inode) in inodes:
                paths.setdefault(int(inode), re.sub("^/+", "/", name))
        return paths

    def offsets(self, inode: int, blocks: Sequence[int]) -> dict[int, int]:
        """Where in a file some of its blocks are; nothing if it has no extents (ext3)."""
        answer = self._answer(f"dump_extents -l <{inode}>")
        pattern = r"^\s*\d+/\s*\d+\s+\d+/\s*\d+\s+(\d+)\s*-\s*\d+\s+(\d+)\s*-\s*\d+\s+(\d+)"
        extents = {}
        for numbers in re.findall(pattern, answer, re.M):
            logical, physical, many = map(int, numbers)
            for at in blocks[bisect_left(blocks, physical) : bisect_left(blocks, physical + many)]:
                extents[at] = logical + at - physical
        return extents


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Blocks that follow one another, as the first and how many."""
    runs: list[tuple[int, int]] = []
    for at in blocks:
        if runs and at == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((at, 1))
    return runs
