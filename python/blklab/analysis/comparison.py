"""The types of a comparison: sides, rows and values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.analysis.decision import Decision
from blklab.diagnostic import Diagnostic
from blklab.store.query import StoredRun


@dataclass(frozen=True)
class ComparisonSide:
    """A set of runs that is compared with others."""

    name: str
    runs: Sequence[StoredRun]


@dataclass(frozen=True)
class CellValue:
    """The value of a row on one side; if it merges cells, their geometric mean."""

    mean: float
    runs: int
    least: float
    most: float
    low: float | None
    high: float | None
    """The confidence interval of the mean, which holds together with those of all cells; None if
    the variation is unknown."""

    groups: tuple[Sequence[float], Sequence[float]] | None = None
    """The values of the runs of one cell, if they are in two groups that are far apart, the lower one first."""


@dataclass(frozen=True)
class ComparisonRow:
    """One cell: its values on all sides, and their differences from the first."""

    metric: str
    labels: Mapping[str, str]
    values: Sequence[CellValue | None]
    differences: Sequence[Decision | None]
    """The decision about each side except the first; None without values on both sides."""

    lacks: Sequence[Sequence[str]] = ()
    """For each side but the first: the cells of the baseline that are missing in the merged row."""

    asked: Sequence[str] = ()  # The names by which the metric was requested: `p99` for `read.p99`
    merged: int = 1  # The number of cells on each side, whose changes are averaged

    @property
    def verdicts(self) -> list[str]:
        """The verdict of each side except the first."""
        return [decision.verdict if decision else "unknown" for decision in self.differences]


@dataclass(frozen=True)
class Comparison:
    sides: Sequence[str]
    by: Sequence[str]  # The labels that identify a row
    rows: Sequence[ComparisonRow]
    notes: Sequence[Diagnostic]
    predicted: Sequence[bool]  # Whether all runs of a side are simulated
    confidence: float = 0.95
    margin: float = 0.05

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison for `--json`."""
        return {
            "sides": list(self.sides),
            "predicted": list(self.predicted),
            "by": list(self.by),
            "confidence": self.confidence,
            "margin": self.margin,
            "rows": [
                {
                    "metric": row.metric,
                    "labels": dict(row.labels),
                    "values": [value and vars(value) for value in row.values],
                    "differences": [difference and vars(difference) for difference in row.differences],
                    "verdicts": row.verdicts,
                }
                for row in self.rows
            ],
            "notes": [str(note) for note in self.notes],
        }
