"""The parts of a self-contained HTML page: sections, styles, scripts and security policy."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from blklab import __version__
from blklab.render import chart_theme as theme
from blklab.render.chart import Chart
from blklab.render.formatting import Sentence
from blklab.render.table import TextTable

if TYPE_CHECKING:
    from jinja2 import Environment

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
SHORT = 24  # Maximum rows of a folded table that is unfolded in print


@dataclass(frozen=True)
class KeyFigureTile:
    name: str
    figure: str
    more: str = ""


@dataclass(frozen=True)
class PlainText:
    """Preformatted text, such as commands or the output of a program."""

    title: str
    text: str
    note: str = ""
    folded: bool = False
    wrapped: bool = False  # Whether long lines are broken


@dataclass(frozen=True)
class SentenceList:
    sentences: Sequence[Sentence]
    title: str = ""


@dataclass(frozen=True)
class AxisChooser:
    """A chart whose axes the reader chooses."""

    title: str
    note: str
    fields: Sequence[Mapping[str, Any]]  # `name`, `title`, `kind` (`label` or `figure`) and data for the page's script
    filters: Sequence[Mapping[str, Any]]  # Labels for filters: `name`, `title`, `values`, `chosen`
    start: Mapping[str, str]  # Fields by axis: `x`, `y`, `colour`
    rows: Sequence[Mapping[str, Any]]


Item = Chart | TextTable | PlainText | SentenceList | AxisChooser


@dataclass(frozen=True)
class Details:
    """Items behind a summary line."""

    title: str
    items: Sequence[Item]


@dataclass(frozen=True)
class PageSection:
    anchor: str
    short: str  # Its name in the navigation
    title: str
    items: Sequence[Item]  # Charts; two narrow ones are side by side
    intro: str = ""
    folds: Sequence[Details] = ()  # Folded items at the end

    def __bool__(self) -> bool:
        return bool(self.items or self.folds)

    @property
    def charts(self) -> list[Chart]:
        items = list(self.items)
        for fold in self.folds:
            items += fold.items
        return [item for item in items if isinstance(item, Chart)]


def render(
    template: str,
    sections: Sequence[PageSection],
    *,
    more_scripts: Sequence[str] = (),
    forms: bool = False,
    **context: Any,
) -> str:
    """Returns a page: a template of `assets`, filled. `forms` may be sent to the server that the page is from."""
    drawn = _chart_data(sections)
    scripts = [asset("vendor/vega.js"), asset("assets/report.js")] if drawn["specs"] else []
    scripts += [asset(name) for name in more_scripts]
    looks = {"light": theme.LIGHT, "dark": theme.DARK, "style": asset("assets/report.css"), "version": __version__}
    active = {"scripts": scripts, "policy": policy(scripts, forms=forms), "charts": inert_json(drawn)}
    return _environment().get_template(template).render(sections=sections, **looks, **active, **context)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("blklab.render", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["figures"] = emphasise_figures
    environment.filters["short"] = lambda table: len(table.rows) <= SHORT
    return environment


def _chart_data(sections: Sequence[PageSection]) -> dict[str, Any]:
    colours = theme.variables()
    size = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    charts = [chart for section in sections for chart in section.charts]
    specs = {chart.name: {**theme.replace_colours(chart.spec, colours), **size} for chart in charts}
    result: dict[str, Any] = {"config": theme.config(colours, FONT), "specs": specs}
    choosers = [item for section in sections for item in section.items if isinstance(item, AxisChooser)]
    if choosers:
        (chooser,) = choosers
        result["chooser"] = {"fields": chooser.fields, "rows": chooser.rows}
    return result


@cache
def asset(name: str) -> str:
    """Returns a file of this package as text."""
    return files("blklab.render").joinpath(name).read_text(encoding="utf-8")


def policy(scripts: list[str], *, forms: bool = False) -> str:
    """Returns a Content Security Policy: only these scripts run, and nothing is loaded."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    sources = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"
    action = "'self'" if forms else "'none'"
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:;"
        f" base-uri 'none'; form-action {action}"
    )


ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def inert_json(document: Any) -> Any:
    """Returns JSON that is safe in a script element."""
    from markupsafe import Markup

    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(ESCAPES))  # noqa: S704  # nothing that HTML looks at is left


CLOCK = r"\d+m \d\ds|\d+h \d\dm|\d+d \d\dh"
UNITS = r" (?:%|ns|µs|ms|s|B|[KMGTPE]iB(?:/s)?|IOPS)(?!\w)"
COMMAND = r"`[^`\n]+`"
FIGURE = re.compile(rf"(?<![\w/.,-])(?:{CLOCK}|[<>]?\d+(?:,\d{{3}})*(?:\.\d+)?{UNITS})(?![\w/-]|\.\d)")


def emphasise_figures(text: str, names: Sequence[str] = ()) -> Any:
    """Returns a sentence as HTML; `names` and figures with a unit are emphasised, and stay with their units.

    Counts are not emphasised: a sentence has many. What is between backticks is a command.
    """
    from markupsafe import Markup, escape

    parts = []
    end = 0  # Of the figure before
    for match in _emphasis(tuple(names)).finditer(text):
        parts.append(escape(text[end : match.start()]))
        if match[0].startswith("`"):
            parts.append(Markup("<code>{}</code>").format(match[0].strip("`")))
        else:
            parts.append(Markup("<b>{}</b>").format(match[0].replace(" ", "\u00a0")))
        end = match.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


@lru_cache(maxsize=64)
def _emphasis(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns what matches commands, these names and figures."""
    patterns = [COMMAND]
    for name in sorted(filter(None, names), key=len, reverse=True):
        patterns.append(rf"(?<![\w/.,-]){re.escape(name)}(?![\w/-])")
    return re.compile("|".join([*patterns, FIGURE.pattern]))
