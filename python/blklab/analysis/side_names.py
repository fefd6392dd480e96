"""What distinguishes campaigns: their names, stacks, devices, files or hosts."""

from collections.abc import Sequence
from typing import Final

from blklab.outcome import target_devices
from blklab.spec.workload import Job
from blklab.store.query import Selection, StoredRun
from blklab.text import differing

PLACES: Final = ("campaign", "stack", "device", "file", "host", "source", "heading")
"""Labels that say where a workload ran."""

LOAD: Final = frozenset({"workload", "repeat", *Job.model_fields})  # Labels that say what a workload does


def distinguish(selections: Sequence[Selection]) -> tuple[str, list[str]] | None:
    """Returns the first place that differs between all campaigns, and its values; None without any."""
    for place in PLACES:
        values = [_only(selection, place) for selection in selections]
        if all(values) and len(set(values)) == len(values):
            return place, differing(values) if place in {"file", "source"} else values
    return None


def _only(selection: Selection, place: str) -> str:
    """Returns the value that all runs of a campaign share; empty without one."""
    if place == "campaign":
        return selection.campaign.name
    values = {_value(run, place) for run in selection.runs}
    return values.pop() if len(values) == 1 else ""


def _value(run: StoredRun, place: str) -> str:
    if place in run.labels:
        return run.labels[place]
    if place == "device":
        return target_devices(run.outcome or {})
    options = [job.get("options", {}) for job in run.cell.get("jobs") or []]
    keys = {"file": ("filename", "directory"), "host": ("hostname",)}.get(place, ())
    return next((str(each[key]) for each in options for key in keys if each.get(key)), "")


def labels_of_sides(sides: Sequence[Sequence[StoredRun]]) -> set[str]:
    """Returns the labels that have one value on each side, not the same on all, and say where the
    workloads ran: they distinguish sides, not cells.
    """
    every = {label for side in sides for run in side for label in run.labels} - LOAD
    values = {label: [{run.labels.get(label, "") for run in side} for side in sides] for label in every}
    return {
        label
        for label, on in values.items()
        if all(len(side) == 1 for side in on) and any(side != on[0] for side in on)
    }
