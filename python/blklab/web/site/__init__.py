"""A web page over the store, which only reads it: a WSGI application with addresses, pages, headers and errors.

It answers GET and HEAD only.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from itertools import groupby
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from blklab.bisect import findings
from blklab.campaigns import runs
from blklab.campaigns.layout import MOST_LINES, colour, metric_label
from blklab.campaigns.page import ExperimentReport
from blklab.campaigns.setup import printable_lines
from blklab.campaigns.view import STACK, WORKLOAD, ExperimentView
from blklab.compare import comparison as analysis
from blklab.compare import report as comparison
from blklab.compare.comparison import Comparison, distinguish
from blklab.compare.decision import look_share
from blklab.compare.metrics import METRICS, metric_name, with_direction
from blklab.diagnostic import SEVERITIES
from blklab.errors import BlklabError, StoreError, UsageError
from blklab.grouping import by_key
from blklab.render import diagnostics, formatting, shell
from blklab.render.chart import Chart, category, chart_spec, layer, quantity, tip
from blklab.render.formatting import Sentence, plural
from blklab.render.shell import PageSection, PlainText
from blklab.render.table import ChoiceCell, LinkedCell, TableColumn, TextTable, number_columns, text_column
from blklab.store import annotations, documents, query
from blklab.store.annotations import Annotation
from blklab.store.campaigns import Store
from blklab.store.documents import StoredDocument
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text.printing import printable
from blklab.trace import page
from blklab.trace.profile import parse_stored_profile
from blklab.trace.view import ProfileView

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


SITE = (
    LinkedCell("Campaigns", "/"),
    LinkedCell("Runs", "/runs"),
    LinkedCell("Trends", "/trends"),
    LinkedCell("Traces", "/traces"),
    LinkedCell("Hosts", "/hosts"),
)
ROWS = 100  # Rows of a list on one page


@dataclass(frozen=True)
class FormField:
    name: str
    label: str
    value: str


@dataclass(frozen=True)
class Form:
    """A form that asks for another page."""

    action: str
    button: str
    fields: Sequence[FormField] = ()


@dataclass(frozen=True)
class SitePage:
    """A page before it is drawn."""

    title: str
    sections: Sequence[PageSection] = ()
    kicker: str = "blklab"
    here: str = ""  # The entry of the navigation that it belongs to
    facts: Sequence[str] = ()
    sentences: Sequence[Sentence] = ()
    doubts: Sequence[Sentence] = ()
    links: Sequence[LinkedCell] = ()
    pages: Sequence[LinkedCell] = ()  # Links to the other parts of a long list
    form: Form | None = None
    live: bool = False  # Whether it is read again while it is shown

    def html(self) -> str:
        context = {name: value for name, value in vars(self).items() if name != "sections"}
        scripts = ["assets/live.js"] if self.live else []
        sections = [section for section in self.sections if section]
        return shell.render("site.html.j2", sections, more_scripts=scripts, forms=True, site=SITE, **context)


def listing(title: str, table: TextTable, heading: str = "", **parts: Any) -> SitePage:
    """Returns a page of the navigation with one table; `heading` is the table's, if that is not the page's title."""
    heading = heading or title
    section = PageSection(heading.lower(), heading, heading, [table] if table else [])
    return SitePage(title, [section], here=f"/{title.lower()}", **parts)


class DrawnOnce:
    """Pages that take long: each is drawn once for each state of what it shows, also if several ask at a time."""

    def __init__(self, draw: Callable[..., str]) -> None:
        """`draw` gets the state and the values."""
        self._drawn = lru_cache(maxsize=64)(draw)
        self._locks = [threading.Lock() for _ in range(16)]

    def html(self, state: str, *values: Hashable) -> str:
        """Returns the page for these values."""
        with self._locks[hash(values) % len(self._locks)]:
            return self._drawn(state, *values)


def parts(path: str, page: int, total: int) -> list[LinkedCell]:
    """Returns the links to the first, previous, next and last part of a list of `total` rows."""
    last = max(1, -(-total // ROWS))
    near = [("First", 1), ("Previous", page - 1), ("Next", page + 1), ("Last", last)]
    joint = "&" if "?" in path else "?"
    return [
        LinkedCell(name, f"{path}{joint}page={number}")
        for name, number in near
        if 1 <= number <= last and number != page
    ]


def campaigns(store: Store, arguments: Mapping[str, str], page: int) -> SitePage:
    """Returns the list of campaigns, the newest first, filtered by `name` and `tag`."""
    name = arguments.get("name", "")
    tag = arguments.get("tag", "")
    tags = annotations.tags(store)
    rows = [
        row
        for row in reversed(query.all_campaigns(store))
        if (not name or name in row.name) and (not tag or tag in tags.get(row.number, ()))
    ]
    running = [row for row in rows if row.states.get("running")]
    shown = rows[(page - 1) * ROWS : page * ROWS]
    table = _with_links(runs.campaigns(shown, tags), shown)
    filters = urlencode({key: value for key, value in (("name", name), ("tag", tag)) if value})
    sentences = []
    if not rows and filters:
        sentences.append(Sentence("Empty", "No campaign matches."))
    elif not rows:
        sentences.append(Sentence("Empty", "Nothing is stored yet: create a campaign with `blklab run EXPERIMENT`."))
    under_way = [_with_links(runs.campaigns(running, tags), running)] if running else []
    sections = [
        PageSection("running", "Running", "Running now", under_way),
        PageSection("campaigns", "Campaigns", "Campaigns", [table] if rows else []),
    ]
    return SitePage(
        "Campaigns",
        sections,
        here="/",
        facts=[formatting.plural(len(rows), "campaign"), printable(store.database.name)],
        sentences=sentences,
        pages=parts(f"/?{filters}" if filters else "/", page, len(rows)),
        form=Form("/compare", "Compare the chosen campaigns") if len(rows) > 1 else None,
        live=bool(running),
    )


def _with_links(table: TextTable, rows: Sequence[CampaignRow]) -> TextTable:
    """Returns the table of campaigns with a checkbox before each number, and a link behind each name."""
    cells = [
        [ChoiceCell(cells[0], "side"), LinkedCell(cells[1], f"/campaigns/{row.number}"), *cells[2:]]
        for cells, row in zip(table.rows, rows, strict=True)
    ]
    return TextTable(table.title, [text_column(table.columns[0].heading), *table.columns[1:]], cells)


def campaign(store: Store, number: int, page: int) -> SitePage:
    """Returns the page of a campaign, with one part of its runs."""
    row = query.campaign(store, number)
    stored_runs = query.runs_of(store, number, (page - 1) * ROWS, ROWS)
    figures = [(f"run {run.id}", run.figures) for run in stored_runs]
    tables = [_link_runs(runs.runs(row, stored_runs), stored_runs)]
    if caches := runs.caches(figures):
        tables.append(caches)
    failures = [Sentence("Failed", f"run {run.id}: {printable(run.message)}") for run in stored_runs if run.message]
    doubts = [Sentence("Doubt", line) for line in runs.doubts(stored_runs)]
    series_numbers = (other.number for other in query.all_campaigns(store) if _series(other) == _series(row))
    earlier = [other for other in series_numbers if other < number]
    links = [LinkedCell("Report", f"/campaigns/{number}/report")] if any(run.outcome for run in stored_runs) else []
    if earlier:
        links.append(LinkedCell("Compare with the one before", f"/compare?side={earlier[-1]}&side={number}"))
        links.append(LinkedCell("Trend", f"/trends/{quote(row.name, safe='')}?on={quote(row.host or row.runner)}"))
    return SitePage(
        printable(row.title or row.name),
        [
            PageSection("notes", "Notes", "Notes", _notes(annotations.annotations_of(store, number))),
            PageSection("runs", "Runs", "Runs", tables),
            PageSection("origin", "Origin", "Origin", _lines("Where the results are from", runs.origins(stored_runs))),
            PageSection("experiment", "Experiment", "Experiment", [_document("The experiment's file", row.experiment)]),
        ],
        kicker=f"campaign {number}",
        here="/",
        facts=[f"on {printable(row.place)}", runs.when(row.begun), f"blklab {row.version}", *_progress(row)],
        doubts=[*failures, *doubts],
        links=links,
        pages=parts(f"/campaigns/{number}", page, sum(row.states.values())),
        live=bool(row.states.get("running")),
    )


def _progress(row: CampaignRow) -> list[str]:
    total = sum(row.states.values())
    done = row.states.get("done", 0)
    return [f"{done} of {total} runs done"] if done < total else [formatting.plural(total, "run")]


def _notes(notes: Sequence[Annotation]) -> list[TextTable]:
    rows = [[note.kind, printable(note.text), printable(note.author), runs.when(note.created)] for note in notes]
    columns = [text_column(heading) for heading in ("", "text", "by", "at")]
    return [TextTable("Tags and notes", columns, rows)] if rows else []


def _link_runs(table: TextTable, stored_runs: Sequence[StoredRun]) -> TextTable:
    rows = [[LinkedCell(row[0], f"/runs/{run.id}"), *row[1:]] for row, run in zip(table.rows, stored_runs, strict=True)]
    return TextTable(table.title, table.columns, rows, table.note)


def _lines(title: str, lines: Sequence[str]) -> list[PlainText]:
    return [PlainText(title, "\n".join(lines))] if lines else []


def _document(title: str, document: object) -> PlainText:
    content = json.dumps(document, indent=2, ensure_ascii=False)
    return PlainText(title, printable_lines(content.split("\n")), folded=True)


def list_runs(store: Store, page: int) -> SitePage:
    """Returns the list of all runs, the newest first."""
    stored_runs, total = query.newest_runs(store, (page - 1) * ROWS, ROWS)
    rows = []
    for run in stored_runs:
        link = LinkedCell(str(run.id), f"/runs/{run.id}")
        campaign = LinkedCell(f"{run.campaign} {printable(run.name)}", f"/campaigns/{run.campaign}")
        labels = printable(" ".join(f"{key}={value}" for key, value in run.labels.items()))
        rows.append([link, campaign, run.runner, run.state, labels, *runs.outcome_figures(run.outcome)])
    columns = [TableColumn("run"), *(text_column(name) for name in ("campaign", "on", "state", "cell"))]
    columns += [TableColumn(name) for name in ("read IOPS", "write IOPS", "mean", "p99")]
    table = TextTable("Runs, the newest first", columns, rows)
    return listing("Runs", table, facts=[formatting.plural(total, "run")], pages=parts("/runs", page, total))


def run(store: Store, number: int) -> SitePage:
    stored_run = query.run(store, number)
    table = runs.runs(query.campaign(store, stored_run.campaign), [stored_run])
    output = query.raw(store, number)
    details = [
        _document("The result", stored_run.outcome and stored_run.outcome.as_document()),
        _document("The cell", stored_run.cell),
        _document("The environment", stored_run.environment),
    ]
    if output:
        details.append(PlainText("Output", printable_lines(output.split("\n")), folded=True))
    figures = PageSection("figures", "Figures", "Figures", [table])
    sections = [figures, PageSection("details", "Details", "Details", details)]
    return SitePage(
        f"Run {number}",
        sections,
        kicker=printable(stored_run.name),
        here="/runs",
        facts=[stored_run.state, *(printable(f"{key} {value}") for key, value in stored_run.labels.items())],
        doubts=[Sentence("Failed", printable(stored_run.message))] if stored_run.message else [],
        links=[LinkedCell(f"Campaign {stored_run.campaign}", f"/campaigns/{stored_run.campaign}")],
        live=stored_run.state == "running",
    )


def report(store: Store, number: int) -> str:
    """Returns the report of a campaign. Raises UsageError if it has no result."""
    selection = Selection(str(number), query.campaign(store, number), query.runs_of(store, number))
    drawn = ExperimentReport(
        ExperimentView([selection], lambda run: query.points(store, run)),
        lambda run: query.raw(store, run),
        command=f"blklab report {number}",
        bisections=findings.read_bisections(store, [number]),
    )
    return drawn.html()


METRICS_SHOWN = "iops,mean,p99"
MOST_CAMPAIGNS = 50  # Campaigns of a trend, the newest


@dataclass(frozen=True)
class TrendPoint:
    """A campaign, or a side of it, in a trend."""

    campaign: CampaignRow
    name: str  # Its number, with the labels and values that other campaigns do not have
    values: Mapping[str, float]  # By cell


def comparison_page(store: Store, sides: Sequence[str], metrics: str) -> SitePage:
    """Returns what `blklab compare` prints about campaigns. Raises UsageError."""
    if len(sides) < 2:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    selections = [query.select_runs(store, selector) for selector in sides]
    difference = distinguish(selections)
    names = difference[1] if difference else [f"campaign {selector}" for selector in sides]
    result = _comparison(store, names, selections, [name.strip() for name in metrics.split(",")])
    shown = list(dict.fromkeys(row.metric for row in result.rows))
    campaigns = [selection.campaign for selection in selections]
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
    sorted_campaigns = sorted(query.all_campaigns(store), key=_series)
    for (name, runner, host), group in groupby(sorted_campaigns, key=_series):
        members = list(group)
        if len(members) > 1:
            href = f"/trends/{quote(name, safe='')}?on={quote(host or runner, safe='')}"
            place = printable(members[0].place)
            rows.append([LinkedCell(printable(name), href), place, str(len(members)), runs.when(members[-1].begun)])
    columns = [text_column("experiment"), text_column("on"), TableColumn("campaigns"), text_column("last")]
    table = TextTable("Experiments that were run repeatedly", columns, rows)
    empty = Sentence("Empty", "No experiment was run twice on one runner: repeat one to see its trend.")
    return listing("Trends", table, "Experiments", sentences=[] if rows else [empty])


def _series(row: CampaignRow) -> tuple[str, str, str]:
    return row.name, row.runner, row.host or ""


def _comparison(
    store: Store, names: Sequence[str], selections: Sequence[Selection], metrics: Sequence[str]
) -> Comparison:
    """Returns the comparison of selections under these names; without a query for runs that have no series."""
    runs_with_points = query.runs_with_points(store, [selection.campaign.number for selection in selections])
    return analysis.compare(
        analysis.comparison_sides(list(zip(names, [selection.runs for selection in selections], strict=True))),
        metrics,
        lambda run: query.points(store, run) if run in runs_with_points else [],
        look=look_share(query.earlier_looks(store, selections)),
        earlier=lambda: query.earlier_campaigns(store, selections),
    )


def trend_campaigns(store: Store, name: str, place: str) -> list[CampaignRow]:
    """Returns the campaigns of a trend. Raises UsageError if there are none."""
    all_campaigns = query.all_campaigns(store)
    campaigns = [row for row in all_campaigns if row.name == name and place in {"", row.host or row.runner}]
    if not campaigns:
        raise UsageError(f"no campaign of {name!r}" + (f" on {place!r}" if place else ""))
    return campaigns[-MOST_CAMPAIGNS:]


def trend(store: Store, name: str, place: str, metric: str) -> SitePage:
    """Returns a metric of an experiment over its campaigns. Raises UsageError."""
    campaigns = trend_campaigns(store, name, place)
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
            line.append(comparison.figure(metric, point.values[cell]) if has_value else formatting.NONE)
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
        if label == analysis.REPEAT:
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
        result = _comparison(
            store, [f"campaign {selection.campaign.number}" for selection in selections], selections, [metric]
        )
        sentences.append(Sentence(topic, comparison.summary(result, result.rows[0].metric)))
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


METHODS = ["GET"]  # and HEAD


KeptAudit = Mapping[str, Any]  # The document of `md audit`: docs/reference/formats.md; also with its `failure`


def traces(store: Store) -> SitePage:
    """Returns the list of profiles, the newest of each name."""
    rows = [
        [LinkedCell(printable(profile.name), f"/traces/{profile.id}"), runs.when(profile.created), _devices(profile)]
        for profile in documents.latest(store, "profile")
    ]
    table = TextTable(
        "Profiles of traces", [text_column("trace"), text_column("kept"), text_column("device in focus")], rows
    )
    empty = Sentence("Empty", "No profile is kept: `blklab trace stat TRACE --keep NAME` keeps one.")
    return listing("Traces", table, sentences=[] if rows else [empty])


def _devices(profile: StoredDocument) -> str:
    try:
        return printable(ProfileView(parse_stored_profile(profile.document)).focus.label)
    except BlklabError as error:
        return str(error)


def trace(store: Store, number: int) -> str:
    """Returns the report of a profile, as HTML. Raises UsageError."""
    profile = documents.document(store, "profile", number)
    return page.render(
        ProfileView(parse_stored_profile(profile.document)), title=f"The workload of {printable(profile.name)}"
    )


def hosts(store: Store) -> SitePage:
    """Returns the last audit of every host, those with the worst findings first."""
    audits = documents.latest(store, "audit")
    audits.sort(key=lambda audit: [-_counts(audit.document)[severity] for severity in SEVERITIES])
    rows = []
    for audit in audits:
        link = LinkedCell(printable(audit.name), f"/hosts/{audit.id}")
        arrays = str(len(audit.document["arrays"]))
        counts = map(str, _counts(audit.document).values())
        failure = printable(audit.document.get("failure") or "")
        rows.append([link, runs.when(audit.created), arrays, *counts, failure])
    columns = [
        text_column("host"),
        text_column("audited"),
        *number_columns("arrays", *SEVERITIES),
        text_column("failure"),
    ]
    table = TextTable("The last audit of every host", columns, rows)
    critical = sum(_counts(audit.document)["critical"] > 0 for audit in audits)
    sentence = "No audit is kept: `blklab md audit --keep` keeps one."
    if audits:
        have = "has" if critical == 1 else "have"
        sentence = f"{plural(critical, 'host')} of {len(audits)} {have} critical findings."
    return listing("Hosts", table, sentences=[Sentence("Audits", sentence)])


def _counts(audit: KeptAudit) -> dict[str, int]:
    severities = [finding["severity"] for finding in audit["findings"]]
    return {severity: severities.count(severity) for severity in SEVERITIES}


def host(store: Store, number: int) -> SitePage:
    """Returns an audit of a host, and links to the earlier ones. Raises UsageError."""
    audit_document = documents.document(store, "audit", number)
    audit = audit_document.document
    earlier = documents.history(store, "audit", audit_document.name)
    rows = [
        [LinkedCell(runs.when(creation_time), f"/hosts/{audit_id}"), "shown" if audit_id == number else ""]
        for audit_id, creation_time in earlier
    ]
    sections = []
    for severity in SEVERITIES:
        items = _findings([finding for finding in audit["findings"] if finding["severity"] == severity])
        if items:
            title = severity.capitalize()
            sections.append(PageSection(f"{severity}-findings", title, f"{title} findings", items))
    unread = "\n".join(map(printable, audit["unseen"]))
    unseen = [PlainText("What could not be read", unread)] if unread else []
    failure = printable(audit.get("failure") or "")
    counts = [plural(count, severity) for severity, count in _counts(audit).items() if count]
    return SitePage(
        printable(audit_document.name),
        [
            *sections,
            PageSection("arrays", "Arrays", "Arrays", [*_arrays(audit["arrays"]), *unseen]),
            PageSection(
                "earlier", "All audits", "All audits", [TextTable("Audits", [text_column("at"), text_column("")], rows)]
            ),
        ],
        kicker="audit",
        here="/hosts",
        facts=[runs.when(audit_document.created), *counts],
        sentences=[] if counts or failure else [Sentence("Findings", "The audit has no finding.")],
        doubts=[Sentence("Failed", failure)] if failure else [],
    )


def _findings(findings: Sequence[Mapping[str, Any]]) -> list[PlainText]:
    return [
        PlainText(
            printable(" ".join(filter(None, (finding["subject"], finding["member"])))) or "host",
            "\n".join(map(printable, finding["remedy"])),
            printable(finding["message"]),
        )
        for finding in findings
    ]


def _arrays(arrays: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    rows = []
    for array in arrays:
        members = " ".join(member["name"] or "?" for member in array["members"])
        cells = [array["name"], array["level"] or "", array["state"] or "", members]
        rows.append([printable(cell) for cell in cells])
    columns = [text_column(name) for name in ("array", "level", "state", "members")]
    return [TextTable("Arrays", columns, rows)] if rows else []


class Site:
    def __init__(
        self, store_address: str | None, log: Callable[[str], object], names: Collection[str] | None = None
    ) -> None:
        """Opens the store at `store_address`. Raises UsageError and StoreError.

        With `names`, it answers requests to these names and to addresses only: a page of another site whose name was
        made to point here (DNS rebinding) must not read the store.
        """
        self._store = Store(store_address, reading=True)
        self._host_names = names
        self._log = log
        self._reports = DrawnOnce(lambda _state, number: report(self._store, number))
        self._trend_pages = DrawnOnce(
            lambda _state, name, place, metric: trend(self._store, name, place, metric).html()
        )
        number = "<int(max=2147483647):number>"
        pages: dict[str, Callable[..., SitePage | str]] = {
            "/": lambda arguments: campaigns(self._store, arguments, _page(arguments)),
            f"/campaigns/{number}": lambda arguments, number: campaign(self._store, number, _page(arguments)),
            f"/campaigns/{number}/report": self._report,
            "/compare": self._compare,
            "/runs": lambda arguments: list_runs(self._store, _page(arguments)),
            f"/runs/{number}": lambda _, number: run(self._store, number),
            "/trends": lambda _: experiments(self._store),
            "/trends/<path:name>": self._trend,
            "/traces": lambda _: traces(self._store),
            f"/traces/{number}": lambda _, number: trace(self._store, number),
            "/hosts": lambda _: hosts(self._store),
            f"/hosts/{number}": lambda _, number: host(self._store, number),
        }
        self._map = Map(
            [Rule(path, endpoint=page, methods=METHODS) for path, page in pages.items()], merge_slashes=False
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answers a request."""
        request = Request(environ)
        try:
            self._check_host(request)
            page, values = self._map.bind_to_environ(environ).match()
            response = self._make_response(request, page(request.args, **values))
        except HTTPException as error:
            code = error.code or 500
            if code in {301, 308}:
                response = Response(status=code, headers=dict(error.get_headers(environ)))
            else:
                title = "There is no such page."
                reason = f"{request.path}: {error.name}"
                if isinstance(error, BadRequest):
                    title = "This address cannot be used."
                    reason = error.description
                response = self._failure(request, code, title, reason)
        except UsageError as error:
            response = self._failure(request, 404, "There is no such page.", str(error))
        except StoreError as error:
            self._log(str(error))
            response = self._failure(request, 503, "The store cannot be read.", str(error))
        except Exception as error:  # a bug: the others still get their pages
            self._log(f"{request.path}: {type(error).__name__}: {error}")
            response = self._failure(request, 500, "This page cannot be drawn.", f"{type(error).__name__}: {error}")
        return response(environ, start_response)

    def _check_host(self, request: Request) -> None:
        host = urlsplit(f"//{request.host}").hostname or ""
        with suppress(ValueError):
            ip_address(host)
            return
        if self._host_names is not None and host not in self._host_names:
            names_text = ", ".join(sorted(self._host_names))
            raise BadRequest(
                f"found the host {printable(host)!r}, expected an address or {names_text}; --host-name adds a name"
            )

    def _make_response(self, request: Request, page: SitePage | str, status: int = 200) -> Response:
        html = page if isinstance(page, str) else page.html()
        response = Response(html, status, content_type="text/html; charset=utf-8")
        # The page's own policy names its scripts; this one forbids frames, which a page cannot.
        response.headers["Content-Security-Policy"] = "frame-ancestors 'none'"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-cache"
        response.set_etag(hashlib.sha256(html.encode()).hexdigest()[:32])
        return response.make_conditional(request) if status == 200 else response

    def _failure(self, request: Request, status: int, title: str, reason: str) -> Response:
        return self._make_response(request, SitePage(title, sentences=[Sentence("Reason", printable(reason))]), status)

    def _report(self, _arguments: Mapping[str, str], number: int) -> str:
        state = _state([query.campaign(self._store, number)]) + repr(findings.read_bisections(self._store, [number]))
        return self._reports.html(state, number)

    def _compare(self, arguments: Any) -> SitePage:
        metrics = arguments.get("metric") or METRICS_SHOWN
        with _convert_usage_error():
            return comparison_page(self._store, arguments.getlist("side"), metrics)

    def _trend(self, arguments: Mapping[str, str], name: str) -> str:
        place = arguments.get("on", "")
        with _convert_usage_error():
            metric = metric_name(arguments.get("metric") or "iops")
        state = _state(trend_campaigns(self._store, name, place)) + repr(annotations.tags(self._store))
        return self._trend_pages.html(state, name, place, metric)


def _state(campaigns: Sequence[CampaignRow]) -> str:
    """Returns what changes if a page about campaigns must be drawn again."""
    return repr([(row.number, sorted(row.states.items())) for row in campaigns])


@contextmanager
def _convert_usage_error() -> Iterator[None]:
    """Turns a UsageError about what follows `?` into BadRequest."""
    try:
        yield
    except UsageError as error:
        raise BadRequest(str(error)) from None


def _page(arguments: Mapping[str, str]) -> int:
    """Returns the number of the part of a list. Raises BadRequest."""
    number_text = arguments.get("page", "1")
    if not (number_text.isascii() and number_text.isdigit() and len(number_text) <= 6 and int(number_text)):
        raise BadRequest(f"page: found {number_text[:20]!r}, expected a number from 1 to 999999")
    return int(number_text)
