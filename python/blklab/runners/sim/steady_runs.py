"""Simulations whose length `max_ios` limits: without their warm-up, and longer if they are not steady at their end.

`max_ios` says how much to compute, and nothing about the load. The rate should therefore not depend on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

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
    most_ios = document.get("max_ios")
    has_cache = any(kind in CACHES for kind, _ in arrays_and_volumes(document["stack"]))
    is_other = bool(document.get("ramp_ns") or document.get("replay") or has_cache)
    if not most_ios or is_other or with_full_caches(cell) is not None:
        return document, outcome
    longest = LONGEST * most_ios
    while True:
        current = replace(cell, document=document)
        is_unsteady = unsteady(current, outcome) == "max_ios"
        ended_early = outcome.read.clat_ns.count + outcome.write.clat_ns.count < document["max_ios"]
        warm_up_ns = 0 if ended_early else find_warm_up(outcome)
        is_longer = is_unsteady and document["max_ios"] * STEP <= longest
        if not is_longer and not warm_up_ns:
            return document, outcome
        ramp_ns = document.get("ramp_ns", 0)
        if ramp_ns and not is_longer:
            return document, outcome
        document = {**document, "ramp_ns": ramp_ns + warm_up_ns}
        if is_longer:
            document["max_ios"] *= STEP
        outcome = simulate(document)


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
