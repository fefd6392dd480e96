"""The report on campaigns, as one self-contained HTML page or as Markdown."""

from collections.abc import Callable, Sequence
from typing import Any

from blklab.bisect import report as bisection
from blklab.bisect.findings import Bisection
from blklab.calibrate.host_profile import cores
from blklab.campaigns import runs, setup
from blklab.campaigns.charts.fastest_cells import fastest_charts
from blklab.campaigns.charts.latency_distribution import latency_section
from blklab.campaigns.charts.member_shares import members_section
from blklab.campaigns.charts.metric_by_parameter import axes_section
from blklab.campaigns.charts.offered_load import load_section
from blklab.campaigns.charts.runs_over_time import course_section
from blklab.campaigns.results import hosts_table, outlier_lines
from blklab.campaigns.runs import DIRECTION_WORDS, split_directions
from blklab.campaigns.sentences import compare_sides, sentences
from blklab.campaigns.view import MOST_SIDES, ExperimentView, ReportCell, describe_workloads
from blklab.compare import report as comparison_report
from blklab.compare.comparison import Comparison
from blklab.compare.diagnostics import diagnose
from blklab.compare.doubt_sentence import doubt_sentence
from blklab.diagnostic import Diagnostic
from blklab.outcome import Outcome
from blklab.render import diagnostics, formatting, markdown, shell
from blklab.render.chart import Chart
from blklab.render.formatting import Sentence
from blklab.render.shell import Details, Item, PageSection, PlainText, SentenceList
from blklab.render.table import TableColumn, TextTable, drop_empty_columns, number_columns, text_column
from blklab.runners.registry import did
from blklab.store.query import StoredRun
from blklab.text.printing import printable

RAW = 48 << 10  # Maximum characters of a run's raw output on the page
RAW_ALL = 1 << 20  # Maximum characters of all raw output on the page

PERCENTILES = {"mean": "mean", "p50": "50 %", "p99": "99 %", "p99_9": "99.9 %"}
"""Latencies in the table of cells, with their headings."""
SHOWN_OF_DIRECTION = ("mean", "p99", "p99_9")  # Those that fit if directions have columns of their own

Raw = Callable[[int], str]  # A function that returns the raw output of a run


class ExperimentReport:
    """A report that can be written in any format."""

    def __init__(
        self,
        view: ExperimentView,
        raw: Raw,
        *,
        title: str | None = None,
        command: str = "",
        x: str | None = None,
        metric: str | None = None,
        bisections: Sequence[Bisection] = (),
    ) -> None:
        """`x` and `metric` are the first axes of the free chart. Raises UsageError."""
        self.view = view
        self.command = command
        titles = dict.fromkeys(printable(row.title or row.name) for row in view.campaigns)
        self.title = title or " and ".join(titles)
        comparisons = compare_sides(view)
        self.sentences = sentences(view, comparisons)
        runs_by_id = {run.id: run for run in [*view.runs, *view.failed]}
        self.diagnostics = diagnose(list(runs_by_id.values()), view.points)
        experiments: dict[str, Any] = {}
        for row in view.campaigns:
            if row.experiment and row.experiment not in experiments.values():
                experiments[printable(f"{row.name}, campaign {row.number}")] = row.experiment
        sections = (
            bisection.section(bisections),
            _changes(comparisons),
            PageSection("result", "Result", "Fastest", fastest_charts(view.drawn.known), view.drawn.unknown_note),
            _cells(view),
            _hosts(view),
            course_section(view.drawn),
            latency_section(view.drawn),
            load_section(view.drawn),
            members_section(view.drawn),
            axes_section(view, x, metric),
            _diagnostics_section(self.diagnostics),
            setup.section(view, experiments),
            _raw(view, raw),
        )
        self.sections = [section for section in sections if section]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return [chart for section in self.sections for chart in section.charts]

    @property
    def captions(self) -> list[str]:
        """Lines below the title of each picture: the experiment, and what fio's jobs did."""
        return [" · ".join([self.title, *self.facts]), *describe_workloads(self.view)]

    @property
    def facts(self) -> list[str]:
        """A short description of the experiment."""
        view = self.view
        rows = view.campaigns
        facts = [
            formatting.plural(len({row.number for row in rows}), "campaign"),
            formatting.plural(len(view.cells), "cell"),
            formatting.plural(len(view.runs), "run"),
            formatting.listing(list(dict.fromkeys(did(row.runner) for row in rows))),
            "begun " + ", ".join(dict.fromkeys(runs.when(row.begun) for row in rows)),
            *(f"{label} {value}" for label, value in view.fixed.items()),
        ]
        if len(view.series) > MOST_SIDES:
            facts.append(f"charts have the first {MOST_SIDES} of {len(view.series)} campaigns")
        return [fact for fact in facts if fact]

    @property
    def doubts(self) -> list[str]:
        """All doubts in one sentence, for the place behind the results; empty if there are none."""
        runs_by_id = {run.id: run for run in [*self.view.runs, *self.view.failed]}
        sentence = doubt_sentence(list(runs_by_id.values()), self.diagnostics)
        return [sentence] if sentence else []

    def html(self) -> str:
        return shell.render(
            "experiment.html.j2",
            self.sections,
            title=self.title,
            facts=self.facts,
            sentences=self.sentences,
            doubts=self.doubts,
            command=self.command,
            simulated=all(series.predicts for series in self.view.series),
        )

    def markdown(self) -> str:
        """Returns sentences, tables and commands as GitHub Flavored Markdown."""
        prefix = "SIMULATED: " if all(series.predicts for series in self.view.series) else ""
        lines = [f"# {prefix}{markdown.escape_text(self.title)}", "", markdown.escape_text(" · ".join(self.facts)), ""]
        lines += markdown.sentences(self.sentences)
        if self.doubts:
            doubts = markdown.escape_text(" ".join(self.doubts))
            lines += [f"**Doubts about the figures:** {doubts}", ""]
        for section in self.sections:
            if section.anchor != "raw":
                lines += markdown.markdown_section(section)
        return "\n".join(lines).rstrip() + "\n"


