"""The trend of an experiment: a metric over its campaigns, with verdicts, a table and a chart."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from blklab.campaigns import runs
from blklab.campaigns.layout import MOST_LINES, colour, metric_label
from blklab.campaigns.stored_comparison import compare_selections
from blklab.campaigns.view import OPTIONS, WORKLOAD, workload_options
from blklab.compare import report
from blklab.compare.change_points import FEWEST_VALUES
from blklab.compare.comparison import PLACES, REPEAT, Comparison
from blklab.compare.figure_text import change, figure, interval
from blklab.compare.metrics import METRICS, with_direction
from blklab.compare.trend import LevelChange, has_enough_campaigns, list_level_changes, measure_noise
from blklab.compare.variation import FEWEST_CAMPAIGNS
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, category, chart_spec, layer, quantity, tip
from blklab.render.formatting import Sentence
from blklab.render.table import LinkedCell, TableColumn, TextTable, text_column
from blklab.store import annotations, query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text.printing import printable

KERNEL = "kernel"  # The label of the kernel's version
NARROW = {"paddingInner": 0.9, "paddingOuter": 0.45}  # The cells of a campaign are close to each other
CELLS = 50  # Of a trend on one page
MOST_CELLS = 3  # That a sentence names
MOST_CAMPAIGNS = 50  # Campaigns of a trend, the newest


@dataclass(frozen=True)
class TrendPoint:
    """A campaign, or a side of it, in a trend."""

    campaign: CampaignRow
    name: str  # Its number, with the kernel if campaigns differ in it
    values: Mapping[str, "TrendValue"]  # By cell


@dataclass(frozen=True)
class TrendValue:
    """A metric of a cell in one campaign."""

    mean: float
    minimum: float  # Of its runs
    maximum: float
    runs: int
    is_known: bool  # Not if a run is predicted with an interval that is too wide


@dataclass(frozen=True)
class Trend:
    """A metric over the campaigns of an experiment."""

    verdicts: Sequence[Sentence]  # On the newest campaign, on changes of level, and on the noise
    table: TextTable  # A line for each campaign, the newest first
    chart: Chart  # With the same table
    campaign_count: int
    cell_count: int  # Of this part
    all_cells: int  # Of all parts
    cells_per_part: int


def campaigns_of_trend(store: Store, name: str, place: str) -> list[CampaignRow]:
    """Returns the newest campaigns of a trend in the order of measurement. Raises UsageError if there are none."""
    all_campaigns = query.all_campaigns(store)
    campaigns = [row for row in all_campaigns if row.name == name and place in {"", row.host or row.runner}]
    if not campaigns:
        raise UsageError(f"no campaign of {name!r}" + (f" on {place!r}" if place else ""))
    return sorted(campaigns, key=lambda row: (row.begun, row.number))[-MOST_CAMPAIGNS:]


def read_trend(store: Store, name: str, place: str, metric: str, part: int = 1) -> Trend:
    """Returns a metric of an experiment over its campaigns; of many cells, those of one part. Raises UsageError."""
    campaigns = campaigns_of_trend(store, name, place)
    all_cells = query.cells_of(store, [row.number for row in campaigns])
    runs_by_campaign = {}
    outcomes = []
    for row in campaigns:
        if len(all_cells) > CELLS:
            finished_runs = query.runs_of_cells(store, row.number, all_cells[(part - 1) * CELLS : part * CELLS])
        else:
            finished_runs = [run for run in query.runs_of(store, row.number) if run.outcome]
        runs_by_campaign[row.number] = finished_runs
        if finished_runs:
            outcomes.append([run.outcome for run in finished_runs if run.outcome])
    metric = with_direction(metric, outcomes)
    run_lists = [finished_runs for finished_runs in runs_by_campaign.values() if finished_runs]
    side_labels = _side_labels(run_lists)
    names = _cell_names([run for finished_runs in run_lists for run in finished_runs], side_labels)
    points = []
    for row in campaigns:
        for side, of_side in _sides(runs_by_campaign[row.number], side_labels).items():
            title = f"{row.number} {printable(side)}".rstrip()
            points.append(TrendPoint(row, title, _values(of_side, metric, names)))
    cells = list(dict.fromkeys(cell for point in points for cell in point.values))
    campaigns_with_values = list({point.campaign.number: point.campaign for point in points if point.values}.values())
    verdicts = (
        _verdicts(store, campaigns_with_values, runs_by_campaign, metric) if len(campaigns_with_values) > 1 else []
    )
    series: dict[str, list[float | None]] = {}
    for cell in cells:
        series[cell] = [point.values[cell].mean if cell in point.values else None for point in points]
    is_measured = any(run.figures.simulated_ios is None for of_campaign in run_lists for run in of_campaign)
    changes = list_level_changes(series) if is_measured else []
    if is_measured and len(campaigns_with_values) > 1:
        verdicts += _describe_levels(series, changes, points)
    table = _trend_table(f"{printable(name)}: {metric}", metric, points, cells, changes)
    chart = _chart(metric, points, cells, table, annotations.tags(store), changes)
    return Trend(verdicts, table, chart, len(campaigns), len(cells), len(all_cells), CELLS)


def _trend_table(
    title: str, metric: str, points: Sequence[TrendPoint], cells: Sequence[str], changes: Sequence[LevelChange]
) -> TextTable:
    """Returns a line for each campaign, the newest first, with the metric of each cell and changes of its level."""
    columns = [
        TableColumn("campaign"),
        text_column("begun"),
        text_column("blklab"),
        *(TableColumn(cell) for cell in cells),
    ]
    if changes:
        columns.append(text_column("change of level"))
    rows = []
    for index, point in reversed(list(enumerate(points))):
        link = LinkedCell(point.name, f"/campaigns/{point.campaign.number}")
        line: list[LinkedCell | str] = [link, runs.when(point.campaign.begun), point.campaign.version]
        for cell in cells:
            has_value = cell in point.values
            line.append(_describe_value(metric, point.values[cell]) if has_value else formatting.NONE)
        if changes:
            texts = [f"{other.cell} {change(other.change)}" for other in changes if other.index == index]
            line.append("; ".join(texts))
        rows.append(line)
    return TextTable(title, columns, rows)


def _side_labels(campaigns: Sequence[Sequence[StoredRun]]) -> list[str]:
    """Returns the labels that tell the campaigns of a line apart: the kernel, if it identifies no cell.

    Every other label identifies a cell. A kernel does so only if all campaigns have it and some have several: a trend
    over kernels has one for each campaign.
    """
    values = []
    for campaign_runs in campaigns:
        values.append({run.labels.get(KERNEL) for run in campaign_runs})
    kernels: set[str | None] = set().union(*values)
    if kernels <= {None}:
        return []
    identifies_cells = any(len(of_campaign) > 1 for of_campaign in values) or len(kernels) < 2
    return [] if identifies_cells and None not in kernels else [KERNEL]


def _cell_names(every_run: Sequence[StoredRun], side_labels: Sequence[str]) -> dict[int, str]:
    """Returns the name of each run's cell, by the number of the run: its labels, and options that differ.

    Equal labels may stand for another block size or queue depth, since an experiment's file can be edited.
    """
    hidden = {REPEAT, *side_labels}
    cells: list[tuple[str, StoredRun, dict[str, str]]] = []
    options_by_name: dict[str, list[dict[str, str]]] = {}
    for run in every_run:
        parts = []
        for label, value in run.labels.items():
            if label not in hidden:
                parts.append(printable(value if label in {*PLACES, WORKLOAD} else f"{label}={value}"))
        name = " ".join(parts) or "all cells"
        options = _options(run)
        cells.append((name, run, options))
        options_by_name.setdefault(name, []).append(options)
    varied_options: dict[str, list[str]] = {}
    for name, options_of_name in options_by_name.items():
        varied_options[name] = [key for key in OPTIONS if len({other.get(key, "") for other in options_of_name}) > 1]
    names = {}
    for name, run, options in cells:
        differing = []
        for key in varied_options[name]:
            if key not in run.labels:
                differing.append(f"{key}={options.get(key) or 'unknown'}")
        names[run.id] = " ".join([name, *map(printable, differing)])
    return names


def _options(run: StoredRun) -> dict[str, str]:
    """Returns the options of a run's workload, those of several jobs with a comma between them."""
    values_of_jobs = workload_options(run, ())
    options = {}
    for index, key in enumerate(OPTIONS):
        options[key] = ",".join(dict.fromkeys(values[index] for values in values_of_jobs if values[index]))
    return options


