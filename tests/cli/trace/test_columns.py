"""`--columns`: any text table as a trace."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run

TABLE = "when_us,kind,lba,len,who\n10,R,100,8,a\n300,W,200,16,b\n900,R,108,8,a\n"
COLUMNS = "time=when_us,op=kind,sector=lba,sectors=len,process=who"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def test_columns_are_found_by_their_names(run: Run, table: Path) -> None:
    document = json.loads(run("trace", "stat", table, "--columns", COLUMNS, "--json").out)
    (device,) = document["devices"]
    load = device["load"]
    assert (load["ops"]["read"]["ios"], load["ops"]["write"]["bytes"]) == (2, 8192)
    assert {group["name"]: group["ios"]["read"] for group in load["processes"]} == {"a": 2, "b": 0}
    assert (document["trace"]["device_names"][0][1], document["trace"]["format"]) == ("t", "table")
    assert document["last_ns"] == 890_000


def test_a_report_repeats_the_columns_in_its_command(run: Run, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "t.html"
    assert run("trace", "report", table, "--columns", COLUMNS, "-o", page).status == 0
    assert f"blklab trace report {table} --columns {COLUMNS}</code>" in page.read_text()


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("--columns", "time=when_us"), 2, "expected either sector= or offset="),
        (("--columns", COLUMNS.replace("lba", "block")), 1, "no line has the columns when_us, kind, block, len, who;"),
        (("--columns", COLUMNS, "--format", "msr"), 2, "--format and --columns exclude each other"),
        ((), 1, "name the columns of a table with --columns"),
    ],
)
def test_columns_that_do_not_fit_are_one_line(
    run: Run, table: Path, options: tuple[str, ...], status: int, message: str
) -> None:
    outcome = run("trace", "stat", table, *options)
    assert (outcome.status, outcome.out) == (status, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
