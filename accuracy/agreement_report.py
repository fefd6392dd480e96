"""Simulator and lab compared: terminal tables, and a section of docs/explanation/accuracy.md."""

from collections.abc import Iterator, Sequence

from accuracy.agreement import AgreementVerdict
from accuracy.recordings import KnownDisagreement, LabRecording
from blklab.analysis.agreement import AgreementRow
from blklab.report import markdown as gfm
from blklab.report.agreement import agreement_table
from blklab.report.tables.base import TableColumn, TextTable, figures, text
from blklab.text import document_path, printable


def verdicts_table(judged: Sequence[AgreementVerdict]) -> TextTable:
    """Returns how many cells of each kernel are within the bounds."""
    columns = [text("kernel"), *figures("cells", "within", "of all", "median error"), TableColumn("")]
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
    columns = [text("kernel"), text("suite"), text("cell"), text("why")]
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