def _sides(campaign_runs: Sequence[StoredRun], side_labels: Sequence[str]) -> dict[str, list[StoredRun]]:
    """Returns the runs of each side of a campaign, by its name: as in `compare`, each value is a side."""
    pairs = []
    for run in campaign_runs:
        side = " ".join(f"{label}={run.labels[label]}" for label in side_labels if label in run.labels)
        pairs.append((side, run))
    return by_key(pairs) or {"": []}


def _values(campaign_runs: Sequence[StoredRun], metric: str, names: Mapping[int, str]) -> dict[str, TrendValue]:
    """Returns a metric of each cell: its mean, and the range of its runs."""
    by_cell: dict[str, list[float]] = {}
    unknown_cells = set()
    for run in campaign_runs:
        value = METRICS[metric].compute(run.outcome) if run.outcome else None
        if value is not None:
            by_cell.setdefault(names[run.id], []).append(value)
        if not run.figures.is_known:
            unknown_cells.add(names[run.id])
    trend_values = {}
    for cell, values in by_cell.items():
        mean = geometric_mean(values) if min(values) > 0 else fmean(values)
        trend_values[cell] = TrendValue(mean, min(values), max(values), len(values), cell not in unknown_cells)
    return trend_values


def _describe_value(metric: str, value: TrendValue) -> str:
    """Returns the mean, with the range of the runs if there are several: `98,000 (97,000 to 99,000)`."""
    if not value.is_known:
        return formatting.UNKNOWN
    mean = figure(metric, value.mean)
    low = figure(metric, value.minimum)
    high = figure(metric, value.maximum)
    return mean if low == high else f"{mean} ({low} to {high})"


