"""`accuracy/run published` on a small directory of tables, and on broken ones."""

import json
import shutil
from pathlib import Path

import pytest

from accuracy import published_cells, reference
from blklab.experiment import load
from tests.conftest import Run

SMALL = Path(__file__).parents[1] / "data" / "reference-small"
PUBLISHED = Path(__file__).parents[2] / "reference"
FIGURES = ["read_iops", "write_iops"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.calibrate.fit.ENOUGH_IOS", 50_000)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a copy of the directory, which is in the current one."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SMALL, "ref")
    return Path("ref")


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_every_row_is_predicted(judge: Run, tmp_path: Path) -> None:
    report = tmp_path / "accuracy.md"
    outcome = judge("published", "--reference", SMALL, "--json", "--check", "-o", report)
    assert outcome.status == 0
    assert outcome.err == ("calibrating ssd on 2 runs\ncalibrating nvme on 1 runs\npredicting 5 rows\n")
    rows = json.loads(outcome.out)
    assert [(row["target"], row["test"]) for row in rows] == [
        ("fast-raid1", "randread"),
        ("fast-raid1", "randwrite"),
        ("fast-raid10", "randread"),
        ("md10fs", "1 threads, 512 B"),
        ("md10fs", "8 threads, 512 B"),
    ]
    for row in rows:
        assert list(row) == ["target", "test", "published", "predicted", "error", "interval", "inside", "members"]
        latencies = [] if row["target"] != "md10fs" else ["read_lat_ms", "write_lat_ms"]
        assert sorted(row["published"]) == sorted([*FIGURES, *latencies])
        assert sorted(row["predicted"]) == sorted([*FIGURES, *latencies])
        published, predicted = (sum(row[side][figure] for figure in FIGURES) for side in ("published", "predicted"))
        assert row["error"] == pytest.approx(predicted / published - 1)
        assert abs(row["error"]) < 0.2
        low, high = row["interval"]
        assert low < predicted < high
        assert row["inside"] == (low <= published <= high)
    assert rows[-1]["members"] == {}
    raid10 = rows[2]["members"]
    assert raid10["sdc"]["published_share"] == pytest.approx(123994 / 262144)
    assert sum(item["predicted_share"] for item in raid10.values()) == pytest.approx(1)
    assert rows[1]["members"].keys() == {"nvme", "ssd"}
    for item in rows[1]["members"].values():
        assert item["published_share"] is None
        assert item["predicted_share"] == pytest.approx(0.5, abs=0.01)

    text = report.read_text()
    for heading in (
        "# Accuracy of the simulator",
        "## Verdict",
        "## Predictions and measurements",
        "## Calibration of `ssd`",
        "## Calibration of `nvme`",
    ):
        assert f"{heading}\n" in text
    assert "| arrays of flash | 3 | 3 | 3 | ±15 % |" in text
    assert "value is inside in 5 of 5 rows (100 %, nominal 90 %)" in " ".join(text.split())
    assert "| fast-raid10 | randread | 207,521 |" in text


def test_tables_are_drawn(judge: Run, copy: Path) -> None:
    (copy / "randomio_runs.csv").unlink()
    edit(copy / "fio_runs.csv", ("fast-raid10,randread,1263,262144,0,207521,0.0,4.0,20.0,0\n", ""))
    outcome = judge("published", "--reference", copy)
    assert outcome.status == 0
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert "Predictions and measurements" in lines
    assert any(line.startswith("fast-raid1 randread 601,722 ") for line in lines)
    assert any(line.startswith("arrays of flash 2 2 2 ±15 %") for line in lines)


def test_the_calibration_may_be_apart(judge: Run, copy: Path) -> None:
    edit(copy / "targets.toml", ('ssd = { device = "ssd" }\nnvme = { device = "nvme" }\n', ""))
    for name in ("fio_runs.csv", "fio_device_io.csv"):
        kept = [
            line
            for line in (copy / name).read_text().splitlines(keepends=True)
            if not line.startswith(("ssd,", "nvme,"))
        ]
        (copy / name).write_text("".join(kept))
    (copy / "randomio_runs.csv").unlink()
    alone = judge("published", "--reference", copy)
    assert (alone.status, alone.out) == (2, "")
    assert alone.err == (
        "blklab: error: ref: no single-device row of 'nvme', which arrays need: add a"
        " directory with such rows as --calibration\n"
    )
    outcome = judge("published", "--reference", copy, "--calibration", SMALL, "--json")
    assert outcome.status == 0
    rows = json.loads(outcome.out)
    assert {row["target"] for row in rows} == {"fast-raid1", "fast-raid10"}
    # The single-device rows say which disk is which.
    assert rows[0]["members"].keys() == {"nvme0n1", "sdc"}


