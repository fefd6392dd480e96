"""The verdict of a comparison in at most five sentences: what is worse, better and the same, and what is not known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from blklab.compare.comparison import CellValue, Comparison, ComparisonRow
from blklab.compare.decision import AGREEMENTS, MOST_REPEATS, Decision
from blklab.compare.figure_text import change, deviation, figure, more_repeats
from blklab.compare.metrics import METRICS
from blklab.grouping import by_key
from blklab.render import formatting
from blklab.text.printing import printable

PLAIN_LABELS = ("stack", "workload")  # Their values are understood without their names
MOST_SENTENCES = 5
MOST_CELLS = 3  # Cells that a sentence describes; the others are counted
MOST_METRICS = 3  # Metrics of a cell that a sentence describes, in the order of the tables
TOO_NOISY = 1.0  # A change that can just be detected, from which on no number of repeats helps: the double, or the half

SETTLED = ("worse", "better", "differ", "outside")  # Verdicts that say that a figure is different


@dataclass(frozen=True)
class _Effect:
    """How a figure of a cell on one side differs from the baseline's."""

    cell: str
    metric: str
    before: CellValue
    after: CellValue
    decision: Decision

    @property
    def size(self) -> float:
        return abs(math.log(max(1 + self.decision.change, 1e-9)))


def has_known_ratio(row: ComparisonRow, side: int) -> bool:
    """Returns whether the ratio of a side to the baseline is known, although their figures are not."""
    decision = row.differences[side - 1]
    values = [value for value in (row.values[0], row.values[side]) if value is not None]
    is_pair = decision is not None and decision.known and decision.verdict not in AGREEMENTS
    return is_pair and any(not value.known for value in values)


def is_unknown_ratio(decision: Decision) -> bool:
    """Returns whether neither two predictions are known, nor their ratio."""
    return not decision.known and decision.verdict == "unknown"


def describe_verdict(comparison: Comparison) -> list[str]:
    """Returns the verdict in sentences, the answer first."""
    doubts = [_describe_single_runs(comparison) or _describe_noise(comparison), comparison.days_doubt]
    doubts = [doubt for doubt in doubts if doubt]
    limit = MOST_SENTENCES - len(doubts)
    is_pair = len(comparison.sides) == 2
    sentences = _describe_pair(comparison)[:limit] if is_pair else _describe_sides(comparison, limit)
    return [*sentences, *doubts]


def _list_effects(comparison: Comparison, side: int) -> list[_Effect]:
    """Returns the decided figures of a side, whose number is from 1."""
    effects = []
    for row in comparison.rows:
        decision = row.differences[side - 1]
        before, after = row.values[0], row.values[side]
        if decision is not None and before is not None and after is not None:
            effects.append(_Effect(_name_cell(row), row.metric, before, after, decision))
    return effects


def _name_cell(row: ComparisonRow) -> str:
    names = [value if label in PLAIN_LABELS else f"{label}={value}" for label, value in row.labels.items()]
    return printable(" ".join(names))


# --- two sides -----------------------------------------------------------------------------------


def _describe_pair(comparison: Comparison) -> list[str]:
    base, other = map(printable, comparison.sides)
    effects = _list_effects(comparison, 1)
    if not effects:
        return [_describe_nothing(comparison, 1)]
    cell_count = len({effect.cell for effect in effects})
    effects_by_verdict = by_key((effect.decision.verdict, effect) for effect in effects)
    sentences = []
    relations = {"worse": "is worse than", "better": "is better than", "differ": "differs from"}
    if all(comparison.predicted):
        relations = {"worse": "is predicted to be worse than", "better": "is predicted to be better than"}
    for verdict, relation in relations.items():
        of_verdict = effects_by_verdict.get(verdict, [])
        if of_verdict:
            place = _count_cells(of_verdict, cell_count)
            sentences.append(f"{other} {relation} {base}{place}: {_describe_effects(of_verdict)}.")
    outside = effects_by_verdict.get("outside", [])
    inside = effects_by_verdict.get("inside", [])
    if outside or inside:
        sentences.append(_describe_prediction(outside, inside))
    same = effects_by_verdict.get("same", [])
    if same:
        sentences.append(_describe_same(base, other, same, effects))
    undecided = [*effects_by_verdict.get("unclear", []), *effects_by_verdict.get("unknown", [])]
    ended = [effect for effect in undecided if effect.decision.change <= -1 and effect.decision.known]
    if ended:
        sentences.insert(0, f"{other} has none of what {base} has: {_describe_effects(ended)}.")
    unknown = [effect for effect in undecided if is_unknown_ratio(effect.decision)]
    if unknown:
        sentences.append(_describe_unknown(len(unknown), len(effects)))
    open_effects = [effect for effect in undecided if effect.decision.change > -1 and effect.decision.known]
    if open_effects:
        sentences.append(_describe_open(open_effects, len(effects)))
    return sentences


