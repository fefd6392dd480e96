"""The rows of docs/explanation/articles.md are typed, and show what the page says."""

import re
import shlex
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Run
from tests.test_readme import FIGURE, loose, number

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/explanation/articles.md"
VERDICTS = ("works", "in part", "missing", "does not apply")


class Row(NamedTuple):
    """A row of a table of the page."""

    number: int
    asked: str
    verdict: str
    where: str
    shows: str


@cache
def rows() -> list[Row]:
    """Returns the rows of all tables, in the order of the page."""
    found = []
    for line in PAGE.read_text().splitlines():
        if re.match(r"\| \d+ \|", line):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            first, asked, verdict, where, shows = (cell.replace("\\|", "|") for cell in cells)
            found.append(Row(int(first), asked, verdict, where, shows))
    return found


def quoted(text: str) -> list[str]:
    """Returns what a cell has in backticks."""
    return re.findall(r"`([^`]+)`", text)


def test_the_rows_are_numbered_and_counted() -> None:
    assert [row.number for row in rows()] == list(range(1, 99))
    counts = Counter(row.verdict for row in rows())
    told = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|$", PAGE.read_text(), re.M))
    assert {verdict: str(counts[verdict]) for verdict in VERDICTS} == told


@pytest.mark.parametrize(
    "row", [row for row in rows() if not row.where.startswith("`blklab")], ids=lambda row: row.number
)
def test_a_page_or_a_test_has_what_a_row_says(row: Row) -> None:
    if row.where.startswith("`"):
        assert (ROOT / quoted(row.where)[0]).is_file()
        return
    link = re.fullmatch(r"\[[a-z]+\]\(([^)]+)\)", row.where)
    assert link
    text = (PAGE.parent / link[1]).read_text()
    for fragment in quoted(row.shows):
        if not fragment.startswith(("blklab", "tests/")):
            assert fragment in text, fragment


COMMANDS = list(dict.fromkeys(row.where.strip("`") for row in rows() if row.where.startswith("`blklab")))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_what_its_rows_say(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for directory in ("tests", "examples", "reference"):
        (tmp_path / directory).symlink_to(ROOT / directory)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    printed = ""
    for part in command.split(" && "):
        words = shlex.split(part)[1:]
        outcome = run(*words)
        assert outcome.status == (1 if words[:2] == ["md", "audit"] else 0), outcome.err
        printed += outcome.out + outcome.err
    for row in rows():
        if row.where.strip("`") == command:
            for fragment in quoted(row.shows):
                check(fragment, printed)


def check(fragment: str, printed: str) -> None:
    """Looks for the words of a fragment; its figures may be 10 % larger or smaller."""
    wanted = [number(text) for text in FIGURE.findall(fragment)]
    for match in re.finditer(loose(fragment), printed):
        found = [number(text) for text in match.groups()]
        if all(0.9 * one <= other <= 1.1 * one for one, other in zip(wanted, found, strict=True)):
            return
    pytest.fail(f"{fragment!r} is not in\n{printed}")
