"""What a comparison is: its sides, rows and values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.analysis.resampling import Difference
from blklab.diagnostic import Diagnostic
from blklab.store.query import StoredRun


@dataclass(frozen=True)
class ComparisonSide:
    """One of the things that are compared."""

    name: str
    runs: Sequence[StoredRun]


@dataclass(frozen=True)
class CellValue:
    """What one side measured of a cell."""

    mean: float
    runs: int
    least: float
    most: float
    low: float | None
    high: float | None
    """The confidence interval of the mean, of two runs their range; None of one run: how much the
    next would differ is not known."""


@dataclass(frozen=True)
class ComparisonRow:
    """One cell: the values of every side, and how each differs from the first."""

    metric: str
    labels: Mapping[str, str]
    values: Sequence[CellValue | None]
    differences: Sequence[Difference | None]
    """Of the second side and those behind it, from the first."""

    verdicts: Sequence[str]
    """`better`, `worse`, `same` (no difference seen), `differ` (one run a side, further apart than
    each varied within: whether others would be, is not known) or `unknown`, of the same sides."""

    lacks: Sequence[Sequence[str]] = ()
    """Of the second side and those behind it: which cells of the baseline's are not among those
    that were put together."""


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison says."""

    sides: Sequence[str]
    by: Sequence[str]
    """The labels that tell the rows apart."""

    rows: Sequence[ComparisonRow]
    notes: Sequence[Diagnostic]

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison for `--json`."""
        return {
            "sides": list(self.sides),
            "by": list(self.by),
            "rows": [
                {
                    "metric": row.metric,
                    "labels": dict(row.labels),
                    "values": [value and vars(value) for value in row.values],
                    "differences": [
                        difference and vars(difference) for difference in row.differences
                    ],
                    "verdicts": list(row.verdicts),
                }
                for row in self.rows
            ],
            "notes": [str(note) for note in self.notes],
        }
