"""Tables of a comparison, one for each metric, and of the runs that it needs."""

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import fmean, pvariance

from blklab.compare.comparison import CellValue, Comparison, ComparisonRow
from blklab.compare.decision import MOST_REPEATS, Decision, mean_over_cells
from blklab.compare.figure_text import (
    cell_figure,
    chance,
    change,
    change_of,
    deviation,
    figure,
    interval,
    more_repeats,
    probability,
)
from blklab.compare.metrics import METRICS
from blklab.compare.reproduction import JudgedFigure, are_too_few, group_reasons
from blklab.compare.run_planning import RunPlan
from blklab.compare.verdict import MOST_SENTENCES, TOO_NOISY, describe_verdict, has_known_ratio, is_unknown_ratio
from blklab.experiment.cells import ExperimentPlan
from blklab.grouping import by_key
from blklab.outcome import NOMINAL, NOT_KNOWN
from blklab.render import diagnostics, formatting, terminal
from blklab.render.console import Console
from blklab.render.table import TableColumn, TextTable, number_columns, only, text_column
from blklab.text.printing import printable
from blklab.units import format_duration


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Prints the verdict in at most five sentences, then the tables, then what the runs can detect."""
    sentences = verdict_sentences(comparison)
    for sentence in sentences[:MOST_SENTENCES]:
        console.print(sentence)
    terminal.draw_table(console, *tables(comparison))
    console.print()
    for sentence in sentences[MOST_SENTENCES:]:
        console.print(sentence)
    for name in _metrics(comparison):
        console.print(summary(comparison, name))
    diagnostics.print_diagnostics(console, comparison.notes, "Notes")


def verdict_sentences(comparison: Comparison) -> list[str]:
    """Returns the verdict; the average over all cells first, where cells were run once."""
    averages = headlines(comparison)
    verdict = describe_verdict(comparison)
    shown_averages = averages[: max(1, MOST_SENTENCES - len(verdict))]
    return [*shown_averages, *verdict, *averages[len(shown_averages) :]]


def tables(comparison: Comparison) -> list[TextTable]:
    """Returns a table for each metric, with one row for each cell and compared side."""
    rows_by_metric = by_key((row.metric, row) for row in comparison.rows)
    return [_table(comparison, name, rows) for name, rows in rows_by_metric.items()]


def _metrics(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(row.metric for row in comparison.rows))


def _table(comparison: Comparison, name: str, rows: Sequence[ComparisonRow]) -> TextTable:
    sides = _side_names(comparison)
    many = len(sides) > 2
    decisions = [decision for row in rows for decision in row.differences if decision]
    by_model = any(decision.of_model for decision in decisions)
    confidence = NOMINAL if by_model else comparison.confidence
    level = f"{100 * confidence:g} % interval"
    columns = [text_column(label) for label in comparison.by]
    columns += [TableColumn(sides[0]), TableColumn("±")]
    if many:
        columns.append(text_column("against"))
    columns += [TableColumn("" if many else sides[1]), TableColumn("±"), TableColumn("change")]
    columns += [TableColumn(level), TableColumn("p"), text_column("")]
    body = []
    for row in rows:
        for side in range(1, len(row.values)):
            cells = [printable(row.labels[label]) for label in comparison.by]
            cells += value(name, row.values[0])
            if many:
                cells.append(sides[side])
            cells += value(name, row.values[side])
            cells += difference(row.differences[side - 1])
            cells.append(verdict(row.differences[side - 1]))
            body.append(cells)
    fixed_labels = [label for label in comparison.by if len({row.labels[label] for row in rows}) == 1]
    spare = ("p", level, *fixed_labels, "±", "change")
    has_repeats = any(value and value.runs > 1 for row in rows for value in row.values)
    spread = "±: the largest distance of a run from the mean." if has_repeats else ""
    note = spread
    all_decisions = [decision for row in comparison.rows for decision in row.differences if decision]
    intervals = [decision for decision in all_decisions if decision.low is not None]
    if by_model:
        note += " Intervals are those of the model's error: nine of ten measured changes are expected in them."
    elif len(intervals) > 1:
        of_metrics = " of all metrics" if len(_metrics(comparison)) > 1 else ""
        note += f" The {len(intervals)} intervals{of_metrics} hold together; p is adjusted."
    explanations = {"p": "; p is adjusted", level: note.removeprefix(spread).replace("; p is adjusted", "").strip()}
    note = " ".join([note, *unknown_notes(rows)])
    title = f"{METRICS[name].description} ({name})"
    if all(comparison.predicted):
        title = f"SIMULATED: {title}"
    table = TextTable(title, columns, body, note.strip(), spare=spare, explanations=explanations)
    empty = set()
    if not has_repeats:
        empty.add("±")
    if by_model:
        empty.add("p")
    if not empty:
        return table
    return only(table, [number for number, column in enumerate(columns) if column.heading not in empty])


def unknown_notes(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Yields what `not known` means in a table of these rows, and that a ratio may be known although."""
    if all(value is None or value.known for row in rows for value in row.values):
        return
    yield (
        f"{formatting.UNKNOWN}: the upper bound of the prediction is more than {NOT_KNOWN:.0f} times the lower one; "
        "measure the disks with `blklab calibrate`."
    )
    if any(has_known_ratio(row, side) for row in rows for side in range(1, len(row.values))):
        yield "Where a change is next to it, the ratio is known, the figures are not."


