"""The list of all runs, and the page of one."""

from blklab.campaigns import runs
from blklab.campaigns.setup import printable_lines
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection, PlainText
from blklab.render.table import LinkedCell, TableColumn, TextTable, text_column
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.text.printing import printable
from blklab.web.frame import ROWS, SitePage, folded_document, list_page, list_parts


def list_runs(store: Store, page: int) -> SitePage:
    """Returns the list of all runs, the newest first."""
    stored_runs, total = query.newest_runs(store, (page - 1) * ROWS, ROWS)
    latency_directions = runs.split_directions(run.outcome for run in stored_runs)
    rows = []
    for run in stored_runs:
        link = LinkedCell(str(run.id), f"/runs/{run.id}")
        campaign = LinkedCell(f"{run.campaign} {printable(run.name)}", f"/campaigns/{run.campaign}")
        labels = printable(" ".join(f"{key}={value}" for key, value in run.labels.items()))
        rows.append(
            [link, campaign, run.runner, run.state, labels, *runs.outcome_figures(run.outcome, latency_directions)]
        )
    columns = [TableColumn("run"), *(text_column(name) for name in ("campaign", "on", "state", "cell"))]
    columns += map(TableColumn, runs.figure_headings(latency_directions))
    table = TextTable("Runs, the newest first", columns, rows)
    return list_page("Runs", table, facts=[formatting.plural(total, "run")], pages=list_parts("/runs", page, total))


def show_run(store: Store, number: int) -> SitePage:
    stored_run = query.run(store, number)
    table = runs.runs(query.campaign(store, stored_run.campaign), [stored_run])
    output = query.raw(store, number)
    details = [
        folded_document("The result", stored_run.outcome and stored_run.outcome.as_json()),
        folded_document("The cell", stored_run.cell),
        folded_document("The environment", stored_run.environment),
    ]
    if output:
        details.append(PlainText("Output", printable_lines(output.split("\n")), folded=True))
    sections = [
        PageSection("figures", "Figures", "Figures", [table]),
        PageSection("details", "Details", "Details", details),
    ]
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
