"""`accuracy/run disks`: predict single disks that strangers measured, with the library's models."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.exceptions import Exit

from accuracy.disk_rows import GROUPS, USED, Measurement, read_measurements
from accuracy.options import reference_option
from blklab.cli.common import cluster_option, computing, emit, json_option, warn
from blklab.cluster import HERE, Parallel
from blklab.compare.decision import is_inside
from blklab.errors import UsageError
from blklab.outcome import NOMINAL, NOT_KNOWN
from blklab.output import write
from blklab.render import markdown as gfm
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import interval

LEAST = 0.8
"""The least coverage of an interval of 90 % over the disks of a group of at least `ENOUGH` rows."""

ENOUGH = 5


@dataclass(frozen=True)
class DiskRow:
    """One measurement of a disk and its prediction."""

    table: str
    source: str
    kind: str  # `ssd`, `nvme` or `hdd`
    group: str
    load: str
    disk: str
    model: str
    options: str  # Of fio
    measured: float  # IOPS
    predicted: float
    limits: tuple[float, float]  # Factors of the prediction

    @property
    def factor(self) -> float:
        """Predicted over measured IOPS."""
        return self.predicted / self.measured

    @property
    def score(self) -> float:
        """The interval score of Gneiting and Raftery (2007), in logarithms: its width, and a penalty outside it."""
        low, high = (math.log(limit) for limit in self.limits)
        return high - low + 2 / (1 - NOMINAL) * max(0.0, low + math.log(self.factor), -math.log(self.factor) - high)

    @property
    def ratio(self) -> float:
        """The upper over the lower bound."""
        return self.limits[1] / self.limits[0]

    @property
    def known(self) -> bool:
        """Whether the interval is so narrow that blklab prints a number."""
        return self.ratio <= NOT_KNOWN

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the interval of the prediction."""
        low, high = map(math.log, self.limits)
        return is_inside(-math.log(self.factor), (low, high))


@click.command()
@reference_option
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page about disks.")
@cluster_option
@json_option
def disks(*, directory: Path, output: Path | None, cluster: str | None, as_json: bool) -> None:
    """Predict single disks that strangers measured, and print how far the predictions are away.

    Each row is predicted by a model that was made without its source: the author or the host that
    measured it. A row is inside if the measurement is in the 90 % interval of its prediction. The
    exit status is 1 if fewer than 80 % of a group are inside, where each disk counts once.

    \b
    Examples:
      accuracy/run disks
      accuracy/run disks --json | jq '.[] | select(.inside | not)'
      accuracy/run disks -o docs/explanation/disks.md
    """
    measured = read_measurements(directory)
    if not measured:
        raise UsageError(f"{directory}/foreign: no rows; expected the tables of `reference/foreign`")
    with computing(cluster) as parallel:
        rows = predicted(measured, parallel)
    if output is not None:
        write(output, _page(rows).encode())
    documents = [{**vars(row), "factor": row.factor, "inside": row.inside, "known": row.known} for row in rows]
    tables = (_groups(rows), _sources(rows))
    emit(documents, as_json, lambda console: draw_table(console, *tables))
    groups = _group_rows(rows, _group_of)
    judging = {group: found for group, found in groups.items() if group[0] != USED and len(found) >= ENOUGH}
    if low := [group for group, of_group in judging.items() if coverage_of_disks(of_group) < LEAST]:
        warn(f"fewer than {100 * LEAST:.0f} % of the rows are inside the interval: {'; '.join(map(', '.join, low))}")
        raise Exit(1)


def predicted(measured: Sequence[Measurement], parallel: Parallel = HERE) -> list[DiskRow]:
    """Returns measurements with their predictions."""
    made = [row.cell() for row in measured]
    outcomes = sim.outcomes([cell.document for cell in made], parallel)
    rows = []
    for row, cell, outcome in zip(measured, made, outcomes, strict=True):
        iops = outcome.read.iops + outcome.write.iops
        options = {**row.workload, **row.workload.get("options", {})}
        words = " ".join(f"{key}={value}" for key, value in options.items() if key != "options")
        limits = interval(cell, outcome).iops
        rows.append(
            DiskRow(
                row.table, row.source, row.kind, row.group, row.load, row.disk, row.model, words, row.iops, iops, limits
            )
        )
    return rows


def coverage(rows: Sequence[DiskRow]) -> float:
    """Returns the share of measurements that are inside the interval of their prediction."""
    return sum(row.inside for row in rows) / len(rows)


