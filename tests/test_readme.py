"""The examples of README.md and docs/ are run, and print what the documents show.

`BLKLAB_UPDATE=1 pytest tests/test_readme.py` writes what they print into the documents instead.
"""

import difflib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FIGURES_MOVE = ("run ", "compare ")
"""Commands whose figures a better model changes."""

FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Example(NamedTuple):
    """A block of commands and their output: a later command of a block needs the earlier ones."""

    page: Path
    commands: list[tuple[str, str]]


def examples(prompt: str) -> list[Example]:
    """Find the console blocks whose first command has this prompt."""
    pattern = rf"^{prompt} blklab (.*)\n((?:(?!{prompt} ).*\n)*)"
    return [
        Example(page, re.findall(pattern, block, re.M))
        for page in PAGES
        for block in re.findall(r"^```console\n(.*?)```", page.read_text(), re.DOTALL | re.M)
        if re.match(f"{prompt} ", block)
    ]


def name(example: Example) -> str:
    return f"{example.page.stem}: {example.commands[-1][0]}"


def loose(text: str) -> str:
    """Return a pattern of the same words, with any figures and any spaces between them."""
    words = [re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(piece)) for piece in FIGURE.split(text)]
    return f"({FIGURE.pattern})".join(words)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_there_are_examples() -> None:
    pages = [example.page.name for example in examples(r"\$")]
    assert pages.count("README.md") >= 1
    assert pages.count("which-array.md") >= 5


def test_outputs_in_the_readme_are_complete() -> None:
    assert "…\n" not in (ROOT / "README.md").read_text()
    shown = [
        output for example in examples(r"\$") for _, output in example.commands if example.page.name == "README.md"
    ]
    assert all(output.count("\n") <= 8 for output in shown)


def test_errors_of_predictions_are_those_of_the_pages() -> None:
    readme, accuracy, disks = (
        (ROOT / name).read_text() for name in ("README.md", "docs/explanation/accuracy.md", "docs/explanation/disks.md")
    )
    readme = " ".join(readme.split())
    told = re.search(
        r"(\d+) of (\d+) are inside.*?([\d.]+) % for.*?([\d.]+) % for.*?([\d.]+) % for.*?([\d.]+) %", readme, re.S
    )
    assert told
    assert re.search(rf"inside in {told[1]} of {told[2]}\s", accuracy)
    median = r"\| {} \| \d+ \| \d+ \| \d+ \| [^|]* \| ([\d.]+) %"
    kinds = ("arrays of flash", "ten spindles", "arrays of two HDDs")
    found = [re.search(median.format(kind), accuracy) for kind in kinds]
    assert [match and match[1] for match in found] == [told[3], told[4], told[5]]
    assert f"+{told[6]} %" in accuracy
    caches = re.search(r"Of caches, (\d+ of \d+) are inside", readme)
    assert caches and f"IOPS: {caches[1]} are inside" in accuracy
    named, others = re.findall(
        r"(\d+) of (\d+) are\s+inside(?:.|\n)*?factor\s+of ([\d.]+)", readme.split("any row")[1]
    )[:2]
    for group, (inside, rows, ratio) in (("the library has the disk", named), ("only its class", others)):
        assert re.search(rf"\| {group}[^|]*\| all \| all \| {rows} \| {inside} \|.*\| {ratio} \| [\d.]+ \|", disks), (
            group
        )


@pytest.mark.parametrize("page", sorted((ROOT / "docs/howto").glob("*.md")), ids=lambda page: page.stem)
def test_a_guide_begins_with_its_command(page: Path) -> None:
    block = page.read_text().split("\n\n")[1]
    assert re.match(r"(    |```console\n)(sudo )?([$#] )?(blklab|apt) ", block), block


def test_pictures_of_terminals_show_what_is_printed() -> None:
    subprocess.run([sys.executable, "scripts/pictures.py", "--check"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("example", examples(r"\$"), ids=name)
def test_an_example_prints_what_is_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Example
) -> None:
    for directory in ("tests", "examples", "reference"):
        (tmp_path / directory).symlink_to(ROOT / directory)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # The width of a page
    for command, shown in example.commands:
        result = run(*shlex.split(command, comments=True))
        has_answer_no = command.startswith("md plan") and result.out.startswith("No:")
        fails = has_answer_no or command.startswith(("md audit", "md rescue"))
        assert result.status == (1 if fails else 0), result.err
        printed = "\n".join(line.rstrip() for line in result.out.splitlines()) + "\n"
        if os.environ.get("BLKLAB_UPDATE"):
            update(example.page, command, shown, printed)
        else:
            check(command, shown, printed)


def check(command: str, shown: str, printed: str) -> None:
    """Compare; a line of … stands for any lines."""
    pieces = re.split(r"^…\n", shown, flags=re.MULTILINE)
    if not command.startswith(FIGURES_MOVE):
        assert re.fullmatch("(?:.*\n)*?".join(map(re.escape, pieces)), printed), printed
        return
    # A better model moves the figures a little; the words must stay true.
    match = re.fullmatch("(?:.*\n)*?".join(map(loose, pieces)), printed)
    assert match, printed
    figures = FIGURE.findall("".join(pieces))
    assert [number(text) for text in match.groups()] == [
        pytest.approx(number(text), rel=0.2, abs=0.5) for text in figures
    ]


def update(page: Path, command: str, shown: str, printed: str) -> None:
    """Write the output into the page: for each piece between two …, the most similar lines."""
    lines, at = printed.splitlines(keepends=True), 0
    pieces: list[str] = []
    for piece in re.split(r"^…\n", shown, flags=re.MULTILINE):
        size = piece.count("\n")
        starts = range(at, max(at, len(lines) - size) + 1) if pieces else [at]
        matcher = difflib.SequenceMatcher(None, "", piece, autojunk=False)

        def likeness(start: int) -> float:
            matcher.set_seq1("".join(lines[start : start + size]))  # noqa: B023
            return matcher.ratio()  # noqa: B023

        at = max(starts, key=likeness)
        pieces.append("".join(lines[at : at + size]))
        at += size
    if "…\n" not in shown:
        pieces = [printed]
    text = page.read_text()
    shown_at = text.index(f"$ blklab {command}\n") + len(f"$ blklab {command}\n")
    page.write_text(text[:shown_at] + "…\n".join(pieces) + text[shown_at + len(shown) :])


def test_the_tutorial_shows_the_example_file() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/tutorial/which-array.md").read_text(), re.DOTALL)
    assert blocks
    assert all(block in (ROOT / "examples/server.toml").read_text() for block in blocks)
