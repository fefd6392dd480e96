"""`blklab md plan`: whether mdadm and the kernel accept a change of an array, and how long it takes. It only reads."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from blklab.cli.common import SIZE, collect_options, emit, json_option, parse_share, repeatable
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.errors import UsageError
from blklab.system.roots import Roots
from blklab.units import format_rate

if TYPE_CHECKING:
    from blklab.md.model import Array
    from blklab.md.plan.change import ChangePlan, Conditions, MemberRates, NewDisk

LARGEST_BYTES = 1 << 63  # The kernel's offsets of files and devices
LARGEST_CHUNK = 1 << 30  # mdadm keeps a chunk in 32 bits with a sign

COMMANDS = {
    "add": CommandEntry("blklab.cli.md.plan:add", "Would mdadm add a disk, as a member or a spare?"),
    "grow": CommandEntry("blklab.cli.md.plan:grow", "Would mdadm use more or less of each disk?"),
    "replace": CommandEntry("blklab.cli.md.plan:replace", "Would md replace a disk that stays in use?"),
    "reshape": CommandEntry("blklab.cli.md.plan:reshape", "Would md change the disks, the chunk or the layout?"),
    "level": CommandEntry("blklab.cli.md.plan:level", "Would md change the RAID level?"),
}


@click.group("plan", cls=LazyGroup, entries=COMMANDS)
def plan() -> None:
    """Say before a change whether mdadm accepts it, how long it takes, and what a power cut means.

    It only reads. The first line is the answer; then come the reason, the commands in order, and how to go on after an
    interruption.

    \b
    Exit status: 0 the change is accepted, 1 it is refused, has no effect, or can lose data.
    """


@dataclass(frozen=True)
class ChangeQuestion:
    """The options that all these commands have."""

    files: tuple[str, ...]  # Pasted texts or images, instead of this host
    load: float | None  # Share of the time with other I/O
    rate: int | None  # Bytes per second of the slowest disk
    as_json: bool


def _parse_load(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    return None if text is None else parse_share(context, parameter, text)


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: add the options of a `ChangeQuestion`."""
    options = [
        repeatable("--from", "files", metavar="FILE", help="Pasted output of mdadm, or images, instead of this host."),
        click.option("--load", metavar="SHARE", callback=_parse_load, help="Share of the time with other I/O, as 30%."),
        click.option("--rate", type=SIZE, metavar="RATE", help="Bytes per second of the slowest disk, such as 150M."),
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


backup_option = click.option(
    "--backup-file", default="", show_default=False, metavar="FILE", help="The backup file that mdadm would get."
)
"""Decorator: add `--backup-file`."""

disks_option = click.option("--raid-devices", "disks", type=click.IntRange(1), help="Slots of the new array.")
"""Decorator: add `--raid-devices`, passed as `disks`."""

layout_option = click.option("--layout", default="", show_default=False, help="Layout as mdadm names it.")
"""Decorator: add `--layout`."""

add_option = repeatable("--add", "new", metavar="DISK", help="A disk that the array would get.")
"""Decorator: add `--add`, passed as `new`."""


@click.command()
@click.argument("array")
@click.argument("disks", nargs=-1, required=True, metavar="DISK...")
@question_options
@collect_options(ChangeQuestion)
def add(question: ChangeQuestion, *, array: str, disks: tuple[str, ...]) -> None:
    """Say whether mdadm would add DISK to ARRAY (/dev/md0).

    A disk for an empty slot is rebuilt; otherwise it becomes a spare. mdadm overwrites what is on the disk without a
    question: blklab says what it finds there.

    \b
    Examples:
      blklab md plan add /dev/md0 /dev/sdd
      blklab md plan add /dev/md0 /dev/sdd --load 50%

    \b
    Exit status: 0 the change is accepted, 1 it is refused, has no effect, or can lose data.
    """
    from blklab.md.plan.add import judge_add

    subject = _read(array, question)
    new = _read_disks(disks, subject, question)
    _show(judge_add(subject, new, _find_conditions(subject, new, question)), question)


@click.command()
@click.argument("array")
@click.option("--size", type=SIZE, help="Bytes of each disk that md would use; without it, all that all disks have.")
@question_options
@collect_options(ChangeQuestion)
def grow(question: ChangeQuestion, *, array: str, size: int | None) -> None:
    """Say whether md would use another size of each disk of ARRAY (/dev/md0), as after larger disks replaced all.

    \b
    Examples:
      blklab md plan grow /dev/md0
      blklab md plan grow /dev/md0 --size 3T

    \b
    Exit status: 0 the change is accepted, 1 it is refused, has no effect, or can lose data.
    """
    from blklab.md.plan.grow import judge_grow

    if size is not None and (size % 1024 or not 0 < size < LARGEST_BYTES):
        raise UsageError(f"--size {size}: expected a multiple of 1 KiB, less than 8 EiB")
    subject = _read(array, question)
    kib = None if size is None else size // 1024
    _show(judge_grow(subject, kib, _find_conditions(subject, (), question)), question)


@click.command()
@click.argument("array")
@click.argument("old")
@click.argument("new", required=False)
@question_options
@collect_options(ChangeQuestion)
def replace(question: ChangeQuestion, *, array: str, old: str, new: str | None) -> None:
    """Say whether md would copy the disk OLD of ARRAY (/dev/md0) onto NEW, or onto a spare, while OLD stays in use.

    \b
    Examples:
      blklab md plan replace /dev/md0 /dev/sdb /dev/sdd
      blklab md plan replace /dev/md0 1

    \b
    Exit status: 0 the change is accepted, 1 it is refused, has no effect, or can lose data.
    """
    from blklab.md.plan.replace import judge_replace
    from blklab.md.plan.sources import find_old_member

    subject = _read(array, question)
    disks = _read_disks((new,) if new else (), subject, question)
    member = find_old_member(subject, old)
    disk = disks[0] if disks else None
    _show(judge_replace(subject, member, disk, _find_conditions(subject, disks, question)), question)


@click.command()
@click.argument("array")
@disks_option
@click.option("--chunk", type=SIZE, help="Size of the new chunks.")
@layout_option
@add_option
@backup_option
@question_options
@collect_options(ChangeQuestion)
def reshape(
    question: ChangeQuestion,
    *,
    array: str,
    disks: int | None,
    chunk: int | None,
    layout: str,
    new: tuple[str, ...],
    backup_file: str,
) -> None:
    """Say whether md would give ARRAY (/dev/md0) another number of disks, chunk or layout.

    \b
    Examples:
      blklab md plan reshape /dev/md0 --raid-devices 4 --add /dev/sdd
      blklab md plan reshape /dev/md0 --chunk 128k
      blklab md plan reshape /dev/md0 --raid-devices 3 --backup-file /mnt/usb/md0-backup

    \b
    Exit status: 0 the change is accepted, 1 it is refused, has no effect, or can lose data.
    """
    from blklab.md.plan.reshape import Shape, judge_reshape

    if disks is None and chunk is None and not layout:
        raise UsageError("expected --raid-devices, --chunk or --layout")
    if chunk is not None and (chunk % 1024 or not 0 < chunk <= LARGEST_CHUNK):
        raise UsageError(f"--chunk {chunk}: expected a multiple of 1 KiB, at most 1 GiB")
    subject = _read(array, question)
    new_disks = _read_disks(new, subject, question)
    shape = Shape(disks or 0, chunk or 0, layout, new_disks, backup_file)
    _show(judge_reshape(subject, shape, _find_conditions(subject, new_disks, question)), question)


@click.command()
@click.argument("array")
@click.argument("level", metavar="LEVEL", type=click.Choice(["0", "1", "4", "5", "6", "10"]))
@disks_option
@layout_option
@add_option
@backup_option
@question_options
@collect_options(ChangeQuestion)
def level(
    question: ChangeQuestion,
    *,
    array: str,
    level: str,
    disks: int | None,
    layout: str,
    new: tuple[str, ...],
    backup_file: str,
) -> None:
    """Say whether md would make a RAID of LEVEL (0, 1, 4, 5, 6 or 10) of ARRAY (/dev/md0).

    \b
    Examples:
      blklab md plan level /dev/md0 6 --add /dev/sdd
      blklab md plan level /dev/md0 5

    \b
    Exit status: 0 the change is accepted, 1 it is refused, has no effect, or can lose data.
    """
    from blklab.md.plan.level import NewLevel, judge_level

    subject = _read(array, question)
    new_disks = _read_disks(new, subject, question)
    change = NewLevel(f"raid{level}", disks or 0, layout, new_disks, backup_file)
    _show(judge_level(subject, change, _find_conditions(subject, new_disks, question)), question)


def _read(name: str, question: ChangeQuestion) -> "Array":
    from blklab.md.plan import sources

    if question.files:
        return sources.read_files(name, question.files).arrays[0]
    return sources.read_live_array(name, Roots())


def _read_disks(names: tuple[str, ...], array: "Array", question: ChangeQuestion) -> "tuple[NewDisk, ...]":
    from blklab.md.plan.disks import check_distinct, name_new_disk, read_new_disk

    if question.files:
        disks = tuple(name_new_disk(name, array) for name in names)
    else:
        disks = tuple(read_new_disk(name, array, Roots()) for name in names)
    check_distinct(disks)
    return disks


def _find_conditions(array: "Array", new: "tuple[NewDisk, ...]", question: ChangeQuestion) -> "Conditions":
    from blklab.md.plan import sources
    from blklab.md.plan.change import Conditions, MemberRates

    rotates = any(member.rotational for member in array.members)
    rates = None
    if question.rate == 0:
        raise UsageError("--rate 0: expected more than 0 bytes per second")
    if question.rate is not None:
        rates = MemberRates(question.rate, question.rate, f"{format_rate(question.rate)}, as given", rotates)
    if question.files:
        return Conditions(None, rates=rates, load=question.load)
    if rates is None:
        names = [member.name for member in array.active] + [disk.name for disk in new]
        rates = _find_rates(names, Roots(), rotates=rotates)
    roots = Roots()
    return Conditions(sources.read_host_software(roots), sources.read_limits(array, roots), rates, question.load)


def _find_rates(names: list[str], roots: Roots, *, rotates: bool) -> "MemberRates | None":
    """Returns the rates of the slowest of these disks, by their models; None if one of them is not known."""
    from blklab.devices.identified_disks import identify_disks
    from blklab.devices.sequential_rates import find_sequential_rates
    from blklab.md.member_devices import whole_disk
    from blklab.md.plan.change import MemberRates

    disks = {disk.name: disk for disk in identify_disks(roots)}
    slowest: MemberRates | None = None
    for name in names:
        node = whole_disk(Path(roots.sys / "class/block" / name).resolve())
        disk = disks.get(node.name) if node else None
        rates = find_sequential_rates(disk.model.name) if disk is not None and disk.model is not None else None
        if disk is None or disk.model is None or rates is None:
            return None
        guess = f" ({disk.guess})" if disk.guess else ""
        source = f"{format_rate(rates[0])} to {format_rate(rates[1])}, the model {disk.model.name}{guess}"
        if slowest is None or rates[0] < slowest.slowest:
            slowest = MemberRates(rates[0], rates[1], source, rotates)
    return slowest


def _show(result: "ChangePlan", question: ChangeQuestion) -> None:
    from blklab.md.plan import report

    emit(report.as_dict(result), question.as_json, lambda console: report.show(console, result))
    if not result.is_accepted or result.dangers or result.no_effect:
        raise Exit(1)
