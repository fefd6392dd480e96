"""Finds the files on bad blocks, mismatches and logged errors of arrays, which takes long with many files."""

import re
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.md.audit.log_timeline import find_log_ranges
from blklab.md.inventory import parse_number
from blklab.md.mismatched_sectors import find_mismatched_sectors
from blklab.md.model import Array, BlockContent, Inventory, merge_ranges
from blklab.md.probing import Probe
from blklab.md.superblocks import SectorRange
from blklab.system import file_search
from blklab.system.dmsetup import PATH
from blklab.system.file_search import UNREACHED, FilesFound
from blklab.system.identity import device_number, of_node
from blklab.system.layers import partitions
from blklab.system.mounts import find_whole_mount, list_all_mounts
from blklab.system.roots import Roots, entries, read_text
from blklab.system.spans import Span, spans_within, spans_without
from blklab.units import SECTOR

MAX_BLOCKS = 4096  # debugfs compares each of these blocks with every block of every file
RESERVED = {7: "reserved for group descriptors", 8: "journal"}  # Inodes that are not files (fs/ext4/ext4.h)


def find_unmounted_files(path: str, block: int, spans: Sequence[Span]) -> list[FilesFound]:
    """Returns the content of spans of a device; the filesystem has blocks of `block` bytes.

    Raises BlklabError if debugfs is missing or fails.
    """
    program = shutil.which("debugfs", path=PATH)
    if program is None:
        raise BlklabError("not mounted, and debugfs is not installed: apt-get install e2fsprogs")
    numbers: set[int] = set()
    for span in spans:
        numbers.update(range(span.begin // block, -(-span.end // block)))
    blocks = sorted(numbers)
    if len(blocks) > MAX_BLOCKS:
        raise BlklabError(
            f"not mounted, and debugfs can find only {MAX_BLOCKS:,} of {len(blocks):,} blocks: "
            "mount it (`-o ro` is enough)"
        )
    debugfs = _Debugfs(program, path)
    free_blocks = debugfs.find_free_blocks(blocks)
    owners = debugfs.owners([number for number in blocks if number not in free_blocks])
    inodes = sorted(set(owners.values()) - set(RESERVED))
    names = debugfs.names(inodes)
    logical_blocks = {inode: debugfs.logical_blocks(inode, blocks) for inode in inodes}
    files = []
    for number in blocks:
        inode = owners.get(number)
        name = ""
        offset = None
        usage = ""
        if number in free_blocks:
            usage = "free space"
        elif inode is None:
            usage = "the filesystem's own metadata"
        elif inode in RESERVED:
            usage = RESERVED[inode]
        else:
            name = names.get(inode, "")
            logical = logical_blocks[inode].get(number)
            offset = None if logical is None else logical * block
            usage = "" if name else UNREACHED
        files.append(FilesFound(number * block, (number + 1) * block, name, offset, usage))
    return files


class _Debugfs:
    """Runs debugfs, one process per request, so that file names are never taken for requests."""

    def __init__(self, program: str, path: str) -> None:
        self._program = program
        self._path = path

    def _run(self, request: str) -> str:
        with SystemErrors(BlklabError, "debugfs"):
            process = subprocess.run(
                [self._program, "-R", request, "--", self._path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                env={"LC_ALL": "C", "PATH": PATH, "DEBUGFS_PAGER": "cat", "PAGER": "cat"},
            )
        output = process.stdout
        if b": Filesystem not open" in output + process.stderr or process.returncode:
            lines = process.stderr.decode(errors="replace").splitlines()[1:]
            reason = lines[0] if lines else "cannot open the filesystem"
            raise BlklabError(f"debugfs: {reason}")
        return output.decode(errors="surrogateescape")

    def find_free_blocks(self, blocks: Sequence[int]) -> set[int]:
        free_blocks: set[int] = set()
        for first, count in _runs(blocks):
            output = self._run(f"testb {first} {count}")
            free_blocks.update(map(int, re.findall(r"^Block (\d+) not in use$", output, re.M)))
        return free_blocks

    def owners(self, blocks: Sequence[int]) -> dict[int, int]:
        output = self._run(f"icheck {' '.join(map(str, blocks))}") if blocks else ""
        return {int(number): int(inode) for number, inode in re.findall(r"^(\d+)\t(\d+)$", output, re.M)}

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
            first = bisect_left(blocks, physical)
            last = bisect_left(blocks, physical + count)
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


@dataclass(frozen=True)
class VolumeSpans:
    """Spans on the uppermost device to which blklab can follow them."""

    node: Path
    spans: tuple[Span, ...]
    divided: bool = False  # The device has partitions or volumes, and these spans are between them
    failure: str = ""  # Why the content is unknown; empty if it is known


def follow_spans(node: Path, spans: Sequence[Span], roots: Roots, reader: Probe) -> Iterator[VolumeSpans]:
    """Yields the positions of a device's spans, on it or on its partitions and volumes."""
    if not spans:
        return
    covered_ranges: list[tuple[int, int]] = []
    is_divided = False
    for part in partitions(node):
        start = (parse_number(read_text(part / "start")) or 0) * SECTOR
        end = start + (parse_number(read_text(part / "size")) or 0) * SECTOR
        is_divided = True
        covered_ranges.append((start, end))
        upper_spans = [_shift_span(span, -start) for span in spans_within(spans, start, end)]
        yield from follow_spans(part, upper_spans, roots, reader)
    for holder in entries(node / "holders"):
        upper = holder.resolve()
        if not (upper / "dm").is_dir():
            yield VolumeSpans(upper, tuple(spans), failure="it is not a dm device, so blklab cannot follow it")
            return
        mapping, failure = reader.read_mapping(read_text(upper / "dev") or "")
        if failure:
            yield VolumeSpans(upper, tuple(spans), failure=failure)
            return
        is_divided = True
        for begin, length, kind, lower in parse_table(mapping, read_text(node / "dev") or ""):
            pieces = spans_within(spans, lower, lower + length)
            covered_ranges.append((lower, lower + length))
            upper_spans = [_shift_span(piece, begin - lower) for piece in pieces]
            if kind in {"linear", "crypt"}:
                yield from follow_spans(upper, upper_spans, roots, reader)
            elif upper_spans:
                yield VolumeSpans(upper, tuple(pieces), failure=f"it is dm-{kind}, expected linear or crypt")
    remaining_spans = spans_without(spans, covered_ranges)
    if remaining_spans:
        yield VolumeSpans(node, tuple(remaining_spans), is_divided)


def parse_table(mapping: str, number: str) -> Iterator[tuple[int, int, str, int]]:
    """Yields the lines of a dm table that use a device: begin, length, kind, begin on that device.

    In bytes. For other kinds than linear and crypt, whose offsets are known, it assumes all of the lower device.
    """
    for line in mapping.splitlines():
        fields = line.split()
        if len(fields) < 4 or not (fields[0].isdecimal() and fields[1].isdecimal()):
            continue
        begin = int(fields[0]) * SECTOR
        length = int(fields[1]) * SECTOR
        kind = fields[2]
        # linear DEVICE OFFSET; crypt CIPHER KEY IV_OFFSET DEVICE OFFSET …
        index = {"linear": 3, "crypt": 6}.get(kind)
        if index is not None and len(fields) > index + 1 and re.fullmatch(r"\d{1,18}", fields[index + 1]):
            if fields[index] == number:
                yield begin, length, kind, int(fields[index + 1]) * SECTOR
        elif number in fields[3:]:
            yield begin, 1 << 63, kind, 0


def _shift_span(span: Span, distance: int) -> Span:
    return Span(span.begin + distance, span.end + distance, span.array)


def add_contents(inventory: Inventory, roots: Roots, advance: Callable[[int], None] = lambda _: None) -> Inventory:
    """Returns the inventory with the content of bad blocks and of logged errors; `unseen` lists what is unknown.

    `advance` gets the number of files examined. Runs `dmsetup table` and `debugfs`.
    """
    log_ranges = find_log_ranges(inventory)
    arrays = tuple(
        _add_contents(array, log_ranges.get(array.name, ()), roots, Probe(), advance) for array in inventory.arrays
    )
    return replace(inventory, arrays=arrays)


def _add_contents(
    array: Array, log_ranges: Sequence[SectorRange], roots: Roots, reader: Probe, advance: Callable[[int], None]
) -> Array:
    ranges: list[SectorRange] = list(log_ranges)
    unseen = []
    for member in array.members:
        array_ranges = [array.array_ranges(member, bad_range) for bad_range in member.ranges]
        for pieces in array_ranges:
            ranges += pieces or ()
        if None in array_ranges:
            unseen.append(f"{array.name}: not seen: files on bad blocks of {member.name}")
    ranges += find_mismatched_sectors(array)
    spans = [
        Span(sector_range.sector * SECTOR, sector_range.end * SECTOR, sector_range.sector * SECTOR)
        for sector_range in merge_ranges(tuple(ranges))
    ]
    node = (roots.sys / "block" / array.name).resolve()
    contents: list[BlockContent] = []
    for place in follow_spans(node, spans, roots, reader):
        path = of_node(place.node, roots).path
        located_files: list[FilesFound] = []
        try:
            located_files = list(_locate_files(place, path, roots, reader, advance, unseen))
        except (OSError, BlklabError) as error:
            reason = file_search.error_reason(error) if isinstance(error, OSError) else str(error)
            unseen.append(f"{path}: not seen: files on bad blocks: {reason}")
        for file in located_files:
            contents += _content(file, place, path)
    return replace(array, contents=tuple(sorted(contents)), unseen=(*array.unseen, *dict.fromkeys(unseen)))


def _content(content: FilesFound, place: VolumeSpans, path: str) -> Iterator[BlockContent]:
    for piece in spans_within(place.spans, content.begin, content.end):
        offset = None if content.offset is None else content.offset + piece.begin - content.begin
        size = piece.end - piece.begin
        yield BlockContent(piece.array, size, path, content.path, -1 if offset is None else offset, content.purpose)


def _locate_files(
    place: VolumeSpans, path: str, roots: Roots, reader: Probe, advance: Callable[[int], None], unseen: list[str]
) -> Iterator[FilesFound]:
    if place.failure:
        raise BlklabError(place.failure)
    if place.divided:
        content = "between partitions or volumes, or in their tables"
        for span in place.spans:
            yield FilesFound(span.begin, span.end, "", None, content)
        return
    number = read_text(place.node / "dev") or ""
    whole_mount = find_whole_mount(number, roots)
    if whole_mount is None:
        if any(mount.number == number for mount in list_all_mounts(roots)):
            raise BlklabError(
                "its mount cannot be read: it is in a container, hidden by another mount, or of a subdirectory only"
            )
        geometry, failure = reader.read_geometry(Path(path))
        if geometry is None or geometry.kind != "ext4":
            reason = "mount it (`-o ro` is enough)" if geometry else "it has no ext4 or XFS"
            raise BlklabError(failure or f"not mounted: {reason}")
        yield from find_unmounted_files(path, geometry.block_bytes, place.spans)
        return
    if whole_mount.kind not in file_search.KINDS:
        raise BlklabError(f"it has {whole_mount.kind}, expected ext4 or XFS")
    files, failures = file_search.find_files(whole_mount.point, device_number(number), place.spans, advance)
    yield from files
    unseen.extend(
        f"{whole_mount.point}: not seen: {count:,} files or directories: {reason}" for reason, count in failures.items()
    )
