"""`blklab report` from the command line: HTML, Markdown, CSV, pictures."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.campaigns.view import ExperimentView
from blklab.render import markdown
from blklab.store import query
from blklab.store.campaigns import Store
from tests.campaigns.conftest import Reported
from tests.conftest import Run


@pytest.mark.usefixtures("both")
def test_a_page(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("report", "1", "2", "--title", "Both")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("unbalanced.html  ")
    html = Path("unbalanced.html").read_text()
    assert "<title>Both</title>" in html
    assert "blklab report 1 2" in html
    again = run("report", "1", "2", "-o", "-", "--title", "Both").out
    assert again == html


@pytest.mark.usefixtures("both")
def test_json_tells_what_was_written(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    facts = json.loads(run("report", "1", "-o", path, "--json").out)
    assert facts == {"written": [str(path)], "bytes": path.stat().st_size}


@pytest.mark.usefixtures("both")
def test_csv(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("report", "1:stack=far", "--as", "csv", "-o-").out)))
    assert len(rows) == 9
    assert {row["stack"] for row in rows} == {"far"}


@pytest.mark.usefixtures("both")
def test_markdown(run: Run, reported: Reported) -> None:
    text = run("report", "1", "2", "--as", "markdown", "-o", "-").out
    assert text.startswith("# A database server's mirror\n\n2 campaigns · 18 cells · 54 runs")
    assert "- **randread:** host: near is fastest with 122,400 IOPS" in text
    assert "**Doubts about the figures:** Read these figures with care: measurements are" in text
    assert "| raid1 | seqread | host | 3 |" in text
    assert "Raw output" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    assert reported("1").markdown().count("<details>") == reported("1").markdown().count("</details>")


@given(st.text())
def test_text_becomes_no_markup(text: str) -> None:
    made = markdown.escape_text(text)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*\[\]|<>]", made)
    assert "\n" not in made


@pytest.mark.usefixtures("sweep")
def test_pictures(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "charts"
    page = tmp_path / "page.html"
    outcome = run("report", "1:bs=4k", "-o", page, "--charts", directory, "--x", "iodepth")
    assert outcome.status == 0, outcome.err
    names = {path.name for path in directory.iterdir()}
    assert {"fastest-random.png", "fastest-random.svg", "axis-0-0-iops.png"} <= names
    assert (directory / "fastest-random.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("both")
def test_mistakes_are_one_line(run: Run, tmp_path: Path) -> None:
    for words, output in (
        (("report", "nothing"), "no campaign 'nothing'"),
        (("report", "1", "-o", tmp_path / "no" / "page.html"), "no such directory"),
        (("report", "1", "--x", "bs", "-o", tmp_path / "p.html"), "--x: no label 'bs'"),
    ):
        outcome = run(*words)
        assert outcome.status == 2
        assert output in outcome.err
        assert outcome.err.count("\n") == 1


@pytest.mark.usefixtures("both")
def test_the_same_campaign_twice(store: Store) -> None:
    chosen = [query.select_runs(store, "1"), query.select_runs(store, "1")]
    view = ExperimentView(chosen, lambda run: query.points(store, run))
    assert [series.name for series in view.series] == ["1 (1)", "1 (2)"]


@pytest.mark.usefixtures("both")
def test_parts_of_a_campaign_are_called_by_their_labels(store: Store) -> None:
    chosen = [query.select_runs(store, f"1:stack={stack}") for stack in ("raid1", "far")]
    view = ExperimentView(chosen, lambda run: query.points(store, run))
    assert [series.name for series in view.series] == ["stack=raid1", "stack=far"]
