import json
import threading

import click
import pytest
from rich.table import Table
from rich.text import Text

from blklab.cli import common
from blklab.diagnostic import Diagnostic
from blklab.render.diagnostics import print_diagnostics
from blklab.render.table import TextTable, text_column
from blklab.render.terminal import draw_table
from tests.conftest import Run


def test_results_are_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    result = {"process": "\x1b\u202e", "bytes": 2**60}
    common.emit(result, True, lambda _console: pytest.fail("drawn as well"))
    text = capsys.readouterr().out
    assert json.loads(text) == result
    assert text.isascii()


def test_not_a_number_is_not_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        common.emit(float("nan"), True, lambda _console: None)


def test_piped_tables_are_wide_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(expand=True)
    table.add_column("name", style="red")
    table.add_row("[bold]:smile:")
    common.emit(None, False, lambda console: console.print(table))
    text = capsys.readouterr().out
    assert {len(line) for line in text.splitlines()} == {common.PIPED_WIDTH}
    assert "[bold]:smile:" in text
    assert "\x1b" not in text


def test_columns_decides_the_width(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    common.emit(None, False, lambda console: console.rule())
    assert len(capsys.readouterr().out.rstrip("\n")) == 60


@pytest.mark.parametrize("force_terminal", ["", "1"])
def test_commands_and_paths_are_never_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, force_terminal: str
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", force_terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    path = "/a-directory/with a name/that is longer than forty characters/trace"
    common.tell(f"next: blklab trace report {path}")
    common.results().print(Text(f"next: blklab trace report {path}", "bold"))
    findings = [
        Diagnostic("some-code", "note", "md0", f"is slow and degraded: see {path.replace(' ', '-')}"),
        Diagnostic("other-code", "note", "", f"run blklab md fix bbl --plan {path}"),
    ]
    print_diagnostics(common.results(), findings, "Findings")
    draw_table(
        common.results(),
        TextTable("Files", [text_column("file"), text_column("what")], [[path, "some words about it"]]),
    )
    printed = capsys.readouterr()
    assert printed.err == f"next: blklab trace report {path}\n"
    for whole in (f"next: blklab trace report {path}", f"{path} ", f"run blklab md fix bbl --plan {path}"):
        assert whole in printed.out
    assert path.replace(" ", "-") in printed.out
    assert ("degraded: see\n" in printed.out) is bool(force_terminal)


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with common.progress("reading", total=10) as advance:
        advance(5)
    assert capsys.readouterr() == ("", "")


def test_warnings_are_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    common.warn("odd \x1b[2J name")
    assert capsys.readouterr().err == "blklab: warning: odd \\x1b[2J name\n"


def test_options_take_sizes_and_durations() -> None:
    assert common.SIZE.convert("4k", None, None) == 4096
    assert common.DURATION.convert("200ms", None, None) == 200_000_000
    assert common.SIZE.convert(7, None, None) == 7
    with pytest.raises(click.BadParameter, match="not a size"):
        common.SIZE.convert("four", None, None)


def test_log_file_gets_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "LOG_INTERVAL", 0.001)
    printed = threading.Event()

    def describe() -> str:
        printed.set()
        return "3 of 12 cells; cell 4 stack=near: measure 0:12"

    with common.at_intervals(describe):
        assert printed.wait(60)
        printed.clear()
        assert printed.wait(60)
    assert "blklab: 3 of 12 cells; cell 4 stack=near: measure 0:12\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("advise", "--load", "backup", "--p99-below", "5"), ("trace", "stat", "x", "--since", "2.5")]
)
def test_a_duration_needs_a_unit(words: tuple[str, ...], run: Run) -> None:
    outcome = run(*words)
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert f"'{words[-1]}' has no unit: write {words[-1]}s, {words[-1]}ms or {words[-1]}us" in outcome.err
