"""`blklab md fix`: the only commands of `blklab md` that change arrays."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import click
from click.exceptions import Exit

from blklab.cli import exit_status
from blklab.cli.common import emit, json_option, progress, repeatable, results, warn
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.errors import BlklabError, UsageError
from blklab.md import command_lines, probing, recipes
from blklab.md import plan_report as report
from blklab.md.repair import all_arrays, journal
from blklab.md.repair.all_arrays import plan_again, plan_arrays
from blklab.md.repair.array_state import read_array_state
from blklab.md.repair.operations import MachineOps
from blklab.md.repair.perform import RebuildProgress, Repair
from blklab.md.repair.plan import RepairPlan, find_array, make_plan
from blklab.md.repair.restart import RestartPlan, plan_restart, restart_array
from blklab.md.repair.rewrite import RewritePlan, StoppedRepair, make_rewrite_plan, rewrite_entries
from blklab.md.repair.slot_plan import SlotPlan, plan_add, plan_rebuild, plan_remove, plan_replace
from blklab.md.repair.slot_task import SlotTask
from blklab.md.repair.slots import SlotRepair
from blklab.md.repair.steps import Done, Step, Stop
from blklab.md.repair.task import RepairTask
from blklab.md.rescue.assembly import AssemblyPlan, assemble_as_planned, plan_assembly
from blklab.md.rescue.choice import find_rescue
from blklab.system.roots import Roots
from blklab.text.printing import printable

P = TypeVar("P", RepairPlan, RewritePlan, SlotPlan, RestartPlan, AssemblyPlan)
Q = TypeVar("Q")

plan_option = click.option("--plan", "only_plan", is_flag=True, help="Print the plan and change nothing.")
"""Decorator: add `--plan`, passed as `only_plan`."""

yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
"""Decorator: add `--yes`, passed as `yes`."""


COMMANDS = {
    "bbl": CommandEntry("blklab.cli.md.fix:bbl", "Remove bad-block lists online, one member at a time"),
    "entries": CommandEntry("blklab.cli.md.fix:entries", "Write bad ranges again from good copies"),
    "add": CommandEntry("blklab.cli.md.fix:add", "Bring a missing disk back, or add an empty one"),
    "replace": CommandEntry("blklab.cli.md.fix:replace_member", "Replace a disk while it stays in use"),
    "remove": CommandEntry("blklab.cli.md.fix:remove", "Take a disk out, if the others have all data"),
    "rebuild": CommandEntry("blklab.cli.md.fix:rebuild", "Have md write a disk completely again"),
    "assemble": CommandEntry("blklab.cli.md.fix:assemble", "Start an array that does not start by itself"),
    "metadata": CommandEntry("blklab.cli.md.fix:metadata", "Put saved superblocks, bitmaps and lists back"),
    "restart": CommandEntry("blklab.cli.md.fix:restart", "Start an array that is broken or inactive"),
}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.option("--resume", is_flag=True, help="Continue the interrupted repairs of all arrays.")
@click.pass_context
def fix(context: click.Context, *, resume: bool) -> None:
    """Repair md arrays. blklab shows the plan and asks before it changes anything.

    It writes each step to a journal first. After a crash, --resume restores the redundancy of the arrays and continues.
    """
    if resume and context.invoked_subcommand is None:
        resume_repairs()
    elif resume:
        raise click.UsageError("--resume: expected no command with it")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)


WAIT_S = 5.0
"""Seconds after which `--wait` looks again whether md has ended its work."""


@click.command()
@click.argument("arrays", metavar="[ARRAY]...", nargs=-1)
@click.option("--all", "whole_host", is_flag=True, help="Do this for all arrays of this host, one after the other.")
@click.option("--wait", is_flag=True, help="Wait for an array that md resyncs or checks, instead of refusing it.")
@plan_option
@yes_option
@click.option(
    "--recipe",
    type=click.Choice(["offline", "installer"]),
    help="Print how to remove lists from a stopped array (offline), or how to make arrays without lists (installer).",
)
@json_option
def bbl(
    *,
    arrays: tuple[str, ...],
    whole_host: bool,
    wait: bool,
    only_plan: bool,
    yes: bool,
    recipe: str | None,
    as_json: bool,
) -> None:
    """Remove the bad-block lists of each ARRAY (/dev/md0) while it is in use, one member at a time.

    blklab fails each member, removes it and re-adds it without its list. It waits until the member is in sync before it
    continues with the next. It first adds a write-intent bitmap if there is none, and removes it at the end. It does
    not remove lists that have entries, and explains what you can do.

    With several arrays, or with --all, blklab examines all of them before it changes the first, and changes none if one
    of them is refused. It stops at the first trouble, and says which arrays are left. A second run continues.

    \b
    Examples:
      blklab md fix bbl /dev/md0 --plan
      blklab md fix bbl /dev/md0
      blklab md fix bbl --all --plan
      blklab md fix bbl --all --yes --wait
      blklab md fix bbl /dev/md0 --recipe offline
      blklab md fix --resume

    \b
    Exit status: 0 no member has a list (with --plan: the plan is possible), 1 some or all members
    still have a list.
    """
    if recipe == "installer":
        report.show_recipe(results(), recipes.installer_recipe())
        return
    if len(arrays) > 1 and recipe == "offline":
        raise UsageError("--recipe offline: expected one array")
    if recipe == "offline":
        stopped_array = find_array(arrays[0], Roots()) if arrays else None
        report.show_recipe(results(), recipes.offline_recipe(stopped_array))
        return
    if whole_host and arrays:
        raise UsageError(f"--all means all arrays: expected no {arrays[0]} with it")
    if not whole_host and not arrays:
        raise UsageError("expected an array such as /dev/md0, or --all; `blklab md audit` lists the arrays")
    if len(arrays) == 1 and not wait:
        _remove_lists(arrays[0], only_plan=only_plan, yes=yes, as_json=as_json)
    else:
        _remove_lists_of_arrays(arrays, wait=wait, only_plan=only_plan, yes=yes, as_json=as_json)


def _remove_lists(array: str, *, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Shows the plan for one array, asks, removes its lists, and prints the result."""

    def remove(plan: RepairPlan) -> Done:
        run_repair(plan.task, quiet=as_json)
        return Done()

    plan, _ = _carry_out(lambda: make_plan(array, Roots()), remove, only_plan=only_plan, yes=yes, as_json=as_json)
    message = f"{plan.array.path}: no member has a bad-block list"
    emit(report.as_dict(plan, Done()), as_json, lambda console: console.print(message))


