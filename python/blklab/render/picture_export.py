"""Export the charts of a report as PNG and SVG files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from blklab.output import write
from blklab.render import chart_theme as theme
from blklab.render.chart import Chart

WIDTH = {True: 900, False: 560}  # Pixels of a wide chart and of a narrow one, before scaling
SCALE = 2.0  # PNG pixels for each pixel of the chart
FONT = "Liberation Sans, DejaVu Sans, Arial, sans-serif"


def export(charts: Sequence[Chart], directory: Path) -> Iterator[Path]:
    """Writes each chart as NAME.png and NAME.svg, in light colours; yields the paths."""
    import vl_convert  # 40 MB, and slow to start

    for chart in charts:
        spec = standalone(chart)
        name = re.sub(r"[^\w-]", "-", chart.name)
        png = directory / f"{name}.png"
        write(png, vl_convert.vegalite_to_png(spec, scale=SCALE))
        yield png
        svg = directory / f"{name}.svg"
        write(svg, vl_convert.vegalite_to_svg(spec).encode())
        yield svg


def standalone(chart: Chart) -> dict[str, Any]:
    """Returns the complete specification of a chart, with title, width and colours."""
    spec: dict[str, Any] = theme.replace_colours(chart.spec, theme.LIGHT)
    config = {**theme.config(theme.LIGHT, FONT), "background": theme.LIGHT["paper"], "padding": 14}
    if "layer" in spec:  # a picture has no pointer
        layers = []
        for layer in spec["layer"]:
            parameters = [parameter["name"] for parameter in layer.get("params", [])]
            if "hover" not in parameters:
                layers.append(layer)
        spec["layer"] = layers
    return {**spec, "title": chart.title, "width": WIDTH[chart.wide], "config": config}
