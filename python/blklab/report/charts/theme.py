"""Colours and fonts of the charts: one configuration, with colours or CSS variables."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from blklab.report.view import DeviceView

LIGHT: Final = {
    "ink": "#1c2430",
    "soft": "#5a6675",
    "line": "#dde2e8",
    "paper": "#ffffff",
    "panel": "#ffffff",
    "page": "#f5f6f8",
    "accent": "#0b66c3",
    "read": "#1f6fc4",
    "write": "#e07b16",
    "discard": "#8a5fc0",
    "flush": "#2f9466",
    "error": "#c4302b",
    "doubt": "#fff6dd",
    "s1": "#0072b2",
    "s2": "#e69f00",
    "s3": "#009e73",
    "s4": "#cc79a7",
    "s5": "#d55e00",
    "s6": "#56b4e9",
    "s7": "#1c2430",
    "s8": "#8a7f00",
    "m1": "#882255",
    "m2": "#117733",
    "m3": "#999933",
    "m4": "#aa4499",
    "m5": "#332288",
    "m6": "#44aa99",
}
DARK: Final = {
    "ink": "#e6eaf0",
    "soft": "#9aa7b6",
    "line": "#2c3643",
    "paper": "#161c24",
    "panel": "#161c24",
    "page": "#0e1319",
    "accent": "#6db1ff",
    "read": "#5aa9f7",
    "write": "#f39a45",
    "discard": "#b796e8",
    "flush": "#5cc795",
    "error": "#ff7a70",
    "doubt": "#2e2812",
    "s1": "#3d9bd8",
    "s2": "#e69f00",
    "s3": "#1fc49a",
    "s4": "#e29cc6",
    "s5": "#f0773a",
    "s6": "#8ccbf2",
    "s7": "#e6eaf0",
    "s8": "#f0e442",
    "m1": "#d4769f",
    "m2": "#5dbb76",
    "m3": "#cfcf5a",
    "m4": "#d98bd0",
    "m5": "#9a92ee",
    "m6": "#7fd6c8",
}
"""Colours for dark mode. `s1` to `s8` follow Okabe and Ito's palette, which is distinct for the
colour-blind (https://jfly.uni-koeln.de/color/); yellow is darker on white, and lighter on black.
"""


SERIES: Final = tuple(f"@s{number}" for number in range(1, 9))  # Colours for items without a colour, in order of use
PROCESSES: Final = ("@s3", "@s4", "@s8", "@s6", "@s7")  # Colours of the largest processes in a report on a trace
MEMBERS: Final = tuple(f"@m{number}" for number in range(1, 7))
"""Colours of devices in a report on a trace, after Tol's muted scheme (https://personal.sron.nl/~pault/)."""

REST: Final = "@soft"  # The colour of all others together


def process_colours(device: DeviceView) -> dict[str, str]:
    return dict(zip(dict.fromkeys(group.label for group in device.groups("processes")), PROCESSES, strict=False))


def member_colours(names: Iterable[str]) -> dict[str, str]:
    """Returns the colours of the first devices."""
    return dict(zip(dict.fromkeys(names), MEMBERS, strict=False))


NAMES: Final = frozenset({"data", "domain", "sort", "values"})
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