def _remove_lists_of_arrays(names: tuple[str, ...], *, wait: bool, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Shows the plan for several arrays, asks, and removes their lists. `names` is empty for all arrays of this host.

    Raises Exit with status 1 if some array keeps its lists.
    """
    plan = plan_arrays(names, Roots(), wait=wait)
    if only_plan or plan.refused or not plan.repairs:
        emit(report.arrays_as_dict(plan), as_json, lambda console: report.show_arrays(console, plan))
        raise Exit(1 if plan.leaves_lists else 0)
    _refuse_to_ask("--all" if not names else ", ".join(names), yes=yes, as_json=as_json)
    if not as_json:
        report.show_arrays(results(), plan)
        click.echo()
    if not yes:
        click.confirm("Carry out these plans?", abort=True, err=True)
    done: list[str] = []
    for repair in plan.repairs:
        try:
            _remove_lists_in_turn(repair, wait=wait, quiet=as_json)
        except BlklabError as error:
            left = [other.array.path for other in plan.repairs if other.array.path not in done]
            error.details = (*error.details, f"not done: {', '.join(left)}; done: {', '.join(done) or 'none'}")
            raise
        done.append(repair.array.path)
    message = f"{', '.join(done)}: no member has a bad-block list"
    emit(report.arrays_as_dict(plan, done), as_json, lambda console: console.print(printable(message)))
    if plan.leaves_lists:
        raise Exit(1)


def _remove_lists_in_turn(before: RepairPlan, *, wait: bool, quiet: bool) -> None:
    """Removes the lists of an array whose turn has come, by its present plan. Raises BlklabError if it is refused."""
    plan = plan_again(before, Roots())
    if wait and all_arrays.is_waiting(plan):
        click.echo(f"{printable(plan.array.path)}: waiting: {printable(plan.refused[0].message)}", err=True)
        while all_arrays.is_waiting(plan):
            time.sleep(WAIT_S)
            plan = plan_again(before, Roots())
        all_arrays.refuse_doubts(plan)
    if plan.refused:
        error = BlklabError(f"{plan.array.path}: not repaired: {plan.refused[0].message}")
        error.details = plan.refused[0].remedy
        raise error
    if plan.steps:
        run_repair(plan.task, quiet=quiet)


@click.command()
@click.argument("array")
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Write the lost sectors that `blklab md rescue --save` has copied to FILE.",
)
@plan_option
@yes_option
@json_option
def entries(*, array: str, file: Path | None, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Write the bad ranges of ARRAY (/dev/md0) again from good copies, so that its lists become empty.

    ARRAY must not be in use. blklab reads each page through md, which takes it from a good copy, and writes the same
    data again through md. It then reads the page from the member and compares. It stops if a good copy cannot be read,
    or if a disk does not store what is written. Ranges without a good copy stay in the lists.

    With --from, it writes sectors that only a member which is out has: `blklab md rescue --save` copies them to a file.
    Only for RAID-1 and RAID-10, and only if the bitmap proves that they were not written since that member left. After
    an interruption, type the same command again.

    \b
    Examples:
      blklab md fix entries /dev/md0 --plan
      blklab md fix entries /dev/md0
      blklab md fix entries /dev/md0 --from /mnt/usb/sectors
      blklab md fix bbl /dev/md0

    \b
    Exit status: 0 no list has entries (with --plan: the plan is possible), 1 entries are left.
    With --from: 0 the sectors of the file are on the array.
    """
    if file is not None:
        _write_sectors(array, file, only_plan=only_plan, yes=yes, as_json=as_json)
        return

    def rewrite(plan: RewritePlan) -> RewritePlan:
        return run_rewrite(plan.task, quiet=as_json)

    plan, remaining_plan = _carry_out(
        lambda: make_rewrite_plan(array, Roots()), rewrite, only_plan=only_plan, yes=yes, as_json=as_json
    )
    emit(report.as_dict(plan, remaining_plan), as_json, lambda console: report.show_left(console, remaining_plan))
    if remaining_plan.listed:
        raise Exit(1)


def _write_sectors(array: str, file: Path, *, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Shows what of a file with sectors is lost on an array, asks, and writes it."""
    from blklab.md.rescue import restored_sectors_report as restored
    from blklab.md.rescue.restored_sectors import plan_sectors, write_sectors

    plan = plan_sectors(array, file, Roots())
    if only_plan or plan.refused or plan.nothing_to_do:
        emit(restored.as_dict(plan), as_json, lambda console: restored.show(console, plan))
        raise Exit(1 if plan.refused else 0)
    _refuse_to_ask(plan.array.path, yes=yes, as_json=as_json)
    if not as_json:
        restored.show(results(), plan)
        click.echo()
    if not yes:
        click.confirm("Carry out this plan?", abort=True, err=True)
    reporter = _StepReporter(as_json, ExitStack())
    try:
        result = write_sectors(plan, Roots(), reporter.report_line)
    except StoppedRepair as error:
        reporter.print_remedy(error.remedy)
        raise
    emit(restored.as_dict(plan, result), as_json, lambda console: report.show_lines(console, result))


@click.command()
@click.argument("array")
@click.argument("disk")
@plan_option
@yes_option
@json_option
def add(*, array: str, disk: str, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Put DISK into an empty slot of ARRAY (/dev/md0): the disk that was missing, or an empty one.

    blklab first reads all members completely, past md, which takes as long as a check. It changes nothing if a sector
    can be read only from a disk that is out. A disk that was missing comes back with its data, so that md copies only
    what was written since. A disk with other data is refused. DISK is a name in /dev/disk/by-id, or a path.

    \b
    Examples:
      blklab md fix add /dev/md0 /dev/disk/by-id/ata-WDC_WD80EFZZ-1234 --plan
      blklab md fix add /dev/md0 /dev/disk/by-id/ata-WDC_WD80EFZZ-1234

    \b
    Exit status: 0 the disk is in sync (with --plan: the plan is possible), 1 it is not.
    """
    _change_slot(lambda: plan_add(array, disk, Roots()), only_plan=only_plan, yes=yes, as_json=as_json)


@click.command("replace")
@click.argument("array")
@click.argument("old")
@click.argument("new")
@plan_option
@yes_option
@json_option
def replace_member(*, array: str, old: str, new: str, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Replace the disk OLD of ARRAY (/dev/md0) by the disk NEW, while OLD stays in use.

    md copies each sector from OLD, or from the other members where OLD has bad blocks. The array never has less
    redundancy than before. OLD is a disk or a slot. NEW must be empty, or a former member whose data is not needed.

    \b
    Examples:
      blklab md fix replace /dev/md0 sdb /dev/disk/by-id/ata-WDC_WD80EFZZ-1234 --plan
      blklab md fix replace /dev/md0 1 /dev/disk/by-id/ata-WDC_WD80EFZZ-1234

    \b
    Exit status: 0 NEW is in sync (with --plan: the plan is possible), 1 it is not.
    """
    _change_slot(lambda: plan_replace(array, old, new, Roots()), only_plan=only_plan, yes=yes, as_json=as_json)


@click.command()
@click.argument("array")
@click.argument("old")
@plan_option
@yes_option
@json_option
def remove(*, array: str, old: str, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Take the disk OLD out of ARRAY (/dev/md0), so that a new disk can get its port.

    blklab first reads all other members completely. It changes nothing if OLD has the only copy of a sector. Until the
    new disk is rebuilt, the array has one copy or parity fewer: use `blklab md fix replace` if both disks can be
    connected. OLD is a disk or a slot.

    \b
    Examples:
      blklab md fix remove /dev/md0 sdb --plan
      blklab md fix remove /dev/md0 sdb
      blklab md fix add /dev/md0 /dev/disk/by-id/ata-WDC_WD80EFZZ-1234

    \b
    Exit status: 0 OLD is out (with --plan: the plan is possible), 1 it is not.
    """
    _change_slot(lambda: plan_remove(array, old, Roots()), only_plan=only_plan, yes=yes, as_json=as_json)


@click.command()
@click.argument("array")
@click.argument("slot")
@plan_option
@yes_option
@json_option
def rebuild(*, array: str, slot: str, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Have md write the disk in SLOT of ARRAY (/dev/md0) completely again, from the other members.

    For a healthy disk whose bad-block list keeps entries. blklab first reads all other members completely. It changes
    nothing unless the array stays redundant without this disk (RAID-6, mirrors of three). SLOT is a slot or a disk.

    \b
    Examples:
      blklab md fix rebuild /dev/md0 2 --plan
      blklab md fix rebuild /dev/md0 2

    \b
    Exit status: 0 the disk is in sync (with --plan: the plan is possible), 1 it is not.
    """
    _change_slot(lambda: plan_rebuild(array, slot, Roots()), only_plan=only_plan, yes=yes, as_json=as_json)


@click.command()
@click.argument("array")
@plan_option
@yes_option
@json_option
def restart(*, array: str, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Start ARRAY (/dev/md0) again: md refuses every write to it (`broken`), or has not started it (`inactive`).

    blklab copies all superblocks to a file, stops the array, and assembles it from the members that have all data. Of
    a broken array it takes the members that failed last, if it cannot run without them. Nothing may use the array.

    \b
    Examples:
      blklab md fix restart /dev/md0 --plan
      blklab md fix restart /dev/md0

    \b
    Exit status: 0 the array runs (with --plan: the plan is possible), 1 it does not.
    """

    def start_again(plan: RestartPlan) -> str:
        reporter = _StepReporter(as_json, ExitStack())
        try:
            return restart_array(plan, Roots(), reporter.report_line)
        except StoppedRepair as error:
            reporter.print_remedy(error.remedy)
            raise

    plan, result = _carry_out(
        lambda: plan_restart(array, Roots()), start_again, only_plan=only_plan, yes=yes, as_json=as_json
    )
    emit(report.slot_as_dict(plan, result), as_json, lambda console: report.show_lines(console, result))


@click.command()
@click.argument("array")
@click.option(
    "--overlays",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where `blklab md overlays start` tried this array; needed if members must be forced.",
)
@click.option(
    "--files-are-right", is_flag=True, help="You looked at the files on the overlays, and they are as they should be."
)
@click.option(
    "--backup-file",
    metavar="FILE",
    default="",
    show_default=False,
    help="The backup file of a reshape that was interrupted (mdadm --backup-file).",
)
@plan_option
@yes_option
@json_option
def assemble(
    *,
    array: str,
    directory: Path | None,
    files_are_right: bool,
    backup_file: str,
    only_plan: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Start ARRAY (a UUID, or /dev/md0) on its disks.

    If `blklab md rescue` calls the array sound, it is assembled as it is. Members that are behind are forced only if
    the array ran on overlays, with the same members, and nothing has changed on them since.

    \b
    Examples:
      blklab md fix assemble /dev/md0 --plan
      blklab md fix assemble 7f3c:9a01:55d2:0be4 --overlays /mnt/usb/try

    \b
    Exit status: 0 the array runs (with --plan: the plan is possible), 1 it does not.
    """

    def make() -> AssemblyPlan:
        rescue, inventory = find_rescue(array, Roots())
        return plan_assembly(
            rescue, inventory, directory, files_are_right=files_are_right, backup_file=backup_file, roots=Roots()
        )

    def start(plan: AssemblyPlan) -> str:
        reporter = _StepReporter(as_json, ExitStack())
        try:
            return assemble_as_planned(plan, reporter.report_line, Roots())
        except StoppedRepair as error:
            reporter.print_remedy(error.remedy)
            raise

    plan, result = _carry_out(make, start, only_plan=only_plan, yes=yes, as_json=as_json)
    emit(report.slot_as_dict(plan, result), as_json, lambda console: report.show_lines(console, result))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@repeatable("--member", metavar="DEVICE", help="Restore only this device, by its path or stable id.")
@click.option("--partition-tables", "tables", is_flag=True, help="Put the partition tables of the disks back too.")
@plan_option
@yes_option
@json_option
def metadata(
    *, directory: Path, member: tuple[str, ...], tables: bool, only_plan: bool, yes: bool, as_json: bool
) -> None:
    """Put the metadata in DIRECTORY back, which `blklab md rescue --save-metadata` has saved.

    For a wrong `mdadm --create`, `--zero-superblock`, or a partition table over a member. blklab finds the disks by
    their ids and sizes. It writes superblocks, bitmaps and bad-block lists, never data, and refuses a disk in use, or
    one whose array was written to since. It first saves what is there to a new directory in DIRECTORY: the same command
    with that directory undoes it.

    \b
    Examples:
      blklab md fix metadata /mnt/usb/md-metadata --plan
      blklab md fix metadata /mnt/usb/md-metadata --member /dev/sdb1
      blklab md fix metadata /mnt/usb/md-metadata --partition-tables

    \b
    Exit status: 0 all is as it was saved (with --plan: the plan is possible), 1 it is not.
    """
    from blklab.md.rescue import restored_metadata_report as restored
    from blklab.md.rescue.restored_metadata import plan_restore, restore_metadata

    roots = Roots()
    plan = plan_restore(directory, member, roots, tables=tables)
    if only_plan or plan.refused or plan.nothing_to_do:
        emit(restored.as_dict(plan), as_json, lambda console: restored.show(console, plan))
        raise Exit(1 if plan.refused else 0)
    _refuse_to_ask(str(directory), yes=yes, as_json=as_json)
    if not as_json:
        restored.show(results(), plan)
        click.echo()
    if not yes:
        click.confirm("Write this?", abort=True, err=True)
    if plan_restore(directory, member, roots, tables=tables) != plan:
        raise BlklabError(f"{directory}: a device has changed since the plan was printed: run the command again")
    reporter = _StepReporter(as_json, ExitStack())
    before = restore_metadata(plan, roots, reporter.print_line)
    if as_json:
        emit(restored.as_dict(plan, before), as_json, lambda _: None)


def _change_slot(make: Callable[[], SlotPlan], *, only_plan: bool, yes: bool, as_json: bool) -> None:
    """Shows a plan for a slot, asks, carries it out, and prints the result."""

    def change(plan: SlotPlan) -> str:
        return run_slot_task(plan.task, quiet=as_json)

    plan, result = _carry_out(make, change, only_plan=only_plan, yes=yes, as_json=as_json)
    emit(report.slot_as_dict(plan, result), as_json, lambda console: report.show_lines(console, result))


def run_slot_task(task: SlotTask, *, quiet: bool = False) -> str:
    """Changes a slot of an array, or continues it; prints each step to stdout, or to stderr if `quiet`.

    Returns what the user must know at the end. Raises BlklabError if it is not done.
    """
    with ExitStack() as bars:
        reporter = _StepReporter(quiet, bars)
        repair = SlotRepair(task, MachineOps(Roots()), reporter.report_line, reporter.report_bytes)
        try:
            return repair.run()
        except (KeyboardInterrupt, SystemExit):
            if probing.journal_path(task.uuid, Roots()).exists():
                _warn_interrupted(task)
            raise
        except StoppedRepair as error:
            reporter.print_remedy(error.remedy)
            raise


def _carry_out(
    make: Callable[[], P], carry_out: Callable[[P], Q], *, only_plan: bool, yes: bool, as_json: bool
) -> tuple[P, Q]:
    """Shows a plan, asks, and carries it out. Raises Exit if there is nothing to carry out."""
    plan = make()
    if only_plan or plan.refused or plan.nothing_to_do:
        emit(report.as_dict(plan), as_json, lambda console: report.show(console, plan))
        raise Exit(1 if plan.refused or (plan.nothing_to_do and plan.as_dict()["members_with_entries"]) else 0)
    _refuse_to_ask(plan.array.path, yes=yes, as_json=as_json)
    if not as_json:
        report.show(results(), plan)
        click.echo()
    if not yes:
        click.confirm("Carry out this plan?", abort=True, err=True)
        if make().as_dict() != plan.as_dict():
            raise BlklabError(
                f"{plan.array.path}: the array has changed since the plan was printed: "
                "run the command again and check the new plan"
            )
    return plan, carry_out(plan)


def _refuse_to_ask(subject: str, *, yes: bool, as_json: bool) -> None:
    """Raises UsageError if the user would have to be asked, and cannot be."""
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError(
            f"{subject}: cannot ask for confirmation without a terminal: use --yes to repair, or --plan to see the plan"
        )


def run_rewrite(task: RepairTask, *, quiet: bool = False) -> RewritePlan:
    """Writes bad ranges again; prints each step to stdout, or to stderr if `quiet`. Returns what is left.

    Raises BlklabError if it is not done.
    """
    with ExitStack() as bars:
        reporter = _StepReporter(quiet, bars)
        try:
            return rewrite_entries(task, Roots(), reporter.report_line, reporter.report_pages)
        except (KeyboardInterrupt, SystemExit):
            _warn_interrupted(task)
            raise
        except StoppedRepair as error:
            reporter.print_remedy(error.remedy)
            has_journal = probing.journal_path(task.uuid, Roots()).exists()
            command = command_lines.resume_fix() if has_journal else command_lines.fix_entries(task.array)
            error.details = (
                f"{task.array}: not finished, and nothing has to be undone "
                f"(its file in /var/lib/blklab may be deleted): when the reason is gone, run {command}",
            )
            raise


def run_repair(task: RepairTask, *, resume: bool = False, quiet: bool = False) -> None:
    """Runs or resumes a repair, and prints each step to stdout, or to stderr if `quiet`.

    Raises BlklabError if it is not done, with the state of the array and the next command.
    """
    with ExitStack() as bars:
        reporter = _StepReporter(quiet, bars)
        repair = Repair(task, MachineOps(Roots()), reporter.report_step, reporter.report_progress)
        try:
            outcome = repair.run(resume=resume)
            if isinstance(outcome, Stop):
                reporter.print_remedy(outcome.remedy)
                raise StoppedRepair(f"{task.array}: {outcome.reason}", outcome.remedy)
        except (KeyboardInterrupt, SystemExit):
            _warn_interrupted(task)
            raise
        except BlklabError as error:
            error.details = _describe_now(repair.task, getattr(error, "remedy", ()))
            raise


def _warn_interrupted(task: RepairTask | SlotTask) -> None:
    """Says how to continue a repair that Ctrl-C or a signal ended."""
    warn(
        f"{task.array}: interrupted between two steps; md finishes what it has begun; "
        f"to do the remaining steps: {command_lines.resume_fix()}"
    )


def _describe_now(task: RepairTask, remedy: tuple[str, ...]) -> tuple[str, str, str]:
    roots = Roots()
    try:
        state = read_array_state(task, roots)
    except BlklabError:
        state = None
    has_journal = probing.journal_path(task.uuid, roots).exists()
    return report.describe_situation(task, state, remedy, has_journal=has_journal)


def resume_repairs() -> None:
    """Continues all interrupted repairs. Prints the error of each that cannot be finished, and raises Exit."""
    status = 0
    journals = probing.find_journals(Roots())
    for path in journals:
        try:
            task = journal.read_any_journal(path)
            click.echo(f"{printable(task.array)}:")
            if isinstance(task, SlotTask):
                report.show_lines(results(), run_slot_task(task))
            elif task.entries:
                report.show_left(results(), run_rewrite(task))
            else:
                run_repair(task, resume=True)
        except BlklabError as error:
            status = exit_status.report(error)
    if not journals:
        click.echo("no repair was interrupted")
    if status:
        raise Exit(status)


class _StepReporter:
    """Prints each step when it begins and, on a terminal, the progress of rebuilds."""

    def __init__(self, quiet: bool, bars: ExitStack) -> None:
        self._err = quiet
        self._bars = bars
        self._advance: Callable[[int], None] | None = None

    def report_step(self, step: Step, command: str) -> None:
        self.report_line(report.describe_step(step), command)

    def report_line(self, step: str, command: str) -> None:
        self._bars.close()
        self._advance = None
        click.echo(printable(step), err=self._err)
        if command:
            click.echo(f"    {printable(command)}", err=self._err)

    def print_line(self, line: str) -> None:
        click.echo(printable(line), err=self._err)

    def print_remedy(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            click.echo(f"    {printable(line)}", err=self._err)

    def report_progress(self, now: RebuildProgress) -> None:
        if now.done is not None and now.total is not None:
            self._report_part("rebuilding" if now.action == "recover" else now.action, now.done, now.total)

    def report_pages(self, done: int, total: int) -> None:
        self._report_part("pages", done, total)

    def report_bytes(self, done: int, total: int) -> None:
        if total:
            self._report_part("bytes", done, total)

    def _report_part(self, action: str, done: int, total: int) -> None:
        if self._advance is None:
            self._advance = self._bars.enter_context(progress(action, total))
        self._advance(done)
