"""Colours and fonts of the charts: one configuration, with colours or CSS variables."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from blklab.report.view import DeviceView

_COLOURS = tomllib.loads((Path(__file__).parents[1] / "assets/colours.toml").read_text(encoding="utf-8"))
LIGHT: dict[str, str] = _COLOURS["light"]
DARK: dict[str, str] = _COLOURS["dark"]  # Colours for dark mode


SERIES = tuple(f"@s{number}" for number in range(1, 9))  # Colours for items without a colour, in order of use
PROCESSES = ("@s3", "@s4", "@s8", "@s6", "@s7")  # Colours of the largest processes in a report on a trace
MEMBERS = tuple(f"@m{number}" for number in range(1, 7))
"""Colours of devices in a report on a trace, after Tol's muted scheme (https://personal.sron.nl/~pault/)."""

REST = "@soft"  # The colour of all others together


def process_colours(device: DeviceView) -> dict[str, str]:
    return dict(zip(dict.fromkeys(group.label for group in device.groups("processes")), PROCESSES, strict=False))


def member_colours(names: Iterable[str]) -> dict[str, str]:
    """Returns the colours of the first devices."""
    return dict(zip(dict.fromkeys(names), MEMBERS, strict=False))


NAMES = frozenset({"data", "domain", "sort", "values"})
"""Keys of a specification whose values contain names of the data."""


def variables() -> dict[str, str]:
    """Returns each colour as a CSS variable: the page changes its scheme without redrawing."""
    return {name: f"var(--{name})" for name in LIGHT}


def coloured(spec: Any, colours: Mapping[str, str]) -> Any:
    """Returns a specification with each string `@name` replaced by its colour.

    Only text of blklab is replaced: rows of data and names are left unchanged.
    """
    if isinstance(spec, dict):
        return {key: spec[key] if key in NAMES else coloured(spec[key], colours) for key in spec}
    if isinstance(spec, list):
        return [coloured(part, colours) for part in spec]
    if isinstance(spec, str) and spec[:1] == "@":
        return colours.get(spec[1:], spec)
    return spec


def config(colours: Mapping[str, str], font: str) -> dict[str, Any]:
    """Returns the Vega-Lite configuration of all charts."""
    ops = [colours[name] for name in ("read", "write", "discard", "flush")]
    axis = {
        "labelColor": colours["soft"],
        "titleColor": colours["soft"],
        "gridColor": colours["line"],
        "domainColor": colours["line"],
        "tickColor": colours["line"],
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 150,
    }
    return {
        "background": "transparent",
        "font": font,
        "padding": 4,
        "view": {"stroke": None, "continuousHeight": 210},
        "axis": axis,
        "axisX": {"grid": False, "labelFlush": True, "labelOverlap": "greedy", "labelSeparation": 6},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5},
        "legend": {
            "orient": "top",
            "labelColor": colours["ink"],
            "titleColor": colours["soft"],
            "labelFontSize": 12,
            "symbolSize": 90,
            "offset": 6,
        },
        "title": {"color": colours["ink"], "fontSize": 13, "anchor": "start"},
        "text": {"color": colours["ink"], "fill": colours["ink"]},
        "rule": {"color": colours["soft"], "stroke": colours["soft"]},
        "area": {"line": False, "fillOpacity": 0.75},
        "bar": {"cornerRadiusEnd": 1.5},
        "line": {"strokeWidth": 1.8},
        "range": {"category": ops, "series": [colours[name[1:]] for name in SERIES]},
        "mark": {"color": colours["read"]},
    }
