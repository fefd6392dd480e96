"""Format sentences and tables as GitHub Flavored Markdown."""

import re
from collections.abc import Iterator, Sequence

from blklab.report.charts.base import Chart
from blklab.report.formatting import Sentence
from blklab.report.shell import Item, PageSection, PlainText, SentenceList
from blklab.report.tables.base import TextTable

SPECIAL = re.compile(r"([\\`*\[\]|~#])")


def escaped(text: str) -> str:
    plain = " ".join(text.split())
    plain = SPECIAL.sub(r"\\\1", plain)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore within a word is not markup, as in p99_9.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", plain)


def markdown_table(shown: TextTable) -> Iterator[str]:
    """Returns the lines of a table and a blank line; columns of bars are left out."""
    kept = [at for at, column in enumerate(shown.columns) if not column.bar]
    columns = [shown.columns[at] for at in kept]
    yield "| " + " | ".join(escaped(column.heading) for column in columns) + " |"
    yield "|" + "|".join(" ---: " if column.numeric else " --- " for column in columns) + "|"
    for row in shown.rows:
        yield "| " + " | ".join(_cell(row[at]) for at in kept) + " |"
    yield ""


def _cell(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return "&nbsp;" * indent + escaped(text)


def sentences(given_sentences: Sequence[Sentence]) -> Iterator[str]:
    """Returns a list of sentences and a blank line."""
    for topic, text in given_sentences:
        yield f"- **{escaped(topic)}:** {escaped(text)}" if topic else f"- {escaped(text)}"
    yield ""


def markdown_section(shown: PageSection) -> Iterator[str]:
    """Returns a section; charts are replaced by their tables."""
    yield from (f"## {escaped(shown.title)}", "")
    for item in shown.items:
        yield from _item(item)
    for fold in shown.folds:
        yield from ("<details>", f"<summary>{escaped(fold.title)}</summary>", "")
        for item in fold.items:
            yield from _item(item)
        yield from ("</details>", "")


def _item(item: Item) -> Iterator[str]:
    match item:
        case SentenceList():
            if item.title:
                yield from (f"### {escaped(item.title)}", "")
            yield from sentences(item.sentences)
        case PlainText():
            yield from (f"### {escaped(item.title)}", "")
            if item.note:
                yield from (escaped(item.note), "")
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", item.text)), default=0))
            yield from (fence, item.text, fence, "")
        case Chart() | TextTable():
            shown = item.table if isinstance(item, Chart) else item
            yield from (f"### {escaped(item.title)}", "")
            yield from markdown_table(shown)
            if shown.note:
                yield from (escaped(shown.note), "")
