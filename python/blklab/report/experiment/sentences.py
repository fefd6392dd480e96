"""The result in a few sentences: the fastest cells, differences, predictions."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from blklab.analysis.metrics import METRICS, rate_scale
from blklab.analysis.resampling import Difference, compare_samples
from blklab.report import formatting
from blklab.report.comparison import change, figure, interval
from blklab.report.experiment.view import (
    STACK,
    WORKLOAD,
    ExperimentView,
    ReportCell,
    ReportSeries,
    best,
    grouped,
)
from blklab.report.formatting import Sentence

MOST: Final = 8
"""Maximum number of sentences about the fastest cells."""

MOST_NAMES: Final = 12
"""Maximum number of values that a sentence ranks."""

UNSURE: Final = 0.05
"""Probability from which a difference may be chance."""


def sentences(view: ExperimentView) -> list[Sentence]:
    """Returns the sentences of the result."""
    leading = _leading(view)
    name = f"{leading.name}: " if view.several else ""
    fastest = [Sentence(topic, f"{name}{text}") for topic, text in _fastest(view, leading)]
    return [*fastest, *_predicted(view), *_changed(view)]


def _leading(view: ExperimentView) -> ReportSeries:
    """Returns the series to describe: a measured one before a predicted one."""
    return next((series for series in view.series if not series.predicts), view.series[0])


def metric_of(cell: ReportCell) -> str:
    """Returns the metric that describes a cell: bandwidth if it is sequential, otherwise IOPS."""
    if cell.order == "sequential" and cell.value("bw"):
        return "bw"
    return next((name for name in ("iops", "wall") if cell.value(name)), "iops")


def _rate(metric: str, value: float) -> str:
    text = figure(metric, value)
    return f"{text} IOPS" if metric == "iops" else text


def _fastest(view: ExperimentView, series: ReportSeries) -> Iterator[Sentence]:
    cells = [cell for cell in view.order(view.cells) if cell.series is series]
    subject = _subject(view, cells)
    if subject is None:
        yield from _alone(view, cells)
        return
    others = [label for label in view.labels if label not in {subject, *view.loads}]
    groups = list(grouped(cells, others).values())
    sentences_given = 0
    wins: dict[str, int] = {}
    for members in groups:
        metric = metric_of(members[0])
        there = [cell for cell in best(view, members, metric) if cell.value(metric)]
        if len(there) < 2:
            continue
        better = METRICS[metric].more_is_better
        there.sort(key=lambda cell: cell.mean(metric) or 0.0, reverse=better)
        first = there[0].labels.get(subject, "")
        wins[first] = wins.get(first, 0) + 1
        if sentences_given < MOST:
            sentences_given += 1
            yield Sentence(
                view.name(members[0], [subject, *view.loads]),
                _ranking(view, there, subject, metric),
            )
    if len(groups) > MOST and wins:
        parts = [f"{name} in {count}" for name, count in sorted(wins.items(), key=lambda w: -w[1])]
        said_of_all = f"Of {len(groups)} combinations, fastest is {formatting.listing(parts)}."
        yield Sentence("All together", said_of_all)


def same(change: Difference | None) -> bool:
    """Returns whether two sides show no difference."""
    if change is None or change.p is None or change.low is None or change.high is None:
        return False
    return change.p >= UNSURE or change.low <= 0 <= change.high


def _subject(view: ExperimentView, cells: Sequence[ReportCell]) -> str | None:
    """Returns the label whose values are ranked; None if all labels are numbers."""
    names = [label for label in view.labels if label not in {WORKLOAD, *view.axes}]
    for label in (STACK, *names):
        if 1 < len({cell.labels.get(label) for cell in cells}) <= MOST_NAMES:
            return label
    return None


def _ranking(view: ExperimentView, there: Sequence[ReportCell], subject: str, metric: str) -> str:
    first, second, last = there[0], there[1], there[-1]
    top = first.mean(metric) or 0.0
    if same(compare_samples(last.samples(metric), first.samples(metric))):
        names = formatting.listing([cell.labels.get(subject, "") for cell in there])
        return f"no difference seen between {names}: about {_rate(metric, top)}."
    name = first.labels.get(subject, "")
    shown = name if subject == STACK else f"{subject} {name}"
    text = f"{shown} is fastest with {_rate(metric, top)}"
    if view.loads:
        load = " ".join(f"{key}={first.labels.get(key, formatting.NONE)}" for key in view.loads)
        text += f" ({load})"
    lead = compare_samples(second.samples(metric), first.samples(metric))
    rival = second.labels.get(subject, "")
    if lead is not None:
        if lead.p is None or (lead.once and not same(lead)):
            text += f", {change(lead.change)} against {rival} (run once: the variation is unknown)"
        elif same(lead):
            text += f"; {rival} may be as fast ({change(-lead.change)}, no difference seen)"
        else:
            text += f", {change(lead.change)} against {rival} (interval {interval(lead)})"
    if len(there) > 2:
        least = last.mean(metric) or 0.0
        text += f"; slowest is {last.labels.get(subject, '')} with {_rate(metric, least)}"
    return text + "."


def _alone(view: ExperimentView, cells: Sequence[ReportCell]) -> Iterator[Sentence]:
    """Returns the result of each cell if there are few cells and nothing to compare."""
    for cell in best(view, cells, "iops")[:MOST]:
        metric = metric_of(cell)
        value = cell.value(metric)
        if value is None:
            continue
        text = f"{_rate(metric, value.mean)}"
        if value.low is not None and value.high is not None:
            ends = [figure(metric, end) for end in (value.low, value.high)]
            text += f" (interval {ends[0]} to {ends[1]})" if ends[0] != ends[1] else ""
        mean, p99 = cell.mean("mean"), cell.mean("p99")
        if mean is not None and p99 is not None:
            text += (
                f"; an I/O takes {formatting.duration(mean)},"
                f" 99 % of them at most {formatting.duration(p99)}"
            )
        load = " ".join(
            f"{label}={cell.labels.get(label, formatting.NONE)}" for label in view.loads
        )
        yield Sentence(view.name(cell, view.loads), f"{text}{f', at {load}' if load else ''}.")


def _predicted(view: ExperimentView) -> Iterator[Sentence]:
    predicted = [series for series in view.series if series.predicts]
    measured = [series for series in view.series if not series.predicts]
    for sim in predicted:
        for real in measured:
            yield from _against(view, sim, real)


def _against(view: ExperimentView, sim: ReportSeries, real: ReportSeries) -> Iterator[Sentence]:
    pairs: list[tuple[float, ReportCell, ReportCell]] = []
    ranked: list[bool] = []
    by_case: dict[tuple[str, ...], list[tuple[ReportCell, ReportCell]]] = {}
    others = [label for label in view.labels if label != STACK]
    for members in grouped(view.cells, view.labels).values():
        prediction = next((cell for cell in members if cell.series is sim), None)
        other = next((cell for cell in members if cell.series is real), None)
        if prediction is None or other is None or _is_scaled(other):
            continue
        metric = metric_of(other)
        expected, measurement = prediction.mean(metric), other.mean(metric)
        if expected and measurement:
            pairs.append((expected / measurement - 1, prediction, other))
            key = tuple(other.labels.get(label, "") for label in others)
            by_case.setdefault(key, []).append((prediction, other))
    if not pairs:
        return
    off = median([abs(error) for error, *_ in pairs])
    error, prediction, other = max(pairs, key=lambda pair: abs(pair[0]))
    metric = metric_of(other)
    for case in by_case.values():
        if len(case) > 1:
            name = metric_of(case[0][1])
            expected_first = max(case, key=lambda pair: pair[0].mean(name) or 0.0)
            found_first = max(case, key=lambda pair: pair[1].mean(name) or 0.0)
            ranked.append(expected_first is found_first)
    topic = "Prediction" if len(view.series) == 2 else f"{sim.name} and {real.name}"
    text = (
        f"{formatting.plural(len(pairs), 'cell was', 'cells were')} both predicted and"
        f" measured: the median error of predictions is {formatting.share(off)}, the"
        f" largest {change(error)} ({view.name(other)}:"
        f" {_rate(metric, prediction.mean(metric) or 0)} predicted,"
        f" {_rate(metric, other.mean(metric) or 0)} measured)"
    )
    if ranked:
        text += (
            f"; the fastest was predicted correctly in {sum(ranked)} of {len(ranked)} comparisons"
        )
    yield Sentence(topic, text + ".")


def _is_scaled(cell: ReportCell) -> bool:
    """Returns whether the rates of a cell's devices were scaled: such cells have no prediction."""
    return any(rate_scale(run.outcome or {}) != 1 for run in cell.runs)


