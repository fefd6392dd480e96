"""What a run leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass

from blklab.outcome import Outcome
from blklab.store.series import SeriesPoint


@dataclass(frozen=True)
class FinishedRun:
    """What a runner hands over when a run is done."""

    outcome: Outcome
    seconds: float
    points: Sequence[SeriesPoint] = ()
    raw: str = ""
    """What the program said that measured it."""
