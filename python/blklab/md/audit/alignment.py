"""Whether blocks lie on blocks: of disks, chunks, stripes and filesystems."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import AuditedHost, command, say
from blklab.md.model import PARITIES, Array, ArrayPart, Geometry
from blklab.md.superblocks import SECTOR
from blklab.units import format_size

PAGE = 4096
"""Bytes that filesystems write at least."""

STRIPED = {"raid0", "raid10", *PARITIES}


def data(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Data that begin within a physical block of a disk."""
    for member in array.members:
        if member.data_offset is None or (member.start is None and array.live):
            continue
        begin = (member.start or 0) + member.data_offset * SECTOR
        block = max(member.physical_block or 0, PAGE)
        if begin % block:
            part = f"partition at byte {member.start:,} + " if member.start else ""
            # A disk of 512-byte blocks takes a page as it comes; flash does not tell its own.
            harmless = member.rotational is True and member.physical_block == SECTOR
            yield say(
                array,
                "note" if harmless else "warning",
                "alignment",
                f"data begin at byte {begin:,} of the disk ({part}{member.data_offset:,} sectors),"
                f" no multiple of {format_size(block)}: every write of a page takes two blocks of"
                " the disk; only a new partition and a new array mend it",
                member=member.name,
            )


def partitions(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Partitions of the array that begin within a chunk or a stripe."""
    width = array.chunk * array.data_disks
    for part in array.parts:
        if not part.start or array.level not in STRIPED or width <= 0:
            continue
        if part.start % width:
            within = "a chunk" if part.start % array.chunk else "a stripe"
            yield say(
                array,
                "warning" if array.level in PARITIES or part.start % array.chunk else "note",
                "partition-alignment",
                f"partition {part.name} begins within {within}, at byte {part.start:,}: a full"
                f" stripe has {format_size(width)}, a chunk {format_size(array.chunk)}"
                + (
                    ", and writes of whole stripes become reads and writes of two"
                    if array.level in PARITIES
                    else ""
                ),
            )


def filesystems(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Filesystems that do not know the stripes that they are on, or believe in others."""
    if array.level not in STRIPED or array.chunk <= 0 or array.data_disks < 1:
        return
    for part in array.parts:
        geometry = part.geometry
        width = array.chunk * array.data_disks
        if (
            geometry is None
            or geometry.block <= 0
            or (geometry.unit, geometry.width) == (array.chunk, width)
        ):
            continue
        if array.chunk % geometry.block:
            continue
        yield _unlike(array, part, geometry, width)


def _unlike(array: Array, part: ArrayPart, geometry: Geometry, width: int) -> Diagnostic:
    message = (
        f"believes in {format_size(geometry.unit)} × {format_size(geometry.width)}"
        if geometry.unit or geometry.width
        else "was told nothing"
    )
    right = options(geometry, array.chunk, array.data_disks)
    blocks = array.chunk // geometry.block
    if geometry.kind == "ext4":
        mend = [
            command(
                "tune2fs",
                "-E",
                f"stride={blocks},stripe_width={blocks * array.data_disks}",
                part.path,
            )
        ]
        how = ""
    else:
        mend = []
        how = (
            f"; when it is next mounted, -o sunit={array.chunk // SECTOR},swidth={width // SECTOR}"
            " tells it for good"
        )
    where = f" on {part.mounts[0]}" if part.mounts else ""
    return say(
        array,
        "warning" if array.level in PARITIES else "note",
        "filesystem-stripe",
        f"{geometry.kind} of {part.path}{where} {message} of chunk and stripe; they are"
        f" {format_size(array.chunk)} and {format_size(width)}: `{right}` would have been"
        f" right{how}",
        *mend,
    )


def options(geometry: Geometry, chunk: int, disks: int) -> str:
    """Returns how the filesystem should have been made (mke2fs(8), mkfs.xfs(8))."""
    if geometry.kind == "ext4":
        blocks = chunk // geometry.block
        return f"mkfs.ext4 -b {geometry.block} -E stride={blocks},stripe-width={blocks * disks}"
    return f"mkfs.xfs -d su={chunk >> 10}k,sw={disks}"
