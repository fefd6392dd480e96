"""The list of campaigns, and the page of one."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from blklab.campaigns import runs
from blklab.campaigns.main_result import MainResults
from blklab.campaigns.sentences import sentences as report_sentences
from blklab.campaigns.view import ExperimentView
from blklab.compare.comparison import find_side_label
from blklab.compare.diagnostics import diagnose
from blklab.compare.doubt_sentence import doubt_sentence
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection, PlainText
from blklab.render.table import ChoiceCell, LinkedCell, TextTable, text_column
from blklab.store import annotations, query
from blklab.store.annotations import Annotation
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text.printing import printable
from blklab.web.frame import ROWS, ChoiceForm, Form, FormField, SitePage, folded_document, list_parts
from blklab.web.pages.comparison import MAX_SIDES
from blklab.web.pages.trends import series_key

MOST_WORDS = 20  # Of a search
MOST_SUMMED_UP = 300  # Runs of a campaign whose result and doubts are computed for its page


def list_campaigns(store: Store, results: MainResults, arguments: Mapping[str, str], page: int) -> SitePage:
    """Returns the list of campaigns, the newest first: those with every word of `search`, `name` and `tag`."""
    search = arguments.get("search", "").strip()
    name = arguments.get("name", "")
    tag = arguments.get("tag", "")
    tags = annotations.tags(store)
    every_row = query.all_campaigns(store)
    rows = [
        row
        for row in reversed(every_row)
        if _has_words(row, tags.get(row.number, ()), search)
        and (not name or name in row.name)
        and (not tag or tag in tags.get(row.number, ()))
    ]
    running = [row for row in rows if row.states.get("running")]
    shown = rows[(page - 1) * ROWS : page * ROWS]
    filters = urlencode({key: value for key, value in (("search", search), ("name", name), ("tag", tag)) if value})
    sentences = []
    if not rows and filters:
        sentences.append(Sentence("Empty", "No campaign matches."))
    elif not rows:
        sentences.append(Sentence("Empty", "Nothing is stored yet: create a campaign with `blklab run EXPERIMENT`."))
    sections = []
    if running:
        sections.append(PageSection("running", "Running", "Running now", [_list_table(running, results, tags)]))
    if rows:
        heading = "All" if running else ""  # The page's title says what they are
        sections.append(PageSection("campaigns", "All", heading, [_list_table(shown, results, tags)]))
    title = formatting.plural(len(rows), "campaign")
    return SitePage(
        f"{title} of {len(every_row):,}" if filters else title,
        sections,
        here="/",
        facts=[printable(store.database.name)],
        sentences=sentences,
        links=[LinkedCell("Show all", "/")] if filters else [],
        pages=list_parts(f"/?{filters}" if filters else "/", page, len(rows)),
        search=Form("/", "Search", [FormField("search", "Search", search)]) if every_row else None,
        choice=ChoiceForm("/compare", "Compare", MAX_SIDES) if len(rows) > 1 else None,
        live=bool(running),
    )


def _has_words(row: CampaignRow, tags: Sequence[str], search: str) -> bool:
    """Whether every word is in the number, name, title, place or tags of a campaign, in any case."""
    text = " ".join([str(row.number), row.name, row.title, row.place, *tags]).lower()
    return all(word in text for word in search.lower().split()[:MOST_WORDS])


def _list_table(rows: Sequence[CampaignRow], results: MainResults, tags: Mapping[int, Sequence[str]]) -> TextTable:
    """Returns campaigns with a checkbox, a link, and what each of them found."""
    columns = [text_column(heading) for heading in ("#", "experiment", "on", "result", "begun")]
    if tags:
        columns.append(text_column("tags"))
    columns.append(text_column("title"))
    phrases = results.read(rows)
    cells = []
    for row in rows:
        result = phrases[row.number]
        if row.states.get("running"):
            result = f"{result} ({_progress(row)[0]})"
        line: list[str] = [
            ChoiceCell(str(row.number), "side"),
            LinkedCell(printable(row.name), f"/campaigns/{row.number}"),
            printable(row.place),
            result,
            runs.when(row.begun),
        ]
        if tags:
            line.append(printable(", ".join(tags.get(row.number, ()))))
        line.append(printable(row.title))
        cells.append(line)
    return TextTable("", columns, cells)


def show_campaign(store: Store, results: MainResults, number: int, page: int) -> SitePage:
    """Returns the page of a campaign: what it found, the doubts, and one part of its runs."""
    row = query.campaign(store, number)
    total = sum(row.states.values())
    every_run = query.runs_of(store, number) if total <= MOST_SUMMED_UP else []
    stored_runs = query.runs_of(store, number, (page - 1) * ROWS, ROWS)
    if every_run:
        stored_runs = every_run[(page - 1) * ROWS : page * ROWS]
    figures = [(f"run {run.id}", run.figures) for run in stored_runs]
    tables = [_link_runs(runs.runs(row, stored_runs))]
    if caches := runs.caches(figures):
        tables.append(caches)
    failures = [f"run {run.id} failed: {printable(run.message)}" for run in stored_runs if run.message]
    details = [*failures, *runs.doubts(stored_runs)]
    has_result = any(run.outcome for run in stored_runs)
    series_numbers = (other.number for other in query.all_campaigns(store) if series_key(other) == series_key(row))
    earlier = [other for other in series_numbers if other < number]
    links = [LinkedCell("Report", f"/campaigns/{number}/report")] if has_result else []
    if has_result and find_side_label(every_run) is not None:
        links.append(LinkedCell("Compare its sides", f"/compare?side={number}"))
    if earlier:
        links.append(LinkedCell("Compare with the one before", f"/compare?side={earlier[-1]}&side={number}"))
        links.append(LinkedCell("Trend", f"/trends/{quote(row.name, safe='')}?on={quote(row.host or row.runner)}"))
    sentences, doubts = _sum_up(store, results, row, every_run)
    return SitePage(
        printable(row.title or row.name),
        [
            PageSection("notes", "Notes", "Notes", _notes(annotations.annotations_of(store, number))),
            PageSection("runs", "Runs", "Runs", tables),
            PageSection("doubts-of-runs", "Doubts", "Doubts, run by run", _lines("Doubts", details)),
            PageSection("origin", "Origin", "Origin", _lines("Where the results are from", runs.origins(stored_runs))),
            PageSection(
                "experiment", "Experiment", "Experiment", [folded_document("The experiment's file", row.experiment)]
            ),
        ],
        kicker=f"campaign {number}",
        here="/",
        facts=[f"on {printable(row.place)}", runs.when(row.begun), f"blklab {row.version}", *_progress(row)],
        sentences=sentences,
        doubts=doubts,
        links=links,
        pages=list_parts(f"/campaigns/{number}", page, total),
        live=bool(row.states.get("running")),
    )


def _sum_up(
    store: Store, results: MainResults, row: CampaignRow, every_run: Sequence[StoredRun]
) -> tuple[Sequence[Sentence], Sequence[Sentence]]:
    """Returns what a campaign found, and the doubts about it; of a very large one, only the range of its figures."""
    if not any(run.outcome for run in every_run):
        phrase = results.read([row])[row.number]
        return [Sentence("Result", f"{phrase[:1].upper()}{phrase[1:]}.")], []
    view = ExperimentView([Selection(str(row.number), row, every_run)], query.points_reader(store, [row.number]))
    if row.states.get("running"):
        return report_sentences(view), []  # The page is drawn again and again: doubts follow at the end
    doubt = doubt_sentence(every_run, diagnose(every_run, view.points))
    return report_sentences(view), [Sentence("", doubt)] if doubt else []


def _progress(row: CampaignRow) -> list[str]:
    total = sum(row.states.values())
    done = row.states.get("done", 0)
    return [f"{done} of {total} runs done"] if done < total else [formatting.plural(total, "run")]


def _notes(notes: Sequence[Annotation]) -> list[TextTable]:
    rows = [[note.kind, printable(note.text), printable(note.author), runs.when(note.created)] for note in notes]
    columns = [text_column(heading) for heading in ("", "text", "by", "at")]
    return [TextTable("Tags and notes", columns, rows)] if rows else []


def _link_runs(table: TextTable) -> TextTable:
    """Returns the table of runs with links: its first column has their numbers."""
    rows = [[LinkedCell(row[0], f"/runs/{row[0]}"), *row[1:]] for row in table.rows]
    return TextTable(table.title, table.columns, rows, table.note)


def _lines(title: str, lines: Sequence[str]) -> list[PlainText]:
    return [PlainText(title, "\n".join(lines))] if lines else []
