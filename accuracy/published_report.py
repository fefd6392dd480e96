"""Errors of predictions: tables for the terminal and for docs/explanation/accuracy.md."""

import math
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from accuracy.published import PublishedRow, PublishedVerdict, Validation
from accuracy.published_caches import CacheRow
from accuracy.published_pairs import PublishedPair, pair_rows
from blklab.calibrate import report as calibration
from blklab.render import formatting
from blklab.render import markdown as gfm
from blklab.render.table import TableColumn, TextTable, number_columns, text_column
from blklab.text.printing import printable


def published_table(published_rows: Sequence[PublishedRow]) -> TextTable:
    """Returns the table of published and predicted figures of all rows."""
    columns = [
        text_column("target"),
        text_column("test"),
        *number_columns("published", "predicted", "error"),
        text_column("±IOPS"),
    ]
    columns += [TableColumn("read latency, ms"), text_column("share")]
    note = (
        "IOPS of both directions; mean latency and members' shares as published → predicted. Shares are of reads if "
        "the test reads, otherwise of writes. Of two members, only the first one is shown. "
        "±IOPS: the interval around the prediction that holds nine of ten measurements; * if the published value is "
        f"outside. {coverage(published_rows)}."
    )
    return TextTable("Predictions and measurements", columns, [_row(row) for row in published_rows], note)


SOURCES = {
    "flash": "mirrors of unlike disks, 2019: flash",
    "hdds": "mirrors of unlike disks, 2019: shingled disks",
    "spindles": "ten disks behind a controller, 2008",
    "six": "six disks, 2008",
    "ncq": "six disks with XFS, 2008",
    "bcache": "bcache, several authors",
    "streams": "streams through the page cache, 2008",
    "shared": "a stream and random I/O on six disks, 2008",
}
CACHES = "caches in a virtual machine, 2017"


def sources_table(validation: Validation) -> TextTable:
    """Returns how many rows of each source are inside, how wrong predictions are, and how wide their intervals."""
    rows_by_source: dict[str, list[tuple[bool, float, float]]] = {}
    for row in validation.rows:
        factor, (low, high) = math.exp(abs(math.log1p(row.error))), row.interval
        rows_by_source.setdefault(SOURCES[row.kind], []).append((row.inside, factor, high / low))
    for cache in validation.caches:
        factor, (low, high) = math.exp(abs(math.log1p(cache.error))), cache.interval
        rows_by_source.setdefault(CACHES, []).append((cache.inside, factor, high / low))
    columns = [text_column("source"), *number_columns("rows", "inside", "coverage", "median error", "worst", "ratio")]
    note = (
        "Ratio is the upper over the lower bound of the interval, a median. The width of some intervals was made from "
        "these rows: of sequential reads of mirrors, of a dm-cache with at most half of the data, and of streams "
        "through the page cache on rotating disks without read-ahead, with parity, or with random I/O. Of the six "
        "disks with XFS, neither the layout nor the size of the file is published; of streams, not always read-ahead."
    )
    cells = []
    for source, rows in rows_by_source.items():
        inside = sum(is_inside for is_inside, _, _ in rows)
        cells.append(
            [
                source,
                str(len(rows)),
                str(inside),
                f"{100 * inside / len(rows):.0f} %",
                f"×{statistics.median(factor for _, factor, _ in rows):.2f}",
                f"×{max(factor for _, factor, _ in rows):.2f}",
                f"{statistics.median(ratio for _, _, ratio in rows):.1f}",
            ]
        )
    return TextTable("By source", columns, cells, note)


def pairs_table(rows: Sequence[PublishedRow]) -> TextTable:
    """Returns how well the ratio of two arrangements of the same disks is predicted, by source."""
    columns = [text_column("source"), *number_columns("pairs", "inside", "coverage", "ratio", "decided", "order right")]
    note = (
        "Two arrangements of the same disks with the same test on the same host: errors of disks and host cancel. "
        "Inside: the published ratio of their IOPS is in the interval of the predicted one, whose bounds are a factor "
        "of `ratio` apart (median). Decided: the interval says which is faster. How much of the error of rotating "
        "disks cancels was made from the six disks."
    )
    pairs_by_source: dict[str, list[PublishedPair]] = {}
    for pair in pair_rows(rows):
        pairs_by_source.setdefault(SOURCES[pair.first.kind], []).append(pair)
    cells = []
    for source, pairs in pairs_by_source.items():
        inside = sum(pair.inside for pair in pairs)
        decided = [pair for pair in pairs if pair.is_decided]
        cells.append(
            [
                source,
                str(len(pairs)),
                str(inside),
                f"{100 * inside / len(pairs):.0f} %",
                f"{statistics.median(math.exp(sum(pair.reach)) for pair in pairs):.1f}",
                str(len(decided)),
                str(sum(pair.is_order_right for pair in decided)),
            ]
        )
    return TextTable("Ratios between arrangements", columns, cells, note)


def coverage(published_rows: Sequence[PublishedRow]) -> str:
    """Returns how often the published value is in the interval, as a sentence without its end."""
    count, inside = len(published_rows), sum(row.inside for row in published_rows)
    share = 100 * inside / max(1, count)
    return f"The published value is inside in {inside} of {count} rows ({share:.0f} %, nominal 90 %)"