def _diagnostics_section(found_diagnostics: Sequence[Diagnostic]) -> PageSection:
    notes = [diagnostic for diagnostic in found_diagnostics if diagnostic.severity == "note"]
    doubts = [diagnostic for diagnostic in found_diagnostics if diagnostic.severity != "note"]
    items = [
        shell.SentenceList(diagnostics.sentences(kind), title)
        for kind, title in ((doubts, "Notes"), (notes, "Good to know"))
        if kind
    ]
    return PageSection("diagnostics", "Diagnostics", "Diagnostics", items)


def _raw(view: ExperimentView, raw: Raw) -> PageSection:
    folds = []
    remaining = RAW_ALL
    for series in view.series:
        texts: list[PlainText] = []
        others_text = ""
        for run in series.runs:
            if texts and remaining <= 0:
                others_text = f" of {len(series.runs):,}; the others: blklab runs show '{run.campaign}:LABELS' --raw"
                break
            if fio_output := raw(run.id):
                texts.append(_raw_text(run, fio_output, max(0, min(RAW, remaining))))
                remaining -= min(RAW, len(fio_output))
        if texts:
            name = f"Of {series.name}: " if view.several else ""
            folds.append(Details(f"{name}{formatting.plural(len(texts), 'run')}{others_text}", texts))
    return PageSection("raw", "Raw output", "Raw output of fio", [], "", folds)


def _raw_text(run: StoredRun, fio_output: str, limit: int) -> PlainText:
    labels = [f"{key}={value}" for key, value in run.labels.items()]
    note = ""
    if len(fio_output) > limit:
        parts = f"{formatting.size(limit)} of {formatting.size(len(fio_output))}"
        note = f"{parts}; the rest: blklab runs show '{run.campaign}:{','.join(labels)}' --raw"
    title = printable(f"run {run.id}: {' '.join(labels)}")
    return PlainText(title, setup.printable_lines(fio_output[:limit].split("\n")), printable(note), folded=True)


def _hosts(view: ExperimentView) -> PageSection:
    """Returns the hosts of fleets, and those that differ from the others; it is empty without a fleet."""
    tables: list[Item] = []
    sentences = []
    for cell in view.cells:
        outcomes = [run.outcome for run in cell.runs if run.outcome is not None and run.outcome.hosts]
        if outcomes:
            name = view.name(cell, series=True)
            tables.append(hosts_table(name, outcomes))
            sentences += [Sentence(printable(name), line) for line in outlier_lines(outcomes)]
    lists = [SentenceList(sentences)] if sentences else []
    return PageSection("hosts", "Hosts", "Hosts of the fleet", [*lists, *tables])


