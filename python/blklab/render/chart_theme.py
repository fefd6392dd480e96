"""Colours and fonts of the charts: one configuration, with colours or CSS variables."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_ASSETS = Path(__file__).parent / "assets"
_CONFIG = json.loads((_ASSETS / "charts.json").read_text(encoding="utf-8"))
_COLOURS = tomllib.loads((_ASSETS / "colours.toml").read_text(encoding="utf-8"))
LIGHT: dict[str, str] = _COLOURS["light"]
DARK: dict[str, str] = _COLOURS["dark"]  # Colours for dark mode


SERIES = tuple(f"@s{number}" for number in range(1, 9))  # Colours for items without a colour, in order of use
PROCESSES = ("@s3", "@s4", "@s8", "@s6", "@s7")  # Colours of the largest processes in a report on a trace
MEMBERS = tuple(f"@m{number}" for number in range(1, 7))
"""Colours of devices in a report on a trace, with the hues of Tol's muted scheme (https://personal.sron.nl/~pault/)."""

REST = "@soft"  # The colour of all others together


def colours_of(names: Iterable[str], colours: Sequence[str]) -> dict[str, str]:
    """Returns the colours of the first devices or processes."""
    return dict(zip(dict.fromkeys(names), colours, strict=False))


NAMES = frozenset({"data", "domain", "sort", "values"})
"""Keys of a specification whose values contain names of the data."""


def variables() -> dict[str, str]:
    """Returns each colour as a CSS variable: the page changes its scheme without redrawing."""
    return {name: f"var(--{name})" for name in LIGHT}


def replace_colours(spec: Any, colours: Mapping[str, str]) -> Any:
    """Returns a specification with each string `@name` replaced by its colour.

    Only text of blklab is replaced: rows of data and names are left unchanged.
    """
    if isinstance(spec, dict):
        return {key: spec[key] if key in NAMES else replace_colours(spec[key], colours) for key in spec}
    if isinstance(spec, list):
        return [replace_colours(part, colours) for part in spec]
    return colours.get(spec[1:], spec) if isinstance(spec, str) and spec[:1] == "@" else spec


def config(colours: Mapping[str, str], font: str) -> dict[str, Any]:
    """Returns the Vega-Lite configuration of all charts."""
    return {**replace_colours(_CONFIG, colours), "font": font}
