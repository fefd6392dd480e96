"""Rules about alignment: of data, partitions and filesystems to blocks, chunks and stripes."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import make_finding
from blklab.md.levels import PARITIES, STRIPED
from blklab.md.model import Array, ArrayPart, Geometry, Software
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
            message = (
                f"data begin at byte {begin:,} of the disk ({part}{member.data_offset:,} sectors), "
                f"which is not a multiple of {format_size(block)}: "
                "each write of a page touches two blocks of the disk; "
                "to correct this, make a new partition and a new array"
            )
            yield make_finding(array, "note" if harmless else "warning", "alignment", message, member=member.name)


def check_partitions(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A partition of the array begins inside a chunk or a stripe, not at its start."""
    width = array.chunk * array.data_disks
    for part in array.parts:
        if not part.start or array.level not in STRIPED or width <= 0:
            continue
        if part.start % width:
            parity = array.level in PARITIES
            within = "a chunk" if part.start % array.chunk else "a stripe"
            message = (
                f"partition {part.name} begins inside {within}, at byte {part.start:,}: "
                f"a full stripe has {format_size(width)}, a chunk {format_size(array.chunk)}"
            )
            if parity:
                message += "; a write of a full stripe becomes reads and writes of two stripes"
            severe = parity or part.start % array.chunk
            yield make_finding(array, "warning" if severe else "note", "partition-alignment", message)


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
    assumption = (
        f"assumes a chunk of {format_size(geometry.unit_bytes)} and a stripe of {format_size(geometry.width_bytes)}"
        if geometry.unit_bytes or geometry.width_bytes
        else "does not know the chunk and the stripe of the array"
    )
    commands = []
    correction = ""
    if geometry.kind == "ext4":
        blocks = array.chunk // geometry.block_bytes
        commands = [command_lines.set_stripe(part.path, blocks, blocks * array.data_disks)]
    else:
        correction = f"; to correct this, mount it once with -o sunit={array.chunk // SECTOR},swidth={width // SECTOR}"
    place = f" on {part.mounts[0]}" if part.mounts else ""
    mkfs = mkfs_command(geometry, array.chunk, array.data_disks)
    message = (
        f"{geometry.kind} of {part.path}{place} {assumption}; "
        f"expected {format_size(array.chunk)} and {format_size(width)}, as made by `{mkfs}`{correction}"
    )
    severe = array.level in PARITIES
    return make_finding(array, "warning" if severe else "note", "filesystem-stripe", message, *commands)


def mkfs_command(geometry: Geometry, chunk: int, disks: int) -> str:
    """Returns the command that makes the filesystem for this array (mke2fs(8), mkfs.xfs(8))."""
    if geometry.kind == "ext4":
        blocks = chunk // geometry.block_bytes
        return f"mkfs.ext4 -b {geometry.block_bytes} -E stride={blocks},stripe-width={blocks * disks}"
    return f"mkfs.xfs -d su={chunk >> 10}k,sw={disks}"
