"""Pages that compare: campaigns side by side, and one experiment over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, geometric_mean
from urllib.parse import quote

from blklab.analysis import compare as analysis
from blklab.analysis.compare import distinguish
from blklab.analysis.comparison import Comparison
from blklab.analysis.decision import look_share
from blklab.analysis.metrics import METRICS, with_direction
from blklab.errors import UsageError
from blklab.report import comparison, diagnostics, formatting, runs
from blklab.report.charts.base import Chart, category, chart_spec, layer, quantity, tip
from blklab.report.experiment.axis_chooser import metric_label
from blklab.report.experiment.layout import MOST_LINES, colour
from blklab.report.experiment.view import STACK, WORKLOAD
from blklab.report.formatting import Sentence
from blklab.report.shell import PageSection
from blklab.report.tables.base import LinkedCell, TableColumn, TextTable, text
from blklab.serve.site_page import Form, FormField, SitePage, listing
from blklab.store import annotations, query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text import by_key, printable

METRICS_SHOWN = "iops,mean,p99"
MOST_CAMPAIGNS = 50  # Campaigns of a trend, the newest


@dataclass(frozen=True)
class TrendPoint:
    """A campaign, or a side of it, in a trend."""

    campaign: CampaignRow
    name: str  # Its number, with the labels and values that other campaigns do not have
    values: Mapping[str, float]  # By cell


def compared(store: Store, sides: Sequence[str], metrics: str) -> SitePage:
    """Returns what `blklab compare` prints about campaigns. Raises UsageError."""
    if len(sides) < 2:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    selections = [query.selected(store, words) for words in sides]
    known = distinguish(selections)
    names = known[1] if known else [f"campaign {words}" for words in sides]
    result = _comparison(store, names, selections, [name.strip() for name in metrics.split(",")])
    shown = list(dict.fromkeys(row.metric for row in result.rows))
    campaigns = [each.campaign for each in selections]
    tables = zip(shown, comparison.tables(result), strict=True)
    return SitePage(
        "Comparison",
        [PageSection(name.replace(".", "-"), name, name, [table]) for name, table in tables],
        here="/",
        facts=[f"campaign {row.number}: {printable(row.name)} on {printable(row.place)}" for row in campaigns],
        sentences=[Sentence(name, comparison.summary(result, name)) for name in shown],
        doubts=diagnostics.sentences(result.notes),
        links=[LinkedCell(f"Campaign {row.number}", f"/campaigns/{row.number}") for row in campaigns],
    )


def experiments(store: Store) -> SitePage:
    """Returns the list of experiments that were run more than once on one runner and host."""
    rows = []
    ordered = sorted(query.all_campaigns(store), key=_series)
    for (name, runner, host), group in groupby(ordered, key=_series):
        members = list(group)
        if len(members) > 1:
            href = f"/trends/{quote(name, safe='')}?on={quote(host or runner, safe='')}"
            place = printable(members[0].place)
            rows.append([LinkedCell(printable(name), href), place, str(len(members)), runs.when(members[-1].begun)])
    columns = [text("experiment"), text("on"), TableColumn("campaigns"), text("last")]
    table = TextTable("Experiments that were run repeatedly", columns, rows)
    empty = Sentence("Empty", "No experiment was run twice on one runner: repeat one to see its trend.")
    return listing("Trends", table, "Experiments", sentences=[] if rows else [empty])


def _series(row: CampaignRow) -> tuple[str, str, str]:
    return row.name, row.runner, row.host or ""


def _comparison(store: Store, names: Sequence[str], chosen: Sequence[Selection], metrics: Sequence[str]) -> Comparison:
    """Returns the comparison of selections under these names; without a query for runs that have no series."""
    measured = query.runs_with_points(store, [each.campaign.number for each in chosen])
    return analysis.compare(
        analysis.comparison_sides(list(zip(names, [each.runs for each in chosen], strict=True))),
        metrics,
        lambda run: query.points(store, run) if run in measured else [],
        look=look_share(query.earlier_looks(store, chosen)),
        earlier=lambda: query.earlier_campaigns(store, chosen),
    )


def of_trend(store: Store, name: str, place: str) -> list[CampaignRow]:
    """Returns the campaigns of a trend. Raises UsageError if there are none."""
    every = query.all_campaigns(store)
    campaigns = [row for row in every if row.name == name and place in {"", row.host or row.runner}]
    if not campaigns:
        raise UsageError(f"no campaign of {name!r}" + (f" on {place!r}" if place else ""))
    return campaigns[-MOST_CAMPAIGNS:]


def trend(store: Store, name: str, place: str, metric: str) -> SitePage:
    """Returns a metric of an experiment over its campaigns. Raises UsageError."""
    campaigns = of_trend(store, name, place)
    stored = {row.number: [run for run in query.runs_of(store, row.number) if run.outcome] for row in campaigns}
    metric = with_direction(metric, [[run.outcome for run in of if run.outcome] for of in stored.values() if of])
    named, apart = _identifying([of for of in stored.values() if of])
    points = [
        TrendPoint(row, f"{row.number} {printable(side)}".rstrip(), _values(of, metric, named))
        for row in campaigns
        for side, of in _sides(stored[row.number], apart).items()
    ]
    cells = list(dict.fromkeys(cell for point in points for cell in point.values))
    measured = list({point.campaign.number: point.campaign for point in points if point.values}.values())
    verdicts = _verdicts(store, measured, stored, metric) if len(measured) > 1 else []
    columns = [TableColumn("campaign"), text("begun"), text("blklab"), *(TableColumn(cell) for cell in cells)]
    rows = [
        [
            LinkedCell(point.name, f"/campaigns/{point.campaign.number}"),
            runs.when(point.campaign.begun),
            point.campaign.version,
            *(comparison.figure(metric, of[cell]) if cell in of else formatting.NONE for cell in cells),
        ]
        for point, of in ((point, point.values) for point in reversed(points))
    ]
    table = TextTable(f"{printable(name)}: {metric}", columns, rows)
    chart = _chart(metric, [point for point in points if point.values], cells, table, annotations.tags(store))
    fields = [FormField("metric", "Metric", metric), FormField("on", "On", place)]
    return SitePage(
        printable(name),
        [PageSection("trend", "Trend", f"{metric} over time", [chart])],
        kicker="trend",
        here="/trends",
        facts=[formatting.plural(len(campaigns), "campaign"), *([f"on {printable(place)}"] if place else [])],
        sentences=verdicts,
        form=Form(f"/trends/{quote(name, safe='')}", "Show", fields),
    )


def _identifying(campaigns: Sequence[Sequence[StoredRun]]) -> tuple[list[str], list[str]]:
    """Returns the labels that identify a cell in every campaign, and those that tell campaigns apart.

    The latter are those that some campaigns lack, and those that none varies, such as another kernel for each. Stack
    and workload always identify a cell if all campaigns have them.
    """
    labels: tuple[list[str], list[str]] = ([], [])
    every = dict.fromkeys(label for of in campaigns for run in of for label in run.labels)
    for label in [label for label in every if label != analysis.REPEAT]:
        values = [{run.labels.get(label) for run in of} for of in campaigns]
        alike = any(len(each) > 1 for each in values) or len(set.union(*values)) < 2
        shared = all(None not in each for each in values) and (alike or label in {STACK, WORKLOAD})
        labels[0 if shared else 1].append(label)
    return labels


def _sides(stored: Sequence[StoredRun], apart: Sequence[str]) -> dict[str, list[StoredRun]]:
    """Returns the runs of each side of a campaign, by its name: as in `compare`, each value is a side."""
    named = (
        (" ".join(f"{label}={run.labels[label]}" for label in apart if label in run.labels), run) for run in stored
    )
    return by_key(named) or {"": []}


def _values(stored: Sequence[StoredRun], metric: str, named: Sequence[str]) -> dict[str, float]:
    """Returns the mean of a metric for each cell, by the labels that identify it."""
    by_cell: dict[str, list[float]] = {}
    for run in stored:
        value = METRICS[metric].of(run.outcome) if run.outcome else None
        labels = " ".join(printable(run.labels[label]) for label in named) or "all cells"
        if value is not None:
            by_cell.setdefault(labels, []).append(value)
    return {cell: geometric_mean(values) if min(values) > 0 else fmean(values) for cell, values in by_cell.items()}


def _verdicts(
    store: Store, campaigns: Sequence[CampaignRow], stored: dict[int, list[StoredRun]], metric: str
) -> list[Sentence]:
    """Returns what a comparison of the newest campaign with the one before, and with the first, says."""
    sentences = []
    for topic, earlier in (("Since the one before", campaigns[-2]), ("Since the first", campaigns[0])):
        chosen = [Selection("", row, stored[row.number]) for row in (earlier, campaigns[-1])]
        result = _comparison(store, [f"campaign {each.campaign.number}" for each in chosen], chosen, [metric])
        sentences.append(Sentence(topic, comparison.summary(result, result.rows[0].metric)))
    return sentences


def _chart(
    metric: str, points: Sequence[TrendPoint], cells: Sequence[str], table: TextTable, tags: Mapping[int, Sequence[str]]
) -> Chart:
    ranked = sorted(cells, key=lambda cell: -sum(cell in point.values for point in points))
    of_each = (next(cell for cell in ranked if cell in point.values) for point in points)
    drawn = list(dict.fromkeys([*of_each, *ranked]))[:MOST_LINES]
    data = [
        {
            "campaign": " ".join([point.name, *map(printable, tags.get(point.campaign.number, ()))]),
            "begun": runs.when(point.campaign.begun),
            "cell": cell,
            "v": point.values[cell],
        }
        for point in points
        for cell in drawn
        if cell in point.values
    ]
    axis = {"labelExpr": metric_label(metric, "datum.value"), "tickCount": 5}
    encoding = {
        "x": category("campaign", "campaign", axis={"labelAngle": 0}),
        "y": quantity("v", metric, axis=axis, scale={"zero": False}),
        "color": colour("cell", drawn, symbolType="stroke"),
        "tooltip": [tip("campaign", "campaign"), tip("begun", "begun"), tip("cell", "cell"), tip("v", metric, ",.4~r")],
    }
    spec = chart_spec(data, layer=[layer("line", encoding, point=True)])
    few = f"{MOST_LINES} of {len(cells)} cells, which most campaigns have; the table has all."
    note = few if len(cells) > MOST_LINES else ""
    return Chart("trend", f"{metric} of each campaign", spec, table, note, wide=True)
