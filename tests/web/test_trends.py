"""Trends of campaigns that do not vary the same labels."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from blklab.campaigns import trend as trend_of_campaigns
from blklab.render import chart_theme as theme
from blklab.render.chart import Chart
from blklab.store.campaigns import Store
from blklab.web.pages import trends
from tests.campaigns import made

STACKS = ("near", "far")
WORKLOADS = ("randread", "seqread")


def labels(stacks: Sequence[str] = STACKS, **more: Sequence[str]) -> list[dict[str, str]]:
    """Returns the labels of two repeats of each cell, with each value of the other labels."""
    every = [{"stack": stack, "workload": workload} for stack in stacks for workload in WORKLOADS]
    for label, values in more.items():
        every = [{**cell, label: value} for cell in every for value in values]
    return [{**cell, "repeat": repeat} for cell in every for repeat in ("1", "2")]


def measure(cell: made.Labels) -> tuple[dict[str, Any], list[Any]]:
    return made.measured(cell, 1e5 if cell["stack"] == "near" else 0.8e5), []


def trend(*campaigns: Sequence[dict[str, str]]) -> Chart:
    """Returns the chart of a trend over these campaigns."""
    store = Store(None)
    for every in campaigns:
        made.add(store, every, measure)
    return drawn_trend(store)


def drawn_trend(store: Store) -> Chart:
    (section,) = trends.show_trend(store, "unbalanced", "", "iops").sections
    (chart,) = section.items
    assert isinstance(chart, Chart)
    return chart


def rows(chart: Chart) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.spec["data"]["values"]
    return found


def line(chart: Chart, cell: str) -> list[str]:
    """Returns the campaigns at which a cell is drawn."""
    return [row["campaign"] for row in rows(chart) if row["cell"] == cell]


def colours(chart: Chart) -> dict[str, str]:
    scale = chart.spec["layer"][0]["encoding"]["color"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_campaign_that_swept_kernels_is_on_the_lines_of_the_others() -> None:
    chart = trend(labels(), labels(kernel=("4.19", "5.3")), labels())
    assert line(chart, "near randread") == ["1", "2 kernel=4.19", "2 kernel=5.3", "3"]
    assert len(colours(chart)) == 4
    assert [str(row[0]) for row in chart.table.rows] == ["3", "2 kernel=5.3", "2 kernel=4.19", "1"]


def test_label_with_one_value_in_each_campaign_splits_no_line() -> None:
    chart = trend(labels(kernel=("4.19",)), labels(kernel=("5.3",)), labels())
    assert line(chart, "near randread") == ["1 kernel=4.19", "2 kernel=5.3", "3"]


def test_label_that_one_campaign_varies_and_all_have_keeps_its_lines() -> None:
    chart = trend(labels(kernel=("5.3",)), labels(kernel=("4.19", "5.3")))
    assert line(chart, "near randread kernel=5.3") == ["1", "2"]
    assert line(chart, "near randread kernel=4.19") == ["2"]


def test_another_queue_depth_is_another_line() -> None:
    chart = trend(labels(iodepth=("8",)), labels(iodepth=("32",)))
    assert line(chart, "near randread iodepth=8") == ["1"]
    assert line(chart, "near randread iodepth=32") == ["2"]


def test_an_edited_queue_depth_is_another_line() -> None:
    store = Store(None)

    def eight(_labels: made.Labels) -> dict[str, str]:
        return {"iodepth": "8"}

    made.add(store, labels(), measure, options=eight)
    made.add(store, labels(), measure)  # with a depth of 32
    chart = drawn_trend(store)
    assert line(chart, "near randread iodepth=8") == ["1"]
    assert line(chart, "near randread iodepth=32") == ["2"]


def test_axis_starts_at_zero_has_dates_and_the_spread_of_the_runs() -> None:
    def spread(cell: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        return made.measured(cell, 1e5 if cell["repeat"] == "1" else 4e5), []

    store = Store(None)
    made.add(store, labels(), spread)
    made.add(store, labels(), spread)
    chart = drawn_trend(store)
    first = rows(chart)[0]
    assert (first["low"], first["v"], first["high"], first["runs"]) == (1e5, pytest.approx(2e5), 4e5, 2)
    assert re.fullmatch(r"1\|\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d", first["place"])
    for part in chart.spec["layer"]:
        assert part["encoding"]["y"]["scale"] == {"zero": True}


def test_stacks_of_different_campaigns_are_different_cells() -> None:
    chart = trend(labels(("near",)), labels(("far",)))
    assert line(chart, "near randread") == ["1"]
    assert line(chart, "far randread") == ["2"]


@pytest.mark.parametrize("depths", [2, 3, 7])
def test_no_colour_is_repeated_and_every_campaign_is_drawn(depths: int) -> None:
    deep = [str(2**power) for power in range(depths)]
    chart = trend(labels(iodepth=deep), labels(iodepth=["512"]))
    drawn = colours(chart)
    assert len(set(drawn.values())) == len(drawn) == min(len(theme.SERIES), 4 * depths + 4)
    assert {row["cell"] for row in rows(chart)} == set(drawn)
    assert {row["campaign"] for row in rows(chart)} == {"1", "2"}
    assert chart.note.endswith(f"8 of {4 * depths + 4} cells, which most campaigns have; the table has all.")


def test_many_cells_have_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend_of_campaigns, "CELLS", 2)
    store = Store(str(tmp_path / "store.db"))
    labels = [{"workload": name} for name in ("a", "b", "c", "d", "e")]
    for _ in range(2):
        made.add(store, labels, lambda cell: (made.measured(cell, 100.0 * ord(cell["workload"])), []))
    page = trends.show_trend(store, "unbalanced", "", "iops", 2)
    assert "2 of 5 cells" in page.facts
    (chart,) = page.sections[0].items
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert [column.heading for column in chart.table.columns[3:]] == ["c", "d"]
    assert [link.href for link in page.pages] == [
        f"/trends/unbalanced?on=&metric=iops&page={number}" for number in (1, 1, 3, 3)
    ]