def _verdicts(
    store: Store, campaigns: Sequence[CampaignRow], runs_by_campaign: dict[int, list[StoredRun]], metric: str
) -> list[Sentence]:
    """Returns what a comparison of the newest campaign with the one before, and with the first, says.

    It needs to know how much campaigns differ without a change: from the fifth one on, unless they are predicted.
    """
    sentences = []
    newest = campaigns[-1]
    run_count = len(runs_by_campaign[newest.number])
    earlier = [runs_by_campaign[row.number] for row in campaigns[:-1]]
    similar = [of_campaign for of_campaign in earlier if len(of_campaign) == run_count]
    is_predicted = all(run.figures.simulated_ios is not None for run in runs_by_campaign[newest.number])
    for topic, base in (("Since the one before", campaigns[-2]), ("Since the first", campaigns[0])):
        if not is_predicted and len(similar) < FEWEST_CAMPAIGNS:
            text = (
                f"cannot tell: how much campaigns differ without a change is known from {FEWEST_CAMPAIGNS + 1} "
                f"campaigns with as many runs on; this is number {len(similar) + 1}."
            )
            sentences.append(Sentence(topic, text))
            continue
        selections = [Selection("", row, runs_by_campaign[row.number]) for row in (base, newest)]
        names = [f"campaign {selection.campaign.number}" for selection in selections]
        result = compare_selections(store, names, selections, [metric], lambda: similar)
        name = result.rows[0].metric
        text = report.summary(result, name) if is_predicted else _describe_result(result, name)
        sentences.append(Sentence(topic, text))
    return sentences


