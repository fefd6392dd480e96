"""`blklab md overlays`: try an array without writing to its disks."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option, notes, repeatable, results
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.errors import UsageError
from blklab.render.console import Console, style_text
from blklab.system.roots import Roots
from blklab.text.printing import printable

if TYPE_CHECKING:
    from blklab.md.rescue.overlay_record import OverlayRecord

LEVELS = ["0", "1", "4", "5", "6", "10"]

COMMANDS = {
    "start": CommandEntry("blklab.cli.md.overlays:start", "Assemble an array on overlays, and check its files"),
    "search": CommandEntry("blklab.cli.md.overlays:search", "Find the array that was there before a wrong --create"),
    "show": CommandEntry("blklab.cli.md.overlays:show", "Say what was seen, and how full the overlays are"),
    "stop": CommandEntry("blklab.cli.md.overlays:stop", "Remove the overlays, and make the disks writable"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def overlays() -> None:
    """Try an array that does not start, without writing to its disks.

    Each member becomes read-only and gets an overlay: what would be written to it goes to a file on another disk. On
    the overlays, the array is assembled by force, its filesystem is checked, and files are read. `stop` undoes it all.
    """


@click.command()
@click.argument("array")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--member",
    "members",
    metavar="DEVICE",
    multiple=True,
    help="Use only these members; can be repeated. Default: the freshest ones that suffice.",
)
@click.option(
    "--backup-file",
    metavar="FILE",
    default="",
    show_default=False,
    help="The backup file of a reshape that was interrupted (mdadm --backup-file).",
)
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def start(
    *,
    array: str,
    directory: Path,
    members: tuple[str, ...],
    backup_file: str,
    only_plan: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Assemble ARRAY (a UUID, or /dev/md0) on overlays, check its filesystem, and read a sample of its files.

    DIRECTORY is a new one, on another disk, such as a USB disk. It gets the saved metadata of the members, the changes
    on the overlays, and the result. The filesystem stays mounted read-only in DIRECTORY/files, so that you can look at
    your files. Nothing is written to the members. If a step fails, everything is undone.

    \b
    Examples:
      blklab md overlays start /dev/md0 /mnt/usb/try
      blklab md overlays start 7f3c:9a01:55d2:0be4 /mnt/usb/try --member /dev/sdb1
      blklab md overlays show /mnt/usb/try
      blklab md overlays stop /mnt/usb/try

    \b
    Exit status: 0 it runs on the overlays, and nothing is wrong with what was checked; 1 otherwise.
    """
    from blklab.md.rescue.choice import find_rescue
    from blklab.md.rescue.overlays import plan_overlays, start_overlays

    roots = Roots()
    rescue, _ = find_rescue(array, roots)
    plan = plan_overlays(rescue, directory, members, roots, backup_file=backup_file)
    if only_plan:
        document = {"steps": [{"step": description, "command": line or None} for description, line in plan.describe()]}
        emit(document, as_json, lambda console: _show_steps(console, plan.describe()))
        return
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError(
                f"{array}: cannot ask for confirmation without a terminal: use --yes, or --plan to see the plan"
            )
        _show_steps(results(), plan.describe())
        click.confirm("Do this?", abort=True, err=True)
    record = start_overlays(plan, _report_step, roots)
    _emit_record(record, directory, as_json)
    if record.trial is None or record.trial.verdict not in {"good", "unchecked"}:
        raise Exit(1)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("devices", nargs=-1, required=True, metavar="DEVICE...")
@repeatable("--level", type=click.Choice(LEVELS), help="The array's RAID level, if it is known.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def search(*, directory: Path, devices: tuple[str, ...], level: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Find the array that was on DEVICEs before a wrong `mdadm --create`, and try it on overlays.

    It searches for the level, layout, chunk, order and data offsets with which the content fits, as `blklab md rescue
    --try-orders` does. What fits is made on overlays, its filesystem is checked, and files are read: the first
    geometry with which nothing is wrong is left, mounted read-only in DIRECTORY/files. Nothing is written to the
    devices. `missing` is a lost member. DIRECTORY is a new one on another disk.

    \b
    Examples:
      blklab md overlays search /mnt/usb/try /dev/sdb1 /dev/sdc1 /dev/sdd1
      blklab md overlays search /mnt/usb/try /dev/sdb1 /dev/sdc1 missing --level 5

    \b
    Exit status: 0 a geometry was found, and nothing is wrong with what was checked; 1 otherwise.
    """
    from blklab.md.rescue import geometry_search, report
    from blklab.md.rescue.geometry_trial import plan_search, search_on_overlays

    roots = Roots()
    levels = tuple(int(name) for name in level) or geometry_search.LEVELS
    hints = geometry_search.GeometryHints(levels=levels, missing=devices.count("missing"))
    plan = plan_search([name for name in devices if name != "missing"], directory, hints, roots)
    _confirm(f"Make overlays of {len(plan.members)} devices in {directory}?", yes=yes, as_json=as_json)
    search_result, record = search_on_overlays(plan, _report_step, roots)
    if record is None:
        emit(report.search_as_dict(search_result), as_json, lambda console: report.show_search(console, search_result))
        raise Exit(1)
    _emit_record(record, directory, as_json)
    if record.trial is None or record.trial.verdict not in {"good", "unchecked"}:
        raise Exit(1)


def _confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Asks the user. Raises UsageError without a terminal."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation without a terminal: use --yes")
    click.confirm(question, abort=True, err=True)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def show(*, directory: Path, as_json: bool) -> None:
    """Say what was seen on the overlays of DIRECTORY, and how full they are.

    \b
    Example:
      blklab md overlays show /mnt/usb/try
    """
    from blklab.md.rescue.overlay_record import read_record

    _emit_record(read_record(directory), directory, as_json)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def stop(*, directory: Path, as_json: bool) -> None:
    """Undo what `start` did: unmount, stop the array on the overlays, remove them, and make the disks writable again.

    It can be repeated, also after a restart of the machine. DIRECTORY keeps the saved metadata and the result.

    \b
    Example:
      blklab md overlays stop /mnt/usb/try
    """
    from blklab.md.rescue.overlays import stop_overlays

    lines = stop_overlays(directory, _report_step, Roots())
    emit({"stopped": True, "notes": lines}, as_json, lambda console: _show_lines(console, lines))


def _show_steps(console: Console, steps: "list[tuple[str, str]]") -> None:
    for number, (description, line) in enumerate(steps, 1):
        console.print(style_text(printable(f"{number:4}  {description}")))
        if line:
            console.print(style_text(printable(f"          {line}"), "green"))


def _show_lines(console: Console, lines: "list[str]") -> None:
    for line in lines:
        console.print(style_text(printable(line)))


def _report_step(description: str, line: str) -> None:
    """Prints a step while it is done, to stderr."""
    notes().print(printable(description))
    if line:
        notes().print(printable(f"    {line}"))


def _emit_record(record: "OverlayRecord", directory: Path, as_json: bool) -> None:
    from blklab.md.rescue import overlays as made
    from blklab.md.rescue import overlays_report as report

    usage = made.measure_usage(record, Roots())
    emit(report.as_dict(record, usage), as_json, lambda console: report.show(console, record, usage, directory))
