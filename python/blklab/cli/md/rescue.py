"""`blklab md rescue`: what to do with an array that does not start."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab.cli.common import emit, first, json_option, notes, repeatable
from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots
from blklab.text.printing import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blklab.md.model import Inventory
    from blklab.md.rescue.diagnosis import ArrayRescue
    from blklab.md.rescue.lost_members import ArrayNote


@click.command()
@click.argument("what", nargs=-1, metavar="[ARRAY | DEVICE | IMAGE]...")
@repeatable("--probed", metavar="FILE", help="Output of the script of `blklab md probe` on a host, - for stdin.")
@click.option(
    "--save-metadata",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy the superblocks, bitmaps and lists of the members to a new directory on another disk.",
)
@click.option(
    "--try-orders",
    "try_orders",
    is_flag=True,
    help="Search for the geometry that an array had before a wrong --create; `missing` is a lost member.",
)
@click.option(
    "--level",
    "levels",
    type=click.Choice(["0", "1", "4", "5", "6", "10"]),
    multiple=True,
    help="With --try-orders: the array's RAID level, if it is known; repeatable.",
)
@click.option("--save", "sectors", metavar="BEGIN-END", help="Copy sectors of an array from a member to a new FILE.")
@click.option("--no-log", is_flag=True, help="Do not read the kernel's log of this host.")
@click.option("--from", "device", metavar="DEVICE", type=click.Path(path_type=Path), help="With --save: the member.")
@json_option
def rescue(
    *,
    what: tuple[str, ...],
    probed: tuple[str, ...],
    directory: Path | None,
    try_orders: bool,
    levels: tuple[str, ...],
    sectors: str | None,
    device: Path | None,
    no_log: bool,
    as_json: bool,
) -> None:
    """Say why an array does not start, whether its data are still there, and what to do.

    It only reads, and nothing is assembled. It compares the superblocks of all members: their events, when they were
    written, and which members each of them saw last. The first line says whether the array itself is sound; a table
    of the members follows, then what to do, and what not to type.

    Without an argument, it looks at all disks of this host, and at the kernel's log. Name an array that is assembled
    (/dev/md0), a UUID, devices and images of members, or files with pasted output of `mdadm --examine`, and of dmesg.
    Run it as root.

    With --try-orders, it reads the content of 2 to 8 devices or images, in any order, and searches for the level,
    layout, chunk, order and data offsets with which a filesystem fits. It takes minutes.

    --save copies what a member that is out holds of sectors which no other member has: `array 2048-2055` of `blklab md
    audit`, first and last sector of 512 bytes. Of RAID-4, 5 and 6 this is data, not parity.

    \b
    Examples:
      blklab md rescue
      blklab md rescue /dev/md0
      blklab md rescue /dev/sd[b-e]1
      blklab md rescue sda1.img sdb1.img
      blklab md rescue --probed server.probe
      blklab md rescue mail.txt
      blklab md rescue --save-metadata /mnt/usb/md-metadata
      blklab md rescue --try-orders /dev/sd[b-d]1 missing
      blklab md rescue --save 2048-2055 --from /dev/sdc1 /mnt/usb/sectors

    \b
    Exit status: 0 every array runs or is sound; 1 at least one does not; 3 nothing could be read.
    With --try-orders: 0 exactly one geometry fits; 1 otherwise.
    With --save: 0 all that the member holds was saved; 1 a part could not be.
    """
    if sectors is not None or device is not None:
        _save_sectors(what, sectors, device, is_only_action=not probed and directory is None, as_json=as_json)
        return
    if try_orders:
        if probed or directory is not None:
            raise UsageError("--try-orders: expected devices or images, and no --probed or --save-metadata")
        _try_orders(what, levels, as_json)
        return
    if levels:
        raise UsageError("--level: expected only with --try-orders")
    from blklab.md.pasted.files import is_text_file, read_text_files
    from blklab.md.rescue import report
    from blklab.md.rescue.array_content import read_contents
    from blklab.md.rescue.diagnosis import diagnose
    from blklab.md.rescue.written_since import find_written

    has_texts = any(is_text_file(name) for name in what)
    is_elsewhere = has_texts or bool(probed)
    if has_texts and (probed or directory is not None):
        raise UsageError(f"{what[0]}: pasted text: expected no --probed or --save-metadata with it")
    if no_log and (is_elsewhere or any(Path(name).is_file() for name in what)):
        raise UsageError("--no-log: works only on this host, not with files")
    inventory, names = (
        (read_text_files(what), None) if has_texts else _read_inventory(what, probed, with_log=not no_log)
    )
    contents = {} if is_elsewhere else read_contents([*inventory.arrays, *inventory.unassembled])
    # All arrays are compared, also to show one: the other half of a mirror may be in another array.
    rescues = [rescue for rescue in diagnose(inventory, contents) if names is None or rescue.array.name in names]
    lost = [] if is_elsewhere else _find_lost_members(inventory, rescues)
    written = [] if is_elsewhere else find_written(rescues)
    if not rescues and not lost:
        unread = first(inventory.unread or inventory.unseen or ("no disk has an md superblock",))
        raise EnvironmentLacks(
            f"no array found: {unread}", "connect its disks, run blklab as root, or name its devices"
        )
    log_notes = [note for note in report.describe_log(inventory) if names is None or note.array_name in names]
    rescues, other_notes = report.add_notes(rescues, [*written, *lost, *log_notes])
    emit(
        report.as_dict(inventory, rescues, other_notes),
        as_json,
        lambda console: report.show(console, inventory, rescues, other_notes),
    )
    if directory is not None:
        from blklab.md.rescue.saved_metadata import save

        stopped_arrays = [rescue.array for rescue in rescues if rescue.condition != "running"]
        for line in save(stopped_arrays, directory, Roots()):
            notes().print(printable(line))
    if not rescues or any(rescue.condition not in {"running", "sound", "degraded"} for rescue in rescues):
        raise Exit(1)


def _find_lost_members(inventory: "Inventory", rescues: "Sequence[ArrayRescue]") -> "list[ArrayNote]":
    """Returns what is left of members on other disks; nothing if all arrays run."""
    from blklab.md.rescue.lost_members import find_lost_members, list_unknown_disks, list_unknown_images

    if rescues and all(rescue.condition == "running" for rescue in rescues):
        return []
    if inventory.software is None:  # Images
        return find_lost_members(inventory, list_unknown_images(inventory))
    return find_lost_members(inventory, list_unknown_disks(inventory, Roots()))


def _try_orders(targets: tuple[str, ...], levels: tuple[str, ...], as_json: bool) -> None:
    """Prints which geometry the content of devices has; exits with 1 unless it is unique."""
    from blklab.md.rescue import report
    from blklab.md.rescue.geometry_search import LEVELS, GeometryHints, find_geometries

    devices = [Path(name) for name in targets if name != "missing"]
    for device in devices:
        if not device.is_file() and not device.is_block_device():
            raise UsageError(f"{device}: expected a block device or an image of one")
    level_numbers = tuple(int(level) for level in levels) or LEVELS
    search = find_geometries(devices, GeometryHints(levels=level_numbers, missing=targets.count("missing")))
    emit(report.search_as_dict(search), as_json, lambda console: report.show_search(console, search))
    if search.verdict != "unique":
        raise Exit(1)


def _save_sectors(
    files: tuple[str, ...], sectors: str | None, device: Path | None, *, is_only_action: bool, as_json: bool
) -> None:
    """Copies sectors of an array from a member. Raises UsageError for what is missing, Exit if a part is."""
    from blklab.md.rescue import report
    from blklab.md.rescue.saved_sectors import parse_sectors, save_sectors

    if sectors is None or device is None or len(files) != 1 or not is_only_action:
        raise UsageError("--save: expected --save BEGIN-END --from DEVICE FILE, and nothing else")
    copy = save_sectors(parse_sectors(sectors), device, Path(files[0]), Roots())
    emit(report.sectors_as_dict(copy), as_json, lambda console: report.show_sectors(console, copy, files[0]))
    for line in copy.warnings:
        notes().print(printable(line))
    if not copy.is_complete:
        raise Exit(1)


def _read_inventory(
    targets: tuple[str, ...], probe_files: tuple[str, ...], *, with_log: bool
) -> "tuple[Inventory, set[str] | None]":
    """Returns an inventory, and the names of the arrays that the user asked for; None for all of them.

    Raises UsageError for what is nothing of it.
    """
    from blklab.md.images import read_images
    from blklab.md.inventory import read_inventory
    from blklab.md.kernel_log import add_log
    from blklab.md.probing import Probe
    from blklab.md.remote import read_probe_file
    from blklab.md.rescue.choice import find_arrays

    if probe_files:
        if targets or len(probe_files) > 1:
            raise UsageError("--probed: expected one file, and no other argument")
        host = read_probe_file(probe_files[0])
        if host.inventory is None:
            raise EnvironmentLacks(f"{probe_files[0]}: {host.failure}", "run the script that `blklab md probe` prints")
        return host.inventory, None
    images = [name for name in targets if Path(name).is_file()]
    if images:
        if len(images) < len(targets):
            other = next(name for name in targets if name not in images)
            raise UsageError(f"{other}: expected only images of members, as {images[0]} is one")
        return read_images([Path(name) for name in images]), None
    inventory = read_inventory(Roots())
    if with_log:
        inventory = add_log(inventory, Roots(), Probe().read_kernel_log_with_moments)
    if not targets:
        return inventory, None
    names = set()
    for name in targets:
        names |= find_arrays(name, inventory)
    return inventory, names
