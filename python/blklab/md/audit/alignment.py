"""Rules about alignment: of data, partitions and filesystems to blocks, chunks and stripes."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import audit_message, told
from blklab.md.model import Array, ArrayPart, Geometry, Software
from blklab.md.recipes import command
from blklab.md_levels import PARITIES, STRIPED
from blklab.units import SECTOR, format_size

PAGE = 4096  # Bytes of the smallest write of a filesystem


def check_data_offset(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The array's data begin inside a physical block of the disk, not at its start."""
    for member in array.members:
        if member.data_offset is None or (member.start is None and array.live):
            continue
        begin = (member.start or 0) + member.data_offset * SECTOR
        block = max(member.physical_block or 0, PAGE)
        if begin % block:
            part = f"partition at byte {member.start:,} + " if member.start else ""
            # A rotating disk with 512-byte blocks loses nothing; flash hides its page size.
            harmless = member.rotational is True and member.physical_block == SECTOR
            words = {"begin": begin, "part": part, "offset": member.data_offset, "block": format_size(block)}
            yield told(array, "note" if harmless else "warning", "alignment", member=member.name, **words)


def check_partitions(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A partition of the array begins inside a chunk or a stripe, not at its start."""
    width = array.chunk * array.data_disks
    for part in array.parts:
        if not part.start or array.level not in STRIPED or width <= 0:
            continue
        if part.start % width:
            parity, within = array.level in PARITIES, "a chunk" if part.start % array.chunk else "a stripe"
            effect = audit_message("two-stripes") if parity else ""
            severe = parity or part.start % array.chunk
            sizes = {"width": format_size(width), "chunk": format_size(array.chunk)}
            words = {"part": part.name, "within": within, "begin": part.start, "effect": effect, **sizes}
            yield told(array, "warning" if severe else "note", "partition-alignment", member="", **words)


def check_filesystems(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports filesystems that do not know the array's stripes, or assume other ones."""
    if array.level not in STRIPED or array.chunk <= 0 or array.data_disks < 1:
        return
    width = array.chunk * array.data_disks
    for part in array.parts:
        geometry = part.geometry
        if geometry is None or geometry.block_bytes <= 0 or array.chunk % geometry.block_bytes:
            continue
        if (geometry.unit_bytes, geometry.width_bytes) != (array.chunk, width):
            yield _wrong_stripe(array, part, geometry, width)


def _wrong_stripe(array: Array, part: ArrayPart, geometry: Geometry, width: int) -> Diagnostic:
    """The filesystem does not know the chunk and stripe of the array, or assumes other sizes."""
    assumed = (
        f"assumes a chunk of {format_size(geometry.unit_bytes)} and a stripe of {format_size(geometry.width_bytes)}"
        if geometry.unit_bytes or geometry.width_bytes
        else "does not know the chunk and the stripe of the array"
    )
    commands, correction = [], ""
    if geometry.kind == "ext4":
        blocks = array.chunk // geometry.block_bytes
        commands = [command("set-stripe", stride=blocks, width=blocks * array.data_disks, disk=part.path)]
    else:
        correction = f"; to correct this, mount it once with -o sunit={array.chunk // SECTOR},swidth={width // SECTOR}"
    words = {
        "filesystem": f"{geometry.kind} of {part.path}{f' on {part.mounts[0]}' if part.mounts else ''} {assumed}",
        "chunk": format_size(array.chunk),
        "width": format_size(width),
        "mkfs": mkfs_command(geometry, array.chunk, array.data_disks),
        "correction": correction,
    }
    severe = array.level in PARITIES
    return told(array, "warning" if severe else "note", "filesystem-stripe", *commands, member="", **words)


def mkfs_command(geometry: Geometry, chunk: int, disks: int) -> str:
    """Returns the command that makes the filesystem for this array (mke2fs(8), mkfs.xfs(8))."""
    if geometry.kind == "ext4":
        blocks = chunk // geometry.block_bytes
        return f"mkfs.ext4 -b {geometry.block_bytes} -E stride={blocks},stripe-width={blocks * disks}"
    return f"mkfs.xfs -d su={chunk >> 10}k,sw={disks}"
