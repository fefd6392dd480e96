"""What to do about a repair that did not end: decided by the present state, not by what the last run printed."""

import os
from dataclasses import replace

from blklab.errors import BlklabError
from blklab.md import command_lines
from blklab.md.model import Inventory
from blklab.md.probing import journal_path
from blklab.md.repair.array_state import read_array_state
from blklab.md.repair.journal import read_any_journal
from blklab.md.repair.steps import Stop, decide_next_step
from blklab.md.repair.task import RepairTask
from blklab.system.roots import Roots


def add_unfinished_repairs(inventory: Inventory, roots: Roots) -> Inventory:
    """Returns an inventory of this host whose arrays have what to do about their unfinished repairs."""
    arrays = []
    for array in inventory.arrays:
        advice = describe_unfinished_repair(array.uuid, roots) if array.repairing else ()
        arrays.append(replace(array, unfinished_repair=advice))
    return replace(inventory, arrays=tuple(arrays))


def describe_unfinished_repair(uuid: str, roots: Roots) -> tuple[str, ...]:
    """Returns what to know about the unfinished repair of an array, and the commands that end it now."""
    resume = command_lines.resume_fix()
    task = None
    problem = ""
    for directory in dict.fromkeys((roots.state, roots.state_of_root)):
        path = journal_path(uuid, replace(roots, state=directory))
        if os.path.lexists(path):
            try:
                task = read_any_journal(path)
            except BlklabError as error:
                problem = str(error)
    if task is None and problem:  # it says which file to delete
        return (problem, command_lines.audit_arrays())
    if task is None:
        return ("if it is not running now, continue it", resume)
    if not isinstance(task, RepairTask) or task.entries:
        return ("if it is not running now, continue it", resume)
    try:
        state = read_array_state(task, roots)
    except BlklabError:  # it was stopped meanwhile
        return ("if it is not running now, continue it", resume)
    step = decide_next_step(state, task)
    if isinstance(step, Stop) and step.remedy:
        return (step.reason, *step.remedy)
    return ("if it is not running now, continue it", resume)
