"""Folds the charts of a section after the first ones."""

from collections.abc import Sequence

from blklab.report.charts.base import Chart
from blklab.report.shell import Details


def more_charts(charts: Sequence[Chart], most: int) -> list[Details]:
    """Returns the charts after the first `most`, folded."""
    return [Details(f"{len(charts) - most} more", charts[most:])] if len(charts) > most else []
