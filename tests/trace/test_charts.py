"""Charts are Vega-Lite that its schema knows, with a table behind each; and pictures."""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import altair
import pytest

from blklab.render import chart_theme as theme
from blklab.render import picture_export as export
from blklab.render.chart import OPS
from blklab.trace import page
from blklab.trace.charts import bars
from blklab.trace.histogram import Bin
from blklab.trace.view import ProfileView


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
    filled = theme.replace_colours(spec, {"read": "#123456"})
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
    drawn = bars._merge_large_bins(bins)
    assert len(drawn) == 16 + 5
    assert [item.label for item in drawn[15:18]] == ["64 KiB", "–128 KiB", "–256 KiB"]
    assert sum(item.count for item in drawn) == len(bins)
    assert drawn[16].count == 16


BACKGROUNDS = ("paper", "panel", "page")
NOT_DATA = {*BACKGROUNDS, "doubt", "line"}  # Backgrounds, and the lines of tables and axes

# What readers without red or green cones see, of linear RGB (Machado, Oliveira and Fernandes 2009, table 1)
NO_RED = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
NO_GREEN = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
EVERY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
# From linear RGB to OKLab (https://bottosson.github.io/posts/oklab/)
CONES = ((0.412221, 0.536333, 0.051446), (0.211903, 0.680700, 0.107397), (0.088302, 0.281719, 0.629979))
OKLAB = ((0.210454, 0.793618, -0.004072), (1.977998, -2.428592, 0.450594), (0.025904, 0.782772, -0.808676))

Triple = Sequence[float]


def linear(colour: str) -> Triple:
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def times(matrix: Sequence[Triple], vector: Triple) -> Triple:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def contrast(one: str, other: str) -> float:
    """Returns the ratio of WCAG 2.1."""
    light = [sum(times([(0.2126, 0.7152, 0.0722)], linear(colour))) + 0.05 for colour in (one, other)]
    return max(light) / min(light)


def seen(colour: str, cones: Sequence[Triple]) -> Triple:
    rgb = [min(1.0, max(0.0, value)) for value in times(cones, linear(colour))]
    return times(OKLAB, [value ** (1 / 3) for value in times(CONES, rgb)])


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_every_colour_has_contrast_on_every_background(colours: dict[str, str]) -> None:
    low = {
        name: round(ratio, 2)
        for name, colour in colours.items()
        if name not in NOT_DATA
        and (ratio := min(contrast(colour, colours[background]) for background in BACKGROUNDS)) < 3
    }
    assert not low


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    "names", [theme.SERIES, (*theme.MEMBERS, "@accent"), [f"@{op}" for op in OPS]], ids=["series", "members", "ops"]
)
def test_colours_of_a_chart_differ_for_every_reader(colours: dict[str, str], names: Sequence[str]) -> None:
    for cones in (EVERY, NO_RED, NO_GREEN):
        places = {name: seen(colours[name[1:]], cones) for name in names}
        assert min(math.dist(places[a], places[b]) for a, b in itertools.combinations(names, 2)) > 0.055
