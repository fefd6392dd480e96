"""What a run leaves behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.store.series import Point


@dataclass(frozen=True)
class Finished:
    """What a runner hands over when a run is done."""

    outcome: Mapping[str, Any]
    seconds: float
    points: Sequence[Point] = ()
    raw: str = ""
    """What the program said that measured it."""
