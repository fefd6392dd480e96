"""Prints plans of repairs and their steps, in the terminal and as JSON."""

from typing import Any

from blklab.md import command_lines
from blklab.md.audit.rule import list_names
from blklab.md.levels import PARITIES
from blklab.md.recipes import Recipe
from blklab.md.repair import all_arrays, rewrite, steps
from blklab.md.repair.all_arrays import ArraysPlan
from blklab.md.repair.array_state import ArrayState, MemberState
from blklab.md.repair.plan import RepairPlan
from blklab.md.repair.restart import RestartPlan
from blklab.md.repair.rewrite import RewritePlan
from blklab.md.repair.slot_plan import SlotPlan
from blklab.md.repair.steps import count_in_sync, failures_tolerated
from blklab.md.repair.task import RepairTask
from blklab.md.rescue.assembly import AssemblyPlan
from blklab.render import diagnostics
from blklab.render.console import Console, style_text
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table
from blklab.text.printing import printable
from blklab.units import format_duration

FORMAT_VERSION = 2


def describe_step(step: steps.Step) -> str:
    """Returns what a step does, in a few words."""
    match step:
        case steps.RemoveSpare(_, path):
            description = f"remove the spare {path}, so that md does not use it"
        case steps.AddBitmap():
            description = "add a write-intent bitmap, which a re-add needs"
        case steps.FailMember(_, path):
            description = f"fail {path}"
        case steps.RemoveMember(_, path):
            description = f"remove {path} from the array"
        case steps.ReAddMember(_, path, without_list):
            description = f"re-add {path} " + ("without its list" if without_list else "with its list")
        case steps.WaitForSync(path):
            description = "wait until md has finished what it does (see /proc/mdstat)"
            if path:
                description = f"wait until {path} is in sync"
        case steps.StopCheck(path):
            description = (
                f"stop the check of the array, before whose end md does not rebuild {path}; start it again later"
            )
        case steps.AddSpare(_, path):
            description = f"add the spare {path} again, without a list"
        case steps.RemoveBitmap():
            description = "remove the bitmap that blklab added"
        case steps.Stop(reason):
            description = reason
        case _:
            description = "done"
    return printable(description)


def describe_situation(
    task: RepairTask, state: ArrayState | None, remedy: tuple[str, ...], *, has_journal: bool
) -> tuple[str, str, str]:
    """Returns three lines for the end of a repair that failed: the state, whether data is at risk, what to type.

    `state` is None if the array is not assembled.
    """
    commands = [line for line in remedy if not line.startswith("#")]
    next_line = command_lines.resume_fix() if has_journal else command_lines.audit_arrays()
    if commands:
        next_line = commands[0] + ("   (then the other commands above)" if commands[1:] else "")
    if state is None:
        if not commands:
            next_line = command_lines.assemble_all()
        lines = (f"state: {task.array} is not assembled", "data at risk: not known")
        return *lines, f"next command: {next_line}"
    parts = [f"state: {task.array} is {state.array_state or 'not running'}"]
    parts.append(f"{count_in_sync(task, state)} of {task.raid_disks} members are in sync")
    for slot in state.slots:
        if slot.state is not MemberState.IN_SYNC:
            parts.append(f"{slot.path} is {slot.state.value}")
    max_failures = failures_tolerated(task, state)
    if state.array_state == "broken":
        risk = "yes: every write fails; do not add, remove or wipe a member"
    elif state.with_bad_blocks:
        risk = f"yes: {', '.join(state.with_bad_blocks)} has bad blocks; do not remove another member"
    elif max_failures < 1:
        risk = "yes: the next failure of a member loses data"
    else:
        failures = "one more failure" if max_failures == 1 else f"{max_failures} more failures"
        risk = f"no: the array tolerates {failures}"
    return ", ".join(parts), f"data at risk: {risk}", f"next command: {next_line}"


def show(console: Console, plan: RepairPlan | RewritePlan | SlotPlan | RestartPlan | AssemblyPlan) -> None:
    """Prints a plan: its steps, or why there are none."""
    name = printable(plan.array.path)
    if isinstance(plan, SlotPlan | RestartPlan | AssemblyPlan):
        _show_slot_plan(console, plan)
    elif plan.nothing_to_do and isinstance(plan, RewritePlan):
        show_left(console, plan)
    elif plan.nothing_to_do:
        console.print(style_text(f"{name}: no member has a bad-block list: nothing to do"))
    elif isinstance(plan, RewritePlan):
        _show_rewrite(console, plan)
    elif plan.steps:
        _show_steps(console, plan)
    diagnostics.print_diagnostics(console, plan.refused, f"{name}: not repaired, because")
    for recipe in plan.recipes if isinstance(plan, RepairPlan) else ():
        console.print()
        show_recipe(console, recipe)