def _describe_result(result: Comparison, metric: str) -> str:
    """Returns which cells are better or worse by more than campaigns differ, and how many are not."""
    cells_by_verdict: dict[str, list[str]] = {}
    for row in result.rows:
        for decision in row.differences:
            cell = " ".join(map(printable, row.labels.values()))
            if decision is not None and decision.verdict in {"better", "worse"}:
                text = f"{cell} {change(decision.change)} (interval {interval(decision)})".strip()
            else:
                text = cell
            verdict = "one side only" if decision is None else decision.verdict
            cells_by_verdict.setdefault(verdict, []).append(text)
    parts = []
    for verdict in ("worse", "better"):
        cells = cells_by_verdict.pop(verdict, [])
        if cells:
            more = f" and {len(cells) - MOST_CELLS} more" if len(cells) > MOST_CELLS else ""
            parts.append(f"{len(cells)} {verdict}: {', '.join(cells[:MOST_CELLS])}{more}")
    same = cells_by_verdict.pop("same", [])
    if same:
        parts.append(f"{len(same)} the same within ±{formatting.share(result.margin)}")
    missing = cells_by_verdict.pop("one side only", [])
    if missing:
        parts.append(f"{len(missing)} on one side only")
    rest = sum(map(len, cells_by_verdict.values()))
    if rest:
        decisions = [decision for row in result.rows for decision in row.differences if decision]
        reach = max(math.log1p(decision.high or 0) - math.log1p(decision.low or 0) for decision in decisions) / 2
        noun = "cell" if rest == 1 else "cells"
        least = formatting.share(math.expm1(reach))
        parts.append(f"cannot tell for {rest} {noun}: one campaign shows only changes by more than {least}")
    return f"{metric}: {'; '.join(parts)}."


def _describe_levels(
    series: Mapping[str, Sequence[float | None]], changes: Sequence[LevelChange], points: Sequence[TrendPoint]
) -> list[Sentence]:
    """Returns the changes of level that last, the newest first, and how much campaigns differ without a change."""
    sentences = []
    if changes:
        texts = []
        changes_by_campaign = by_key((other.index, other) for other in reversed(changes))
        for index, of_campaign in changes_by_campaign.items():
            point = points[index]
            names = [f"{other.cell} {change(other.change)}" for other in of_campaign[:MOST_CELLS]]
            if len(of_campaign) > MOST_CELLS:
                names.append(f"{len(of_campaign) - MOST_CELLS} more")
            texts.append(f"{', '.join(names)} from campaign {point.name} ({runs.when(point.campaign.begun)}) on")
        if len(texts) > MOST_CELLS:
            texts = [*texts[:MOST_CELLS], "earlier ones in the table"]
        sentences.append(Sentence("Changes of level", f"{'; '.join(texts)}."))
    elif has_enough_campaigns(series):
        sentences.append(Sentence("Changes of level", "none."))
    else:
        text = f"cannot tell: a change point needs {FEWEST_VALUES} campaigns, three of them after the change."
        sentences.append(Sentence("Changes of level", text))
    noise = measure_noise(series)
    if noise is not None:
        text = (
            f"without a change of level, campaigns differ by {formatting.share(noise.deviation)} (standard deviation,"
            f" {noise.campaigns} campaigns)."
        )
        sentences.append(Sentence("Noise", text))
    return sentences


