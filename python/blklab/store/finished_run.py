"""What a runner returns at the end of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from blklab.outcome import Outcome
from blklab.store.series import SeriesPoint


@dataclass(frozen=True)
class FinishedRun:
    """The result, raw output and series of a run."""

    outcome: Outcome
    seconds: float
    points: Sequence[SeriesPoint] = ()
    raw: str = ""  # The output of the program that measured
