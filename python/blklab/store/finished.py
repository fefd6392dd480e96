"""What a run leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass

from blklab.outcome import Outcome
from blklab.store.series import Point


@dataclass(frozen=True)
class Finished:
    """What a runner hands over when a run is done."""

    outcome: Outcome
    seconds: float
    points: Sequence[Point] = ()
    raw: str = ""
    """What the program said that measured it."""
