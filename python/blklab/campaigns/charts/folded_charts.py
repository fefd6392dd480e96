"""Folds the charts of a section after the first ones."""

from collections.abc import Sequence

from blklab.render.chart import Chart
from blklab.render.shell import Details


def more_charts(charts: Sequence[Chart], count: int) -> list[Details]:
    """Returns the charts after the first `count`, folded."""
    return [Details(f"{len(charts) - count} more", charts[count:])] if len(charts) > count else []