def _describe_nothing(comparison: Comparison, side: int) -> str:
    """Returns why no value of a side is compared."""
    base, other = printable(comparison.sides[0]), printable(comparison.sides[side])
    if any(row.values[0] is not None and row.values[side] is not None for row in comparison.rows):
        return f"The values of {base} are 0: no change of {other} can be computed."
    return f"{other} and {base} have no value in common."


def _count_cells(effects: Sequence[_Effect], cell_count: int) -> str:
    """Returns ` in 1 of 4 cells`; nothing for the only one."""
    if cell_count == 1:
        return ""
    return f" in {len({effect.cell for effect in effects})} of {cell_count} cells"


def _describe_effects(effects: Sequence[_Effect]) -> str:
    """Returns the cells with the largest effects, and those effects."""
    effects_by_cell = by_key((effect.cell, effect) for effect in effects)
    cells = sorted(effects_by_cell, key=lambda cell: -max(effect.size for effect in effects_by_cell[cell]))
    texts = []
    for cell in cells[:MOST_CELLS]:
        effects_of_cell = effects_by_cell[cell]
        figures = [_describe_effect(effect) for effect in effects_of_cell[:MOST_METRICS]]
        if len(effects_of_cell) > MOST_METRICS:
            figures.append(f"{len(effects_of_cell) - MOST_METRICS} more")
        texts.append(f"{cell}: {formatting.listing(figures)}" if cell else formatting.listing(figures))
    if len(cells) > MOST_CELLS:
        texts.append(f"{len(cells) - MOST_CELLS} more in the tables")
    return "; ".join(texts)


def _describe_effect(effect: _Effect) -> str:
    decision = effect.decision
    description = METRICS[effect.metric].description
    details = f"{figure(effect.metric, effect.before.mean)} to {figure(effect.metric, effect.after.mean)}"
    if not decision.known:
        return f"{description} ({_describe_outside(effect)})"
    if not (effect.before.known and effect.after.known):
        details = "the ratio is known, the figures are not"
    if decision.low is not None and decision.high is not None and decision.verdict in {"worse", "better"}:
        details += f"; interval {change(decision.low)} to {change(decision.high)}"
    return f"{description} {change(decision.change)} ({details})"


def _describe_outside(effect: _Effect) -> str:
    """Returns a measurement, and the interval of a prediction that is not known."""
    predicted, measured = (effect.before, effect.after) if effect.after.known else (effect.after, effect.before)
    ends = [figure(effect.metric, end) for end in (predicted.low, predicted.high) if end is not None]
    return f"measured {figure(effect.metric, measured.mean)}, expected {' to '.join(ends)}"


def _describe_prediction(outside: Sequence[_Effect], inside: Sequence[_Effect]) -> str:
    effects = [*outside, *inside]
    count = len(effects)
    inside_count = len(inside)
    values = formatting.plural(count, "measured value")
    text = f"{inside_count} of {values} {_verb(inside_count)} inside the prediction"
    if outside:
        text += f"; outside: {_describe_effects(outside)}"
    if any(not effect.decision.known for effect in effects):
        text += "; what is not known has a wide interval, so this says little"
    return text + "."


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"


def _describe_same(base: str, other: str, same: Sequence[_Effect], effects: Sequence[_Effect]) -> str:
    within = formatting.share(max(effect.decision.within or 0.0 for effect in same))
    if len(same) == len(effects):
        return f"{other} and {base} are the same within ±{within}: no compared value differs."
    if len(same) == 1:
        return f"1 of {len(effects)} compared values is the same within ±{within}."
    return f"{len(same)} of {len(effects)} compared values are the same within ±{within}."


def _describe_unknown(unknown_count: int, count: int) -> str:
    text = f"{unknown_count} of {formatting.plural(count, 'compared value')} {_verb(unknown_count)} not known"
    if unknown_count == count:
        text = "Whether they differ is not known"
    return f"{text}: the intervals of the predictions are too wide. Measure the disks with `blklab calibrate`."