@pytest.mark.parametrize(
    ("name", "old", "new", "output"),
    [
        ("targets.toml", "level = 10", "level = 77", "stacks.target.level: unknown level 77"),
        ("targets.toml", 'rw = "randwrite"', 'rw = "rndwrite"', "rw: found 'rndwrite'"),
        ("randomio_runs.csv", "md10fs,8", "md11fs,8", "found configuration 'md11fs'"),
        ("randomio_runs.csv", "md10fs,8", "md10fs,0", "threads: found '0'"),
        ("randomio_runs.csv", "md10fs,8,512", "md10fs,8,513", "block size 513"),
        ("targets.toml", "[workload_common]", "workload_common = 3\n[x]", "workload_common: expected a"),
        ("targets.toml", '["nvme", "ssd"]', "3", "members: expected a list of names"),
        ("targets.toml", 'device = "ssd"', 'device = ["x"]', "device: expected a name"),
        ("targets.toml", '["nvme", "ssd"]', '["nvme", "tape"]', "no single-device row of 'tape'"),
    ],
)
def test_a_bad_row_is_said_before_anything_runs(
    judge: Run, copy: Path, name: str, old: str, new: str, output: str
) -> None:
    edit(copy / name, (old, new))
    outcome = judge("published", "--reference", copy)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert output in outcome.err


def test_a_directory_without_rows_is_refused(judge: Run, copy: Path) -> None:
    for path in copy.glob("*.csv"):
        path.unlink()
    outcome = judge("published", "--reference", copy)
    assert (outcome.status, outcome.out) == (2, "")
    tables = "fio_runs.csv, randomio_runs.csv, cache_runs.csv, bcache_runs.csv and stream_runs.csv"
    expected = f"ref: none of {tables} has a row"
    assert outcome.err == f"blklab: error: {expected}\n"


def test_a_bcache_row_has_the_writes_of_both_devices(judge: Run, copy: Path) -> None:
    for path in copy.glob("*.csv"):
        path.unlink()
    columns = "run,kernel,rw,io_bytes,jobs,job_bytes,runtime_s,sequential_cutoff,iops,cache_writes,disk_writes"
    row = "bcache/one,5.4,randwrite,4096,1,8388608,60,4194304,12000,999,1"
    (copy / "bcache_runs.csv").write_text(f"{columns}\n{row}\n")
    outcome = judge("published", "--reference", copy, "--json")
    (found,) = json.loads(outcome.out)
    assert (outcome.status, found["target"]) == (0, "bcache/one")
    ssd = found["members"]["ssd"]
    assert ssd["published_share"] == 0.999
    # Only keys and the journal are written besides, and nothing is written back.
    assert 2048 <= found["predicted"]["write_iops"] < 20_000
    assert ssd["predicted_share"] == 1


def test_a_row_is_judged_by_what_its_target_is_made_of(judge: Run, copy: Path, tmp_path: Path) -> None:
    for name in ("targets.toml", "fio_runs.csv", "fio_device_io.csv"):
        edit(copy / name, ("fast-", "array-"))
    outcome = judge("published", "--reference", copy, "-o", tmp_path / "accuracy.md")
    assert outcome.status == 0
    assert "| arrays of flash | 3 | 3 | 3 | ±15 % |" in (tmp_path / "accuracy.md").read_text()


def test_a_check_fails_when_a_row_is_outside_its_bound(judge: Run, copy: Path) -> None:
    (copy / "fio_runs.csv").unlink()
    edit(copy / "randomio_runs.csv", ("89.1", "45"))
    outcome = judge("published", "--reference", copy, "--json", "--check")
    assert outcome.status == 1
    assert [round(abs(row["error"]), 1) > 0.2 for row in json.loads(outcome.out)] == [True, False]
    assert judge("published", "--reference", copy, "--json").status == 0


def test_the_example_of_2008_is_the_set_up_that_published_rows_judge() -> None:
    example = load.read(PUBLISHED.parent / "examples/saturation.toml").raw
    judged = load.read(PUBLISHED.parent / "accuracy/randomio/md10fs.toml").raw
    assert example["devices"] == judged["devices"]
    assert example["stacks"]["far"] == judged["stacks"]["md10"]
    ours, theirs = example["workloads"]["oltp"], judged["workloads"]["randomio"]
    swept = {"bs", "numjobs", "iodepth", "time_based"}
    assert {key: ours[key] for key in ours.keys() - swept} == {key: theirs[key] for key in theirs.keys() - swept}
    assert example["settings"] == judged["settings"]


def test_the_published_tables_are_read() -> None:
    result = reference.read_reference(PUBLISHED)
    assert len(result.singles()) == 18
    assert len(result.runs) == 58
    assert len(result.randomio) == 64
    devices = published_cells.stock_devices()
    for row in result.runs:
        assert published_cells.fio_cell(result, row.target, row.test, devices).document["jobs"]
    for item in result.randomio:
        assert published_cells.randomio_cell(item).document["jobs"]