def _side_names(comparison: Comparison) -> list[str]:
    """Returns the names of sides; those of predictions are marked, unless all are predictions."""
    names = []
    for side, is_predicted in zip(comparison.sides, comparison.predicted, strict=True):
        name = printable(side)
        if is_predicted and not all(comparison.predicted):
            name += " (SIMULATED)"
        names.append(name)
    return names


def verdict(decision: Decision | None) -> str:
    if decision is None:
        return "on one side only"
    match decision.verdict:
        case "inside":
            return "inside the prediction" if decision.known else "inside the interval"
        case "outside":
            end = decision.high if decision.change > (decision.high or 0.0) else decision.low
            ratio = (1 + decision.change) / (1 + (end or 0.0))
            factor = max(ratio, 1 / ratio) if ratio else math.inf
            far = f"a factor of {factor:.1f}" if factor >= 2 else formatting.share(abs(ratio - 1))
            if ratio > 1:
                return f"outside: above by {far}"
            return f"outside: below by {far}"
        case "unclear" if not (decision.of_model or decision.once or decision.repeats):
            return "cannot tell: measure in turns"
        case "unclear" if decision.of_model:
            return "cannot tell: measure" if decision.change else "no change is predicted"
        case "unknown" if decision.of_model:
            return "no interval is known" if decision.known else "not known: measure the disks"
        case "same":
            return f"same within ±{formatting.share(decision.within)}"
        case "differ":
            return "these two runs differ"
        case "unclear" if decision.repeats:
            return f"cannot tell: {more_repeats(decision.repeats)}"
        case "unclear" | "unknown":
            return f"chance if runs vary by {formatting.share(chance(decision.change))}"
    return decision.verdict


def judgement_tables(plan: ExperimentPlan, rows: Sequence[JudgedFigure]) -> list[TextTable]:
    """Returns a table for each metric: predictions, what was measured elsewhere, and the verdicts."""
    varied_labels = [label for label in ("stack", "workload", *plan.varied) if label in plan.cells[0].labels]
    labels = list(dict.fromkeys(label for label in varied_labels if label != "repeat"))
    columns = [TableColumn("#"), *map(text_column, labels), TableColumn("SIMULATED"), text_column("interval")]
    columns += [TableColumn("measured"), TableColumn("change"), text_column("")]
    no_test = {"fitted": "the model was fitted to it", "limited": "limited by its rate: no test"}
    no_test["unclear"] = "cannot tell: its runs vary more than the interval"
    tables = []
    for name, rows_of_metric in by_key((row.metric.name, row) for row in rows).items():
        body = []
        for row in rows_of_metric:
            measured_text = figure(name, row.mean)
            if len(row.measurements) > 1:
                measured_text += f" ({len(row.measurements)} runs)"
            cells = [
                str(row.cell.number),
                *(printable(row.cell.labels[label]) for label in labels),
                figure(name, row.prediction) if row.decision.known else formatting.UNKNOWN,
                formatting.NONE if row.ends is None else " – ".join(figure(name, end) for end in row.ends),
                measured_text,
                change_of(row.decision),
                no_test.get(row.verdict) or verdict(row.decision),
            ]
            body.append(cells)
        title = f"Predicted and measured: {METRICS[name].description} ({name})"
        note = "interval: at least nine of ten measurements are expected in it."
        if name == "iops":
            note = "interval: nine of ten measurements are expected in it."
        tables.append(TextTable(title, columns, body, note, spare=("interval", "change")))
    return tables