def coverage_of_disks(rows: Sequence[DiskRow]) -> float:
    """Returns the same if each disk counts once: the rows of a disk are right or wrong together."""
    disks = _group_rows(rows, lambda row: (row.disk,))
    return statistics.fmean(coverage(of_disk) for of_disk in disks.values())


def _page(rows: Sequence[DiskRow]) -> str:
    """Returns docs/explanation/disks.md."""
    lines = [
        [row.disk, row.model, row.options, f"{row.measured:,.0f}", f"{row.predicted:,.0f}", f"×{row.factor:.2f}"]
        for row in rows
        if not row.inside
    ]
    numbers = number_columns("measured", "predicted", "predicted/measured")
    columns = [text_column("disk"), text_column("model"), text_column("load"), *numbers]
    parts = [
        "# Disks that strangers measured",
        "`accuracy/run disks -o docs/explanation/disks.md` writes this page. A row is inside if the measurement is in\n"
        "the 90 % interval of its prediction. A source is an author, or one of his hosts. Each row is predicted\n"
        "without any row of its source.",
        f"- *{GROUPS[0]}*: what other sources measured of the disk or its family, and its data sheet;\n"
        f"- *{GROUPS[1]}*: its class, with its capacity, its cells and its data sheet;\n"
        f"- *{GROUPS[2]}*: these rows judge nothing.",
        f'Ratio is the upper over the lower bound, a median. Above {NOT_KNOWN:.0f}, blklab prints "not known" and no\n'
        "number. Score is the mean interval score of logarithms: the smaller, the better.",
        "Disks on a P420i are behind a controller with `coalesce_ns = 100us`. One set of an Intel S4610 gave this\n"
        "figure: its random reads take 64 us at depth 2 and 167 us at depth 4. The other disks on a P420i judge it.",
        "\n".join(gfm.markdown_table(_groups(rows))),
        "## By source",
        "Rows that judge.",
        "\n".join(gfm.markdown_table(_sources(rows))),
        "## Measurements outside the interval",
        "IOPS.",
        "\n".join(gfm.markdown_table(TextTable("", columns, lines))),
    ]
    return "\n\n".join(parts) + "\n"


def _group_of(row: DiskRow) -> tuple[str, ...]:
    return row.group, row.kind, row.load


def _group_rows(
    rows: Sequence[DiskRow], key: Callable[[DiskRow], tuple[str, ...]]
) -> dict[tuple[str, ...], list[DiskRow]]:
    groups: dict[tuple[str, ...], list[DiskRow]] = {}
    for row in sorted(rows, key=lambda row: (GROUPS.index(row.group), key(row))):
        groups.setdefault(key(row), []).append(row)
    return groups


def _groups(rows: Sequence[DiskRow]) -> TextTable:
    """Returns a line for each group of rows, kind of disk and load, and one for each group."""
    lines = [
        [group, kind, load, *_figures(found)] for (group, kind, load), found in _group_rows(rows, _group_of).items()
    ]
    for (group,), found in _group_rows(rows, lambda row: (row.group,)).items():
        lines.append([group, "all", "all", *_figures(found)])
    texts = [text_column("what is known"), text_column("kind"), text_column("load")]
    return TextTable("Disks that strangers measured, by load", [*texts, *number_columns(*FIGURES)], lines)


def _sources(rows: Sequence[DiskRow]) -> TextTable:
    """Returns a line for each source."""
    judging = [row for row in rows if row.group != USED]
    lines = [[source, *_figures(found)] for (source,), found in _group_rows(judging, lambda row: (row.source,)).items()]
    return TextTable("By source", [text_column("source"), *number_columns(*FIGURES)], sorted(lines))


FIGURES = ("rows", "inside", "coverage", "known", "known inside", "median error", "worst", "ratio", "score")


def _figures(rows: Sequence[DiskRow]) -> list[str]:
    errors = [abs(math.log(row.factor)) for row in rows]
    known = [row for row in rows if row.known]
    median_error, worst = (math.exp(error) for error in (statistics.median(errors), max(errors)))
    ratio = statistics.median(row.ratio for row in rows)
    score = statistics.fmean(row.score for row in rows)
    counts = [len(rows), sum(row.inside for row in rows), f"{100 * coverage(rows):.0f} %"]
    counts += [len(known), sum(row.inside for row in known)]
    return [*map(str, counts), f"×{median_error:.2f}", f"×{worst:.2f}", f"{ratio:.1f}", f"{score:.1f}"]
