"""The README's examples are run, and print what the README says they print."""

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import Run

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
EXAMPLES = [re.findall(r"^\$ blklab (.*)\n((?:(?!\$ ).*\n)*)", block, re.M) for block in BLOCKS]
"""Each block's commands, and what each prints: a later one of a block needs the earlier ones."""

FIGURES_MOVE = ("run ", "compare ")
"""Commands whose figures a better model changes."""

FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")


def loose(text: str) -> str:
    """Returns a pattern of the same words, with any figures and any spaces between them."""
    words = [re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(piece)) for piece in FIGURE.split(text)]
    return f"({FIGURE.pattern})".join(words)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("block", EXAMPLES, ids=[block[-1][0] for block in EXAMPLES])
def test_an_example_prints_what_is_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: list[tuple[str, str]]
) -> None:
    for folder in ("tests", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    for command, shown in block:
        result = run(*shlex.split(command))
        assert result.status == 0, result.err
        check(command, shown, "\n".join(line.rstrip() for line in result.out.splitlines()) + "\n")


def check(command: str, shown: str, printed: str) -> None:
    # A line of … stands for any lines.
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