def judgement_lines(rows: Sequence[JudgedFigure]) -> list[str]:
    """Returns how many measurements are inside the predictions' intervals, and the reasons of the others."""
    lines = []
    for name, verdicts in by_key((row.metric.name, row.verdict) for row in rows).items():
        inside = verdicts.count("inside")
        count = inside + verdicts.count("outside")
        if count:
            far = sum(row.is_far for row in rows if row.metric.name == name)
            lines.append(f"{name}: {inside} of {count} measurements are inside: {_as_expected(inside, count, far)}.")
    far_rows = [row for row in rows if row.is_far]
    for row in far_rows[:MAX_FAR]:
        reason = f", because {row.reasons[0]}" if row.reasons and not row.reasons[0].startswith("no cause") else ""
        lines.append(
            printable(
                f"The prediction of {row.metric.name} is wrong in {formatting.cells([row.cell.number])}: "
                f"{_predicted_text(row)}, measured {figure(row.metric.name, row.mean)}{reason}."
            )
        )
    if len(far_rows) > MAX_FAR:
        numbers = [row.cell.number for row in far_rows[MAX_FAR:]]
        lines.append(f"Other predictions are as wrong in {formatting.cells(numbers)}.")
    for reason, numbers in group_reasons(rows).items():
        lines.append(printable(f"{formatting.cells(numbers)}: {reason}"))
    return lines


def _predicted_text(row: JudgedFigure) -> str:
    """Returns the predicted figure; if it is not known, its interval."""
    name = row.metric.name
    if row.decision.known or row.ends is None:
        return figure(name, row.prediction)
    low, high = (figure(name, end) for end in row.ends)
    return f"{low} to {high}"


MAX_FAR = 3  # Wrong predictions that have a sentence each


def _as_expected(inside: int, count: int, far: int) -> str:
    """Says what to think of the number of measurements inside; `far` ones are outside by more than the width."""
    if far:
        if count == 1:
            return "nine of ten are expected, the prediction is wrong"
        verb = "is" if far == 1 else "are"
        return f"nine of ten are expected, {far} of the predictions {verb} wrong"
    if are_too_few(inside, count):
        return "fewer than chance explains, nine of ten are expected"
    return "as expected" if inside >= NOMINAL * count else "nine of ten are expected, chance can explain the difference"


FEWEST_ROWS = 5  # Of single runs, from which a sentence about all of them is possible
DIRECTIONS = ("rw", "workload")  # Labels whose values a sentence does not mix


def headlines(comparison: Comparison) -> list[str]:
    """Returns a line for each side, metric and direction whose cells have one run each: cells are the repeats."""
    lines = []
    direction_label = next((label for label in DIRECTIONS if label in comparison.by), None)
    for name, index in itertools.product(_metrics(comparison), range(len(comparison.sides) - 1)):
        rows = [row for row in comparison.rows if row.metric == name and _is_single(row, index + 1)]
        for value, of_value in by_key((row.labels.get(direction_label or "", ""), row) for row in rows).items():
            text = _over_cells(of_value, index) if len(of_value) >= FEWEST_ROWS else None
            if text:
                side = f"{printable(comparison.sides[index + 1])}:"
                lines.append(" ".join(filter(None, (side, printable(value), name, text))))
    if lines and any(note.code == "two-campaigns" for note in comparison.notes):
        lines.append("Each cell was measured once. What else differs between the campaigns can explain a difference.")
    return lines


def _is_single(row: ComparisonRow, side: int) -> bool:
    decision = row.differences[side - 1]
    is_measured = bool(decision and not decision.of_model and decision.change > -1)
    runs = [value.runs for value in (row.values[0], row.values[side]) if value]
    return is_measured and runs == [1, 1]


def _over_cells(rows: Sequence[ComparisonRow], index: int) -> str | None:
    """Returns `28 to 35 % higher in 49 of 49 cells`."""
    decisions = [row.differences[index] for row in rows]
    logs = [math.log1p(decision.change) for decision in decisions if decision]
    labels = [label for label in rows[0].labels if len({row.labels[label] for row in rows}) > 2]
    if not labels:
        return None

    def between(label: str) -> float:
        """Returns the variance of the cells' changes that a label explains."""
        means = []
        for group in by_key((row.labels[label], log) for row, log in zip(rows, logs, strict=True)).values():
            means += [fmean(group)] * len(group)
        return pvariance(means)

    label = max(labels, key=between)
    log_interval = mean_over_cells(logs, [row.labels[label] for row in rows])
    if log_interval is None:
        return None
    middle, low, high = (math.expm1(log) for log in log_interval)
    above = middle > 0
    count = sum((log > 0) == above for log in logs)
    sign = "higher" if above else "lower"
    cells = f"{sign} in {count} of {len(rows)} cells"
    if low <= 0 <= high:
        return f"on average {change(low)} to {change(high)}: cannot tell; {cells}"
    ends = sorted((abs(low), abs(high)))
    interval_text = f"interval of the mean: {100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"
    return f"on average {100 * abs(middle):.0f} % {sign} ({interval_text}); {cells}"


