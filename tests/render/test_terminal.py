"""Tables in narrow terminals and in pipes: no word is cut, and in a pipe nothing is hidden."""

import io

import pytest
from rich.console import Console

from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table
from tests.conftest import Run

WORDS = ("consumer-drive-990pro/oltp", "workload-of-a-database", "cannot tell: 2 more repeats")


def drawn(table: TextTable, width: int, *, soft_wrap: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)
    draw_table(console, table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def comparison() -> TextTable:
    columns = [text_column("disk/load"), text_column("workload"), *number_columns("before", "±", "after", "change")]
    columns.append(text_column(""))
    row = [WORDS[0], WORDS[1], "123,456", "1.2 %", "123,456", "+12.5 %", WORDS[2]]
    return TextTable("I/Os a second", columns, [row], "±: distance.", spare=("p", "±", "change"))


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100])
def test_no_word_is_cut(width: int) -> None:
    text = drawn(comparison(), width)
    for word in [*WORDS[0].split(), *WORDS[1].split(), *WORDS[2].split(), "disk/load", "workload", "before"]:
        assert word in text


def test_the_spread_is_hidden_before_a_word_is_cut() -> None:
    text = drawn(comparison(), 92)
    assert "Columns hidden (terminal too narrow): ±" in text
    assert "change" in text


def test_a_table_becomes_lines_where_its_words_do_not_fit() -> None:
    text = drawn(comparison(), 40)
    assert f"disk/load: {WORDS[0]}" in text
    assert "before: 123,456" in text
    assert "after: 123,456" in text


def test_nothing_is_hidden_in_a_pipe() -> None:
    table = TextTable(
        "t", number_columns(*(f"heading-{number}" for number in range(30))), [["1"] * 30], spare=("heading-3",)
    )
    text = drawn(table, 100, soft_wrap=True)
    assert "hidden" not in text
    assert "heading-3 " in text
    assert len(text.splitlines()) == 4


def test_a_command_in_a_pipe_hides_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("trace", "stat", "tests/data/traces/pgbench-raid1")
    assert "hidden" not in run(*arguments).out
    monkeypatch.setenv("COLUMNS", "60")
    narrow = run(*arguments).out
    assert "hidden" in narrow
