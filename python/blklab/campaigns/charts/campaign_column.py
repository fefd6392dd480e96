"""The column of a table with the campaign of each row, if there are several."""

from blklab.campaigns.view import ExperimentView
from blklab.render.table import TableColumn, text_column


def campaign_column(view: ExperimentView) -> list[TableColumn]:
    """Returns the column with the campaign of a cell; none for one series."""
    return [text_column(view.series_label)] if view.several else []


def campaign_name(view: ExperimentView, series: str) -> list[str]:
    """Returns what a row has in the column of campaigns, if there is one."""
    return [series] if view.several else []
