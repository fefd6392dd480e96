"""Simulations whose length `max_ios` limits: without their warm-up, and longer if they are not steady at their end.

`max_ios` says how much to compute, and nothing about the load. The rate should therefore not depend on it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from blklab.experiment.cells import Cell
from blklab.experiment.documents import arrays_and_volumes
from blklab.experiment.placement import CACHES
from blklab.outcome import Outcome
from blklab.runners.sim.cache_states import with_full_caches
from blklab.runners.sim.uncertainty import total_iops, unsteady

LONGEST = 16
"""How many times `max_ios` a run may become."""

STEP = 4  # By how many times a run becomes longer

NOTICEABLE = 0.02
"""The share of the rate from which on a warm-up is cut off: less is within the chance of a run."""

NEARLY_ALL = 0.9
"""The share of its bytes from which on a job is taken for ended."""

BATCH = 5
"""Intervals of the series that are averaged: MSER-5."""


def simulate_steadily(
    cell: Cell, document: dict[str, Any], simulate: Callable[[dict[str, Any]], Outcome]
) -> tuple[dict[str, Any], Outcome]:
    """Returns the outcome of a document of a cell, and the document that was simulated in the end.

    A run that `max_ios` ended is simulated again without its warm-up (`ramp_ns`), and longer if it was not steady at
    its end. Others are simulated once: runs with a `runtime`, traces, loads with a ramp of their own, caches, whose
    warm-up is shown, and writes to caches of single-bit cells, whose two states are described.
    """
    outcome = simulate(document)
    has_cache = any(kind in CACHES for kind, _ in arrays_and_volumes(document["stack"]))
    is_other = bool(document.get("ramp_ns") or document.get("replay") or has_cache)
    if not document.get("max_ios") or is_other or with_full_caches(cell) is not None:
        return document, outcome
    longest = LONGEST * document["max_ios"]
    simulated = document, outcome
    # Without a job that has ended, the load is another one: the run before counts.
    while not has_ended_job(document, outcome):
        simulated = document, outcome
        is_unsteady = unsteady(replace(cell, document=cast(Any, document)), outcome) == "max_ios"
        is_longer = is_unsteady and document["max_ios"] * STEP <= longest
        warm_up_ns = find_warm_up(outcome)
        ramp_ns = document.get("ramp_ns", 0)
        if not is_longer and (not warm_up_ns or ramp_ns):
            return simulated
        document = {**document, "ramp_ns": ramp_ns + warm_up_ns}
        if is_longer:
            document["max_ios"] *= STEP
        outcome = simulate(document)
    return simulated


def has_ended_job(document: Mapping[str, Any], outcome: Outcome) -> bool:
    """Returns whether a job has done about all its I/Os, or the run ended before `max_ios`."""
    if outcome.read.clat_ns.count + outcome.write.clat_ns.count < document["max_ios"]:
        return True
    bytes_by_name = {group.name: group.read.io_bytes + group.write.io_bytes for group in outcome.groups}
    # What is done in the ramp is not counted.
    whole = 1 + document.get("ramp_ns", 0) / max(1, outcome.runtime_ns)
    for job in document["jobs"]:
        done = bytes_by_name.get(job["name"], 0) * whole
        to_do = job["numjobs"] * job["io_bytes"]
        if done >= NEARLY_ALL * to_do or (document.get("ramp_ns") and not done):
            return True
    return False


def find_warm_up(outcome: Outcome) -> int:
    """Returns the time in ns after which the rate is constant; 0 if the rate before hardly differs.

    It is the cut that makes the standard error of the mean of the rest smallest, at most half of the run: the marginal
    standard error rule of White (1997), with batches of five.
    """
    points = [point for point in outcome.series if point["width_ns"] > 0]
    if len(points) < 4 * BATCH:
        return 0
    rates, times = [], []
    for first in range(0, len(points) - BATCH + 1, BATCH):
        batch = points[first : first + BATCH]
        width_ns = sum(point["width_ns"] for point in batch)
        rates.append(sum(sum(point["ios"]) for point in batch) * 1e9 / width_ns)
        times.append(batch[0]["time_ns"])
    cut = find_cut(rates)
    if not cut:
        return 0
    rest = sum(rates[cut:]) / (len(rates) - cut)
    return times[cut] if abs(rest / total_iops(outcome) - 1) > NOTICEABLE else 0


def find_cut(rates: Sequence[float]) -> int:
    """Returns how many of the first rates to leave out, at most half of them."""
    best_cut, least_error = 0, float("inf")
    for cut in range(len(rates) // 2 + 1):
        rest = rates[cut:]
        mean = sum(rest) / len(rest)
        squared_error = sum((rate - mean) ** 2 for rate in rest) / len(rest) ** 2
        if squared_error < least_error:
            best_cut, least_error = cut, squared_error
    return best_cut
