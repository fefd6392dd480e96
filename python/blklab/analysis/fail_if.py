"""`--fail-if`: when a comparison is a failure: `iops < 0.95*baseline`, `p99 > 5ms`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from blklab.analysis.comparison import Comparison, ComparisonRow
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


@dataclass(frozen=True)
class Judgement:
    """What a condition says of a comparison, each a line for a cell and a side."""

    failed: Sequence[str]
    missing: Sequence[str]
    """Cells of the baseline that another side lacks."""

    unsure: Sequence[str]
    """Cells whose interval is not known, if the condition must be sure."""

    nothing: str = ""
    """Why no cell at all could be judged."""

    def unjudged(self, *, allow_missing: bool) -> list[str]:
        """Returns what was not judged and would have to be, for this to be a success."""
        if self.nothing:
            return [self.nothing]
        return [*([] if allow_missing else self.missing), *self.unsure]


def judged(comparison: Comparison, condition: Condition, *, sure: bool) -> Judgement:
    """Returns of which cells and sides a condition holds, and of which nothing can be said.

    With `sure`, the whole confidence interval must be beyond the bound: of the change if this is
    relative, else of the side's own mean. A cell that the baseline lacks is no failure.
    """
    failed, missing, unsure = [], [], []
    rows = [row for row in comparison.rows if row.metric == condition.metric]
    count = 0
    for row in rows:
        labels = " ".join(f"{label}={value}" for label, value in row.labels.items())
        for at in range(1, len(row.values)):
            side = comparison.sides[at]
            for cell in row.lacks[at - 1] if row.lacks else ():
                where = " ".join(filter(None, (labels, cell)))
                missing.append(f"{condition.metric}: {where}: not measured on {side}")
            if row.values[at] is None:
                where = f"{condition.metric}: {labels}{': ' if labels else ''}"
                missing.append(f"{where}not measured on {side}")
                continue
            if row.values[0] is None and condition.relative:
                continue
            count += 1
            where = f"{side}{f' {labels}' if labels else ''}"
            if sure and _ends(row, at, condition) is None:
                unsure.append(f"--sure: {where}: {_why(row, at, condition)}")
            elif _holds(row, at, condition, sure=sure):
                failed.append(f"{where}: {condition.text}")
    nothing = (
        ""
        if count
        else f"--fail-if {condition.text!r}: no cell has {condition.metric} on both sides; they"
        f" are told apart by {', '.join(comparison.by) or 'nothing'}: see blklab runs show"
    )
    return Judgement(failed, missing, unsure, nothing)


def _holds(row: ComparisonRow, at: int, condition: Condition, *, sure: bool) -> bool:
    value, baseline = row.values[at], row.values[0]
    if value is None:
        return False
    if sure:
        points = _ends(row, at, condition) or ()
        bound = condition.bound
    else:
        points = (value.mean,)
        bound = condition.bound
        if condition.relative:
            bound *= 0.0 if baseline is None else baseline.mean
    return bool(points) and all(OPERATORS[condition.sign](point, bound) for point in points)


def _ends(row: ComparisonRow, at: int, condition: Condition) -> tuple[float, ...] | None:
    """Returns the interval and what is in it, of the share of the baseline or of the mean."""
    value, change = row.values[at], row.differences[at - 1]
    if not condition.relative:
        if value is None or value.low is None or value.high is None:
            return None
        return value.low, value.mean, value.high
    if change is None or change.once or change.low is None or change.high is None:
        return None
    return 1 + change.low, 1 + change.change, 1 + change.high


def _why(row: ComparisonRow, at: int, condition: Condition) -> str:
    value, baseline = row.values[at], row.values[0]
    once = value is not None and value.runs == 1
    if condition.relative:
        once = once and baseline is not None and baseline.runs == 1
    if once:
        return "one run says nothing of how the next would differ: repeats = 2 or more"
    return "nothing tells how sure its figure is"
