"""The table of predictions next to measurements of the same cells."""

from collections.abc import Iterator, Sequence

from blklab.analysis.agreement import AgreementRow
from blklab.report import formatting
from blklab.report.tables.base import TableColumn, TextTable, figures, text
from blklab.text import printable

NOTE = (
    "IOPS of both directions. Shares (predicted → measured, %) are of reads if a cell only reads,"
    " of writes if it only writes, otherwise of both. Of two members, only the first one is shown; of caches, the"
    " hit rate."
)


def agreement_table(compared_rows: Sequence[AgreementRow]) -> TextTable:
    """Returns the table of predicted and measured figures of all cells."""
    columns = [text("suite"), text("cell"), *figures("predicted", "measured", "error")]
    columns += [text("share"), TableColumn("")]
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
        *(f"{figures.iops:,.0f}" for figures in (row.predicted, row.measured)),
        f"{100 * row.error:+.1f} %",
        ", ".join(shares[:1] if len(shares) == 2 else shares),
        "" if row.holds else "missed",
    ]
