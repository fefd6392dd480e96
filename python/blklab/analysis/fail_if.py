"""`--fail-if`: when a comparison is a failure: `iops < 0.95*baseline`, `p99 > 5ms`."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from blklab.analysis.compare import Comparison, Row
from blklab.analysis.metrics import METRICS
from blklab.errors import UsageError
from blklab.spec.problems import near
from blklab.units import parse_duration, parse_size

OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_WORDS: Final = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*(.+?)\s*", re.A)
_NUMBER: Final = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)"
_SHARE: Final = re.compile(rf"(?:{_NUMBER}\s*\*\s*)?baseline(?:\s*\*\s*{_NUMBER})?", re.A)


@dataclass(frozen=True)
class Condition:
    """A figure, and the bound that it must not cross."""

    text: str
    metric: str
    sign: str
    bound: float
    relative: bool
    """Whether the bound is a multiple of the baseline's figure."""


def parse(text: str) -> Condition:
    """Reads a condition. Raises UsageError."""
    match = _WORDS.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-if {text!r}: FIGURE < BOUND is wanted: 'iops < 0.95*baseline'")
    name, sign, bound = match.groups()
    if name not in METRICS:
        raise UsageError(f"--fail-if {text!r}: no figure is called {name!r}; {near(name, METRICS)}")
    if share := _SHARE.fullmatch(bound):
        factors = [float(part) for part in share.groups() if part is not None]
        if len(factors) == 2:
            raise UsageError(f"--fail-if {text!r}: baseline is multiplied once")
        return Condition(text, name, sign, factors[0] if factors else 1.0, True)
    try:
        return Condition(text, name, sign, _absolute(bound, METRICS[name].kind), False)
    except ValueError as error:
        raise UsageError(f"--fail-if {text!r}: {error}") from None


def _absolute(text: str, kind: str) -> float:
    if re.fullmatch(_NUMBER, text):
        return float(text)
    match kind:
        case "time":
            return float(parse_duration(text))
        case "bandwidth":
            return float(parse_size(text.removesuffix("/s")))
    raise ValueError(f"found {text!r}, a number or a multiple of baseline is wanted")


def failures(comparison: Comparison, condition: Condition, *, sure: bool) -> list[str]:
    """Returns a line for each cell and side that the condition holds of.

    With `sure`, a relative bound must lie outside the confidence interval as well, on the wrong
    side of it. Raises UsageError if there is nothing to judge: that is no success.
    """
    found = []
    rows = [row for row in comparison.rows if row.metric == condition.metric]
    judged = [
        value
        for row in rows
        for value in row.values[1:]
        if value is not None and (row.values[0] is not None or not condition.relative)
    ]
    if not judged:
        raise UsageError(
            f"--fail-if {condition.text!r}: no cell has {condition.metric} on both sides; they"
            f" are told apart by {', '.join(comparison.by) or 'nothing'}: see blklab runs show"
        )
    for row in rows:
        for at in range(1, len(row.values)):
            if _holds(row, at, condition, sure=sure):
                labels = " ".join(f"{label}={value}" for label, value in row.labels.items())
                found.append(
                    f"{comparison.sides[at]}{f' {labels}' if labels else ''}: {condition.text}"
                )
    return found


def _holds(row: Row, at: int, condition: Condition, *, sure: bool) -> bool:
    value, baseline, change = row.values[at], row.values[0], row.differences[at - 1]
    compare = OPERATORS[condition.sign]
    if value is None:
        return False
    if not condition.relative:
        return compare(value.mean, condition.bound)
    if baseline is None or not compare(value.mean, condition.bound * baseline.mean):
        return False
    if not sure:
        return True
    ends = (change.low, change.high) if change is not None else (None, None)
    return all(end is not None and compare(1 + end, condition.bound) for end in ends)
