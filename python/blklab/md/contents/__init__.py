"""Finds the files on bad blocks of arrays, which takes long on filesystems with many files."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md.contents import unmounted
from blklab.md.contents.dm_volumes import VolumeSpans, follow_spans
from blklab.md.model import Array, BlockContent, Inventory, merge_ranges
from blklab.md.probing import Probe
from blklab.md.sector_mapping import array_ranges
from blklab.md.superblocks import SECTOR
from blklab.system import file_search
from blklab.system.file_search import FilesFound
from blklab.system.identity import device_number, of_node
from blklab.system.mounts import everywhere, find_whole_mount
from blklab.system.roots import Roots, text
from blklab.system.spans import Span, spans_within


def add_contents(
    inventory: Inventory, roots: Roots, reader: Probe | None = None, advance: Callable[[int], None] = lambda _: None
) -> Inventory:
    """Returns the inventory with the content of bad blocks; `unseen` lists what is unknown.

    `advance` gets the number of files examined. Runs `dmsetup table` and `debugfs`.
    """
    probe = reader or Probe()
    arrays = tuple(_add_contents(array, roots, probe, advance) for array in inventory.arrays)
    return replace(inventory, arrays=arrays)


def _add_contents(array: Array, roots: Roots, reader: Probe, advance: Callable[[int], None]) -> Array:
    ranges, unseen = [], []
    for member in array.members:
        mapped = [array_ranges(array, member, bad_range) for bad_range in member.ranges]
        ranges += [piece for pieces in mapped for piece in pieces or ()]
        if None in mapped:
            unseen.append(f"{array.name}: not seen: files on bad blocks of {member.name}")
    spans = [
        Span(merged.sector * SECTOR, merged.end * SECTOR, merged.sector * SECTOR)
        for merged in merge_ranges(tuple(ranges))
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
        contents += [content for file in located_files for content in _content(file, place, path)]
    return replace(array, contents=tuple(sorted(contents)), unseen=(*array.unseen, *dict.fromkeys(unseen)))


def _content(content: FilesFound, place: VolumeSpans, path: str) -> Iterator[BlockContent]:
    for piece in spans_within(place.spans, content.begin, content.end):
        offset = None if content.offset is None else content.offset + piece.begin - content.begin
        size = piece.end - piece.begin
        yield BlockContent(piece.array, size, path, content.path, -1 if offset is None else offset, content.what)


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
    number = text(place.node / "dev") or ""
    whole_mount = find_whole_mount(number, roots)
    if whole_mount is None:
        if any(mount.number == number for mount in everywhere(roots)):
            raise BlklabError(
                "its mount cannot be read: it is in a container, hidden by another mount, or of a subdirectory only"
            )
        geometry, failure = reader.read_geometry(Path(path))
        if geometry is None or geometry.kind != "ext4":
            reason = "mount it (`-o ro` is enough)" if geometry else "it has no ext4 or XFS"
            raise BlklabError(failure or f"not mounted: {reason}")
        yield from unmounted.find_files(path, geometry.block, place.spans)
        return
    if whole_mount.kind not in file_search.KINDS:
        raise BlklabError(f"it has {whole_mount.kind}, expected ext4 or XFS")
    files, failures = file_search.find_files(whole_mount.point, device_number(number), place.spans, advance)
    yield from files
    unseen.extend(
        f"{whole_mount.point}: not seen: {count:,} files or directories: {reason}" for reason, count in failures.items()
    )