def _chart(
    metric: str,
    all_points: Sequence[TrendPoint],
    cells: Sequence[str],
    table: TextTable,
    tags: Mapping[int, Sequence[str]],
    changes: Sequence[LevelChange],
) -> Chart:
    """Returns the lines of the cells, with a dashed line where the level of one changes."""
    points = [point for point in all_points if point.values]
    sorted_cells = sorted(cells, key=lambda cell: -sum(cell in point.values for point in points))
    of_each = (next(cell for cell in sorted_cells if cell in point.values) for point in points)
    most_common = list(dict.fromkeys([*of_each, *sorted_cells]))[:MOST_LINES]
    drawn = [cell for cell in cells if cell in most_common]  # a cell keeps its colour if others are measured more often
    dates = _dates(points)
    data = []
    places = {}
    for point, date in zip(points, dates, strict=True):
        campaign = " ".join([point.name, *map(printable, tags.get(point.campaign.number, ()))])
        places[id(point)] = f"{campaign}|{date}"
        for cell in drawn:
            if cell in point.values and point.values[cell].is_known:
                value = point.values[cell]
                row: Spec = {
                    "campaign": campaign,
                    "place": f"{campaign}|{date}",
                    "begun": runs.when(point.campaign.begun),
                }
                row |= {"cell": cell, "v": value.mean, "low": value.minimum, "high": value.maximum}
                data.append({**row, "runs": value.runs})
    number = "slice(datum.value, 0, indexof(datum.value, '|'))"
    label = f"split(slice(datum.value, indexof(datum.value, '|') + 1) + ', ' + {number}, ', ')"
    texts = [{"calculate": metric_label(metric, f"datum.{key}"), "as": f"{key}_text"} for key in ("v", "low", "high")]
    encoding = {
        "x": category("place", "measured on (campaign)", axis={"labelAngle": 0, "labelExpr": label}, scale=NARROW),
        "xOffset": category("cell", scale={"domain": drawn}),
        "color": colour("cell", drawn, symbolType="stroke"),
    }
    axis = {"labelExpr": metric_label(metric, "datum.value"), "tickCount": 5}
    y: Spec = {"axis": axis, "scale": {"zero": True}}
    title = METRICS[metric].description
    tooltip = [tip("campaign", "campaign"), tip("begun", "measured"), tip("cell", "cell"), tip("v_text", title)]
    tooltip += [tip("runs", "runs"), tip("low_text", "lowest run"), tip("high_text", "highest run")]
    spread = layer("rule", {**encoding, "y": quantity("low", title, **y), "y2": {"field": "high"}})
    spread["mark"] |= {"strokeWidth": 4, "opacity": 0.3}
    lines = layer("line", {**encoding, "y": quantity("v", title, **y), "tooltip": tooltip}, point={"size": 50})
    layers = [{"transform": [{"filter": "datum.runs > 1"}], **spread}, lines]
    notes = ["Points: means; bars: from the lowest run to the highest."]
    marks: list[Spec] = []
    for level_change in changes:
        point = all_points[level_change.index]
        if level_change.cell in drawn and id(point) in places:
            text = f"{level_change.cell}: {change(level_change.change)}"
            marks.append({"place": places[id(point)], "cell": level_change.cell, "change": text})
    if marks:
        mark_encoding = {"x": encoding["x"], "color": encoding["color"], "tooltip": [tip("change", "change of level")]}
        rules = layer("rule", mark_encoding, strokeDash=[4, 3], strokeWidth=1.5)
        layers.append({"data": {"values": marks}, "transform": [], **rules})
        notes.append("Dashed: the level changes from this campaign on.")
    spec = chart_spec(data, transform=texts, layer=layers)
    unknown_count = sum(not value.is_known for point in points for value in point.values.values())
    if unknown_count:
        notes.append(f"{formatting.plural(unknown_count, 'point')} left out: not known.")
    if len(cells) > MOST_LINES:
        notes.append(f"{MOST_LINES} of {len(cells)} cells, which most campaigns have; the table has all.")
    return Chart("trend", f"{title[:1].upper()}{title[1:]}", spec, table, " ".join(notes), wide=True)


def _dates(points: Sequence[TrendPoint]) -> list[str]:
    """Returns the date of each point; with its time if several campaigns were measured on a day."""
    campaigns = {point.campaign.number: runs.when(point.campaign.begun) for point in points}
    days = [time.partition(",")[0] for time in campaigns.values()]
    several = len(set(days)) < len(days)
    times = [campaigns[point.campaign.number] for point in points]
    return times if several else [time.partition(",")[0] for time in times]
