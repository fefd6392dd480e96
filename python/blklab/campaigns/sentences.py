"""The result in a few sentences: the fastest cells, differences, predictions."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from blklab.campaigns.view import (
    STACK,
    WORKLOAD,
    ExperimentView,
    ReportCell,
    ReportSeries,
    best,
    group_cells,
    workload_options,
)
from blklab.compare.comparison import Comparison, ComparisonSide, compare
from blklab.compare.decision import Decision, MetricQuestion, Rule, decide_family
from blklab.compare.figure_text import change, figure, interval, more_repeats
from blklab.compare.metrics import COMPARED_METRICS, METRICS, WAYS, Metric, rate_scale
from blklab.compare.report import verdict_sentences
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.outcome import NOT_KNOWN
from blklab.render import formatting
from blklab.render.formatting import Sentence

MOST = 8  # Maximum number of sentences about the fastest cells
MOST_NAMES = 12  # Maximum number of values that a sentence ranks


def sentences(view: ExperimentView, comparisons: Sequence[Comparison] | None = None) -> list[Sentence]:
    """Returns the result; `comparisons` are those of `compare_sides`, if they are known."""
    if comparisons is None:
        comparisons = compare_sides(view)
    measured_series = [series for series in view.series if not series.predicts] or view.series
    fastest = []
    for series in measured_series:
        if view.is_comparison and _subject(view, view.cells) is None:
            break  # The verdict and the tables say it
        name = f"{series.name}: " if view.several else ""
        claims = [Sentence(topic, f"{name}{text}") for topic, text in _fastest(view, series)]
        fastest += claims[: max(1, MOST // len(measured_series))]
    unknown = [Sentence("Not known", text) for text in _describe_unknown(view)]
    return [*_describe_comparisons(comparisons), *fastest, *unknown, *_compare_predictions(view)]


def _describe_unknown(view: ExperimentView) -> Iterator[str]:
    """Yields which cells have figures that are not known, and what helps."""
    cells = [cell for cell in view.order(view.cells) if not cell.is_known]
    if not cells:
        return
    names = [view.name(cell, series=True) for cell in cells[:MOST_NAMES]]
    if len(cells) > len(names):
        names.append(f"{len(cells) - len(names)} more")
    yield (
        f"{formatting.listing(names)}: the upper bound of each prediction is more than {NOT_KNOWN:.0f} times "
        "the lower one; measure the disks with `blklab calibrate`."
    )


def metric_of(cell: ReportCell) -> str:
    """Returns the metric that describes a cell: bandwidth if it is sequential, otherwise IOPS."""
    if cell.order == "sequential" and cell.value("bw"):
        return "bw"
    return next((name for name in ("iops", "wall") if cell.value(name)), "iops")


def _rate(metric: str, value: float) -> str:
    text = figure(metric, value)
    return f"{text} IOPS" if metric == "iops" else text


def _fastest(view: ExperimentView, series: ReportSeries) -> Iterator[Sentence]:
    cells = [cell for cell in view.order(view.cells) if cell.series is series and cell.is_known]
    subject = _subject(view, cells)
    if subject is None:
        yield from _alone(view, cells)
        return
    other_labels = [label for label in view.labels if label not in {subject, *view.loads}]
    groups_by_metric: dict[str, list[list[ReportCell]]] = {}
    for members in group_cells(cells, other_labels).values():
        workload_groups = _by_workload(members, {subject, *view.loads})
        if len(workload_groups) == len(members) > 1:
            name = view.name(members[0], [subject, *view.loads])
            yield Sentence(name, "the cells have different workloads: they are not ranked.")
        for comparable in workload_groups:
            metric = metric_of(comparable[0])
            best_cells = [cell for cell in best(view, comparable, metric) if cell.mean(metric)]
            if len(best_cells) > 1:
                groups_by_metric.setdefault(metric, []).append(best_cells)
    for ranking in _rankings(groups_by_metric, view.look):
        name = view.name(ranking.cells[0], [subject, *view.loads])
        yield Sentence(name, ranking.text(view, subject))


def _by_workload(cells: Sequence[ReportCell], without: Collection[str]) -> list[list[ReportCell]]:
    """Returns cells with the same options of their workloads: only they can be ranked."""
    return list(by_key((workload_options(cell.runs[0], without), cell) for cell in cells).values())


@dataclass(frozen=True)
class _Ranking:
    """Cells in the order of a metric, the best first, with the decision about each pair."""

    metric: str
    cells: Sequence[ReportCell]
    decisions: Mapping[tuple[int, int], Decision | None]
    """How the first cell differs from the second, in the order of `cells`."""

    def text(self, view: ExperimentView, subject: str) -> str:
        """Returns the claim that the decisions support."""
        names = [cell.labels.get(subject, "") for cell in self.cells]
        top = _rate(self.metric, self.cells[0].mean(self.metric) or 0.0)
        lead = self.decisions[0, 1]
        rivals = [index for index in range(1, len(names)) if not self._better(0, index)]
        if lead is None or lead.once or lead.verdict == "unknown":
            gain = "" if lead is None else f", {change(lead.change)} against {names[1]}"
            is_prediction = lead is not None and lead.of_model
            doubt = "its interval is unknown" if is_prediction else "it was run once, so this can be chance"
            return f"{names[0]} has the highest value with {top}{_load(view, self.cells[0])}{gain}; {doubt}."
        if len(rivals) == len(names) - 1:
            names_text = formatting.listing(names) if subject == STACK else f"{subject} {formatting.listing(names)}"
            return f"{self._describe_undecided(range(len(names)), names_text)}: about {top}."
        if rivals:
            leaders = [0, *rivals]
            names_text = formatting.listing([names[index] for index in leaders])
            text = f"fastest are {names_text} with about {top}; {self._describe_undecided(leaders, 'them')}"
        else:
            shown = names[0] if subject == STACK else f"{subject} {names[0]}"
            text = f"{shown} is fastest with {top}{_load(view, self.cells[0])}"
            text += f", {change(lead.change)} against {names[1]} (interval {interval(lead)})"
        last = len(names) - 1
        if last > 1 and all(self._better(index, last) for index in range(last)):
            least = _rate(self.metric, self.cells[-1].mean(self.metric) or 0.0)
            text += f"; slowest is {names[-1]} with {least}"
        return text + "."

    def _better(self, first: int, second: int) -> bool:
        decision = self.decisions[first, second]
        return decision is not None and decision.verdict == "better"

    def _describe_undecided(self, cells: Sequence[int], names: str) -> str:
        """Returns that no difference between some of the cells is certain."""
        pairs = [self.decisions[pair] for pair in itertools.combinations(cells, 2)]
        decisions = [decision for decision in pairs if decision is not None]
        if decisions and all(decision.verdict == "same" for decision in decisions):
            within = formatting.share(max(decision.within or 0.0 for decision in decisions))
            return f"no difference between {names}: the same within ±{within}"
        if decisions and all(decision.of_model and not decision.change for decision in decisions):
            return f"no difference between {names} is predicted"
        repeats = [decision.repeats for decision in decisions if decision.repeats]
        hint = f", {more_repeats(max(repeats))} needed" if repeats else ""
        if any(decision.of_model for decision in decisions):
            hint = " (the model's error is larger than the difference)"
        return f"cannot tell which of {names} is fastest{hint}"


def _rankings(groups_by_metric: Mapping[str, Sequence[Sequence[ReportCell]]], look: float) -> list[_Ranking]:
    """Decides all pairs of all groups together: which cell is the best is not known before."""
    groups: list[tuple[str, list[ReportCell]]] = []
    pairs_of_groups: list[list[tuple[int, int]]] = []
    questions = []
    for metric, groups_of_metric in groups_by_metric.items():
        rule = Rule(METRICS[metric], look=look)
        cells: list[ReportCell] = []
        pairs: list[tuple[int, int]] = []
        for group in groups_of_metric:
            sorted_cells = _sort_by_metric(group, rule.metric)
            pairs_of_group = list(itertools.combinations(range(len(cells), len(cells) + len(group)), 2))
            cells += sorted_cells
            pairs += pairs_of_group
            groups.append((metric, sorted_cells))
            pairs_of_groups.append(pairs_of_group)
        samples = [cell.samples(metric) for cell in cells]
        questions.append(
            MetricQuestion(samples, [0] * len(cells), [([second], [first]) for first, second in pairs], rule)
        )
    if not groups:
        return []
    # As `tune` compares all settings, although some are not ranked.
    decisions_of_metrics = decide_family(questions, len(groups[0][1][0].figures.cells) - 1)
    decisions = iter(itertools.chain.from_iterable(decisions_of_metrics))
    rankings = []
    for (metric, group), pairs_of_group in zip(groups, pairs_of_groups, strict=True):
        decisions_of_group = {}
        for first, second in pairs_of_group:
            start = pairs_of_group[0][0]
            decisions_of_group[first - start, second - start] = next(decisions)
        rankings.append(_Ranking(metric, group, decisions_of_group))
    return rankings


def _sort_by_metric(cells: Sequence[ReportCell], metric: Metric) -> list[ReportCell]:
    """Returns cells, the best first."""
    return sorted(cells, key=lambda cell: cell.mean(metric.name) or 0, reverse=metric.more_is_better)


def _load(view: ExperimentView, cell: ReportCell) -> str:
    load = " ".join(f"{key}={cell.labels.get(key, formatting.NONE)}" for key in view.loads)
    return f" ({load})" if load else ""


def _subject(view: ExperimentView, cells: Sequence[ReportCell]) -> str | None:
    """Returns the label whose values are ranked; None if all labels are numbers."""
    names = [label for label in view.labels if label not in {WORKLOAD, *view.axes}]
    for label in (STACK, *names):
        if 1 < len({cell.labels.get(label) for cell in cells}) <= MOST_NAMES:
            return label
    return None


def _alone(view: ExperimentView, cells: Sequence[ReportCell]) -> Iterator[Sentence]:
    """Returns the result of each cell if there are few cells and nothing to compare."""
    for cell in best(view, cells, "iops")[:MOST]:
        metric = metric_of(cell)
        value = cell.value(metric)
        if value is None:
            continue
        text = _rate(metric, value.mean)
        if value.low is not None and value.high is not None:
            low = figure(metric, value.low)
            high = figure(metric, value.high)
            if low != high:
                text += f" (interval {low} to {high})"
        for direction, noun in _latency_nouns(cell).items():
            mean = cell.mean(f"{direction}.mean")
            p99 = cell.mean(f"{direction}.p99")
            if mean is not None and p99 is not None:
                text += f"; {noun} takes {formatting.duration(mean)}, 99 % of them at most {formatting.duration(p99)}"
        load = " ".join(f"{label}={cell.labels.get(label, formatting.NONE)}" for label in view.loads)
        if load:
            text += f", at {load}"
        yield Sentence(view.name(cell, view.loads), f"{text}.")


def _latency_nouns(cell: ReportCell) -> dict[str, str]:
    """Returns the directions of a cell's latencies, and what a sentence calls an I/O of each."""
    nouns = {direction: f"a {direction}" for direction in WAYS if direction in cell.directions}
    if len(nouns) == 1:
        nouns = dict.fromkeys(nouns, "an I/O")
    return {**nouns, "sync": "an fsync"}


