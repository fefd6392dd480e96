"""Words that docs/reference/glossary.md refuses in documents and messages, and where they are."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The glossary lists the words. The changelog names what was renamed. The rest is not ours.
EXEMPT = (
    "docs/reference/glossary.md",
    "STYLE.md",
    "tests/test_style.py",
    "CHANGELOG.md",
    "LICENSE",
    "tests/data/",
    "reference/",
)
SUFFIXES = (".md", ".html", ".j2", ".yml", ".service", ".jinja")  # Files that are text for users as a whole


@cache
def _refused() -> re.Pattern[str]:
    """Give the refused words as a pattern."""
    words = []
    for line in (ROOT / "docs/reference/glossary.md").read_text().splitlines():
        cells = line.strip("|").split("|")
        if len(cells) != 3 or cells[2].strip() in ("", "---", "Do not use"):
            continue
        for word in cells[2].split(","):
            words.append(re.escape(word.strip()).replace(r"\*", "[a-z]*").replace(r"\ ", r"\s+"))
    # "nobody" in quotes is the user of that name.
    pattern = rf"(?<![a-z])(?<!\"(?=nobody))(?:{'|'.join(words)})(?![a-z])(?<!nobody(?=\"))"
    return re.compile(pattern, re.I)


def _files() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    for name in listed.splitlines():
        if not name.startswith(EXEMPT) and name.endswith(SUFFIXES) and (ROOT / name).exists():
            yield ROOT / name


def _python_texts() -> Iterator[tuple[str, str]]:
    """Give the texts in the code of the product, as (`file:line`, text): a message names one thing in one way.

    Names, comments and docstrings are free: one that needs another word for its subject must not become a worse one.
    Docstrings of commands are their help.
    """
    for path in sorted((ROOT / "python/blklab").rglob("*.py")):
        is_command = "cli" in path.parts
        tree = ast.parse(path.read_text())
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if node.body and isinstance(node.body[0], ast.Expr) and not is_command
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def hits() -> Iterator[str]:
    """Give every refused word as `file:line: word`."""
    pattern = _refused()
    for path in _files():
        text = path.read_text(errors="replace")
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: {' '.join(match[0].split())}"
    for where, text in _python_texts():
        for match in pattern.finditer(text):
            yield f"{where}: {' '.join(match[0].split())}"


def test_words_of_the_glossary_are_used_in_documents_and_messages() -> None:
    """Two words for one thing ("failed" and "dead" disks) made users search for the difference."""
    found_hits = list(hits())
    assert not found_hits, "words that the glossary refuses:\n" + "\n".join(found_hits[:40])


def test_class_names_are_unique() -> None:
    """Three classes were called `Plan`: a search for its users found those of the others."""
    classes: dict[str, list[str]] = {}
    for path in (ROOT / "python/blklab").rglob("*.py"):
        if path.parent.name == "documents":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in classes.items() if len(files) > 1}


def test_percent_has_one_form() -> None:
    """`34 %`: the format `%` of Python writes it without the space."""
    written = [path for top in ("python", "accuracy", "scripts") for path in (ROOT / top).rglob("*.py")]
    assert not [path for path in written if re.search(r":[+,]*\.\d%\}", path.read_text())]


PUZZLES_SHARED = {"times", "two-assignments", "nested-loops"}
"""Classes that also have plain members: a list times a number, `begin, end`, a flattened list."""


def test_the_code_has_no_puzzles() -> None:
    """STYLE.md, "Statements": three lines with an `if` are better than one clever line."""
    printed = subprocess.run(
        [sys.executable, str(ROOT / "scripts/puzzles.py"), str(ROOT / "python/blklab")],
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    puzzles = [line for line in printed.splitlines() if line.split(": ")[1] not in PUZZLES_SHARED]
    assert not puzzles, "write plain statements:\n" + "\n".join(puzzles[:20])
    assert printed.count(": nested-loops: ") > 100  # The script found something
