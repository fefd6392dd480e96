"""Simulator and lab compared: terminal tables, and a section of docs/explanation/accuracy.md."""

from collections.abc import Iterator, Sequence

from accuracy.agreement import AgreementRow, AgreementVerdict
from accuracy.recordings import KnownDisagreement, LabRecording
from blklab.installed_documents import document_path
from blklab.render import formatting
from blklab.render import markdown as gfm
from blklab.render.table import TableColumn, TextTable, number_columns, text_column
from blklab.text.printing import printable

NOTE = (
    "IOPS of both directions. Shares (predicted → measured, %) are of reads if a cell only reads,"
    " of writes if it only writes, otherwise of both. Of two members, only the first one is shown; of caches, the"
    " hit rate."
)


def agreement_table(compared_rows: Sequence[AgreementRow]) -> TextTable:
    """Returns the table of predicted and measured figures of all cells."""
    columns = [text_column("suite"), text_column("cell"), *number_columns("predicted", "measured", "error")]
    columns += [text_column("share"), TableColumn("")]
    note = " ".join([NOTE, *_io_costs(compared_rows)])
    return TextTable("Predictions and the lab", columns, [_row(row) for row in compared_rows], note)


def _io_costs(rows: Sequence[AgreementRow]) -> Iterator[str]:
    costs = [row.measured.io_cost for row in rows if row.measured.io_cost]
    if costs:
        disk, submission = (
            "–".join(dict.fromkeys(formatting.duration(wanted(times)) for wanted in (min, max)))
            for times in ([cost.latency_ns for cost in costs], [cost.submit_ns for cost in costs])
        )
        yield (
            "The guests measured, before their first cell, what an I/O without limits takes: "
            f"{disk} on the disk, {submission} to submit it; predictions use the figures of each guest."
        )
    if unknown := len(rows) - len(costs):
        yield f"In {unknown} of {len(rows)} cells this cost is unknown: predictions use 0 on the disk."


def _row(row: AgreementRow) -> list[str]:
    predicted, measured = row.predicted.shares, row.measured.shares
    if row.hit_rate_error is not None:
        predicted, measured = ({"hits": figures.hit_rate or 0.0} for figures in (row.predicted, row.measured))
    digits = 0 if row.hit_rate_error is None else 1
    shares = [
        f"{printable(name)} {100 * predicted.get(name, 0.0):.{digits}f} → {100 * share:.{digits}f}"
        for name, share in measured.items()
    ]
    return [
        *map(printable, (row.key.suite, row.key.text)),
        *(f"{result.iops:,.0f}" for result in (row.predicted, row.measured)),
        f"{100 * row.error:+.1f} %",
        ", ".join(shares[:1] if len(shares) == 2 else shares),
        "" if row.holds else "missed",
    ]


def verdicts_table(judged: Sequence[AgreementVerdict]) -> TextTable:
    """Returns how many cells of each kernel are within the bounds."""
    columns = [text_column("kernel"), *number_columns("cells", "within", "of all", "median error"), TableColumn("")]
    entries = [
        [
            verdict.kernel,
            str(verdict.rows),
            str(verdict.within),
            f"{100 * verdict.within / max(1, verdict.rows):.0f} %",
            f"{100 * verdict.median:.1f} %",
            "holds" if verdict.holds else "does not hold",
        ]
        for verdict in judged
    ]
    note = (
        "In nine of ten cells, IOPS must be within ±10 % of the measured ones and every member's"
        " share of the I/Os within 5 points; of caches, IOPS within ±15 % and the hit rate within 1.5 points."
    )
    return TextTable("Agreement with the lab", columns, entries, note)


def misses(known: Sequence[tuple[AgreementRow, KnownDisagreement | None]]) -> TextTable:
    """Returns the cells that miss, with their explanation if there is one."""
    columns = [text_column("kernel"), text_column("suite"), text_column("cell"), text_column("why")]
    entries = [
        [
            row.kernel,
            printable(row.key.suite),
            printable(row.key.text),
            printable(miss.verdict) if miss else "open: no explanation yet",
        ]
        for row, miss in known
    ]
    note = f"{document_path('explanation/accuracy.md')} has the explanations."
    return TextTable("Cells that miss", columns, entries, note)


def report_section(
    recordings: Sequence[LabRecording],
    compared_rows: Sequence[AgreementRow],
    judged: Sequence[AgreementVerdict],
    known: Sequence[tuple[AgreementRow, KnownDisagreement | None]],
) -> Iterator[str]:
    """Returns the section of the accuracy report, as lines; `known` has all misses."""
    table = verdicts_table(judged)
    yield from (
        "## Agreement with the lab",
        "",
        "The same cells in the simulator and on a real kernel in a virtual machine: arrays made by",
        "mdadm, load by fio, disks throttled by QEMU (`accuracy/run agreement`). Nothing is fitted.",
        table.note,
        "",
    )
    yield from gfm.markdown_table(table)
    for recording in recordings:
        versions = ", ".join(f"{name} {value}" for name, value in recording.measured_with.items())
        yield from (f"Measured on {recording.kernel} with {printable(versions)}.", "")
    yield from _misses(known)
    for verdict in judged:
        table = agreement_table([row for row in compared_rows if row.kernel == verdict.kernel])
        yield from (f"### Kernel {verdict.kernel}", "", table.note, "", *gfm.markdown_table(table))


def _misses(known: Sequence[tuple[AgreementRow, KnownDisagreement | None]]) -> Iterator[str]:
    if not known:
        return
    yield from ("### Cells that miss", "")
    for row, miss in known:
        name = f"{row.kernel}, {row.key.suite}: {row.key.text}"
        text = f"*{printable(miss.verdict)}.* {printable(miss.text)}" if miss else "*open.* No explanation yet."
        hits = row.hit_rate_error
        worst = f"{100 * row.worst_share:.0f} points" if hits is None else f"hits {100 * hits:+.1f} points"
        yield f"- **{printable(name)}** ({100 * row.error:+.0f} %, {worst}): {text}"
    yield ""