def _describe_open(open_effects: Sequence[_Effect], count: int) -> str:
    text = f"Cannot tell for {len(open_effects)} of {formatting.plural(count, 'compared value')}"
    if len(open_effects) == count:
        text = "Cannot tell whether they differ"
    decisions = [effect.decision for effect in open_effects]
    repeats = [decision.repeats for decision in decisions if decision.repeats]
    if any(decision.of_model for decision in decisions):
        return f"{text}: the error of the model is larger than the difference. Measure."
    if repeats and max(repeats) > MOST_REPEATS:
        return f"{text}: over {MOST_REPEATS} more repeats are needed."
    if repeats:
        verb = "is" if max(repeats) == 1 else "are"
        return f"{text}: {more_repeats(max(repeats))} {verb} needed."
    return f"{text}."


# --- more sides ----------------------------------------------------------------------------------


def _describe_sides(comparison: Comparison, limit: int) -> list[str]:
    """Returns a sentence for each side; if there are more than `limit`, those that differ most come first."""
    base = printable(comparison.sides[0])
    pairs = []
    for side in range(1, len(comparison.sides)):
        effects = _list_effects(comparison, side)
        largest_settled = max((effect.size for effect in effects if effect.decision.verdict in SETTLED), default=0.0)
        largest = max((effect.size for effect in effects), default=0.0)
        sentence = _describe_side(base, printable(comparison.sides[side]), effects)
        if not effects:
            sentence = _describe_nothing(comparison, side)
        pairs.append(((largest_settled, largest), sentence))
    if len(pairs) <= limit:
        return [sentence for _, sentence in pairs]
    pairs.sort(key=lambda pair: pair[0], reverse=True)
    rest = len(pairs) - limit + 1
    return [*(sentence for _, sentence in pairs[: limit - 1]), f"{rest} more sides are in the tables."]


def _describe_side(base: str, other: str, effects: Sequence[_Effect]) -> str:
    effects_by_verdict = by_key((effect.decision.verdict, effect) for effect in effects)
    parts = []
    for verdict, word in (("worse", "worse"), ("better", "better"), ("differ", "different"), ("outside", "outside")):
        of_verdict = effects_by_verdict.get(verdict, [])
        if of_verdict:
            largest = max(of_verdict, key=lambda effect: effect.size)
            text = _describe_effect(largest)
            if largest.cell:
                text = f"{largest.cell}: {text}"
            parts.append(f"{len(of_verdict)} {word}, most of all {text}")
    for verdict, word in (("inside", "inside the prediction"), ("same", "the same")):
        if verdict in effects_by_verdict:
            parts.append(f"{len(effects_by_verdict[verdict])} {word}")
    open_effects = [*effects_by_verdict.get("unclear", []), *effects_by_verdict.get("unknown", [])]
    unknown_count = sum(is_unknown_ratio(effect.decision) for effect in open_effects)
    if unknown_count:
        parts.append(f"{unknown_count} not known")
    if len(open_effects) > unknown_count:
        parts.append(f"cannot tell for {len(open_effects) - unknown_count}")
    return f"{other} against {base}, {formatting.plural(len(effects), 'compared value')}: {'; '.join(parts)}."


# --- doubts --------------------------------------------------------------------------------------


def _describe_single_runs(comparison: Comparison) -> str:
    """Returns what single runs mean, if figures cannot be decided because of them."""
    for row in comparison.rows:
        for side, decision in enumerate(row.differences, 1):
            runs = [value.runs for value in (row.values[0], row.values[side]) if value is not None]
            if decision is None or decision.of_model or min(runs) > 1:
                continue
            if decision.once or decision.verdict == "unknown":
                return "Some cells were run once: their differences may be chance. Use repeats = 2 or more."
    return ""


def _describe_noise(comparison: Comparison) -> str:
    """Returns that the runs vary too much, if no number of repeats helps half of the figures."""
    decisions = [decision for row in comparison.rows for decision in row.differences if decision is not None]
    powers = [decision.detectable for decision in decisions if decision.detectable]
    if not powers or sorted(powers)[len(powers) // 2] < TOO_NOISY:
        return ""
    largest = max(deviation(value) for row in comparison.rows for value in row.values if value is not None)
    return f"Too noisy: runs differ from their mean by up to {formatting.share(largest)}: find the noise first."
