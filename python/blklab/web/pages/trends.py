"""The list of experiments that were repeated, and the trend of one: a metric over its campaigns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, geometric_mean
from urllib.parse import quote

from blklab.campaigns import runs
from blklab.campaigns.layout import MOST_LINES, colour, metric_label
from blklab.campaigns.view import STACK, WORKLOAD
from blklab.compare import report
from blklab.compare.comparison import REPEAT
from blklab.compare.figure_text import figure
from blklab.compare.metrics import METRICS, with_direction
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.render import formatting
from blklab.render.chart import Chart, category, chart_spec, layer, quantity, tip
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection
from blklab.render.table import LinkedCell, TableColumn, TextTable, text_column
from blklab.store import annotations, query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text.printing import printable
from blklab.web.frame import Form, FormField, SitePage, list_page
from blklab.web.pages.comparison import compare_selections

MOST_CAMPAIGNS = 50  # Campaigns of a trend, the newest


@dataclass(frozen=True)
class TrendPoint:
    """A campaign, or a side of it, in a trend."""

    campaign: CampaignRow
    name: str  # Its number, with the labels and values that other campaigns do not have
    values: Mapping[str, float]  # By cell


def list_experiments(store: Store) -> SitePage:
    """Returns the list of experiments that were run more than once on one runner and host."""
    rows = []
    sorted_campaigns = sorted(query.all_campaigns(store), key=series_key)
    for (name, runner, host), group in groupby(sorted_campaigns, key=series_key):
        members = list(group)
        if len(members) > 1:
            href = f"/trends/{quote(name, safe='')}?on={quote(host or runner, safe='')}"
            place = printable(members[0].place)
            rows.append([LinkedCell(printable(name), href), place, str(len(members)), runs.when(members[-1].begun)])
    columns = [text_column("experiment"), text_column("on"), TableColumn("campaigns"), text_column("last")]
    table = TextTable("Experiments that were run repeatedly", columns, rows)
    empty = Sentence("Empty", "No experiment was run twice on one runner: repeat one to see its trend.")
    return list_page("Trends", table, "Experiments", sentences=[] if rows else [empty])


def series_key(row: CampaignRow) -> tuple[str, str, str]:
    """Returns what the campaigns of one trend have in common."""
    return row.name, row.runner, row.host or ""


def campaigns_of_trend(store: Store, name: str, place: str) -> list[CampaignRow]:
    """Returns the campaigns of a trend. Raises UsageError if there are none."""
    all_campaigns = query.all_campaigns(store)
    campaigns = [row for row in all_campaigns if row.name == name and place in {"", row.host or row.runner}]
    if not campaigns:
        raise UsageError(f"no campaign of {name!r}" + (f" on {place!r}" if place else ""))
    return campaigns[-MOST_CAMPAIGNS:]


def show_trend(store: Store, name: str, place: str, metric: str) -> SitePage:
    """Returns a metric of an experiment over its campaigns. Raises UsageError."""
    campaigns = campaigns_of_trend(store, name, place)
    runs_by_campaign = {}
    outcomes = []
    for row in campaigns:
        finished_runs = [run for run in query.runs_of(store, row.number) if run.outcome]
        runs_by_campaign[row.number] = finished_runs
        if finished_runs:
            outcomes.append([run.outcome for run in finished_runs if run.outcome])
    metric = with_direction(metric, outcomes)
    cell_labels, side_labels = _split_labels(
        [finished_runs for finished_runs in runs_by_campaign.values() if finished_runs]
    )
    points = []
    for row in campaigns:
        for side, of_side in _sides(runs_by_campaign[row.number], side_labels).items():
            title = f"{row.number} {printable(side)}".rstrip()
            points.append(TrendPoint(row, title, _values(of_side, metric, cell_labels)))
    cells = list(dict.fromkeys(cell for point in points for cell in point.values))
    campaigns_with_values = list({point.campaign.number: point.campaign for point in points if point.values}.values())
    verdicts = (
        _verdicts(store, campaigns_with_values, runs_by_campaign, metric) if len(campaigns_with_values) > 1 else []
    )
    columns = [
        TableColumn("campaign"),
        text_column("begun"),
        text_column("blklab"),
        *(TableColumn(cell) for cell in cells),
    ]
    rows = []
    for point in reversed(points):
        link = LinkedCell(point.name, f"/campaigns/{point.campaign.number}")
        line: list[LinkedCell | str] = [link, runs.when(point.campaign.begun), point.campaign.version]
        for cell in cells:
            has_value = cell in point.values
            line.append(figure(metric, point.values[cell]) if has_value else formatting.NONE)
        rows.append(line)
    table = TextTable(f"{printable(name)}: {metric}", columns, rows)
    chart = _chart(metric, [point for point in points if point.values], cells, table, annotations.tags(store))
    fields = [FormField("metric", "Metric", metric), FormField("on", "On", place)]
    facts = [formatting.plural(len(campaigns), "campaign")]
    if place:
        facts.append(f"on {printable(place)}")
    return SitePage(
        printable(name),
        [PageSection("trend", "Trend", f"{metric} over time", [chart])],
        kicker="trend",
        here="/trends",
        facts=facts,
        sentences=verdicts,
        form=Form(f"/trends/{quote(name, safe='')}", "Show", fields),
    )


def _split_labels(campaigns: Sequence[Sequence[StoredRun]]) -> tuple[list[str], list[str]]:
    """Returns the labels that identify a cell in every campaign, and those that tell campaigns apart.

    The latter are those that some campaigns lack, and those that none varies, such as another kernel for each. Stack
    and workload always identify a cell if all campaigns have them.
    """
    cell_labels: list[str] = []
    side_labels: list[str] = []
    all_labels: dict[str, None] = {}  # A set with an order
    for campaign_runs in campaigns:
        for run in campaign_runs:
            all_labels |= dict.fromkeys(run.labels)
    for label in all_labels:
        if label == REPEAT:
            continue
        values = []
        for campaign_runs in campaigns:
            values.append({run.labels.get(label) for run in campaign_runs})
        alike = any(len(of_campaign) > 1 for of_campaign in values) or len(set.union(*values)) < 2
        if all(None not in of_campaign for of_campaign in values) and (alike or label in {STACK, WORKLOAD}):
            cell_labels.append(label)
        else:
            side_labels.append(label)
    return cell_labels, side_labels


def _sides(campaign_runs: Sequence[StoredRun], side_labels: Sequence[str]) -> dict[str, list[StoredRun]]:
    """Returns the runs of each side of a campaign, by its name: as in `compare`, each value is a side."""
    pairs = []
    for run in campaign_runs:
        side = " ".join(f"{label}={run.labels[label]}" for label in side_labels if label in run.labels)
        pairs.append((side, run))
    return by_key(pairs) or {"": []}


def _values(campaign_runs: Sequence[StoredRun], metric: str, cell_labels: Sequence[str]) -> dict[str, float]:
    """Returns the mean of a metric for each cell, by the labels that identify it."""
    by_cell: dict[str, list[float]] = {}
    for run in campaign_runs:
        value = METRICS[metric].compute(run.outcome) if run.outcome else None
        labels = " ".join(printable(run.labels[label]) for label in cell_labels) or "all cells"
        if value is not None:
            by_cell.setdefault(labels, []).append(value)
    return {cell: geometric_mean(values) if min(values) > 0 else fmean(values) for cell, values in by_cell.items()}


def _verdicts(
    store: Store, campaigns: Sequence[CampaignRow], runs_by_campaign: dict[int, list[StoredRun]], metric: str
) -> list[Sentence]:
    """Returns what a comparison of the newest campaign with the one before, and with the first, says."""
    sentences = []
    for topic, earlier in (("Since the one before", campaigns[-2]), ("Since the first", campaigns[0])):
        selections = [Selection("", row, runs_by_campaign[row.number]) for row in (earlier, campaigns[-1])]
        result = compare_selections(
            store, [f"campaign {selection.campaign.number}" for selection in selections], selections, [metric]
        )
        sentences.append(Sentence(topic, report.summary(result, result.rows[0].metric)))
    return sentences


def _chart(
    metric: str, points: Sequence[TrendPoint], cells: Sequence[str], table: TextTable, tags: Mapping[int, Sequence[str]]
) -> Chart:
    sorted_cells = sorted(cells, key=lambda cell: -sum(cell in point.values for point in points))
    of_each = (next(cell for cell in sorted_cells if cell in point.values) for point in points)
    drawn = list(dict.fromkeys([*of_each, *sorted_cells]))[:MOST_LINES]
    data = []
    for point in points:
        campaign = " ".join([point.name, *map(printable, tags.get(point.campaign.number, ()))])
        begun = runs.when(point.campaign.begun)
        for cell in drawn:
            if cell in point.values:
                data.append({"campaign": campaign, "begun": begun, "cell": cell, "v": point.values[cell]})
    axis = {"labelExpr": metric_label(metric, "datum.value"), "tickCount": 5}
    encoding = {
        "x": category("campaign", "campaign", axis={"labelAngle": 0}),
        "y": quantity("v", metric, axis=axis, scale={"zero": False}),
        "color": colour("cell", drawn, symbolType="stroke"),
        "tooltip": [tip("campaign", "campaign"), tip("begun", "begun"), tip("cell", "cell"), tip("v", metric, ",.4~r")],
    }
    spec = chart_spec(data, layer=[layer("line", encoding, point=True)])
    note = ""
    if len(cells) > MOST_LINES:
        note = f"{MOST_LINES} of {len(cells)} cells, which most campaigns have; the table has all."
    return Chart("trend", f"{metric} of each campaign", spec, table, note, wide=True)
