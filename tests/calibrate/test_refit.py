"""A disk's model from a trace of its load: what was put in is fitted again, and predicts other loads."""

import json
import random
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from blklab.calibrate.recorded_disk import read_disks
from blklab.calibrate.refit import HOST, QUEUE, RefittedDisk, refit
from blklab.devices import stock_models
from blklab.errors import UsageError
from blklab.outcome import Outcome
from blklab.runners.sim.runner import make_device_cell, outcome
from tests.conftest import Run
from tests.trace.generated import COMPLETED, ISSUED, QUEUED, READ, WRITE, C, D, Q, Record, write_trace

SIZE = 4 << 30  # Bytes that the load uses
SDA = 8 << 20
SDB = SDA | 16
SDC = SDA | 32


class Phase(NamedTuple):
    rw: str
    depth: int
    size: int = 4096
    requests: int = 600


def simulate(device: Mapping[str, Any], phase: Phase) -> Outcome:
    """Simulates a load on a disk alone, without the processor time of the host."""
    workload = {"rw": phase.rw, "bs": str(phase.size), "iodepth": phase.depth}
    table = {**device, **QUEUE, "size": str(SIZE)}
    settings = {"kernel": "6.1", "host": HOST, "max_ios": 6_000}
    return outcome(make_device_cell(Path("truth"), table, ("w", workload), settings).document)


def mean_latency(device: Mapping[str, Any], phase: Phase) -> float:
    result = simulate(device, phase)
    return phase.depth * 1e9 / (result.read.iops + result.write.iops)


