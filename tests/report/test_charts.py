"""Charts are Vega-Lite that its schema knows, with a table behind each; and pictures."""

import json
from pathlib import Path

import altair

from blklab.report import export, page
from blklab.report.charts import sizes, theme
from blklab.report.histogram import Bin
from blklab.report.view import ProfileView


def test_every_chart_follows_the_schema(pgbench: ProfileView, scsi: ProfileView) -> None:
    for view in (pgbench, scsi):
        charts = page.charts(page.sections(view))
        assert len({chart.name for chart in charts}) == len(charts) > 12
        for chart in charts:
            spec = export.standalone(chart)
            json.dumps(spec, allow_nan=False)
            altair.Chart.from_dict(spec, validate=True)
            assert chart.table.rows, chart.name
            assert chart.title


def test_colours_are_filled_in_but_not_in_data() -> None:
    spec = {"mark": {"color": "@read"}, "data": {"values": [{"name": "@read"}]}}
    filled = theme.coloured(spec, {"read": "#123456"})
    assert filled == {"mark": {"color": "#123456"}, "data": {"values": [{"name": "@read"}]}}


def test_dark_has_every_colour_of_light() -> None:
    assert theme.DARK.keys() == theme.LIGHT.keys()


def test_pictures_are_written(scsi: ProfileView, tmp_path: Path) -> None:
    charts = [chart for chart in page.charts(page.sections(scsi)) if chart.name in {"iops", "stages"}]
    written = list(export.export(charts, tmp_path))
    assert [path.name for path in written] == ["iops.png", "iops.svg", "stages.png", "stages.svg"]
    for path in written:
        start = b"\x89PNG" if path.suffix == ".png" else b"<svg"
        assert path.read_bytes().startswith(start)
    assert sorted(tmp_path.iterdir()) == written


def test_a_wide_range_of_sizes_is_drawn_by_doublings_above_64_kib() -> None:
    bins = [Bin(f"{k} KiB", (k - 2) * 1024, (k + 2) * 1024, 1) for k in range(4, 1200, 4)]
    drawn = sizes._drawn(bins)
    assert len(drawn) == 16 + 5
    assert [item.label for item in drawn[15:18]] == ["64 KiB", "–128 KiB", "–256 KiB"]
    assert sum(item.count for item in drawn) == len(bins)
    assert drawn[16].count == 16
