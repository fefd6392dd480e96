"""Plans the removal of the bad-block lists of several arrays, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blklab.errors import BlklabError
from blklab.md.inventory import read_inventory
from blklab.md.model import Array
from blklab.md.repair.array_state import find_members_with_lists
from blklab.md.repair.plan import RepairPlan, find_array, make_plan
from blklab.system.roots import Roots

WAITING_CODES = frozenset({"under-way", "neighbour"})
"""Codes of refusals that end by themselves: md is working on the array, or on another one on the same disks."""


@dataclass(frozen=True)
class ArraysPlan:
    """What is to be done with each of several arrays. An array is in exactly one of the lists."""

    repairs: tuple[RepairPlan, ...]  # Possible now, or after what md does has ended; in this order
    refused: tuple[RepairPlan, ...]
    without_lists: tuple[Array, ...]  # No member has a list
    only_stopped: tuple[Array, ...]  # Lists of a level without redundancy: only a stopped array loses them
    not_assembled: tuple[Array, ...] = ()  # Arrays on the disks of this host, which were not examined

    @property
    def leaves_lists(self) -> bool:
        """Whether lists remain, or may remain, if all repairs succeed."""
        return bool(self.refused or self.only_stopped or self.not_assembled)

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON, without the plans."""
        return {
            "without_lists": [array.name for array in self.without_lists],
            "only_stopped": [array.name for array in self.only_stopped],
            "not_assembled": [array.name for array in self.not_assembled],
        }


def is_waiting(plan: RepairPlan) -> bool:
    """Whether a plan is refused only because md is working."""
    return bool(plan.refused) and all(reason.code in WAITING_CODES for reason in plan.refused)


def plan_arrays(names: Sequence[str], roots: Roots, *, wait: bool) -> ArraysPlan:
    """Returns the plan for the arrays `names`; without names, for all arrays of this host. Changes nothing.

    With `wait`, an array on which md is working is a repair, not a refusal. Raises BlklabError if a repair of an array
    is unfinished, or a name is not that of an array.
    """
    not_assembled: tuple[Array, ...] = ()
    if names:
        arrays = [find_array(name, roots) for name in names]
    else:
        inventory = read_inventory(roots)
        if inventory.unseen:
            raise BlklabError(f"cannot see all arrays: {'; '.join(inventory.unseen)}")
        arrays = list(inventory.arrays)
        not_assembled = inventory.unassembled
    _refuse_duplicates(arrays)
    repairs, refused, without_lists, only_stopped = [], [], [], []
    for array in {array.path: array for array in arrays}.values():
        if array.external or array.metadata.startswith("0") or not find_members_with_lists(array.uuid, roots):
            without_lists.append(array)
            continue
        if not array.redundant:
            only_stopped.append(array)
            continue
        plan = make_plan(array.path, roots)
        if plan.steps or (wait and is_waiting(plan)):
            repairs.append(plan)
        else:
            refused.append(plan)
    return ArraysPlan(tuple(repairs), tuple(refused), tuple(without_lists), tuple(only_stopped), not_assembled)


def _refuse_duplicates(arrays: Sequence[Array]) -> None:
    """Raises BlklabError if two assembled arrays have one UUID, as clones or overlays: a repair finds arrays by it."""
    paths: dict[str, str] = {}
    for array in arrays:
        other = paths.setdefault(array.uuid, array.path)
        if array.uuid and other != array.path:
            raise BlklabError(
                f"{other} and {array.path} have the same UUID: one is a copy; stop it, or name the others"
            )


def refuse_doubts(plan: RepairPlan) -> None:
    """Raises BlklabError if the check that was waited for has found what speaks against taking a member out."""
    doubts = [warning for warning in plan.warnings if warning.code in {"mismatches", "read-errors"}]
    if doubts:
        raise BlklabError(
            f"{plan.array.path}: not repaired: {doubts[0].message}: look at them first, then run the command for this "
            "array alone"
        )


def plan_again(before: RepairPlan, roots: Roots) -> RepairPlan:
    """Returns the present plan of an array whose turn has come.

    Raises BlklabError if its path is that of another array, or if the steps are not those that the user has seen.
    """
    plan = make_plan(before.array.path, roots)
    if plan.array.uuid != before.array.uuid:
        raise BlklabError(f"{before.array.path}: this is another array now: run the command again")
    commands_before = [step.command for step in before.steps]
    if commands_before and plan.steps and commands_before != [step.command for step in plan.steps]:
        raise BlklabError(
            f"{before.array.path}: the array has changed since the plan was printed: "
            "run the command again and check the new plan"
        )
    return plan
