"""Conditions of `--fail-if`, such as `iops < 0.95*baseline` or `p99 > 5ms`."""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from blklab.compare.comparison import Comparison, ComparisonRow
from blklab.compare.decision import AGREEMENTS, next_look
from blklab.compare.metrics import LATENCIES, METRICS, metric_name
from blklab.errors import UsageError
from blklab.units import parse_duration, parse_size

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_WORDS = re.compile(r"\s*([\w.]+)\s*(<=|>=|<|>)\s*(.+?)\s*", re.A)
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)"
_SHARE = re.compile(rf"(?:{_NUMBER}\s*\*\s*)?baseline(?:\s*\*\s*{_NUMBER})?", re.A)


@dataclass(frozen=True)
class Condition:
    """A metric and the bound for it."""

    text: str
    metric: str
    sign: str
    bound: float
    relative: bool  # Whether the bound is a multiple of the baseline's value

    def holds(self, value: float) -> bool:
        """Tells whether the condition is true for a value: a multiple of the baseline's if it is relative."""
        return OPERATORS[self.sign](value, self.bound)


def parse_condition(text: str) -> Condition:
    """Parses a condition. Raises UsageError."""
    match = _WORDS.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-if {text!r}: expected METRIC < BOUND, such as 'iops < 0.95*baseline'")
    name, sign, bound = match.groups()
    try:
        name = metric_name(name)
    except UsageError as error:
        raise UsageError(f"--fail-if {text!r}: {error}") from None
    if share := _SHARE.fullmatch(bound):
        factors = [float(part) for part in share.groups() if part is not None]
        if len(factors) == 2:
            raise UsageError(f"--fail-if {text!r}: expected one factor of baseline")
        return Condition(text, name, sign, factors[0] if factors else 1.0, True)
    try:
        return Condition(text, name, sign, _absolute(bound, "time" if name in LATENCIES else METRICS[name].kind), False)
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
    raise ValueError(f"found {text!r}, expected a number or a multiple of baseline")


@dataclass(frozen=True)
class Judgement:
    """The judgement of a condition: one line for each cell and side. It passed if all are empty."""

    failed: Sequence[str]
    missing: Sequence[str]  # Cells of the baseline that are missing on another side
    undecided: Sequence[str]  # Cells whose interval is unknown or on both sides of the bound, and what decides
    nothing: str = ""  # The reason why no cell could be judged

    def list_unjudged(self, *, allow_missing: bool) -> list[str]:
        """Returns the lines about what was not judged but must be, for a success."""
        if self.nothing:
            return [self.nothing]
        return [] if allow_missing else [*self.missing]


def judge_condition(comparison: Comparison, condition: Condition, *, sure: bool) -> Judgement:
    """Returns where a condition is true and where it cannot be judged.

    With `sure`, the whole confidence interval must be beyond the bound for a failure, and within it for a success: the
    interval of the change for a relative bound, otherwise that of the side's mean. Without, the measured value decides.
    A cell that the baseline lacks is not a failure.
    """
    failures: list[str] = []
    missing: list[str] = []
    undecided_lines: list[str] = []
    count = 0
    for row in comparison.rows:
        if condition.metric not in row.requested_names:
            continue
        labels = " ".join(f"{label}={value}" for label, value in row.labels.items())
        for side_number in range(1, len(row.values)):
            side = comparison.sides[side_number]
            for cell in row.lacks[side_number - 1] if row.lacks else ():
                place = " ".join(filter(None, (labels, cell)))
                missing.append(f"{row.metric}: {place}: not measured on {side}")
            if row.values[side_number] is None:
                place = f"{row.metric}: {labels}" if labels else row.metric
                missing.append(f"{place}: not measured on {side}")
                continue
            if row.values[0] is None and condition.relative:
                continue
            count += 1
            place = f"{side} {labels}" if labels else side
            metric_text = "" if row.metric == condition.metric else f" ({row.metric})"
            ends = _ends(row, side_number, condition) if sure else _point(row, side_number, condition)
            holds = {condition.holds(end) for end in ends}
            if holds == {True}:
                failures.append(f"{place}: {condition.text}{metric_text}")
            elif holds != {False}:
                undecided_lines.append(
                    f"{place}: {condition.text}{metric_text}: cannot tell, {_doubt(row, side_number, condition)}"
                )
    labels = ", ".join(comparison.by) or "nothing"
    nothing = (
        f"--fail-if {condition.text!r}: no cell has {condition.metric} on both sides; "
        f"the cells differ in {labels}: see blklab runs show"
    )
    return Judgement(failures, missing, undecided_lines, "" if count else nothing)


def _point(row: ComparisonRow, side_number: int, condition: Condition) -> list[float]:
    """Returns the value that is compared with the bound: a multiple of the baseline, or a mean; none if not known."""
    value = row.values[side_number]
    baseline = row.values[0]
    change = row.differences[side_number - 1]
    mean = value.mean if value else math.nan
    if not condition.relative:
        return [mean] if value is None or value.known else []
    if change is not None and not change.known:
        return []
    return [mean / baseline.mean if baseline and baseline.mean else math.inf]


def _ends(row: ComparisonRow, side_number: int, condition: Condition) -> list[float]:
    """Returns the ends of the interval, of the change or of the mean; none if it is unknown."""
    value = row.values[side_number]
    change = row.differences[side_number - 1]
    if not condition.relative:
        return [] if value is None or value.low is None or value.high is None else [value.low, value.high]
    if change is None or not change.known:
        return []
    if change.once or change.low is None or change.high is None or change.verdict in AGREEMENTS:
        return []
    return [1 + change.low, 1 + change.high]


def _doubt(row: ComparisonRow, side_number: int, condition: Condition) -> str:
    """Returns why a cell is undecided, and what decides it."""
    value = row.values[side_number]
    change = row.differences[side_number - 1]
    is_known = value is None or value.known
    if condition.relative:
        is_known = change is None or change.known
    if not is_known:
        return "the prediction is not known: measure"
    if change is not None and change.of_model and condition.relative:
        agrees = change.verdict in AGREEMENTS
        return "one side is predicted: measure both" if agrees else "the model's error includes the bound: measure"
    if not _ends(row, side_number, condition):
        return "the variation between runs is unknown with one run: use repeats = 2 or more"
    runs = value.runs if value else 1
    return f"the interval includes the bound: use repeats = {next_look(runs)} or more"
