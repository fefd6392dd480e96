"""The list of experiments that were repeated, and the trend of one: a metric over its campaigns."""

from itertools import groupby
from urllib.parse import quote, urlencode

from blklab.campaigns import runs
from blklab.campaigns.trend import read_trend
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection
from blklab.render.table import LinkedCell, TableColumn, TextTable, text_column
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow
from blklab.text.printing import printable
from blklab.web.frame import Form, FormField, SitePage, list_page, list_parts


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
    return list_page("Trends", table, sentences=[] if rows else [empty])


def series_key(row: CampaignRow) -> tuple[str, str, str]:
    """Returns what the campaigns of one trend have in common."""
    return row.name, row.runner, row.host or ""


def show_trend(store: Store, name: str, place: str, metric: str, part: int = 1) -> SitePage:
    """Returns a metric of an experiment over its campaigns; of many cells, those of one part. Raises UsageError."""
    trend = read_trend(store, name, place, metric, part)
    fields = [FormField("metric", "Metric", metric), FormField("on", "On", place)]
    facts = [formatting.plural(trend.campaign_count, "campaign")]
    if place:
        facts.append(f"on {printable(place)}")
    if trend.all_cells > trend.cells_per_part:
        facts.append(f"{trend.cell_count} of {trend.all_cells:,} cells")
    address = f"/trends/{quote(name, safe='')}?{urlencode({'on': place, 'metric': metric})}"
    return SitePage(
        printable(name),
        [PageSection("trend", "Trend", "Over time", [trend.chart])],
        kicker="trend",
        here="/trends",
        facts=facts,
        sentences=trend.verdicts,
        form=Form(f"/trends/{quote(name, safe='')}", "Show", fields),
        pages=list_parts(address, part, trend.all_cells, trend.cells_per_part),
    )
