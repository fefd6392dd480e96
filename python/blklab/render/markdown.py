"""Format sentences and tables as GitHub Flavored Markdown."""

import re
from collections.abc import Iterator, Sequence

from blklab.render.chart import Chart
from blklab.render.formatting import Sentence
from blklab.render.shell import Item, PageSection, PlainText, SentenceList
from blklab.render.table import TextTable

SPECIAL = re.compile(r"([\\`*\[\]|~#])")


def escape_text(text: str) -> str:
    plain = " ".join(text.split())
    plain = SPECIAL.sub(r"\\\1", plain)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore within a word is not markup, as in p99_9.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", plain)


def markdown_table(shown: TextTable) -> Iterator[str]:
    """Returns the lines of a table and a blank line; columns of bars are left out."""
    indices = [index for index, column in enumerate(shown.columns) if not column.bar]
    columns = [shown.columns[index] for index in indices]
    yield "| " + " | ".join(escape_text(column.heading) for column in columns) + " |"
    yield "|" + "|".join(" ---: " if column.numeric else " --- " for column in columns) + "|"
    for row in shown.rows:
        yield "| " + " | ".join(_cell(row[index]) for index in indices) + " |"
    yield ""


def _cell(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return "&nbsp;" * indent + escape_text(text)


def sentences(given_sentences: Sequence[Sentence]) -> Iterator[str]:
    """Returns a list of sentences and a blank line."""
    for topic, text in given_sentences:
        yield f"- **{escape_text(topic)}:** {escape_text(text)}" if topic else f"- {escape_text(text)}"
    yield ""


def markdown_section(shown: PageSection) -> Iterator[str]:
    """Returns a section; charts are replaced by their tables."""
    yield from (f"## {escape_text(shown.title)}", "")
    for item in shown.items:
        yield from _item(item)
    for fold in shown.folds:
        yield from ("<details>", f"<summary>{escape_text(fold.title)}</summary>", "")
        for item in fold.items:
            yield from _item(item)
        yield from ("</details>", "")


def _item(item: Item) -> Iterator[str]:
    match item:
        case SentenceList():
            if item.title:
                yield from (f"### {escape_text(item.title)}", "")
            yield from sentences(item.sentences)
        case PlainText():
            yield from (f"### {escape_text(item.title)}", "")
            if item.note:
                yield from (escape_text(item.note), "")
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", item.text)), default=0))
            yield from (fence, item.text, fence, "")
        case Chart() | TextTable():
            shown = item.table if isinstance(item, Chart) else item
            yield from (f"### {escape_text(item.title)}", "")
            yield from markdown_table(shown)
            if shown.note:
                yield from (escape_text(shown.note), "")
