"""Layout of charts: rows under headings, colours of lines, panels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blklab.report.charts.base import Spec, category
from blklab.report.charts.theme import SERIES
from blklab.report.experiment.view import NAMES, STACK, WORKLOAD, ExperimentView, ReportCell, grouped

MOST_LINES = len(SERIES)  # Maximum number of lines in a chart
MOST_ROWS = 60  # Maximum number of rows in a chart
PAPER = (1.0, 0.62, 0.42, 0.3, 0.22, 0.16)  # Opacity of the series of a chart
PREDICTED = 0.42  # Opacity of predictions next to measurements


@dataclass(frozen=True)
class ChartRows:
    """The rows of a chart: cells under the names of their workloads."""

    names: Sequence[str]  # Values in the data: unique, with the shown text behind `|`; headings begin with #
    of: Mapping[int, str]  # The row of each cell, by `id`

    def height(self, row: int, heading: int, least: int) -> int:
        """Returns the height of a chart in pixels, from the heights of a `row` and a `heading`."""
        count = len({*self.of.values()})
        return max(least, row * count + heading * (len(self.names) - count) + 6 * len(self.names))

    def encoding(self) -> Spec:
        """Returns the vertical axis."""
        heading = "indexof(datum.value, '#') == 0"
        plain = {"labelFontSize": 12, "labelLimit": 190, "ticks": False, "domain": False, "grid": False}
        axis = {
            "labelExpr": "slice(datum.value, indexof(datum.value, '|') + 1)",
            "labelFontWeight": {"condition": {"test": heading, "value": "bold"}, "value": "normal"},
            "labelColor": {"condition": {"test": heading, "value": "@ink"}, "value": "@soft"},
            **plain,
        }
        scale = {"domain": list(self.names), "paddingInner": 0.22, "paddingOuter": 0.1}
        return category("row", scale=scale, axis=axis)


def rows(view: ExperimentView, cells: Sequence[ReportCell], without: Sequence[str] = ()) -> ChartRows:
    """Returns the rows of cells; cells that differ only in their series share a row."""
    shown = [label for label in view.labels if label not in {WORKLOAD, *without}]
    names: list[str] = []
    of: dict[int, str] = {}
    headed = WORKLOAD in view.labels and any(cell.labels.get(label) for cell in cells for label in shown)
    for (workload,), members in grouped(cells, [WORKLOAD]).items():
        if headed:
            names.append(f"#{len(names)}|{workload}")
        for members_ in grouped(members, shown).values():
            text = view.name(members_[0], [*without, *([WORKLOAD] if headed else [])])
            row = f"{len(names)}|{text}"
            names.append(row)
            of |= {id(cell): row for cell in members_}
    return ChartRows(names, of)


def offset(view: ExperimentView) -> Spec:
    """Returns the encoding that puts the bars of series below each other; none for one series."""
    if not view.several:
        return {}
    return {"yOffset": category("series", scale={"domain": [series.name for series in view.series]})}


def campaign_tip(view: ExperimentView) -> list[tuple[str, str]]:
    """Returns the line of a tooltip with the series; none for one series."""
    return [("series", "campaign")] if view.several else []


def opacity(view: ExperimentView) -> Spec:
    """Returns the opacity of the field `series`, with its legend."""
    predicts = [series.predicts for series in view.series]
    names = [series.name for series in view.series]
    full, mixed = iter(PAPER), len(set(predicts)) > 1
    scale = {"domain": names, "range": [PREDICTED if mixed and each else next(full) for each in predicts]}
    legend = {"title": None, "symbolFillColor": "@soft", "symbolType": "square", **legend_room(names)}
    return {**category("series", scale=scale, legend=legend if view.several else None), "type": "ordinal"}


def colour(field: str, names: Sequence[str], **legend: object) -> Spec:
    """Returns the colour of names: at most `MOST_LINES`, since no two names of a chart share a colour."""
    look: dict[str, object] = {"symbolOpacity": 1, "symbolStrokeWidth": 2, **legend_room(names)}
    look |= {"titleOrient": "left", "titleFontWeight": "normal"}
    shown = {"title": None, **look, **legend} if len(names) > 1 else None
    scale = {"domain": list(names), "range": list(SERIES[: len(names)])}
    return {"field": field, "type": "nominal", "scale": scale, "legend": shown}


def legend_room(names: Sequence[str]) -> dict[str, int]:
    """Returns the columns of a legend, and the pixels of its names: none is cut off in a chart of half a page."""
    return {"columns": max(1, min(4, 56 // (max(map(len, names), default=1) + 6))), "labelLimit": 340}


def line_colour(view: ExperimentView, lines: Sequence[str], line: str | None) -> Spec:
    """Returns the colour of the lines of a chart: by label, otherwise by series."""
    if line is None and view.several:
        return colour("series", [series.name for series in view.series], symbolType="stroke")
    return colour("line", lines, title=line, symbolType="stroke")


def dash(view: ExperimentView, cells: Sequence[ReportCell]) -> Spec:
    """Returns the dashes of the field `series`: predictions are dashed."""
    names = [series.name for series in view.series]
    seen = {cell.series.name for cell in cells}
    styles = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]]
    if any(series.predicts for series in view.series) and view.several:
        rest = iter([[1, 0], [8, 3, 2, 3], [12, 3], [2, 2], [1, 3], [10, 2]])
        dashed = iter([[5, 3], [2, 2], [1, 3], [8, 2, 1, 2], [3, 3], [4, 1]])
        styles = [next(dashed) if series.predicts else next(rest) for series in view.series]
    scale = {"domain": names, "range": styles[: len(names)]}
    legend = {"title": None, "symbolType": "stroke", "symbolSize": 250, "symbolOpacity": 1, **legend_room(names)}
    shown = {**legend, "values": [name for name in names if name in seen]} if len(seen) > 1 else None
    return {"field": "series", "type": "nominal", "scale": scale, "legend": shown}


def line_label(view: ExperimentView, without: Sequence[str] = ()) -> str | None:
    """Returns the label whose values become lines of a chart; None if there is none."""
    fit = [label for label in view.labels if label not in without and 1 < len(view.values(label)) <= MOST_LINES]
    axes = [label for label in fit if label not in NAMES]
    order = (STACK, *(label for label in view.loads if label in axes), *axes, *fit)
    return next((label for label in order if label in fit), None)


def panels(
    view: ExperimentView, line: str | None, without: Sequence[str] = ()
) -> dict[tuple[str, ...], list[ReportCell]]:
    """Returns the cells of each chart, by the labels that its lines share."""
    return grouped(view.order(view.cells), [label for label in view.labels if label not in {line, *without}])


def titled(view: ExperimentView, cells: Sequence[ReportCell], line: str | None, without: Sequence[str] = ()) -> str:
    """Returns the labels that the cells of a panel share."""
    hidden = [*without, *([line] if line else [])]
    return "" if set(cells[0].labels) <= set(hidden) else view.name(cells[0], hidden)
