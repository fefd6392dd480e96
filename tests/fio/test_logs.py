"""fio's interval logs of several jobs as one series."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.fio import logs, output
from blklab.fio.logs import JobLog, LogSample
from blklab.fio.output import FioDirection
from tests.fio.conftest import DATA, recorded


def from_data(name: str) -> list[JobLog]:
    texts = {path.name: path.read_text() for path in DATA.glob(f"{name}_*.log")}
    return logs.gather(texts, name, output.jobs(recorded(f"{name}.json")))


@pytest.mark.parametrize("name", ["one", "four"])
@pytest.mark.parametrize("interval_ms", [100, 200, 250, 500, 1000, 5000])
def test_recorded_logs_add_up_to_what_fio_counted(name: str, interval_ms: int) -> None:
    series = logs.merge(from_data(name), interval_ms * 10**6)
    outcome = output.outcome(recorded(f"{name}.json"))
    assert sum(item.read_ios for item in series) == outcome.read.total_ios
    assert sum(item.write_ios for item in series) == outcome.write.total_ios
    assert sum(item.read_bytes for item in series) == outcome.read.io_bytes
    assert sum(item.write_bytes for item in series) == outcome.write.io_bytes
    assert [item.time_ns for item in series] == [at * interval_ms * 10**6 for at in range(len(series))]
    assert sum(item.width_ns for item in series) == outcome.runtime_ns
    for direction in ("read", "write"):
        ios = [getattr(item, f"{direction}_ios") for item in series]
        means = [getattr(item, f"{direction}_clat_ns") for item in series]
        clat = outcome.latency(direction)
        if clat.mean is not None and clat.min is not None and clat.max is not None:
            mean = sum(n * m for n, m in zip(ios, means, strict=True)) / sum(ios)
            assert mean == pytest.approx(clat.mean, rel=0.02)
            assert all(clat.min <= mean <= clat.max for mean in means)


def test_four_processes_at_steady_rates() -> None:
    # Two of 800 reads/s and 400 writes/s, one of 150 reads/s, one of 7 writes/s.
    series = logs.merge(from_data("four"), 200 * 10**6)
    assert len(series) == 6
    for item in series:
        assert item.read_ios == pytest.approx(350, abs=6)
        assert item.write_ios == pytest.approx(161.4, abs=4)
        assert item.read_bytes == pytest.approx(320 * 4096 + 30 * 65536, rel=0.04)


def test_times_that_are_not_aligned() -> None:
    # 100 I/Os/s, logged at 1000 and 2000 ms; 10 I/Os/s, at 500 and 1500 ms, and gone then.
    item = JobLog(iops=[LogSample(1000, 100, 0), LogSample(2000, 100, 0)], clat=[LogSample(1000, 5, 0)])
    other = JobLog(iops=[LogSample(500, 10, 0), LogSample(1500, 10, 0)], clat=[LogSample(1500, 105, 0)])
    first, second = logs.merge([item, other], 10**9, 1000)
    assert (first.read_ios, second.read_ios) == (110, 105)
    # 5 I/Os of the other in the second half of the first second, next to 100 of the first.
    assert first.read_clat_ns == pytest.approx((100 * 5 + 5 * 105) / 105)
    assert second.read_clat_ns == pytest.approx(105)
    assert second.write_clat_ns is None


def test_an_interval_without_io_has_no_line() -> None:
    log = JobLog(iops=[LogSample(1000, 50, 1), LogSample(5000, 50, 1)])
    assert [item.write_ios for item in logs.merge([log], 10**9, 1000)] == [50, 0, 0, 0, 50]


def test_what_came_after_the_last_line_is_there() -> None:
    log = JobLog(
        iops=[LogSample(1000, 100, 0)], totals=(FioDirection(150, 150 * 512), FioDirection(0, 0)), runtime_ms=1500
    )
    series = logs.merge([log], 500 * 10**6, 1000)
    assert [item.read_ios for item in series] == [50, 50, 50]
    assert [item.read_bytes for item in series] == [150 * 512 // 3] * 3


def test_a_run_shorter_than_its_interval() -> None:
    log = JobLog(totals=(FioDirection(7, 7000), FioDirection(0, 0)), runtime_ms=300)
    (only,) = logs.merge([log], 10**9, 1000)
    assert (only.read_ios, only.read_bytes, only.width_ns) == (7, 7000, 300 * 10**6)
    assert only.read_clat_ns is None
    assert logs.merge([], 10**9) == []


def test_trims_and_further_fields_are_passed_over() -> None:
    text = "500, 10, 0, 4096, 0\n500, 3, 2, 0, 0\n\n1000, 12, 1, 0, 0, 0x4001\n"
    assert logs.parse_log(text, "x") == [LogSample(500, 10, 0), LogSample(1000, 12, 1)]


@pytest.mark.parametrize("line", ["time,value", "1, 2", "1, -2, 0", "a, b, c, d", "1, 2, 0 4096"])
def test_what_is_no_log_is_said_where(line: str) -> None:
    with pytest.raises(BlklabError, match=r"log_iops\.1\.log: line 2: found "):
        logs.gather({"log_iops.1.log": f"500, 1, 0, 0\n{line}\n"}, "log")


def test_far_too_many_intervals_are_refused() -> None:
    with pytest.raises(BlklabError, match="expected at most"):
        logs.merge([JobLog(iops=[LogSample(10**17, 1, 0)])], 10**6)


SAMPLES = st.lists(st.builds(LogSample, st.integers(0, 20_000), st.integers(0, 10**6), st.integers(0, 1)), max_size=20)
TOTALS = st.builds(FioDirection, st.integers(0, 10**9), st.integers(0, 10**14))
JOBS = st.builds(
    JobLog,
    iops=SAMPLES,
    bandwidth=SAMPLES,
    clat=SAMPLES,
    totals=st.tuples(TOTALS, TOTALS),
    runtime_ms=st.integers(0, 30_000),
)


@given(st.lists(JOBS, min_size=1, max_size=4), st.sampled_from([7, 100, 1000, 3333, 60_000]))
def test_totals_are_conserved(jobs: list[JobLog], interval_ms: int) -> None:
    series = logs.merge(jobs, interval_ms * 10**6)
    for at, direction in enumerate(("read", "write")):
        totals = [job.totals[at] for job in jobs if job.totals is not None]
        assert sum(getattr(item, f"{direction}_ios") for item in series) == sum(item.total_ios for item in totals)
        assert sum(getattr(item, f"{direction}_bytes") for item in series) == sum(item.io_bytes for item in totals)
        values = [item.value for job in jobs for item in job.clat if item.direction == at]
        for item in series:
            mean = getattr(item, f"{direction}_clat_ns")
            assert mean is None or min(values) <= mean * (1 + 1e-9)
            assert mean is None or mean <= max(values) * (1 + 1e-9)
            assert getattr(item, f"{direction}_ios") >= 0
            assert item.width_ns > 0
    ends = [item.time_ns + item.width_ns for item in series]
    assert ends[:-1] == [item.time_ns for item in series[1:]]


@given(SAMPLES, st.sampled_from([100, 1000, 7000]))
def test_totals_do_not_depend_on_the_interval(samples: list[LogSample], interval_ms: int) -> None:
    halves = [[item for item in samples if item.value % 2 == odd] for odd in (0, 1)]
    several = [JobLog(iops=samples), *(JobLog(iops=half, bandwidth=half) for half in halves)]
    fine, coarse = (logs.merge(several, at * 10**6, 500) for at in (interval_ms, 20_000_000))
    # Rates times time need not be whole: half an I/O may be rounded either way, but once.
    for field in ("read_ios", "write_ios", "read_bytes", "write_bytes"):
        total = sum(getattr(item, field) for item in coarse)
        assert sum(getattr(item, field) for item in fine) == total
        assert all(getattr(item, field) >= 0 for item in fine)
