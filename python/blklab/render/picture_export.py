"""Export the charts of a report as PNG and SVG files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from blklab.output import write
from blklab.render import chart_theme as theme
from blklab.render.chart import Chart

WIDTH = {True: 900, False: 560}  # Pixels of a wide chart and of a narrow one, before scaling
CHARACTER = 6  # Pixels of an average character of a caption
SCALE = 2.0  # PNG pixels for each pixel of the chart
FONT = "Liberation Sans, DejaVu Sans, Arial, sans-serif"


def export(charts: Sequence[Chart], directory: Path, captions: Sequence[str] = ()) -> Iterator[Path]:
    """Writes each chart as NAME.png and NAME.svg, in light colours; yields the paths.

    `captions` are lines below the title of each picture: what was measured, and how.
    """
    import vl_convert  # 40 MB, and slow to start

    for chart in charts:
        spec = standalone(chart, captions)
        name = re.sub(r"[^\w-]", "-", chart.name)
        png = directory / f"{name}.png"
        write(png, vl_convert.vegalite_to_png(spec, scale=SCALE))
        yield png
        svg = directory / f"{name}.svg"
        write(svg, vl_convert.vegalite_to_svg(spec).encode())
        yield svg


def standalone(chart: Chart, captions: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the complete specification of a chart, with title, note, captions, width and colours."""
    spec: dict[str, Any] = theme.replace_colours(chart.spec, theme.LIGHT)
    config = {**theme.config(theme.LIGHT, FONT), "background": theme.LIGHT["paper"], "padding": 14}
    if "layer" in spec:  # a picture has no pointer
        layers = []
        for layer in spec["layer"]:
            parameters = [parameter["name"] for parameter in layer.get("params", [])]
            if "hover" not in parameters:
                layers.append(layer)
        spec["layer"] = layers
    lines = []
    for text in (chart.note, *captions):
        lines += wrap(text, WIDTH[chart.wide] // CHARACTER)
    title = {"text": chart.title, "subtitle": lines, "subtitleColor": theme.LIGHT["soft"], "anchor": "start"}
    return {**spec, "title": title, "width": WIDTH[chart.wide], "config": config}