def _row(row: PublishedRow) -> list[str]:
    published = sum(row.published[f"{direction}_iops"] for direction in ("read", "write"))
    predicted = sum(row.predicted[f"{direction}_iops"] for direction in ("read", "write"))
    latency = row.published.get("read_lat_ms")
    shares = [
        f"{printable(name)} {'–' if member.published is None else f'{100 * member.published:.1f} %'}"
        f" → {100 * member.predicted:.1f} %"
        for name, member in row.members.items()
    ]
    return [
        printable(row.target),
        row.test,
        calibration.iops(published),
        calibration.iops(predicted),
        f"{100 * row.error:+.1f} %",
        formatting.interval(row.interval) + " *" * (not row.inside),
        "" if latency is None else f"{latency:,.1f} → {row.predicted['read_lat_ms']:,.1f}",
        ", ".join(shares[:1] if len(shares) == 2 else shares),
    ]


def class_verdicts_table(judged: Sequence[PublishedVerdict]) -> TextTable:
    """Returns the result of each class of rows against its bounds."""
    columns = [text_column("predicted"), *number_columns("rows", "inside ±IOPS", "within", "bound", "median error")]
    columns += number_columns("worst share")
    return TextTable(
        "Verdict",
        columns,
        [
            [
                verdict.bound.name,
                str(verdict.rows),
                str(verdict.inside),
                str(verdict.within),
                f"±{100 * verdict.bound.iops:.0f} %"
                + (f", latency ±{100 * verdict.bound.latency:.0f} %" if verdict.bound.latency else ""),
                f"{100 * verdict.median:.1f} %"
                + (f" (≤ {100 * verdict.bound.median:.0f} %)" if verdict.bound.median else ""),
                ""
                if verdict.worst_share is None
                else f"{100 * verdict.worst_share:.1f} points"
                + (f" (≤ {100 * verdict.bound.share:.0f})" if verdict.bound.share else ""),
            ]
            for verdict in judged
        ],
    )


def caches_table(rows: Sequence[CacheRow]) -> TextTable:
    """Returns the table of published and predicted figures of caches and of the disks behind them."""
    columns = [text_column("run"), *number_columns("published IOPS", "predicted", "error"), text_column("±IOPS")]
    columns += [
        *number_columns("hits, %", "promotions"),
        text_column("class"),
        *number_columns("simulated"),
        TableColumn(""),
    ]
    right = sum(row.same_class for row in rows)
    judged = [row for row in rows if row.is_judged]
    errors = sorted(abs(math.log(1 + row.error)) for row in rows)
    note = (
        f"Published → predicted. IOPS: {sum(row.inside for row in rows)} of {len(rows)} are inside ±IOPS, the interval "
        f"that holds nine of ten measurements (* if outside); the median error is a factor of "
        f"{math.exp(errors[len(errors) // 2]):.2f}, the largest one {math.exp(errors[-1]):.2f}. "
        f"{right} of {len(rows)} are of the same class. Of {len(judged)} judged runs, "
        f"{sum(row.holds for row in judged)} have hits within 1.5 points and, if their cache was full, promotions "
        "within 10 %: those of repaired kernels, with up to 8 GiB of data. Of long runs only a part is simulated; "
        "its rates, at last, stand for the rest. docs/explanation/caches.md explains misses."
    )
    return TextTable("Predictions of caches", columns, [_cache_row(row) for row in rows], note)


def _cache_row(row: CacheRow) -> list[str]:
    both = (row.published, row.predicted)
    classes = list(dict.fromkeys(result.cache_class or "–" for result in both))
    return [
        printable(row.run.run),
        *(calibration.iops(result.iops) for result in both),
        f"{100 * row.error:+.0f} %",
        formatting.interval(row.interval) + " *" * (not row.inside),
        " → ".join("–" if result.hit_rate is None else f"{100 * result.hit_rate:.1f}" for result in both),
        " → ".join("–" if result.promotions is None else f"{result.promotions:,.0f}" for result in both),
        " → ".join(classes),
        f"{row.simulated_s:,.0f} of {row.run.runtime_s:,} s",
        "" if row.holds else "missed",
    ]


def markdown(validation: Validation, judged: Sequence[PublishedVerdict], more: Sequence[str] = ()) -> str:
    """Returns the accuracy report; `more` are the lines of its other sections."""
    lines = [*_markdown(validation, judged), *more]
    return "\n".join(map(_wrapped, lines)).rstrip("\n") + "\n"


def _wrapped(line: str) -> str:
    """Return a line of prose as lines of at most 118 characters; tables and headings stay."""
    if line.startswith(("|", "#")) or len(line) <= 118:
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 118, subsequent_indent=indent, break_on_hyphens=False)


def questions(directory: Path) -> list[str]:
    """Returns the lines of DIR/questions.md, a section of the report; empty without the file."""
    try:
        return [*(directory / "questions.md").read_text().splitlines(), ""]
    except FileNotFoundError:
        return []


def _markdown(validation: Validation, judged: Sequence[PublishedVerdict]) -> Iterator[str]:
    yield from (
        "# Accuracy of the simulator",
        "",
        "`accuracy/run published --reference DIR -o docs/explanation/accuracy.md` writes this page.",
        "Devices are calibrated on measurements of single devices. Arrays are predicted and",
        "never fitted.",
        "",
    )
    yield from _section(class_verdicts_table(judged))
    yield from _section(sources_table(validation))
    yield from _section(pairs_table(validation.rows))
    yield from _section(published_table(validation.rows))
    if validation.caches:
        yield from _section(caches_table(validation.caches))
    for kind, fitted in validation.calibrations.items():
        yield f"## Calibration of `{kind}`"
        yield ""
        yield from gfm.markdown_table(calibration.fit_table(fitted))
        yield from gfm.markdown_table(calibration.residuals(fitted))


def _section(table: TextTable) -> Iterator[str]:
    yield from (f"## {table.title}", "")
    if table.note:
        yield from (table.note, "")
    yield from gfm.markdown_table(table)