def summary(comparison: Comparison, name: str) -> str:
    """Returns the verdicts about a metric in one line."""
    rows = [row for row in comparison.rows if row.metric == name]
    decisions = [decision for row in rows for decision in row.differences]
    parts = []
    for phrase, verdicts in (
        ("better", {"better"}),
        ("worse", {"worse"}),
        ("the same", {"same"}),
        ("different in one run each", {"differ"}),
        ("inside the prediction's interval", {"inside"}),
        ("outside", {"outside"}),
        ("cannot tell", {"unclear", "unknown"}),
    ):
        phrase_decisions = [decision for decision in decisions if decision and decision.verdict in verdicts]
        if phrase == "cannot tell":
            phrase_decisions = [decision for decision in phrase_decisions if decision.known]
        if not phrase_decisions:
            continue
        part = f"{len(phrase_decisions)} {phrase}"
        if phrase == "the same":
            part += f" within ±{formatting.share(max(decision.within or 0.0 for decision in phrase_decisions))}"
        repeats = [decision.repeats for decision in phrase_decisions if decision.repeats]
        if repeats:
            part += f" ({more_repeats(max(repeats))})"
        elif phrase in {"cannot tell", "different in one run each"}:
            part += f" ({_what_helps(phrase_decisions[0])})"
        parts.append(part)
    unknown = sum(decision is not None and is_unknown_ratio(decision) for decision in decisions)
    if unknown:
        parts.append(f"{unknown} not known (measure the disks)")
    missing = decisions.count(None)
    if missing:
        parts.append(f"{missing} on one side only")
    line = f"{name}: {', '.join(parts)}."
    return f"{line}{_power(rows, decisions, comparison.margin)}"


def _what_helps(decision: Decision) -> str:
    """Returns what to do for a difference that is not certain."""
    if decision.of_model:
        return "measure"
    if decision.low is not None and not decision.once:
        return "measure in turns"
    return "use repeats = 2 or more"


def _power(rows: Sequence[ComparisonRow], decisions: Sequence[Decision | None], margin: float) -> str:
    """Returns what the median cell can detect."""
    powers = sorted(
        (decision.detectable, decision.needed)
        for decision in decisions
        if decision and decision.detectable and decision.needed
    )
    if not powers:
        return ""
    least, repeats = powers[len(powers) // 2]
    if least >= TOO_NOISY:
        largest = max(deviation(cell_value) for row in rows for cell_value in row.values if cell_value)
        return f" Too noisy: runs differ from their mean by up to {formatting.share(largest)}: find the noise first."
    power = f" A change by {formatting.share(least)} can be detected"
    if least > margin and formatting.share(least) != formatting.share(margin):
        needs = f"about {repeats}" if repeats <= MOST_REPEATS else f"over {MOST_REPEATS}"
        return f"{power}; {formatting.share(margin)} needs {needs} repeats."
    return f"{power}."


def value(metric: str, cell_value: CellValue | None) -> list[str]:
    """Returns a value, and the largest deviation of its runs: `12,345` and `1.7 %`."""
    if cell_value is None:
        return [formatting.NONE] * 2
    mean = cell_figure(metric, cell_value)
    if cell_value.runs == 1 or not cell_value.mean or not cell_value.known:
        return [mean, formatting.NONE]
    return [mean, formatting.share(deviation(cell_value))]


def difference(decision: Decision | None) -> list[str]:
    """Returns a change, its confidence interval and its p."""
    if decision is None:
        return [formatting.NONE] * 3
    return [change_of(decision), interval(decision), probability(decision.p)]


def run_plans_table(plans: Sequence[RunPlan], metric: str, change: float) -> TextTable:
    """Returns what each cell needs."""
    varied_labels = [label for label in plans[0].labels if len({plan.labels.get(label) for plan in plans}) > 1]
    rows = []
    for plan in plans:
        cell = " ".join(plan.labels.get(label, "") for label in varied_labels)
        shortest = formatting.NONE
        if plan.best is not None:
            runs, seconds = plan.best
            shortest = f"{runs} of {format_duration(seconds * 1e9)}"
        row = [
            printable(cell) or "all",
            str(plan.runs),
            format_duration(plan.seconds * 1e9),
            formatting.share(plan.variation),
            _repeats_text(plan.repeats),
            shortest,
        ]
        rows.append(row)
    columns = [text_column("cell"), *number_columns("runs", "length", "variation", "needed", "shortest")]
    title = f"Runs that find a change of {metric} by {formatting.share(change)}"
    return TextTable(
        title,
        columns,
        rows,
        (
            "variation: standard deviation between runs; needed: runs of this length on each side, "
            "found in 80 % of cases; shortest: runs and their length with the least time"
        ),
    )


def _repeats_text(repeats: int | None) -> str:
    if repeats is None:
        return formatting.NONE
    return f"over {MOST_REPEATS}" if repeats > MOST_REPEATS else str(repeats)
