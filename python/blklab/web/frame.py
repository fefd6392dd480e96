"""The frame of every page: navigation, facts, forms, and links to the parts of a long list."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from blklab.campaigns.setup import printable_lines
from blklab.render import shell
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection, PlainText
from blklab.render.table import LinkedCell, TextTable

SITE = (
    LinkedCell("Campaigns", "/"),
    LinkedCell("Runs", "/runs"),
    LinkedCell("Trends", "/trends"),
    LinkedCell("Traces", "/traces"),
    LinkedCell("Hosts", "/hosts"),
)
ROWS = 100  # Rows of a list on one page


@dataclass(frozen=True)
class FormField:
    name: str
    label: str
    value: str


@dataclass(frozen=True)
class Form:
    """A form that asks for another page."""

    action: str
    button: str
    fields: Sequence[FormField] = ()


@dataclass(frozen=True)
class ChoiceForm:
    """A button for the rows whose checkboxes are chosen: it needs two or more of them, and takes at most `most`."""

    action: str
    button: str
    most: int


@dataclass(frozen=True)
class SitePage:
    """A page before it is drawn."""

    title: str
    sections: Sequence[PageSection] = ()
    kicker: str = "blklab"
    here: str = ""  # The entry of the navigation that it belongs to
    facts: Sequence[str] = ()
    sentences: Sequence[Sentence] = ()
    doubts: Sequence[Sentence] = ()
    links: Sequence[LinkedCell] = ()
    pages: Sequence[LinkedCell] = ()  # Links to the other parts of a long list
    form: Form | None = None
    search: Form | None = None
    choice: ChoiceForm | None = None
    live: bool = False  # Whether it is read again while it is shown

    def html(self) -> str:
        context = {name: value for name, value in vars(self).items() if name != "sections"}
        scripts = ["assets/live.js"] if self.live else []
        if self.choice:
            scripts.append("assets/choice.js")
        sections = [section for section in self.sections if section]
        return shell.render("site.html.j2", sections, more_scripts=scripts, forms=True, site=SITE, **context)


def list_page(title: str, table: TextTable, **parts: Any) -> SitePage:
    """Returns a page of the navigation with one table, whose title becomes the heading above it."""
    items = [replace(table, title="")] if table else []
    section = PageSection(title.lower(), title, table.title, items)
    return SitePage(title, [section], here=f"/{title.lower()}", **parts)


def list_parts(path: str, page: int, total: int, rows: int = ROWS) -> list[LinkedCell]:
    """Returns the links to the first, previous, next and last part of a list of `total` rows."""
    last = max(1, -(-total // rows))
    near = [("First", 1), ("Previous", page - 1), ("Next", page + 1), ("Last", last)]
    joint = "&" if "?" in path else "?"
    return [
        LinkedCell(name, f"{path}{joint}page={number}")
        for name, number in near
        if 1 <= number <= last and number != page
    ]


def folded_document(title: str, document: object) -> PlainText:
    content = json.dumps(document, indent=2, ensure_ascii=False)
    return PlainText(title, printable_lines(content.split("\n")), folded=True)
