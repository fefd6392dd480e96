"""Steady state, as SNIA defines it: run until a device's speed no longer changes.

SNIA Solid State Storage Performance Test Specification 2.0.2 (1 October 2020), 2.1.24: within the measurement window of
five rounds (a) the largest less the smallest value is no more than 20 % of their average, and (b) the largest less the
smallest value on the best linear fit is within 10 %.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blklab.errors import UsageError
from blklab.outcome import SteadyStateResult
from blklab.spec import documents as spec


@dataclass(frozen=True)
class Steadiness:
    """The state of the last rounds."""

    reached: bool
    range: float | None  # Largest less smallest, as a share of the mean; None until there are enough rounds
    slope: float | None  # Rise or fall of the fitted line over the window, as a share of the mean


def judge(rounds: Sequence[float], *, window: int = 5, most_range: float = 0.2, most_slope: float = 0.1) -> Steadiness:
    """Judges the last `window` rounds; shares are of their mean."""
    if window < 2:
        raise UsageError(f"found a window of {window} rounds, expected at least 2")
    if len(rounds) < window:
        return Steadiness(False, None, None)
    last = [float(value) for value in rounds[-window:]]
    mean = sum(last) / window
    if mean <= 0:
        return Steadiness(False, None, None)
    middle = (window - 1) / 2
    rise = sum((at - middle) * (value - mean) for at, value in enumerate(last))
    per_round = rise / sum((at - middle) ** 2 for at in range(window))
    spread = (max(last) - min(last)) / mean
    slope = abs(per_round) * (window - 1) / mean
    return Steadiness(spread <= most_range and slope <= most_slope, spread, slope)


def until_steady(wanted: spec.SteadyStateDocument, measure: Callable[[int], float]) -> SteadyStateResult:
    """Runs rounds until they are steady, or until there is no time for another.

    `wanted` is `host.steady` of a cell. `measure` runs a round: its argument is the number of
    rounds before it, and it returns IOPS. Returns `steady` of a result.
    """
    rounds: list[float] = []
    while True:
        steadiness = judge(
            rounds, window=int(wanted["rounds"]), most_range=float(wanted["range"]), most_slope=float(wanted["slope"])
        )
        used = (len(rounds) + 1) * int(wanted["round_ns"])
        if steadiness.reached or (rounds and used > int(wanted["limit_ns"])):
            break
        rounds.append(measure(len(rounds)))
    return {"reached": steadiness.reached, "rounds": rounds, "range": steadiness.range, "slope": steadiness.slope}
