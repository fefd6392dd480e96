"""Tables of published measurements: what is read, and what is said of broken ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accuracy import reference
from blklab.errors import UsageError

TABLES = {
    "targets.toml": """
[workload_common]
bs = "4k"
numjobs = 2
iodepth = 4
size = "1g"
runtime = 1

[tests]
randread = { rw = "randread" }

[targets]
ssd = { device = "ssd" }
pair = { level = 1, members = ["ssd", "ssd"], kernel = "4.19" }
""",
    "fio_runs.csv": """\
target,test,runtime_ms,read_ios,write_ios,read_iops,write_iops
ssd,randread,1000,50000,0,50000.5,0.0
pair,randread,1000,90000,0,90000,0
""",
    "fio_device_io.csv": """\
target,test,device,read_ios,write_ios
ssd,randread,sda,50000,0
pair,randread,md0,90000,0
pair,randread,sda,45000,0
pair,randread,sdb,45000,0
""",
    "randomio_runs.csv": """\
config,threads,io_bytes,read_iops,write_iops,read_lat_avg_ms,write_lat_avg_ms
md10fs,1,512,89.1,23.2,11.2,0.2
""",
}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the directory, `ref`, of which the current one is the parent."""
    monkeypatch.chdir(tmp_path)
    path = Path("ref")
    path.mkdir()
    for name, text in TABLES.items():
        (path / name).write_text(text)
    return path


def test_rows_are_read(tables: Path) -> None:
    result = reference.read_reference(tables)
    single, array = result.runs
    assert (single.target, single.test, single.read_iops) == ("ssd", "randread", 50000.5)
    assert result.singles() == [single]
    assert array.where == "ref/fio_runs.csv:3"
    assert result.device_io["pair", "randread"] == {"sda": (45000, 0), "sdb": (45000, 0)}
    (randomio,) = result.randomio
    assert (randomio.threads, randomio.io_bytes, randomio.read_ms) == (1, 512, 11.2)


def test_tables_that_are_not_there_are_empty(tables: Path) -> None:
    for name in ("fio_device_io.csv", "randomio_runs.csv"):
        (tables / name).unlink()
    result = reference.read_reference(tables)
    assert (len(result.runs), result.device_io, list(result.randomio)) == (2, {}, [])


def test_a_byte_order_mark_is_no_mistake(tables: Path) -> None:
    before = reference.read_reference(tables)
    for path in tables.iterdir():
        path.write_text("\ufeff" + path.read_text())
    assert reference.read_reference(tables) == before


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = (path / name).read_text()
        assert old in text
        (path / name).write_text(text.replace(old, new, 1))

    return change


