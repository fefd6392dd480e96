"""fio's JSON, text and interval logs as runs."""

import json
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.store.series import JOBS, unpack_output
from tests.importers.conftest import DATA, FIO, imported, outcome, runs


def test_a_run_a_group() -> None:
    batch, _ = imported(DATA / "fio-3.33.json")
    assert batch.plan.runner == "fio"
    labels = [labels for labels, _ in runs(batch)]
    assert [item["workload"] for item in labels] == ["clones", "mixed", "together", "ranged"]
    # What goes with the workload is no label: an experiment's results have none such.
    assert labels[0].keys() == {"workload", "repeat"}
    clones = batch.plan.cells[0].document["jobs"][0]["options"]
    assert (clones["rw"], clones["iodepth"], clones["numjobs"]) == ("randread", "4", "2")
    text, _ = imported(DATA / "fio-3.33.txt")
    assert [item for item, _ in runs(text)] == labels
    for (_, output), (_, known) in zip(runs(text), runs(batch), strict=True):
        assert output.read.total_ios == known.read.total_ios


def test_what_tells_runs_of_one_job_apart_is_a_label() -> None:
    batch, notes = imported(DATA / "fio-3.25.txt")
    assert notes == []
    # The first run was on ZFS, without disk statistics, the second on an Optane.
    assert [labels for labels, _ in runs(batch)] == [
        {"workload": "mytest", "rw": "write", "bs": bs, "iodepth": "1", "numjobs": "1"} | device | {"repeat": "1"}
        for bs, device in (("4k", {}), ("4k", {"device": "nvme1n1"}), ("2300", {}))
    ]
    assert batch.plan.varied == ["bs", "device"]
    raw = unpack_output(batch.finished_runs[batch.plan.cells[1].key].raw)
    assert raw.startswith("mytest: (g=0)")
    assert "nvme1n1: ios=0/2568" in raw
    assert "bs=2300" in raw  # the prompt before the next run


def test_runs_that_failed_are_left_out_and_said(tmp_path: Path) -> None:
    content = (DATA / "fio-3.25.txt").read_text().replace("err= 0: pid=1683564", "err= 5: pid=1")
    path = tmp_path / "runs.txt"
    path.write_text(content)
    batch, notes = imported(path)
    assert len(batch.plan.cells) == 2
    assert notes == [f"{path}: line 41: job 'mytest' failed: err=5: skipped"]
    path.write_text(content.replace("err= 0", "err= 5"))
    with pytest.raises(BlklabError, match=r"runs\.txt: line 5: job 'mytest' failed: err=5$"):
        imported(path)


# --- logs ----------------------------------------------------------------------------------------


def test_logs_are_the_series_of_the_json_in_their_directory() -> None:
    logs = sorted(FIO.glob("one_*.log"))
    batch, notes = imported(FIO / "one.json", *logs)
    assert notes == []
    (cell,) = batch.plan.cells
    finished = batch.finished_runs[cell.key]
    assert finished.points
    assert sum(point.read_ios for point in finished.points) == finished.outcome.read.total_ios
    assert {point.source for point in finished.points} == {JOBS}


def test_logs_alone_are_a_run() -> None:
    batch, _ = imported(*sorted(FIO.glob("four_*.log")))
    ((labels, run),) = runs(batch)
    assert batch.plan.name == "four"
    assert labels["workload"] == "four"
    known = json.loads((FIO / "four.json").read_text())["jobs"]
    for direction in ("read", "write"):
        total = sum(job[direction]["total_ios"] for job in known)
        # fio loses what came after the last interval.
        assert run.direction(direction).total_ios == pytest.approx(total, rel=0.2)
    assert run.read.clat_ns.p99 is None


