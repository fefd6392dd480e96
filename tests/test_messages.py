"""Renders every message of the product once, with sample values for the names in it.

A message is an f-string with words in it. mypy checks the names and what is computed of them. This checks what only
rendering shows: a piece without its `f`, a format that Python does not know, a line break in an error.
"""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import blklab

PACKAGE = Path(blklab.__file__).parent
PLACEHOLDER = re.compile(r"\{[a-z_][\w.]*(?:![rs]|:[^{}]*)?\}")
WORDS = {"{source}", "{repeat}", "{labels}"}  # Words in braces that users type, in --pattern
ONE_LINE = {"BlklabError", "UsageError", "EnvironmentLacks", "StoreError", "Diagnostic", "ProgramFailed"}


SAMPLES: tuple[object, ...] = ("SAMPLE", 3, 3.5)
"""The first that has the format of a placeholder stands for its value."""

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)  # For formats such as %Y


def messages() -> Iterator[tuple[str, str, ast.JoinedStr]]:
    """Yields every f-string with two words or more: where it is, what it is given to, and the f-string."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and not isinstance(parents[node], ast.FormattedValue):
                text = " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
                if len(re.findall(r"[a-z]{2,}", text)) >= 2:
                    parent = parents[node]
                    user = ast.unparse(parent.func) if isinstance(parent, ast.Call) else ""
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", user, node


def render(message: ast.JoinedStr) -> str:
    """Returns a message with a sample value for each name. Raises ValueError for a format that no value has."""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else render_value(part)
        for part in message.values
        if isinstance(part, ast.Constant | ast.FormattedValue)
    )


def render_value(value: ast.FormattedValue) -> str:
    form = render(value.format_spec) if isinstance(value.format_spec, ast.JoinedStr) else ""
    for sample in (MOMENT,) if "%" in form else SAMPLES:
        try:
            return format(sample, form)
        except ValueError:
            continue
    raise ValueError(f"no value has the format {form!r}")


ALL = list(messages())


def test_there_are_messages() -> None:
    """Without this, a wrong path would make the tests below pass on nothing."""
    assert len(ALL) > 1000
    assert {user for _, user, _ in ALL} > {"BlklabError", "UsageError", "EnvironmentLacks", "StoreError"}


def test_every_message_can_be_rendered_and_has_no_placeholder_left() -> None:
    left = []
    for where, _, node in ALL:
        text = render(node)
        found = set(PLACEHOLDER.findall(text)) - WORDS
        if found:
            left.append(f"{where}: {found}: a piece without its f?")
    assert not left


def test_an_error_is_one_line() -> None:
    """A second line of an error lost its `blklab: error:`, and programs that read stderr saw half of it."""
    several = [where for where, user, node in ALL if user in ONE_LINE and "\n" in render(node)]
    assert not several


@pytest.mark.parametrize("source", ['f"a word {x}" "and {y}"', 'f"word word {x:.2 f}"'])
def test_a_mistake_in_a_message_is_found(source: str) -> None:
    expression = ast.parse(source, mode="eval").body
    assert isinstance(expression, ast.JoinedStr)
    try:
        text = render(expression)
    except ValueError:
        return
    assert PLACEHOLDER.search(text)
