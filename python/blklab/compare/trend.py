"""A figure over the campaigns of an experiment: where its level changed, and how much campaigns differ without that."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blklab.compare.change_points import FEWEST_VALUES, LIMIT, deviate_from_levels, find_change_points

FEWEST_FOR_NOISE = 4  # Campaigns of a cell whose deviation is computed


@dataclass(frozen=True)
class LevelChange:
    """A change of a cell's level that lasts."""

    cell: str
    index: int  # Of the first campaign with the new level
    change: float  # Relative
    p: float


@dataclass(frozen=True)
class CampaignNoise:
    """How much the mean of a cell differs from campaign to campaign while its level is the same."""

    deviation: float  # Standard deviation, relative
    campaigns: int


Series = Sequence[float | None]  # The mean of a cell in each campaign; None without one


def list_level_changes(series: Mapping[str, Series]) -> list[LevelChange]:
    """Returns the changes of all cells, the oldest first; none of cells with fewer than `FEWEST_VALUES` campaigns."""
    changes = []
    for cell, values in series.items():
        indexes, logs = _logs(values)
        for point in find_change_points(logs, LIMIT / max(1, len(series))):
            changes.append(LevelChange(cell, indexes[point.index], point.change, point.p))
    return sorted(changes, key=lambda change: change.index)


def measure_noise(series: Mapping[str, Series]) -> CampaignNoise | None:
    """Returns the noise of the campaigns, pooled over cells, around the levels between changes; None if unknown."""
    squares = 0.0
    degrees = 0
    most_campaigns = 0
    for values in series.values():
        _, logs = _logs(values)
        if len(logs) < FEWEST_FOR_NOISE:
            continue
        squares_of_cell, level_count = deviate_from_levels(logs, LIMIT / len(series))
        squares += squares_of_cell
        degrees += len(logs) - level_count
        most_campaigns = max(most_campaigns, len(logs))
    if not degrees:
        return None
    return CampaignNoise(math.expm1(math.sqrt(squares / degrees)), most_campaigns)


def has_enough_campaigns(series: Mapping[str, Series]) -> bool:
    """Returns whether any cell has enough campaigns for a change point."""
    return any(len(_logs(values)[1]) >= FEWEST_VALUES for values in series.values())


def _logs(values: Series) -> tuple[list[int], list[float]]:
    """Returns the places of the values that are known, and their logarithms."""
    indexes = [index for index, value in enumerate(values) if value is not None and value > 0]
    return indexes, [math.log(values[index] or 1) for index in indexes]