def show_arrays(console: Console, plan: ArraysPlan) -> None:
    """Prints the plan for several arrays: those that are refused last, where they are seen."""
    _show_names(console, [array.path for array in plan.without_lists], "no member has a bad-block list: nothing to do")
    _show_names(
        console,
        [array.path for array in plan.only_stopped],
        "no redundancy: the lists can only be removed while it is stopped (--recipe offline)",
    )
    _show_names(console, [array.name for array in plan.not_assembled], "not assembled: its lists were not examined")
    for repair in plan.repairs:
        console.print()
        if all_arrays.is_waiting(repair):
            waits = f"{repair.array.path}: planned when this has ended: {repair.refused[0].message}"
            console.print(style_text(printable(waits)))
        else:
            show(console, repair)
    for refused_plan in plan.refused:
        console.print()
        show(console, refused_plan)
    if plan.refused and plan.repairs:
        others = command_lines.fix_bbl_of_arrays([repair.array.path for repair in plan.repairs])
        console.print()
        console.print(style_text("blklab changes no array while one of them is refused. For the other arrays alone:"))
        console.print(style_text(f"    {others}", "green"))


def _show_names(console: Console, names: list[str], state: str) -> None:
    if names:
        console.print(style_text(printable(f"{list_names(names, 8)}: {state}")))


def arrays_as_dict(plan: ArraysPlan, done: list[str] | None = None) -> dict[str, Any]:
    """Returns the JSON document of several arrays: docs/reference/formats.md, `md fix`.

    `done` has the paths of the arrays whose lists were removed.
    """
    documents = []
    for repair in (*plan.repairs, *plan.refused):
        is_done = done is not None and repair.array.path in done
        documents.append(as_dict(repair, steps.Done() if is_done else None))
    return {"format_version": FORMAT_VERSION, **plan.as_dict(), "arrays": documents}


def _show_slot_plan(console: Console, plan: SlotPlan | RestartPlan | AssemblyPlan) -> None:
    """Prints the steps of a plan, and what each of them runs."""
    if plan.nothing_to_do:
        console.print(style_text(f"{printable(plan.array.path)} runs: nothing to do"))
        return
    for number, step in enumerate(() if plan.refused else plan.steps, 1):
        console.print(style_text(printable(f"{number:4}  {step.what}")))
        if step.command:
            console.print(style_text(printable(f"          {step.command}"), "green"))
    for line in () if plan.refused else plan.warnings:
        console.print(style_text(printable(f"• {line}")))


def show_lines(console: Console, lines: str) -> None:
    """Prints the result of a repair."""
    for line in lines.splitlines():
        console.print(style_text(printable(line)))


def slot_as_dict(plan: SlotPlan | RestartPlan | AssemblyPlan, outcome: str | None = None) -> dict[str, Any]:
    """Returns the JSON document of a change of a slot: docs/reference/formats.md, `md fix`."""
    return {
        "format_version": FORMAT_VERSION,
        **plan.as_dict(),
        "diagnostics": [diagnostics.as_dict(reason) for reason in plan.refused],
        "outcome": outcome,
    }


def _show_rewrite(console: Console, plan: RewritePlan) -> None:
    for member in plan.listed:
        count = sum(bad.sectors for bad in member.ranges)
        places = list_names(list(map(str, member.ranges)), 4)
        flag = "; md has write_error, which blklab clears" if "write_error" in member.states else ""
        console.print(style_text(f"{member.path}: {count:,} bad sectors of the member: {places}{flag}"))
    steps = []
    if plan.pages and not plan.refused:
        count = len(plan.pages)
        steps = [rewrite.describe_reads(count), rewrite.describe_writes(count)]
        steps += [rewrite.COMPARE_PAGES, rewrite.WAIT_FOR_LISTS]
    for number, step in enumerate(steps, 1):
        console.print(style_text(f"{number:4}  {step}"))
    if plan.drops_lists and not plan.refused:
        sectors = sum(bad_range.sectors for bad_range in plan.lost)
        lines = (
            f"all members can read the {sectors:,} sectors without a good copy by the lists, and their copies agree:"
            " the lists are copies of one list, not defects",
            f"stop {plan.array.path}, compare again, and assemble it without bad-block lists",
        )
        for number, line in enumerate(lines, len(steps) + 1):
            console.print(style_text(printable(f"{number:4}  {line}")))
    elif plan.lost:
        show_left(console, plan)


