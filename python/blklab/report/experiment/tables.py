"""Every cell with its figures, repeats folded."""

from typing import Any

from blklab.analysis.diagnostics import cores
from blklab.outcome import Outcome, measured
from blklab.report import words
from blklab.report.experiment.view import Cell, View
from blklab.report.shell import Section
from blklab.report.tables.base import Column, Table, figures, pruned, text


def section(view: View) -> Section:
    """Returns the section: a table of I/O, and one of commands if some were run."""
    cells = view.order(view.cells)
    tables = [_table(view, cells), _commands(view, cells)]
    return Section("cells", "Tables", "Every cell", [table for table in tables if table])


def _table(view: View, cells: "list[Cell]") -> Table:
    columns = [text(label) for label in view.labels]
    columns += [text("campaign")] if view.several else []
    columns += figures("runs", "reads/s", "writes/s", "IOPS", "±", "bandwidth")
    columns += figures("mean", "50 %", "99 %", "99.9 %", "CPUs", "machine")
    body = [
        [
            *(cell.labels.get(label, "") for label in view.labels),
            *([cell.series.name] if view.several else []),
            str(len(cell.runs)),
            words.number(cell.mean("read_iops")),
            words.number(cell.mean("write_iops")),
            words.number(cell.mean("iops")),
            _half(cell, "iops"),
            words.rate(cell.mean("bw")),
            *(words.duration(cell.mean(name)) for name in ("mean", "p50", "p99", "p99_9")),
            words.number(_mean(cell, cores)),
            words.share(_mean(cell, _machine)),
        ]
        for cell in cells
        if cell.value("iops")
    ]
    note = (
        "±: half of the 95 % interval of the mean. Latencies are of the direction with the more"
        " I/Os. CPUs: how many the jobs kept busy; machine: the share of all CPUs that worked."
    )
    return pruned(Table("Figures", columns, body, note))


def _half(cell: Cell, metric: str) -> str:
    value = cell.value(metric)
    if value is None or value.low is None or value.high is None or not value.mean:
        return words.NONE
    return words.share((value.high - value.low) / 2 / value.mean)


def _mean(cell: Cell, figure: "Any") -> float | None:
    found = [value for run in cell.runs if (value := figure(run.outcome or {})) is not None]
    return sum(found) / len(found) if found else None


def _machine(outcome: Outcome) -> float | None:
    cpu = measured(outcome).get("cpu") or {}
    return 1 - cpu["idle"] - cpu.get("iowait", 0.0) if "idle" in cpu else None


def _commands(view: View, cells: "list[Cell]") -> Table:
    columns = [text(label) for label in view.labels]
    columns += [text("campaign")] if view.several else []
    columns += [Column("runs"), *figures("took", "±", "user", "system")]
    body = [
        [
            *(cell.labels.get(label, "") for label in view.labels),
            *([cell.series.name] if view.several else []),
            str(len(cell.runs)),
            words.duration(cell.mean("wall")),
            _half(cell, "wall"),
            words.duration(cell.mean("user")),
            words.duration(cell.mean("system")),
        ]
        for cell in cells
        if cell.value("wall")
    ]
    return Table(
        "Commands", columns, body, "Means of a command's runs; caches were dropped before each."
    )
