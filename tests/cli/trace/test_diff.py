"""`blklab trace diff`, from the command line to what is printed."""

import json
import random
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import COMPLETED, QUEUED, READ, WRITE, C, Q, Record, write_trace

PGBENCH = Path(__file__).parents[2] / "data" / "traces" / "pgbench-raid1"
ALIBABA = PGBENCH.parents[1] / "formats" / "alibaba.csv"


def recording(base: Path, *, gap_us: float, latency_us: float, seed: int, direction: int = READ) -> Path:
    """Writes 20 s of I/Os at random times; their latencies vary by half."""
    random_ = random.Random(seed)
    records, now = [], 0.0
    while now < 20e6:
        now += random_.expovariate(1 / gap_us)
        sector, took = 8 * random_.randrange(1 << 20), latency_us * random_.uniform(0.5, 1.5)
        for time, code, category in ((now, Q, QUEUED), (now + took, C, COMPLETED)):
            records.append(Record(int(1e3 * time), code, category | direction, sector, 4096))
    return write_trace(base, sorted(records, key=lambda record: record.time))


def verdicts(run: Run, *args: object) -> dict[str, str]:
    document = json.loads(run("trace", "diff", *args, "--json").out)
    return {change["metric"]: change["verdict"] for change in document["changes"]}


def test_only_the_metric_that_changed_differs(run: Run, tmp_path: Path) -> None:
    before = recording(tmp_path / "before", gap_us=500, latency_us=200, seed=1)
    after = recording(tmp_path / "after", gap_us=500, latency_us=240, seed=2)
    assert verdicts(run, before, after) == {
        "iops": "same",
        "read.iops": "same",
        "read.bw": "same",
        "read.size": "same",
        "read.p50": "differs",
        "read.p99": "differs",
    }
    outcome = run("trace", "diff", before, after)
    assert (outcome.status, outcome.err) == (0, "")
    assert "B differs from A: median read latency +2" in outcome.out
    assert "Latency B   Reads take" in outcome.out


def test_recordings_of_equal_loads_do_not_differ(run: Run, tmp_path: Path) -> None:
    bases = [recording(tmp_path / str(seed), gap_us=2000, latency_us=200, seed=seed) for seed in range(12)]
    pairs = list(zip(bases[::2], bases[1::2], strict=True))
    assert [verdict for pair in pairs for verdict in verdicts(run, *pair).values() if verdict == "differs"] == []


def test_members_of_one_recording_are_compared_at_equal_times(run: Run) -> None:
    together = verdicts(run, PGBENCH, "--between", "vdc,vdd")
    assert (together["read.iops"], together["write.iops"]) == ("differs", "same")
    apart = verdicts(run, PGBENCH, PGBENCH, "--between", "vdc,vdd")
    assert apart["read.iops"] == "chance"


def test_a_direction_on_one_side_is_named(run: Run, tmp_path: Path) -> None:
    reads = recording(tmp_path / "reads", gap_us=5000, latency_us=200, seed=1)
    writes = recording(tmp_path / "writes", gap_us=5000, latency_us=200, seed=2, direction=WRITE)
    outcome = run("trace", "diff", reads, writes)
    assert "Only A has reads. Only B has writes." in " ".join(outcome.out.split())


def test_rows_that_are_equal_are_left_out(run: Run) -> None:
    outcome = run("trace", "diff", PGBENCH, PGBENCH)
    assert "do not differ in load or latency" in outcome.out
    assert "Request sizes" not in outcome.out


def test_filters_apply_to_both_and_the_page_has_the_command(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "d.html"
    outcome = run("trace", "diff", PGBENCH, "--between", "vdc,vdd", "--op", "read", "-o", page)
    assert outcome.out.startswith(f"{page}  ")
    html = page.read_text()
    assert "--op read --between vdc,vdd</code>" in html
    assert html.count('data-chart="iops-A"') == html.count('data-chart="latency-over-time-B"') == 1
    assert html.count('id="charts"') == 1
    assert "nothing but reads" in html
    assert html.count("writes") == 0


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ((PGBENCH,), 2, "1 recording: expected two, or one with --between DEV,DEV"),
        ((PGBENCH, "--between", "vdc"), 2, "--between 'vdc': expected two devices, such as sda,sdb"),
        ((PGBENCH, "--between", "vdc,sdq"), 1, f"{PGBENCH}: no I/O of device 'sdq': it has "),
        ((ALIBABA, ALIBABA, "--between", "vol1,vol3"), 1, f"{ALIBABA}: no I/O of device 'vol1': it has vol419, "),
        ((ALIBABA, PGBENCH, "--between", "vol419,vdx"), 1, f"{PGBENCH}: no I/O of device 'vdx': it has "),
        ((PGBENCH, PGBENCH, "--device", "sdq"), 1, "no I/O in "),
    ],
)
def test_bad_usage_is_one_line(run: Run, args: tuple[object, ...], status: int, message: str) -> None:
    outcome = run("trace", "diff", *args)
    assert (outcome.status, outcome.out) == (status, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_sevenfold_median_of_a_thousand_writes_is_certain(run: Run, tmp_path: Path) -> None:
    rng = random.Random(1)
    for name, ios, scale in (("a", 1021, 1e6), ("b", 2676, 7e6), ("c", 1021, 1e6)):
        records, time = [], 0.0
        for _ in range(ios):
            time += rng.expovariate(1e-7)
            sector, took = 8 * rng.randrange(1 << 24), scale * rng.lognormvariate(0, 0.8)
            records.append(Record(int(time), Q, QUEUED | WRITE, sector, 4096))
            records.append(Record(int(time + took), C, COMPLETED | WRITE, sector, 4096))
        write_trace(tmp_path / name, sorted(records, key=lambda record: record.time))
    changed = {
        c["metric"]: c
        for c in json.loads(run("trace", "diff", tmp_path / "a", tmp_path / "b", "--json").out)["changes"]
    }
    assert changed["write.p50"]["verdict"] == "differs"
    assert changed["write.p50"]["low"] < 6 < changed["write.p50"]["high"]
    equal = json.loads(run("trace", "diff", tmp_path / "a", tmp_path / "c", "--json").out)
    assert "differs" not in {change["verdict"] for change in equal["changes"]}
