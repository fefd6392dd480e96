"""Tables whose columns the user names."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError, UsageError
from blklab.importers import tables
from blklab.importers.base import TableColumns
from blklab.importers.columns import parse_columns
from blklab.outcome import Outcome
from tests.importers.conftest import imported, runs

MS = 1_000_000


def read(
    path: Path, text: str, columns: str, separator: str | None = None, **options: str
) -> list[tuple[dict[str, str], Outcome]]:
    path.write_text(text)
    table = TableColumns(parse_columns(columns), separator)
    batch, notes = imported(path, form="table", table=table, options=options)
    assert notes == []
    return [(dict(labels), run) for labels, run in runs(batch)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.txt"


ROWS = {
    ",": 'threads,read IOPS,lat_ms\n1,"1,234",4.5\n8,5000,9\n',
    ";": "threads;read IOPS;lat_ms\n1;1.234,0;4,5\n8;5000;9,0\n",
    "\t": "threads\tread IOPS\tlat_ms\n1\t1234\t4.5\n\n8\t5e3\t9\n",
    "|": "| threads | read IOPS | lat_ms |\n|---|--:|---|\n| 1 | 1.234k | 4500us |\n| 8 | 5k | 9.0ms |\n",
    " ": "threads  riops  lat_ms\n# first\n   1  1,234  4.5 ms\n   8   5000    9 ms\n",
}


@pytest.mark.parametrize("separator", ROWS)
@pytest.mark.parametrize("detected", [True, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_separators_and_units(path: Path, separator: str, detected: bool, by_name: bool) -> None:
    columns = "label.threads=1,read.iops=2,read.mean=3"
    if by_name:
        iops = "riops" if separator == " " else "READ IOPS"
        columns = f"label.threads=threads,read.iops={iops},read.mean=lat_ms"
    (labels, first), (_, second) = read(path, ROWS[separator], columns, None if detected else separator)
    assert (labels["threads"], labels["workload"]) == ("1", "table")
    assert (first.read.iops, first.read.clat_ns.mean) == (1234, 4.5 * MS)
    assert (second.read.iops, second.read.clat_ns.mean) == (5000, 9 * MS)


def test_all_figures(path: Path) -> None:
    columns = (
        "name=1,read.iops=2,write.iops=3,write.bw=4,read.p50=5:us,read_p95=6:us,read.p99.9=7:us,write.max=8:s,"
        "bs=9,runtime=10:s,iodepth=11,sync.p99=12:ms,sync.iops=13,label.stack=14"
    )
    ((labels, run),) = read(path, "mix 100 50 12.5MB/s 1 2 3 4 4k 60 32 7 9 raid1\n", columns)
    assert (labels["workload"], labels["bs"], labels["iodepth"], labels["stack"]) == ("mix", "4k", "32", "raid1")
    assert (run.runtime_ns, run.read.total_ios, run.write.total_ios) == (60 * 1000 * MS, 6000, 3000)
    assert (run.read.bw_bytes, run.write.bw_bytes) == (409_600, 12_500_000)
    latency = run.read.clat_ns
    assert (latency.p50, latency.p95, latency.p99_9, run.write.clat_ns.max) == (1000, 2000, 3000, 4000 * MS)
    assert run.sync is not None
    assert (run.sync.iops, run.sync.lat_ns.p99, run.sync.total_ios) == (9, 7 * MS, 540)


@pytest.mark.parametrize(
    ("cell", "size"),
    [
        ("12.3 MB/s", 12.3e6),
        ("12.3MiB/s", 12.3 * 2**20),
        ("5 kB/sec", 5000),
        ("2G", 2 * 2**30),
        ("1'000 KiB/s", 1024000),
    ],
)
def test_units_of_bandwidth(path: Path, cell: str, size: float) -> None:
    ((_, run),) = read(path, f"1;{cell}\n", "read.iops=1,read.bw=2")
    assert run.read.bw_bytes == pytest.approx(size)


def test_bandwidth_alone_needs_the_size_of_the_ios(path: Path) -> None:
    ((_, run),) = read(path, "64;1\n", "write.bw=1:MiB/s,label.run=2", bs="64k")
    assert run.write.iops == 1024
    with pytest.raises(BlklabError, match=r"table\.txt:1: found write\.bw, expected write\.iops as well, or the size"):
        read(path, "64;1\n", "write.bw=1:MiB/s,label.run=2")


@pytest.mark.parametrize(
    ("columns", "options", "iops"),
    [
        ("iops=1,read.mean=2:ms", {}, (300, 0)),
        ("iops=1,write.mean=2:ms", {}, (0, 300)),
        ("iops=1", {"rw": "randwrite"}, (0, 300)),
        ("iops=1,read.iops=2,write.mean=3:ms", {}, (100, 200)),
        ("iops=1,read.iops=2,write.iops=3", {}, (100, 5)),
    ],
)
def test_figures_without_a_direction(path: Path, columns: str, options: dict[str, str], iops: tuple[int, int]) -> None:
    ((_, run),) = read(path, "300 100 5\n", columns, **options)
    assert (run.read.iops, run.write.iops) == iops


def test_unknown_directions_are_noted(path: Path) -> None:
    path.write_text("300 4\n400 5\n")
    for columns, note in {
        "iops=1": "1: the direction is unknown: reads are assumed; --label rw=write for writes (and 1 more rows)",
        "read.iops=1,write.iops=2,mean=2:ms": "1: mean of reads, writes together: left out (and 1 more rows)",
    }.items():
        _, notes = imported(path, form="table", table=TableColumns(parse_columns(columns)))
        assert notes[0] == f"{path}:{note}"


def test_lines_that_are_no_rows_are_skipped(path: Path) -> None:
    text = "Results of June\nrun iops\n--- ----\n1 100\n\nrun iops\n2 -\n3 n/a\n4 200\n"
    assert [run.read.iops for _, run in read(path, text, "label.run=1,read.iops=2")] == [100, 200]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a b\n1 x\n", "read.iops=b", ":2: found 'x', expected a number for read.iops"),
        ("1 5\n1 x\n", "read.iops=2", ":2: found 'x', expected a number for read.iops"),
        ("1 5\n1\n", "read.iops=2", ":2: found 1 columns in '1', expected at least 2"),
        ("1 -5\n", "read.iops=2", ":1: no line has numbers in the columns 2; this one has 1, -5"),
        ("1 5\n", "read.iops=3", ":1: no line has numbers in the columns 3; this one has 1, 5"),
        ("a b\n1 5\n", "read.iops=c", ":1: no line has the columns c; this one has a, b"),
        ("1 5\n", "read.mean=2", ":1: found '5' without a unit, expected one in --columns, such as read.mean=2:ms"),
        ("1 5\n", "read.bw=2", ":1: found '5' without a unit, expected one in --columns, such as read.bw=2:MiB/s"),
        ("1;5 parsecs\n", "read.mean=2", ":1: found '5 parsecs', expected a number for read.mean"),
        ("1 0\n", "read.iops=2", ": the rows have no figures above 0: expected some"),
        ("---\n", "read.iops=2", ": has no rows, expected a table"),
        ("1," * 20_000, "read.iops=2", ":1: has 40,000 characters, expected a row of a table"),
    ],
)
def test_errors_name_the_line(path: Path, text: str, columns: str, message: str) -> None:
    with pytest.raises(BlklabError, match="^" + re.escape(f"{path}{message}")):
        read(path, text, columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("iops", "--columns: found 'iops', expected ROLE=COLUMN, such as read.iops=2"),
        ("iops=", "--columns: found 'iops=', expected ROLE=COLUMN"),
        ("read.iopps=2", "--columns: no figure 'read.iopps'; did you mean 'read.iops'?"),
        ("wall=2", "--columns: no figure 'wall'"),
        ("label.=2", "--columns: no figure 'label.'"),
        ("read.p99.9=1:ms,read.p99_9=2:ms", "--columns: read.p99_9 has two columns, expected one"),
    ],
)
def test_errors_of_the_option(columns: str, message: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(message)):
        parse_columns(columns)


def test_rows_have_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_RUNS", 5)
    with pytest.raises(BlklabError, match=r"table\.txt: has more than 5 rows, expected fewer"):
        read(path, "1 2\n" * 2000, "read.iops=2")


def test_a_table_needs_columns(path: Path) -> None:
    path.write_text("1 2\n")
    with pytest.raises(UsageError, match="--format table needs --columns"):
        imported(path, form="table")


CELLS = st.one_of(
    st.integers(0, 10**20).map(str),
    st.floats().map(str),
    st.sampled_from(["", "-", "nan", "12.3 MB/s", "4.5ms", "1,234", '"', "1e999", "9" * 400, "\r", "1.2.3"]),
    st.text(max_size=8),
)


@given(st.lists(st.lists(CELLS, max_size=5), min_size=1, max_size=6), st.sampled_from(list(ROWS)), st.booleans())
def test_any_table_is_one_line_or_a_result(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], separator: str, detected: bool
) -> None:
    path = tmp_path_factory.mktemp("table") / "table.txt"
    path.write_text("\n".join([separator.join(cells) for cells in rows]), errors="replace")
    table = TableColumns(
        parse_columns("read.iops=1,write.bw=2,bs=3,mean=4:ms,label.x=5"), None if detected else separator
    )
    given: dict[str, Any] = {"form": "table", "table": table}
    try:
        batch, _ = imported(path, **given)
    except BlklabError as error:
        assert str(error).startswith(f"{path}")
        assert len(str(error).splitlines()) == 1
    else:
        assert all(run.runtime_ns > 0 for _, run in runs(batch))