def _changed(view: ExperimentView) -> Iterator[Sentence]:
    """Returns how series of one kind differ from the first of that kind."""
    for predicts in (False, True):
        kind = [series for series in view.series if series.predicts is predicts]
        for other in kind[1:]:
            yield from _since(view, kind[0], other)


def _since(view: ExperimentView, base: ReportSeries, other: ReportSeries) -> Iterator[Sentence]:
    faster: list[tuple[float, Difference, str]] = []
    slower: list[tuple[float, Difference, str]] = []
    alike = once = 0
    for members in grouped(view.cells, view.labels).values():
        before = next((cell for cell in members if cell.series is base), None)
        after = next((cell for cell in members if cell.series is other), None)
        if before is None or after is None:
            continue
        metric = metric_of(after)
        effect = compare_samples(before.samples(metric), after.samples(metric))
        if effect is None or effect.p is None:
            continue
        gain = effect.change if METRICS[metric].more_is_better else -effect.change
        if same(effect):
            alike += 1
        else:
            once += effect.once
            (faster if gain > 0 else slower).append((abs(gain), effect, view.name(after)))
    parts = []
    for cells, word in ((faster, "faster"), (slower, "slower")):
        if cells:
            _, effect, name = max(cells, key=lambda item: item[0])
            parts.append(f"{word} in {len(cells)} (most: {name}, {change(effect.change)})")
    parts += [f"no difference seen in {alike}"] if alike else []
    total = len(faster) + len(slower) + alike
    if total:
        of = formatting.plural(total, "cell")
        unsure = f" ({once} of them run once: the variation is unknown)" if once else ""
        text = f"{other.name} against {base.name}, of {of}: {formatting.listing(parts)}{unsure}."
        yield Sentence("Change", text)
