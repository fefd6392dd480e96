"""The list of campaigns, and the page of one."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from blklab.campaigns import runs
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection, PlainText
from blklab.render.table import ChoiceCell, LinkedCell, TextTable, text_column
from blklab.store import annotations, query
from blklab.store.annotations import Annotation
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, StoredRun
from blklab.text.printing import printable
from blklab.web.frame import ROWS, Form, SitePage, folded_document, list_parts
from blklab.web.pages.trends import series_key


def list_campaigns(store: Store, arguments: Mapping[str, str], page: int) -> SitePage:
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
        pages=list_parts(f"/?{filters}" if filters else "/", page, len(rows)),
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


def show_campaign(store: Store, number: int, page: int) -> SitePage:
    """Returns the page of a campaign, with one part of its runs."""
    row = query.campaign(store, number)
    stored_runs = query.runs_of(store, number, (page - 1) * ROWS, ROWS)
    figures = [(f"run {run.id}", run.figures) for run in stored_runs]
    tables = [_link_runs(runs.runs(row, stored_runs), stored_runs)]
    if caches := runs.caches(figures):
        tables.append(caches)
    failures = [Sentence("Failed", f"run {run.id}: {printable(run.message)}") for run in stored_runs if run.message]
    doubts = [Sentence("Doubt", line) for line in runs.doubts(stored_runs)]
    series_numbers = (other.number for other in query.all_campaigns(store) if series_key(other) == series_key(row))
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
            PageSection(
                "experiment", "Experiment", "Experiment", [folded_document("The experiment's file", row.experiment)]
            ),
        ],
        kicker=f"campaign {number}",
        here="/",
        facts=[f"on {printable(row.place)}", runs.when(row.begun), f"blklab {row.version}", *_progress(row)],
        doubts=[*failures, *doubts],
        links=links,
        pages=list_parts(f"/campaigns/{number}", page, sum(row.states.values())),
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