def record(path: Path, truth: Mapping[str, Any], phases: Sequence[Phase], number: int = SDA) -> list[Record]:
    """Returns a trace of loads with these depths, whose requests take as long as on the true disk in the simulator."""
    rng = random.Random(7)
    records = []
    now = 1_000_000
    for phase in phases:
        latency = round(mean_latency(truth, phase))
        # One request at a time leaves the disk idle in between.
        gap = latency // phase.depth if phase.depth > 1 else 3 * latency
        for index in range(phase.requests):
            start = now + gap * index
            sector = rng.randrange((SIZE - phase.size) // 4096) * 8
            write = phase.rw.endswith("write")
            direction = WRITE if write else READ
            for time, code, category in ((start, Q, QUEUED), (start, D, ISSUED), (start + latency, C, COMPLETED)):
                records.append(Record(time, code, category | direction, sector, phase.size, device=number))
        now += gap * phase.requests + 5 * latency
    records.sort(key=lambda record: (record.time, record.code == C))
    write_trace(path, records)
    return records


def refit_disk(path: Path, model: Mapping[str, Any]) -> RefittedDisk:
    (disk,) = read_disks(str(path))
    return refit(disk, dict(model), str(path), "6.1")


NVME = [Phase("randread", 1), Phase("randread", 64, requests=2400), Phase("randread", 64, 65536, requests=1200)]
OTHERS = [Phase("randread", 1, 16384), Phase("randread", 8), Phase("randread", 32), Phase("randread", 128)]


def test_flash_with_slower_pages_is_fitted(tmp_path: Path) -> None:
    model = stock_models.stock("pm983")
    truth = {**model, "page_read_ns": 2 * model["page_read_ns"]}
    record(tmp_path / "sda", truth, [*NVME, *NVME])
    fitted = refit_disk(tmp_path / "sda", model)
    assert fitted.shows_limit
    assert fitted.deviation < 0.1
    for phase in OTHERS:
        true_latency = mean_latency(truth, phase)
        assert mean_latency(fitted.calibration.device, phase) == pytest.approx(true_latency, rel=0.15), phase
        assert mean_latency(model, phase) < 0.85 * true_latency
    deviations = fitted.calibration.device["uncertainty"]
    assert deviations["read"] < 0.15
    # The trace has no writes.
    assert deviations["write"] == model["uncertainty"]["write"]
    assert fitted.calibration.device["program_ns"] == model["program_ns"]


def test_a_slower_rotating_disk_is_fitted(tmp_path: Path) -> None:
    model = stock_models.stock("hdd-7200")
    truth = {**model, "seek_track_ns": 4 * model["seek_track_ns"]}
    phases = [Phase("randread", 1, requests=300), Phase("randread", 8, requests=300)]
    record(tmp_path / "sda", truth, [*phases, *phases])
    fitted = refit_disk(tmp_path / "sda", model)
    for phase in [Phase("randread", 2), Phase("randread", 16), Phase("randread", 4, 65536)]:
        assert mean_latency(fitted.calibration.device, phase) == pytest.approx(mean_latency(truth, phase), rel=0.15)


def test_a_virtual_disk_has_the_limits_of_the_trace(tmp_path: Path) -> None:
    truth = {"kind": "throttled", "iops_total": 2_000, "latency_ns": 2_000_000}
    phases = [Phase("randread", 1), Phase("randread", 16, requests=1200), Phase("randwrite", 16, requests=600)]
    record(tmp_path / "sda", truth, [*phases, *phases])
    fitted = refit_disk(tmp_path / "sda", {"kind": "throttled"})
    device = fitted.calibration.device
    assert [device["iops_read"], device["iops_write"]] == pytest.approx([2_000, 2_000], rel=0.1)
    assert fitted.sentences()[1].startswith("requests waited for these limits: iops_read = 2,0")
    assert device["latency_ns"] == pytest.approx(2_000_000, rel=0.1)


def test_a_disk_that_is_never_busy_shows_only_its_latency(tmp_path: Path) -> None:
    model = stock_models.stock("pm983")
    truth = {**model, "page_read_ns": 2 * model["page_read_ns"]}
    phases = [Phase("randread", 1, requests=1500)]
    record(tmp_path / "sda", truth, phases)
    fitted = refit_disk(tmp_path / "sda", model)
    assert not fitted.shows_limit
    assert fitted.sentences()[1].startswith("the disk was never busy: only latencies at a low queue depth were fitted.")
    device = fitted.calibration.device
    assert fitted.calibration.fitted_values.keys() == {"read_latency_ns"}
    assert mean_latency(device, phases[0]) == pytest.approx(mean_latency(truth, phases[0]), rel=0.05)
    # What decides a busy disk keeps the interval of the model.
    assert device["uncertainty"]["read"] == model["uncertainty"]["read"]
    assert device["uncertainty"]["latency"] < 0.12


def test_loads_that_only_the_second_half_has_do_not_judge(tmp_path: Path) -> None:
    model = stock_models.stock("pm983")
    record(tmp_path / "sda", model, [Phase("randread", 1, requests=1000), Phase("randwrite", 1, requests=400)])
    fitted = refit_disk(tmp_path / "sda", model)
    assert {error.run.load["rw"] for error in fitted.judged} == {"randread"}
    assert "the first half has no stable load of writes: they are as in the initial model." in fitted.sentences()
    record(tmp_path / "sda", model, [Phase("randread", 1), Phase("randwrite", 1)])
    with pytest.raises(UsageError, match="sda: the two halves of the trace have no load in common"):
        refit_disk(tmp_path / "sda", model)


def test_another_second_half_widens_the_interval(tmp_path: Path) -> None:
    model = stock_models.stock("pm983")
    slow = {**model, "page_read_ns": 8 * model["page_read_ns"]}
    first = record(tmp_path / "first", model, [Phase("randread", 1)])
    second = record(tmp_path / "second", slow, [Phase("randread", 1)])
    begin = first[-1].time
    later = []
    for item in second:
        later.append(Record(item.time + begin, item.code, item.category, item.sector, item.size, device=SDA))
    write_trace(tmp_path / "sda", [*first, *later])
    fitted = refit_disk(tmp_path / "sda", model)
    assert fitted.deviation > 0.25
    assert "so its interval is wider" in fitted.sentences()[0]
    assert fitted.calibration.device["uncertainty"]["latency"] > fitted.deviation / 2


def test_the_command_writes_a_file_for_each_disk(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    truth = {"kind": "throttled", "iops_total": 2_000, "latency_ns": 2_000_000}
    phases = [Phase("randread", 1, requests=300), Phase("randread", 16)]
    Path("trace").mkdir()
    record(Path("trace/sda"), truth, [*phases, *phases], SDA)
    record(Path("trace/sdb"), truth, [*phases, *phases], SDB)
    record(Path("trace/sdc"), truth, [Phase("randread", 1, requests=20)], SDC)
    outcome = run("devices", "refit", "trace", "-o", "disks", "--model", "sdb=virtual", "--json")
    assert outcome.status == 0, outcome.err
    assert [disk["shows_limit"] for disk in json.loads(outcome.out)] == [True, True]
    assert sorted(path.name for path in Path("disks").iterdir()) == ["sda.toml", "sdb.toml"]
    assert (
        outcome.err.count("sdc: half of the trace has 10 completed requests of this disk, too few to fit a model") == 1
    )
    Path("e.toml").write_text(
        '[devices.d]\ncalibrated = "disks/sdb.toml"\nsize = "1GiB"\n[stacks]\none = { device = "d" }\n'
        '[workloads]\nr = { rw = "randread", iodepth = 32 }\n[settings]\nmax_ios = 10_000\n'
    )
    (result,) = json.loads(run("run", "e.toml", "--json").out)
    assert result["read"]["iops"] == pytest.approx(2_000, rel=0.1)
    shown = run("devices", "refit", "trace", "--disk", "sda", "-o", "one.toml")
    assert shown.status == 0, shown.err
    assert "Mean time of a request (D2C)" in shown.out
    assert tomllib.loads(Path("one.toml").read_text())["device"]["kind"] == "throttled"
    assert "#   second half: " in Path("one.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "sda: half of the trace has 15 completed requests of this disk, too few to fit a model: expected 200"),
        (("--disk", "sdz"), "sda: no disk 'sdz': it has sda"),
        (("--model", "sdz=pm983"), "--model sdz=pm983: no disk 'sdz' in the trace: it has sda"),
        (("--model", "pm98"), "--model: there is no stock model 'pm98'"),
        (("-o", "no/file"), "no/file"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    record(Path("sda"), {"kind": "throttled", "latency_ns": 100_000}, [Phase("randread", 1, requests=30)])
    outcome = run("devices", "refit", "sda", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err.splitlines()[-1]


def test_an_idle_disk_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "sda", stock_models.stock("pm983"), [Phase("randread", 1, requests=30)])
    message = "sda: half of the trace has 15 completed requests of this disk, too few to fit a model: expected 200"
    with pytest.raises(UsageError, match=message):
        refit_disk(tmp_path / "sda", stock_models.stock("pm983"))
