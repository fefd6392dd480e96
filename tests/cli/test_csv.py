"""Tables as CSV: `--csv`."""

import csv
import io
import json
from pathlib import Path

import pytest

from blklab.render.table import TableColumn, TextTable, text_column
from blklab.render.terminal import as_csv
from tests.conftest import Run

TRACE = "tests/data/traces/pgbench-raid1"


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_table_has_headings_and_plain_numbers() -> None:
    columns = [text_column("name"), TableColumn("IOPS"), TableColumn("change"), TableColumn("p99")]
    rows = [["└ a, b", "1,234,567.5", "−3 %", "–"], ['"quoted"', "12", "+1,000", "1,23"]]
    table = TextTable("One", columns, rows)
    assert read_csv(as_csv([table])) == [
        ["name", "IOPS", "change", "p99"],
        ["a, b", "1234567.5", "-3 %", ""],
        ['"quoted"', "12", "+1000", "1,23"],
    ]
    both = as_csv([table, TextTable("Two", columns[:1], [["x"]])])
    assert both.startswith("# One\nname,IOPS,change,p99\n")
    assert both.endswith("\n\n# Two\nname\nx\n")


def test_devices_of_a_trace(run: Run) -> None:
    done = run("trace", "stat", TRACE, "--csv")
    assert (done.status, done.err) == (0, "")
    heading, *rows = read_csv(done.out)
    ios = {row[0]: int(row[heading.index("I/Os")]) for row in rows}
    assert ios == {"dm-0": 4876, "dm-1": 13561, "md127": 18476, "vdc": 11902, "vdd": 8858}


def test_histograms_are_numbers(run: Run) -> None:
    done = run("trace", "hist", TRACE, "--csv")
    tables = done.out.split("\n\n")
    assert tables[0].startswith("# md127: Sizes of reads\nbin,low,high,I/Os\n4 KiB,2048,6144,")
    (document,) = json.loads(run("trace", "hist", TRACE, "--json").out)
    for text, histogram in zip(tables, document["histograms"], strict=True):
        rows = read_csv(text)[2:]
        assert [[float(cell) for cell in row[1:]] for row in rows] == [
            [found["low"], found["high"], found["count"]] for found in histogram["bins"]
        ]


def test_a_run(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(
        '[devices]\nd = { model = "sm883", size = "1GiB" }\n[stacks.one]\ndevice = "d"\n'
        '[workloads.w]\nrw = "randread"\nruntime = "50ms"\n'
    )
    heading, row = read_csv(run("run", path, "--csv").out)
    assert dict(zip(heading, row, strict=True))["stack"] == "one"
    assert int(row[heading.index("read IOPS")]) > 1000
    assert read_csv(run("runs", "list", "--csv").out)[1][1] == "one"


@pytest.mark.parametrize("words", [("--csv", "--json"), ("--json", "--csv")])
def test_csv_or_json(run: Run, words: tuple[str, str]) -> None:
    done = run("trace", "stat", TRACE, *words)
    assert (done.status, done.out) == (2, "")
    assert "--csv and --json exclude each other" in done.err
