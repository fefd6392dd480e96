"""Tables of all cells, with repeats merged."""

from typing import Any

from blklab.analysis.diagnostics import cores
from blklab.outcome import Outcome, measured
from blklab.report import formatting
from blklab.report.experiment.view import ExperimentView, ReportCell
from blklab.report.shell import PageSection
from blklab.report.tables.base import TableColumn, TextTable, figures, pruned, text


def section(view: ExperimentView) -> PageSection:
    """Returns the section: a table of I/O, and one of commands if there are any."""
    cells = view.order(view.cells)
    tables = [_table(view, cells), _commands(view, cells)]
    return PageSection("cells", "Tables", "Every cell", [table for table in tables if table])


def _table(view: ExperimentView, cells: "list[ReportCell]") -> TextTable:
    columns = [text(label) for label in view.labels]
    columns += [text("campaign")] if view.several else []
    columns += figures("runs", "reads/s", "writes/s", "IOPS", "±", "bandwidth")
    columns += figures("mean", "50 %", "99 %", "99.9 %", "fsync mean", "fsync 99 %", "CPUs", "machine")
    body = [
        [
            *(cell.labels.get(label, "") for label in view.labels),
            *([cell.series.name] if view.several else []),
            str(len(cell.runs)),
            formatting.number(cell.mean("read.iops")),
            formatting.number(cell.mean("write.iops")),
            formatting.number(cell.mean("iops")),
            _half(cell, "iops"),
            formatting.rate(cell.mean("bw")),
            *(
                formatting.duration(cell.mean(name))
                for name in ("mean", "p50", "p99", "p99_9", "sync.mean", "sync.p99")
            ),
            formatting.number(_mean(cell, cores)),
            formatting.share(_mean(cell, _machine)),
        ]
        for cell in cells
        if cell.value("iops")
    ]
    note = (
        "±: half of the 95 % interval of the mean. Latencies are those of reads,"
        " unless there are 10 % more writes. CPUs: how many the jobs used; machine: the busy share of all CPUs."
    )
    return pruned(TextTable("Figures", columns, body, note))


def _half(cell: ReportCell, metric: str) -> str:
    value = cell.value(metric)
    if value is None or value.low is None or value.high is None or not value.mean:
        return formatting.NONE
    return formatting.share((value.high - value.low) / 2 / value.mean)


def _mean(cell: ReportCell, figure: "Any") -> float | None:
    figures = [value for run in cell.runs if (value := figure(run.outcome or {})) is not None]
    return sum(figures) / len(figures) if figures else None


def _machine(outcome: Outcome) -> float | None:
    cpu = measured(outcome).get("cpu") or {}
    return 1 - cpu["idle"] - cpu.get("iowait", 0.0) if "idle" in cpu else None


def _commands(view: ExperimentView, cells: "list[ReportCell]") -> TextTable:
    columns = [text(label) for label in view.labels]
    columns += [text("campaign")] if view.several else []
    columns += [TableColumn("runs"), *figures("took", "±", "user", "system")]
    body = [
        [
            *(cell.labels.get(label, "") for label in view.labels),
            *([cell.series.name] if view.several else []),
            str(len(cell.runs)),
            formatting.duration(cell.mean("wall")),
            _half(cell, "wall"),
            formatting.duration(cell.mean("user")),
            formatting.duration(cell.mean("system")),
        ]
        for cell in cells
        if cell.value("wall")
    ]
    return TextTable("Commands", columns, body, "Means of a command's runs; caches were dropped before each run.")
