"""Which files lie on an array's bad blocks: asked only if somebody wants to know, for it takes
long where a filesystem has many files.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md.contents import mounted, unmounted
from blklab.md.contents.dm_volumes import VolumeSpans, places
from blklab.md.contents.mounted import FilesFound
from blklab.md.contents.spans import Span, within
from blklab.md.model import Array, BlockContent, Inventory, merged
from blklab.md.probing import Probe
from blklab.md.sector_mapping import array_ranges
from blklab.md.superblocks import SECTOR
from blklab.system.identity import device_number, of_node
from blklab.system.mounts import Mount, everywhere, mounts
from blklab.system.roots import Roots, text

KINDS = {"ext2", "ext3", "ext4", "xfs"}
"""Filesystems whose files lie where the kernel says: btrfs, for one, counts otherwise."""


def located(
    inventory: Inventory,
    roots: Roots,
    reader: Probe | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Inventory:
    """Returns the inventory with what lies on bad blocks; what cannot be told is in `unseen`.

    `tell` takes how many files were looked at. Reads, and runs `dmsetup table` and `debugfs`.
    """
    asked = reader or Probe()
    return replace(
        inventory, arrays=tuple(_array(array, roots, asked, tell) for array in inventory.arrays)
    )


def _array(array: Array, roots: Roots, reader: Probe, tell: Callable[[int], None]) -> Array:
    ranges, unseen = [], []
    for member in array.members:
        mapped = [array_ranges(array, member, range_) for range_ in member.ranges]
        ranges += [piece for some in mapped for piece in some or ()]
        if None in mapped:
            unseen.append(f"{array.name}: not seen: which files lie on bad blocks of {member.name}")
    spans = [
        Span(one.sector * SECTOR, one.end * SECTOR, one.sector * SECTOR)
        for one in merged(tuple(ranges))
    ]
    node = (roots.sys / "block" / array.name).resolve()
    contents: list[BlockContent] = []
    for place in places(node, spans, roots, reader):
        path = of_node(place.node, roots).path
        located_files: list[FilesFound] = []
        try:
            located_files = list(_locate_files(place, path, roots, reader, tell, unseen))
        except (OSError, BlklabError) as error:
            reason = mounted.reason(error) if isinstance(error, OSError) else str(error)
            unseen.append(f"{path}: not seen: which files lie on bad blocks: {reason}")
        contents += [content for one in located_files for content in _content(one, place, path)]
    return replace(
        array, contents=tuple(sorted(contents)), unseen=(*array.unseen, *dict.fromkeys(unseen))
    )


def _content(content: FilesFound, place: VolumeSpans, path: str) -> Iterator[BlockContent]:
    for piece in within(place.spans, content.begin, content.end):
        offset = None if content.offset is None else content.offset + piece.begin - content.begin
        many = piece.end - piece.begin
        yield BlockContent(
            piece.array, many, path, content.path, -1 if offset is None else offset, content.what
        )


def _locate_files(
    place: VolumeSpans,
    path: str,
    roots: Roots,
    reader: Probe,
    tell: Callable[[int], None],
    unseen: list[str],
) -> Iterator[FilesFound]:
    if place.failure:
        raise BlklabError(place.failure)
    if place.divided:
        what = "between partitions or volumes, or what describes them"
        for span in place.spans:
            yield FilesFound(span.begin, span.end, "", None, what)
        return
    number = text(place.node / "dev") or ""
    where = _mount(number, roots)
    if where is None:
        if any(mount.number == number for mount in everywhere(roots)):
            raise BlklabError("mounted out of sight: in a container, beneath another, or in part")
        geometry, failure = reader.geometry(Path(path))
        if geometry is None or geometry.kind != "ext4":
            lacking = "mount it, `-o ro` will do" if geometry else "no ext4 or XFS is on it"
            raise BlklabError(failure or f"not mounted: {lacking}")
        yield from unmounted.find(path, geometry.block, place.spans)
        return
    if where.kind not in KINDS:
        raise BlklabError(f"{where.kind} is mounted there, not ext4 or XFS")
    files, failures = mounted.find(where.point, device_number(number), place.spans, tell)
    yield from files
    unseen.extend(
        f"{where.point}: not seen: {many:,} files or directories: {reason}"
        for reason, many in failures.items()
    )


def _mount(number: str, roots: Roots) -> Mount | None:
    """Returns where all of a filesystem can be reached."""
    for mount in mounts(roots):
        if mount.number == number and mount.root == "/":
            try:
                if os.stat(mount.point).st_dev == device_number(number):  # noqa: PTH116
                    return mount
            except OSError:
                continue
    return None
