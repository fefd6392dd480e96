"""Pages of campaigns and runs."""

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from blklab.bisection import findings
from blklab.report import formatting, runs, volumes
from blklab.report.experiment.page import ExperimentReport
from blklab.report.experiment.setup import printable_lines
from blklab.report.experiment.view import ExperimentView
from blklab.report.formatting import Sentence
from blklab.report.shell import PageSection, PlainText
from blklab.report.tables.base import ChoiceCell, LinkedCell, TableColumn, TextTable, text
from blklab.serve.site_page import ROWS, Form, SitePage, listing, parts
from blklab.store import annotations, query
from blklab.store.annotations import Annotation
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text import printable


def campaigns(store: Store, arguments: Mapping[str, str], page: int) -> SitePage:
    """Returns the list of campaigns, the newest first, filtered by `name` and `tag`."""
    name, tag = arguments.get("name", ""), arguments.get("tag", "")
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
    under_way = [_with_links(runs.campaigns(running, tags), running)] if running else []
    sections = [
        PageSection("running", "Running", "Running now", under_way),
        PageSection("campaigns", "Campaigns", "Campaigns", [table] if rows else []),
    ]
    empty = "Nothing is stored yet: create a campaign with `blklab run EXPERIMENT`."
    return SitePage(
        "Campaigns",
        sections,
        here="/",
        facts=[formatting.plural(len(rows), "campaign"), printable(store.database.name)],
        sentences=[] if rows else [Sentence("Empty", "No campaign matches." if filters else empty)],
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
    return TextTable(table.title, [text(table.columns[0].heading), *table.columns[1:]], cells)


def campaign(store: Store, number: int, page: int) -> SitePage:
    """Returns the page of a campaign, with one part of its runs."""
    row = query.campaign(store, number)
    stored = query.runs_of(store, number, (page - 1) * ROWS, ROWS)
    figures = [(f"run {run.id}", run.figures) for run in stored]
    tables = [_linked_runs(runs.runs(row, stored), stored)]
    if caches := volumes.caches(figures):
        tables.append(caches)
    failed = [Sentence("Failed", f"run {run.id}: {printable(run.message)}") for run in stored if run.message]
    doubts = [Sentence("Doubt", line) for line in runs.doubts(stored)]
    earlier = [other.number for other in query.all_campaigns(store) if _same(other, row) and other.number < number]
    links = [LinkedCell("Report", f"/campaigns/{number}/report")] if any(run.outcome for run in stored) else []
    if earlier:
        links.append(LinkedCell("Compare with the one before", f"/compare?side={earlier[-1]}&side={number}"))
        links.append(LinkedCell("Trend", f"/trends/{quote(row.name, safe='')}?on={quote(row.host or row.runner)}"))
    return SitePage(
        printable(row.title or row.name),
        [
            PageSection("notes", "Notes", "Notes", _notes(annotations.annotations_of(store, number))),
            PageSection("runs", "Runs", "Runs", tables),
            PageSection("origin", "Origin", "Origin", _lines("Where the results are from", runs.origins(stored))),
            PageSection("experiment", "Experiment", "Experiment", [_document("The experiment's file", row.experiment)]),
        ],
        kicker=f"campaign {number}",
        here="/",
        facts=[f"on {printable(row.place)}", runs.when(row.begun), f"blklab {row.version}", *_progress(row)],
        doubts=[*failed, *doubts],
        links=links,
        pages=parts(f"/campaigns/{number}", page, sum(row.states.values())),
        live=bool(row.states.get("running")),
    )


def _same(other: CampaignRow, row: CampaignRow) -> bool:
    return (other.name, other.runner, other.host) == (row.name, row.runner, row.host)


def _progress(row: CampaignRow) -> list[str]:
    total = sum(row.states.values())
    done = row.states.get("done", 0)
    return [f"{done} of {total} runs done"] if done < total else [formatting.plural(total, "run")]


def _notes(notes: Sequence[Annotation]) -> list[TextTable]:
    rows = [[each.kind, printable(each.text), printable(each.author), runs.when(each.created)] for each in notes]
    columns = [text(heading) for heading in ("", "text", "by", "at")]
    return [TextTable("Tags and notes", columns, rows)] if rows else []


def _linked_runs(table: TextTable, stored: Sequence[StoredRun]) -> TextTable:
    rows = [[LinkedCell(row[0], f"/runs/{run.id}"), *row[1:]] for row, run in zip(table.rows, stored, strict=True)]
    return TextTable(table.title, table.columns, rows, table.note)


def _lines(title: str, lines: Sequence[str]) -> list[PlainText]:
    return [PlainText(title, "\n".join(lines))] if lines else []


def _document(title: str, document: object) -> PlainText:
    content = json.dumps(document, indent=2, ensure_ascii=False)
    return PlainText(title, printable_lines(content.split("\n")), folded=True)


def every_run(store: Store, page: int) -> SitePage:
    """Returns the list of all runs, the newest first."""
    stored, total = query.newest_runs(store, (page - 1) * ROWS, ROWS)
    rows = [
        [
            LinkedCell(str(run.id), f"/runs/{run.id}"),
            LinkedCell(f"{run.campaign} {printable(run.name)}", f"/campaigns/{run.campaign}"),
            run.runner,
            run.state,
            printable(" ".join(f"{key}={value}" for key, value in run.labels.items())),
            *runs.outcome_figures(run.outcome),
        ]
        for run in stored
    ]
    columns = [TableColumn("run"), *(text(name) for name in ("campaign", "on", "state", "cell"))]
    columns += [TableColumn(name) for name in ("read IOPS", "write IOPS", "mean", "p99")]
    table = TextTable("Runs, the newest first", columns, rows)
    return listing("Runs", table, facts=[formatting.plural(total, "run")], pages=parts("/runs", page, total))


def run(store: Store, number: int) -> SitePage:
    stored = query.run(store, number)
    table = runs.runs(query.campaign(store, stored.campaign), [stored])
    output = query.raw(store, number)
    details = [
        _document("The result", stored.outcome and stored.outcome.as_document()),
        _document("The cell", stored.cell),
        _document("The environment", stored.environment),
        *([PlainText("Output", printable_lines(output.split("\n")), folded=True)] if output else []),
    ]
    figures = PageSection("figures", "Figures", "Figures", [table])
    sections = [figures, PageSection("details", "Details", "Details", details)]
    return SitePage(
        f"Run {number}",
        sections,
        kicker=printable(stored.name),
        here="/runs",
        facts=[stored.state, *(printable(f"{key} {value}") for key, value in stored.labels.items())],
        doubts=[Sentence("Failed", printable(stored.message))] if stored.message else [],
        links=[LinkedCell(f"Campaign {stored.campaign}", f"/campaigns/{stored.campaign}")],
        live=stored.state == "running",
    )


def report(store: Store, number: int) -> str:
    """Returns the report of a campaign. Raises UsageError if it has no result."""
    selection = Selection(str(number), query.campaign(store, number), query.runs_of(store, number))
    drawn = ExperimentReport(
        ExperimentView([selection], lambda run: query.points(store, run)),
        lambda run: query.raw(store, run),
        command=f"blklab report {number}",
        bisections=findings.kept(store, [number]),
    )
    return drawn.html()