def without(*names: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        for name in names:
            (path / name).unlink()

    return change


TARGETS, RUNS, RANDOMIO = "targets.toml", "fio_runs.csv", "randomio_runs.csv"

BROKEN = [
    (
        without("targets.toml"),
        "ref/targets.toml: cannot be read: No such file or directory",
    ),
    (
        edit(TARGETS, "[tests]", "[tests"),
        "ref/targets.toml: line 9, column 7: expected ']' at the end of a table declaration",
    ),
    (
        edit(TARGETS, '{ device = "ssd" }', '{ device = "ssd", members = ["ssd"] }'),
        "ref/targets.toml: targets.ssd: expected either device or members",
    ),
    (
        edit(TARGETS, '{ device = "ssd" }', '{ kernel = "4.19" }'),
        "ref/targets.toml: targets.ssd: expected either device or members",
    ),
    (
        edit(TARGETS, '{ device = "ssd" }', "{ device = 5 }"),
        "ref/targets.toml: targets.ssd: device: expected a name",
    ),
    (
        edit(TARGETS, '["ssd", "ssd"]', "[]"),
        "ref/targets.toml: targets.pair: members: expected a list of names",
    ),
    (
        edit(TARGETS, "level = 1, ", ""),
        "ref/targets.toml: targets.pair: expected level with members",
    ),
    (
        edit(TARGETS, '{ rw = "randread" }', "{}"),
        "ref/targets.toml: tests.randread: expected a key rw",
    ),
    (
        edit(TARGETS, '{ rw = "randread" }', '"randread"'),
        "ref/targets.toml: tests: expected tables",
    ),
    (
        edit(RUNS, "pair,", "paar,"),
        "ref/fio_runs.csv:3: target: found 'paar', which is not in targets.toml; it has ssd,"
        " pair",
    ),
    (
        edit(RUNS, "pair,randread", "pair,randwrite"),
        "ref/fio_runs.csv:3: test: found 'randwrite', which is not in targets.toml; it has"
        " randread",
    ),
    (
        edit(RUNS, "50000.5", "fast"),
        "ref/fio_runs.csv:2: read_iops: found 'fast', expected a number",
    ),
    (
        edit(RUNS, "50000.5", "-1"),
        "ref/fio_runs.csv:2: read_iops: found '-1', expected a number",
    ),
    (
        edit(RUNS, "50000.5", "nan"),
        "ref/fio_runs.csv:2: read_iops: found 'nan', expected a number",
    ),
    (
        edit(RUNS, "50000.5", "0"),
        "ref/fio_runs.csv:2: read_iops and write_iops are both 0",
    ),
    (
        edit(RUNS, "ssd,randread,1000", "\n\nssd,randread,1000,1,2,x"),
        "ref/fio_runs.csv:4: read_iops: found 'x', expected a number",
    ),
    (
        edit(RUNS, ",write_iops", ""),
        "ref/fio_runs.csv: no column 'write_iops'; expected target, test, read_iops,"
        " write_iops",
    ),
    (
        edit(RUNS, "90000,0,90000,0", "90000"),
        "ref/fio_runs.csv:3: too few columns: expected 7",
    ),
    (
        edit(RANDOMIO, "md10fs,1,", "md10fs,0,"),
        "ref/randomio_runs.csv:2: threads: found '0', expected a whole number",
    ),
    (
        edit(RANDOMIO, "89.1,23.2", "0,0"),
        "ref/randomio_runs.csv:2: read_iops and write_iops are both 0",
    ),
    (
        without(RUNS, RANDOMIO),
        "ref: neither fio_runs.csv nor randomio_runs.csv has a row",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "output"), BROKEN, ids=[output[:60] for _, output in BROKEN])
def test_broken_tables_are_one_line(tables: Path, change: Callable[[Path], None], output: str) -> None:
    change(tables)
    with pytest.raises(UsageError) as failure:
        reference.read_reference(tables)
    assert str(failure.value) == output


def test_a_missing_directory_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as failure:
        reference.read_reference(tmp_path / "no")
    assert str(failure.value) == f"{tmp_path}/no: no such directory; expected one with targets.toml and fio_runs.csv"


@st.composite
def mangled(draw: st.DrawFn) -> tuple[str, bytes]:
    """Returns a file of the directory with a piece of it replaced."""
    name = draw(st.sampled_from(sorted(TABLES)))
    content = TABLES[name].encode()
    first = draw(st.integers(0, len(content)))
    last = draw(st.integers(first, min(len(content), first + 40)))
    ugly = st.sampled_from([b"", b",", b'"', b"\n", b"\0", b"\xff", b"inf", b"1e999", b"-0", b"\r", b"9" * 5000])
    middle = draw(st.one_of(ugly, st.binary(max_size=20)))
    return name, content[:first] + middle + content[last:]


@given(mangled())
def test_mangled_tables_never_crash(tmp_path_factory: pytest.TempPathFactory, change: tuple[str, bytes]) -> None:
    path = tmp_path_factory.mktemp("ref")
    for name, text in TABLES.items():
        (path / name).write_text(text)
    (path / change[0]).write_bytes(change[1])
    try:
        result = reference.read_reference(path)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert all(run.read_iops + run.write_iops > 0 for run in result.runs)


def test_a_field_that_csv_refuses_is_one_line(tables: Path) -> None:
    text = TABLES["fio_runs.csv"] + '"' + "x" * 200_000
    (tables / "fio_runs.csv").write_text(text)
    with pytest.raises(UsageError, match=r"^ref/fio_runs.csv:4: field larger than field limit"):
        reference.read_reference(tables)