def show_left(console: Console, result: RewritePlan) -> None:
    """Prints what is left in the lists after bad ranges were written again, or cannot be written again."""
    if result.lost:
        places = list_names([str(bad_range) for bad_range in result.lost], 4)
        line = (
            f"{result.array.path}: sectors {places} have no good copy and stay in the lists, because"
            f" {result.disagreement or 'their copies were not compared'}: write them again from a backup, or delete the"
            " files there"
        )
    elif result.listed:
        plan = command_lines.plan_fix_bbl(result.array.path)
        line = (
            f"{result.array.path}: the sectors that are left in the lists have no data of the array, "
            f"so that nothing can be written there; how to rebuild or replace such a member: {plan}"
        )
    elif all(member.bad_blocks is None for member in result.array.members):
        line = (
            f"{result.array.path}: no member has a bad-block list any more; check the array now:"
            f" {command_lines.check_array(result.array.path)}"
        )
    else:
        fix = command_lines.fix_bbl(result.array.path)
        line = f"{result.array.path}: no list has entries; to remove the lists: {fix}"
    console.print(style_text(printable(line)))


def show_recipe(console: Console, recipe: Recipe) -> None:
    """Prints a recipe without line breaks inside commands, so that they can be copied."""
    for line in recipe.lines:
        style = "" if line.startswith("#") else "green"
        console.print(style_text(printable(line), style))


def _show_steps(console: Console, plan: RepairPlan) -> None:
    disks = plan.array.raid_disks
    rows = [
        [
            str(number),
            describe_step(planned_step.step),
            f"{planned_step.in_sync}/{disks}",
            str(planned_step.failures_tolerated),
        ]
        for number, planned_step in enumerate(plan.steps, 1)
    ]
    columns = [*number_columns("step"), text_column("what"), *number_columns("in sync", "tolerates")]
    label = plan.array.title.removeprefix(plan.array.name)
    draw_table(console, TextTable(f"Plan for {printable(plan.array.path + label)}", columns, rows))
    console.print()
    console.print(style_text("Commands", "bold"))
    for number, planned_step in enumerate(plan.steps, 1):
        if planned_step.command:
            console.print(style_text(f"{number:4}  {printable(planned_step.command)}", "green"))
    console.print()
    for line in _risk_lines(plan):
        console.print(style_text(f"• {line}"))
    diagnostics.print_diagnostics(console, plan.warnings, "Warnings")


def _risk_lines(plan: RepairPlan) -> list[str]:
    """Returns sentences about risks and times, which the table does not show."""
    max_failures = min(planned_step.failures_tolerated for planned_step in plan.steps)
    failures = {0: "no failure", 1: "one more failure"}.get(max_failures, f"{max_failures} more failures")
    rebuild_seconds = plan.rebuild_seconds
    lines = [
        "After each step, blklab reads the state of the array again and decides only by it.",
        f"While a member is out, the array tolerates {failures}. "
        "mdadm --monitor sends a mail for each member that blklab fails.",
        "A member that comes back needs only the data that were written meanwhile, usually a matter of seconds.",
    ]
    if rebuild_seconds and rebuild_seconds >= 60:
        lines[-1] += f" A full rebuild of a member would take at least {format_duration(rebuild_seconds * 1e9)}."
    if plan.task.level in PARITIES:
        lines.append(
            "Writes are suspended while a member is out, for seconds per member; reads continue. "
            "So the array can start after a power failure."
        )
    return lines


def as_dict(
    plan: RepairPlan | RewritePlan | SlotPlan | RestartPlan | AssemblyPlan,
    outcome: steps.Step | RewritePlan | None = None,
) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md fix`."""
    if isinstance(plan, SlotPlan | RestartPlan | AssemblyPlan):
        return slot_as_dict(plan)
    warnings = plan.warnings if isinstance(plan, RepairPlan) else ()
    done = outcome and (outcome.as_dict() if isinstance(outcome, RewritePlan) else describe_step(outcome))
    return {
        "format_version": FORMAT_VERSION,
        **plan.as_dict(),
        "diagnostics": [diagnostics.as_dict(reason) for reason in (*plan.refused, *warnings)],
        "outcome": done,
    }
