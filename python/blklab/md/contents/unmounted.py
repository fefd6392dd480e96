"""Finds the files in some bytes of an ext4 that is not mounted, with debugfs(8).

debugfs opens it read-only without `-w`. It is not used for mounted filesystems, whose disks lag
behind the kernel. XFS has no such program: xfs_db reports no names and reads the whole filesystem.
"""

import re
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from blklab.dmsetup import PATH
from blklab.errors import BlklabError
from blklab.system.file_search import UNREACHED, FilesFound
from blklab.system.spans import Span

MAX_BLOCKS: Final = 4096  # debugfs compares each of these blocks with every block of every file
RESERVED: Final = {7: "reserved for group descriptors", 8: "journal"}  # Inodes that are not files (fs/ext4/ext4.h)


def find_files(path: str, block: int, spans: Sequence[Span]) -> list[FilesFound]:
    """Returns the content of spans of a device; the filesystem has blocks of `block` bytes.

    Raises BlklabError if debugfs is missing or fails.
    """
    program = shutil.which("debugfs", path=PATH)
    if program is None:
        raise BlklabError("not mounted, and debugfs is not installed: apt-get install e2fsprogs")
    blocks = sorted({at for span in spans for at in range(span.begin // block, -(-span.end // block))})
    if len(blocks) > MAX_BLOCKS:
        raise BlklabError(
            f"not mounted, and debugfs can find only {MAX_BLOCKS:,} of {len(blocks):,} blocks:"
            " mount it (`-o ro` is enough)"
        )
    debugfs = _Debugfs(program, path)
    unused = debugfs.unused(blocks)
    owners = debugfs.owners([number for number in blocks if number not in unused])
    inodes = sorted(set(owners.values()) - set(RESERVED))
    names = debugfs.names(inodes)
    logical_blocks = {inode: debugfs.logical_blocks(inode, blocks) for inode in inodes}
    located = []
    for number in blocks:
        inode = owners.get(number)
        name, offset, what = "", None, ""
        if number in unused:
            what = "free space"
        elif inode is None:
            what = "the filesystem's own metadata"
        elif inode in RESERVED:
            what = RESERVED[inode]
        else:
            name = names.get(inode, "")
            logical = logical_blocks[inode].get(number)
            offset = None if logical is None else logical * block
            what = "" if name else UNREACHED
        located.append(FilesFound(number * block, (number + 1) * block, name, offset, what))
    return located


class _Debugfs:
    """Runs debugfs, one process per request, so that file names are never taken for requests."""

    def __init__(self, program: str, path: str) -> None:
        self._program = program
        self._path = path

    def _run(self, request: str) -> str:
        try:
            completed = subprocess.run(
                [self._program, "-R", request, "--", self._path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                env={"LC_ALL": "C", "PATH": PATH, "DEBUGFS_PAGER": "cat", "PAGER": "cat"},
            )
        except OSError as error:
            raise BlklabError(f"debugfs: {error.strerror}") from None
        output = completed.stdout
        if b": Filesystem not open" in output + completed.stderr or completed.returncode:
            lines = completed.stderr.decode(errors="replace").splitlines()[1:]
            raise BlklabError(f"debugfs: {lines[0] if lines else 'cannot open the filesystem'}")
        return output.decode(errors="surrogateescape")

    def unused(self, blocks: Sequence[int]) -> set[int]:
        outputs = [self._run(f"testb {first} {count}") for first, count in _runs(blocks)]
        return {int(number) for output in outputs for number in re.findall(r"^Block (\d+) not in use$", output, re.M)}

    def owners(self, blocks: Sequence[int]) -> dict[int, int]:
        output = self._run(f"icheck {' '.join(map(str, blocks))}") if blocks else ""
        pairs = re.findall(r"^(\d+)\t(\d+)$", output, re.M)
        return {int(number): int(inode) for number, inode in pairs}

    def names(self, inodes: Sequence[int]) -> dict[int, str]:
        """Returns names of files, up to the first line break in them."""
        output = self._run(f"ncheck {' '.join(map(str, inodes))}") if inodes else ""
        paths: dict[int, str] = {}
        for inode, name in re.findall(r"^(\d+)\t(/.*)$", output, re.M):
            if int(inode) in inodes:
                paths.setdefault(int(inode), re.sub("^/+", "/", name))
        return paths

    def logical_blocks(self, inode: int, blocks: Sequence[int]) -> dict[int, int]:
        """Returns the positions of blocks in a file; empty if it has no extents (ext3)."""
        output = self._run(f"dump_extents -l <{inode}>")
        pattern = r"^\s*\d+/\s*\d+\s+\d+/\s*\d+\s+(\d+)\s*-\s*\d+\s+(\d+)\s*-\s*\d+\s+(\d+)"
        extents = {}
        for numbers in re.findall(pattern, output, re.M):
            logical, physical, count = map(int, numbers)
            first, last = bisect_left(blocks, physical), bisect_left(blocks, physical + count)
            for number in blocks[first:last]:
                extents[number] = logical + number - physical
        return extents


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Returns runs of consecutive blocks, as the first block and the number of blocks."""
    runs: list[tuple[int, int]] = []
    for number in blocks:
        if runs and number == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs
