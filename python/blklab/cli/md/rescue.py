"""`blklab md rescue`: what to do with an array that does not start."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab.cli.common import emit, first, json_option, notes, repeatable
from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots
from blklab.text import printable

if TYPE_CHECKING:
    from blklab.md.model import Inventory


@click.command()
@click.argument("what", nargs=-1, metavar="[UUID | /dev/mdX | DEVICES... | IMAGES...]")
@repeatable("--probed", metavar="FILE", help="Output of the script of `blklab md probe` on a host, - for stdin.")
@click.option(
    "--save-metadata",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy the superblocks, bitmaps and lists of the members to a new directory on another disk.",
)
@json_option
def rescue(*, what: tuple[str, ...], probed: tuple[str, ...], directory: Path | None, as_json: bool) -> None:
    """Say why an array does not start, whether its data are still there, and what to do.

    It only reads, and nothing is assembled. It compares the superblocks of all members: their events, when they were
    written, and which members each of them saw last. The first line says whether the array itself is sound; a table
    of the members follows, then what to do, and what not to type.

    Without an argument, it looks at all disks of this host. Name an array that is assembled (/dev/md0), a UUID, or
    devices and images of members. Run it as root.

    \b
    Examples:
      blklab md rescue
      blklab md rescue /dev/md0
      blklab md rescue /dev/sd[b-e]1
      blklab md rescue sda1.img sdb1.img
      blklab md rescue --probed server.probe
      blklab md rescue --save-metadata /mnt/usb/md-metadata

    \b
    Exit status: 0 every array runs or is sound, 1 at least one cannot start by itself, 3 nothing could be read.
    """
    from blklab.md.rescue.diagnosis import diagnose
    from blklab.report import rescue as report

    inventory = _read_inventory(what, probed)
    rescues = diagnose(inventory)
    if not rescues:
        unread = first(inventory.unread or inventory.unseen or ("no disk has an md superblock",))
        raise EnvironmentLacks(
            f"no array found: {unread}", "connect its disks, run blklab as root, or name its devices"
        )
    saved: list[str] = []
    if directory is not None:
        from blklab.md.rescue.saved_metadata import save

        saved = save([rescue.array for rescue in rescues if rescue.condition != "running"], directory, Roots())
    emit(report.as_dict(inventory, rescues, saved), as_json, lambda console: report.show(console, inventory, rescues))
    for line in saved:
        notes().print(printable(line))
    if any(rescue.condition not in {"running", "sound", "degraded"} for rescue in rescues):
        raise Exit(1)


def _read_inventory(what: tuple[str, ...], probed: tuple[str, ...]) -> "Inventory":
    """Returns the inventory of what the user named. Raises UsageError for what is nothing of it."""
    from blklab.md.images import read_images
    from blklab.md.inventory import read_inventory
    from blklab.md.remote import read_probe_file

    if probed:
        if what or len(probed) > 1:
            raise UsageError("--probed: expected one file, and no other argument")
        host = read_probe_file(probed[0])
        if host.inventory is None:
            raise EnvironmentLacks(f"{probed[0]}: {host.failure}", "run the script that `blklab md probe` prints")
        return host.inventory
    files = [name for name in what if Path(name).is_file() or (Path(name).is_block_device() and not _is_array(name))]
    if files:
        if len(files) < len(what):
            other = next(name for name in what if name not in files)
            raise UsageError(f"{other}: expected only devices and images of members, as {files[0]} is one")
        return read_images([Path(name) for name in files])
    inventory = read_inventory(Roots())
    if not what:
        return inventory
    names = {*what, *(str(Path(name).resolve()) for name in what if name.startswith("/"))}
    known = [*inventory.arrays, *inventory.unassembled]
    names |= {array.name for array in known if array.uuid in names}
    chosen = inventory.only(names)
    if not chosen.arrays and not chosen.unassembled:
        listed = ", ".join(f"{array.name} ({array.uuid})" for array in known) or "none"
        raise UsageError(f"{what[0]}: no array, device or image of this name; arrays that were found: {listed}")
    return chosen


def _is_array(name: str) -> bool:
    return (Path("/sys/class/block") / Path(name).resolve().name / "md").is_dir()