def _changes(comparisons: Sequence[Comparison]) -> PageSection:
    """Returns the tables of `blklab compare` for the sides of the report; it is empty without sides."""
    tables: list[Item] = []
    for comparison in comparisons:
        tables += comparison_report.tables(comparison)
    return PageSection("changes", "Changes", "Changes", tables)


def _cells(view: ExperimentView) -> PageSection:
    """Returns the tables of all cells, with repeats merged: a table of I/O, and one of commands if there are any."""
    cells = view.order(view.cells)
    tables = [_cells_table(view, cells), _commands(view, cells)]
    return PageSection("cells", "Tables", "Every cell", [table for table in tables if table])


def _cells_table(view: ExperimentView, cells: "list[ReportCell]") -> TextTable:
    columns = _cell_columns(view)
    columns += number_columns("runs", "reads/s", "writes/s", "IOPS", "±", "bandwidth")
    latencies = _latency_columns(cells)
    columns += number_columns(*latencies, "CPUs", "machine")
    body = []
    for cell in cells:
        if not cell.value("iops"):
            continue
        row = _cell_names(view, cell)
        row.append(str(len(cell.runs)))
        figures = [formatting.number(cell.mean(name)) for name in ("read.iops", "write.iops", "iops")]
        figures += [_half(cell, "iops"), formatting.rate(cell.mean("bw"))]
        figures += [formatting.duration(cell.mean(metric)) for metric in latencies.values()]
        row += figures if cell.is_known else runs.hide_figures(figures)
        row.append(formatting.number(_mean_figure(cell, cores)))
        row.append(formatting.share(_mean_figure(cell, _machine)))
        body.append(row)
    return drop_empty_columns(
        TextTable(
            "Figures",
            columns,
            body,
            "±: half of the interval. CPUs: how many the jobs used; machine: the busy share of all CPUs.",
        )
    )


def _latency_columns(cells: "list[ReportCell]") -> dict[str, str]:
    """Returns the headings of the latencies and their metrics: of each direction, if a cell has several."""
    directions = split_directions(run.outcome for cell in cells for run in cell.runs)
    if not directions:
        return {heading: key for key, heading in PERCENTILES.items()}
    columns = {}
    for direction in directions:
        for key in SHOWN_OF_DIRECTION:
            columns[f"{DIRECTION_WORDS[direction]} {PERCENTILES[key]}"] = f"{direction}.{key}"
    return columns


def _cell_columns(view: ExperimentView) -> list[TableColumn]:
    """Returns the columns that say which cell a row is: its labels, and its campaign if there are several."""
    columns = [text_column(label) for label in view.labels]
    if view.several:
        columns.append(text_column(view.series_label))
    return columns


def _cell_names(view: ExperimentView, cell: ReportCell) -> list[str]:
    """Returns what a row has in `_cell_columns`."""
    names = [cell.labels.get(label, "") for label in view.labels]
    if view.several:
        names.append(cell.series.name)
    return names


def _half(cell: ReportCell, metric: str) -> str:
    value = cell.value(metric)
    if value is None or value.low is None or value.high is None or not value.mean:
        return formatting.NONE
    return formatting.share((value.high - value.low) / 2 / value.mean)


def _mean_figure(cell: ReportCell, figure: "Any") -> float | None:
    values = [figure(run.figures) for run in cell.runs]
    figures = [value for value in values if value is not None]
    return sum(figures) / len(figures) if figures else None


def _machine(outcome: Outcome) -> float | None:
    cpu = outcome.cpu or {}
    return 1 - cpu["idle"] - cpu.get("iowait", 0.0) if "idle" in cpu else None


def _commands(view: ExperimentView, cells: "list[ReportCell]") -> TextTable:
    columns = [*_cell_columns(view), TableColumn("runs"), *number_columns("took", "±", "user", "system")]
    body = []
    for cell in cells:
        if not cell.value("wall"):
            continue
        row = [
            *_cell_names(view, cell),
            str(len(cell.runs)),
            formatting.duration(cell.mean("wall")),
            _half(cell, "wall"),
            formatting.duration(cell.mean("user")),
            formatting.duration(cell.mean("system")),
        ]
        body.append(row)
    return TextTable("Commands", columns, body, "Means of a command's runs; caches were dropped before each run.")
