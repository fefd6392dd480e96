"""fio's status intervals, merged directions, histograms, text without line ends."""

from pathlib import Path

import pytest

from tests.importers.conftest import DATA, FIO, imported, outcome, runs


def test_of_status_intervals_the_last_is_the_result_and_all_are_its_series() -> None:
    batch, _ = imported(DATA / "fio-3.33-status.json")
    ((_, run),) = runs(batch)
    assert run.read.total_ios == 55908
    cell = batch.plan.cells[0]
    points = batch.finished_runs[cell.key].points
    assert [point.read_ios for point in points] == [14359, 12969, 12577, 14571, 1432]
    assert points[1].time_ns == 893 * 10**6
    mean = (27328 * 47927.157897 - 14359 * 43301.183857) / 12969
    assert points[1].read_clat_ns == pytest.approx(mean)
    assert cell.document["measured"] == "2026-11-22T17:55:21+00:00"


def test_merged_directions() -> None:
    run = outcome(DATA / "fio-3.33-mixed.json")
    # 45,057 I/Os with rwmixread=70
    assert (run.read.total_ios, run.write.total_ios) == (31540, 13517)
    assert run.read.clat_ns.p99 is None
    both = outcome(DATA / "fio-3.33-both.txt")
    assert both.read.total_ios > both.write.total_ios > 0


def test_text_without_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "flat.txt"
    path.write_text(" ".join((DATA / "fio-3.33.txt").read_text().split()))
    known, read = runs(imported(DATA / "fio-3.33.txt")[0]), runs(imported(path)[0])
    assert [labels for labels, _ in read] == [labels for labels, _ in known]
    for (_, flat), (_, whole) in zip(read, known, strict=True):
        for direction in ("read", "write"):
            assert flat.direction(direction) == whole.direction(direction)
        assert flat.devices == whole.devices


def test_histograms_have_quantiles_and_a_series() -> None:
    batch, _ = imported(DATA / "hist_clat_hist.1.log")
    ((labels, run),) = runs(batch)
    assert labels["workload"] == "hist"
    # The sums of the bins of three lines each.
    assert run.read.total_ios == 17253 + 17494 + 16674
    assert run.write.total_ios == 7325 + 7583 + 7140
    assert run.write.io_bytes == (7325 + 7583 + 7140) * 4096
    # The JSON of this run: p99 103,936 ns, median of writes 3,568 ns; four bins a power of two.
    assert run.read.clat_ns.p99 == pytest.approx(103936, rel=1 / 8)
    assert run.write.clat_ns.p50 == pytest.approx(3568, rel=1 / 8)
    assert run.read.clat_ns.mean == pytest.approx(43369, rel=0.05)
    points = batch.finished_runs[batch.plan.cells[0].key].points
    assert [point.read_ios for point in points] == [17253, 17494, 16674]


def test_logs_belong_to_the_json_that_names_them(tmp_path: Path) -> None:
    text = (FIO / "one.json").read_text()
    for name in ("a", "b"):
        for log in FIO.glob("one_*.log"):
            (tmp_path / log.name.replace("one", name)).write_text(log.read_text())
        stated = f'"job options" : {{ "write_bw_log" : "/logs/{name}", '
        (tmp_path / f"{name}.json").write_text(text.replace('"job options" : {', stated))
    batch, _ = imported(*sorted(tmp_path.iterdir()))
    assert len(batch.plan.cells) == 2
    for cell in batch.plan.cells:
        finished = batch.finished_runs[cell.key]
        assert sum(p.read_ios for p in finished.points) == finished.outcome.read.total_ios
