"""Steady state, as SNIA defines it: run until a device's speed no longer changes.

SNIA Solid State Storage Performance Test Specification 2.0.2 (1 October 2020), 2.1.24: within the measurement window of
five rounds (a) the largest less the smallest value is no more than 20 % of their average, and (b) the largest less the
smallest value on the best linear fit is within 10 %.
"""

from collections.abc import Callable, Sequence

from blklab.errors import UsageError
from blklab.outcome import SteadyStateResult
from blklab.spec import documents as spec


def judge(
    rounds: Sequence[float], *, window: int = 5, most_range: float = 0.2, most_slope: float = 0.1
) -> SteadyStateResult:
    """Judges the last `window` rounds; `range` and `slope` are shares of their mean, None until there are enough."""
    if window < 2:
        raise UsageError(f"found a window of {window} rounds, expected at least 2")
    last = [float(value) for value in rounds[-window:]]
    mean = sum(last) / window
    if len(rounds) < window or mean <= 0:
        return {"reached": False, "rounds": rounds, "range": None, "slope": None}
    middle = (window - 1) / 2
    rise = sum((at - middle) * (value - mean) for at, value in enumerate(last))
    per_round = rise / sum((at - middle) ** 2 for at in range(window))
    spread = (max(last) - min(last)) / mean
    slope = abs(per_round) * (window - 1) / mean
    reached = spread <= most_range and slope <= most_slope
    return {"reached": reached, "rounds": rounds, "range": spread, "slope": slope}


def until_steady(wanted: spec.SteadyStateDocument, measure: Callable[[int], float]) -> SteadyStateResult:
    """Runs rounds until they are steady, or until there is no time for another.

    `wanted` is `host.steady` of a cell. `measure` runs a round and returns its IOPS; its argument is the number of
    rounds before it.
    """
    limits = {"most_range": float(wanted["range"]), "most_slope": float(wanted["slope"])}
    rounds: list[float] = []
    while True:
        state = judge(rounds, window=int(wanted["rounds"]), **limits)
        used = (len(rounds) + 1) * int(wanted["round_ns"])
        if state["reached"] or (rounds and used > int(wanted["limit_ns"])):
            return state
        rounds.append(measure(len(rounds)))