def test_a_run_that_was_cut_off_is_left_out_and_said(tmp_path: Path) -> None:
    content = (DATA / "fio-3.25.txt").read_text()
    path = tmp_path / "runs.txt"
    path.write_text(content[: content.rindex("     issued")])
    batch, notes = imported(path)
    assert len(batch.plan.cells) == 2
    (note,) = notes
    assert note == (
        f"{path}: line 75: the line about what job 'mytest' issued is missing: the text is truncated: skipped"
    )


def test_logs_of_every_io_are_exact(tmp_path: Path) -> None:
    (tmp_path / "raw_iops.1.log").write_text("0, 1, 0, 4096, 0\n500, 1, 0, 4096, 0\n1500, 1, 1, 8192, 0\n")
    (tmp_path / "raw_clat.1.log").write_text("0, 1000, 0, 4096, 0\n500, 3000, 0, 4096, 0\n1500, 7000, 1, 8192, 0\n")
    (tmp_path / "raw_slat.1.log").write_text("")
    batch, notes = imported(*tmp_path.iterdir())
    assert notes == [f"{tmp_path}/raw_slat.1.log: empty: skipped"]
    ((_, run),) = runs(batch)
    assert run.runtime_ns == 1501 * 10**6
    assert (run.read.total_ios, run.read.io_bytes) == (2, 8192)
    assert (run.write.total_ios, run.write.io_bytes) == (1, 8192)
    latency = run.read.clat_ns
    assert (latency.mean, latency.min, latency.p50, latency.p99) == ((2000, 1000, 1000, 3000))
    points = batch.finished_runs[batch.plan.cells[0].key].points
    assert [(p.time_ns, p.width_ns, p.read_ios, p.write_ios) for p in points] == [
        (0, 10**9, 2, 0),
        (10**9, 501 * 10**6, 0, 1),
    ]


def test_the_latency_of_both_stands_in_for_that_of_completion(tmp_path: Path) -> None:
    (tmp_path / "x_iops.1.log").write_text("1000, 10, 0, 0, 0\n2000, 20, 0, 0, 0\n")
    (tmp_path / "x_lat.1.log").write_text("1000, 500, 0, 0, 0\n2000, 800, 0, 0, 0\n")
    run = outcome(*tmp_path.iterdir())
    assert run.read.total_ios == 30
    assert run.read.clat_ns.mean == pytest.approx((10 * 500 + 20 * 800) / 30)


@pytest.mark.parametrize(
    ("name", "content", "output"),
    [
        ("x.log", "1000, 10, 0, 0\n", r"x\.log: unknown kind of log"),
        ("x_bw.1.log", "1000, 10, 0, 0\n", "no I/Os: also expected x_iops.….log"),
        ("x_slat.1.log", "1000, 10, 0, 0\n", "logs of I/Os, bandwidth or completion"),
        ("x_iops.1.log", "1000, 10, 0, 0\nnonsense\n", "line 2: found 'nonsense', expected time, value"),
        ("x_iops.1.log", "1000, 1, 0, 512\n1001, 1, 0\n", r"iops\.1\.log:2: found '1001, 1, 0'"),
    ],
)
def test_logs_that_are_wrong(tmp_path: Path, name: str, content: str, output: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BlklabError, match=output):
        imported(tmp_path / name)


def test_jobs_that_ran_together_are_kept_and_the_sum_is_named(tmp_path: Path) -> None:
    document = json.loads((FIO / "one.json").read_text())
    job = document["jobs"][0]
    slow = json.loads(json.dumps(job))
    slow["jobname"] = "slow"
    slow["read"]["total_ios"] = job["read"]["total_ios"] // 4
    document["jobs"] = [job, job, slow]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    batch, notes = imported(path)
    assert notes == [f"{path} (2 jobs): jobs that ran together are added up: `blklab runs show --per-job` shows each"]
    ((_, outcome),) = runs(batch)
    one, other = outcome.groups
    assert (one.name, other.name) == ("one", "slow")
    assert one.clones == [one.iops / 2] * 2
    assert other.clones == []
    assert outcome.by_job()["slow"].read.total_ios == slow["read"]["total_ios"]
