"""The types of a comparison: sides, rows and values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.analysis.resampling import Difference
from blklab.diagnostic import Diagnostic
from blklab.store.query import StoredRun


@dataclass(frozen=True)
class ComparisonSide:
    """A set of runs that is compared with others."""

    name: str
    runs: Sequence[StoredRun]


@dataclass(frozen=True)
class CellValue:
    """The value of a cell on one side."""

    mean: float
    runs: int
    least: float
    most: float
    low: float | None
    high: float | None
    """The confidence interval of the mean; for two runs, their range; None for one run, because the
    variation between runs is unknown."""


@dataclass(frozen=True)
class ComparisonRow:
    """One cell: its values on all sides, and their differences from the first."""

    metric: str
    labels: Mapping[str, str]
    values: Sequence[CellValue | None]
    differences: Sequence[Difference | None]
    """The difference of each side but the first."""

    verdicts: Sequence[str]
    """For each side but the first: `better`, `worse`, `same` (no difference seen), `unknown`, or
    `differ`: there is one run on each side, and their difference is larger than the variation
    within them; the variation between runs is unknown."""

    lacks: Sequence[Sequence[str]] = ()
    """For each side but the first: the cells of the baseline that are missing in the merged row."""


@dataclass(frozen=True)
class Comparison:
    """A complete comparison."""

    sides: Sequence[str]
    by: Sequence[str]
    """The labels that identify a row."""

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