def _compare_predictions(view: ExperimentView) -> Iterator[Sentence]:
    for sim, real in itertools.permutations(view.series, 2):
        if sim.predicts and not real.predicts:
            yield from _against(view, sim, real)


def _against(view: ExperimentView, sim: ReportSeries, real: ReportSeries) -> Iterator[Sentence]:
    pairs: list[tuple[float, ReportCell, ReportCell]] = []
    correct_ranks: list[bool] = []
    other_labels = [label for label in view.labels if label != STACK]
    for members in group_cells(view.cells, view.labels).values():
        prediction = next((cell for cell in members if cell.series is sim), None)
        other = next((cell for cell in members if cell.series is real), None)
        # Cells whose rates were scaled have no prediction.
        if prediction is None or not prediction.is_known:
            continue
        if other is None or any(rate_scale(run.figures) != 1 for run in other.runs):
            continue
        metric = metric_of(other)
        predicted_value = prediction.mean(metric)
        measurement = other.mean(metric)
        if predicted_value and measurement:
            pairs.append((predicted_value / measurement - 1, prediction, other))
    if not pairs:
        return
    median_error = median([abs(error) for error, *_ in pairs])
    error, prediction, other = max(pairs, key=lambda pair: abs(pair[0]))
    metric = metric_of(other)
    cases: dict[tuple[str, ...], list[tuple[float, ReportCell, ReportCell]]] = {}
    for pair in pairs:
        key = tuple(pair[2].labels.get(label, "") for label in other_labels)
        cases.setdefault(key, []).append(pair)
    for case in cases.values():
        if len(case) > 1:
            name = metric_of(case[0][2])
            expected_first = max(case, key=lambda pair: pair[1].mean(name) or 0.0)
            correct_ranks.append(expected_first is max(case, key=lambda pair: pair[2].mean(name) or 0.0))
    topic = "Prediction" if len(view.series) == 2 else f"{sim.name} and {real.name}"
    text = (
        f"{formatting.plural(len(pairs), 'cell was', 'cells were')} both predicted and measured: the median error of"
        f" predictions is {formatting.share(median_error)}, the largest {change(error)} ({view.name(other)}:"
        f" {_rate(metric, prediction.mean(metric) or 0)} predicted, {_rate(metric, other.mean(metric) or 0)} measured)"
    )
    if correct_ranks:
        text += f"; the fastest was predicted correctly in {sum(correct_ranks)} of {len(correct_ranks)} comparisons"
    yield Sentence(topic, text + ".")


def compare_sides(view: ExperimentView) -> list[Comparison]:
    """Returns the comparisons of the sides of the report: those of `blklab compare`."""
    comparisons = []
    for sides in _find_sides(view):
        with suppress(UsageError):  # The results have other figures only, such as a 95th percentile
            comparisons.append(compare(sides, COMPARED_METRICS, view.points, look=view.look))
    return comparisons


def _describe_comparisons(comparisons: Sequence[Comparison]) -> Iterator[Sentence]:
    """Yields the verdict of each comparison: what `blklab compare` says first."""
    for result in comparisons:
        yield Sentence("Verdict", " ".join(verdict_sentences(result)))


def _find_sides(view: ExperimentView) -> list[list[ComparisonSide]]:
    """Returns the sides of each comparison: the measured series, and the predicted series."""
    comparisons = []
    for predicts in (False, True):
        series_of_kind = [series for series in view.series if series.predicts is predicts]
        if len(series_of_kind) > 1:
            comparisons.append([ComparisonSide(series.name, series.runs) for series in series_of_kind])
    return comparisons
