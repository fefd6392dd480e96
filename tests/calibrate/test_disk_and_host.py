"""A disk and its host, fitted to one measurement."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.calibrate.disk_and_host import fit_disk_and_host
from blklab.calibrate.fit import Bench, observations
from blklab.calibrate.observations import Observation
from blklab.devices import stock_models
from blklab.experiment import cells
from blklab.experiment.load import ExperimentSource
from blklab.outcome import FioFacts
from blklab.runners.sim.runner import outcomes
from tests.conftest import Run

IO_NS = 5_100  # Processor time of an I/O: the ratio of the defaults gives 3,300 and 1,800
READS = {"rw": "randread", "bs": "4k", "iodepth": 32, "numjobs": 4}
READ = {"rw": "randread", "bs": "4k", "iodepth": 1}
WRITES = {"rw": "randwrite", "bs": "4k", "iodepth": 32, "numjobs": 4}
LARGE_WRITES = {"rw": "write", "bs": "1m", "iodepth": 8}

Measure = Callable[..., list[Observation]]


@pytest.fixture(autouse=True)
def _short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("blklab.calibrate.fit.ENOUGH_IOS", 10_000)


def measure(source: ExperimentSource, device: Mapping[str, Any], written: int, busy: float = 1.0) -> list[Observation]:
    """Simulates the tests of a disk, as if fio had measured them; `busy` is the share of the processor time."""
    simulated = {
        "workloads": source.raw["workloads"],
        "settings": {"runtime": "0.2s", "ramp_time": "0.02s"},
        "devices": {"d": dict(device)},
        "stacks": {"device": {"device": "d"}},
    }
    plan = cells.plan(ExperimentSource(Path("e.toml"), simulated))
    results = []
    for cell, outcome in zip(plan.cells, outcomes([cell.document for cell in plan.cells]), strict=True):
        iops = outcome.read.iops + outcome.write.iops
        options = {key: str(value) for key, value in source.raw["workloads"][cell.labels["workload"]].items()}
        options |= {"name": "j", "ioengine": "libaio", "direct": "1"}
        facts = FioFacts(usr_cpu=0.0, sys_cpu=100 * busy * iops * IO_NS / 1e9, ctx=0, options={"j": options})
        read = replace(outcome.read, total_ios=10_000 if outcome.read.iops else 0, io_bytes=40_960_000)
        write = replace(outcome.write, io_bytes=written if outcome.write.iops else 0)
        measured = replace(outcome, fio=facts, read=read, write=write, devices=(), processor_ns=None)
        results.append((cell.labels["workload"], measured))
    return observations(source, results)


def experiment(**workloads: Mapping[str, Any]) -> ExperimentSource:
    return ExperimentSource(
        Path("calibrate"), {"workloads": {k: {**v, "time_based": True} for k, v in workloads.items()}}
    )


def test_a_read_only_measurement_leaves_what_the_model_says_of_writes() -> None:
    model = stock_models.stock("nvme-consumer")
    runs = measure(experiment(alone=READ, busy=READS), {**model, "size": "4GiB"}, 0)
    fitted = fit_disk_and_host(model, runs, Bench(Path("d"), "6.1", size="4GiB")).calibration.device
    keys = (
        "cached_write_command_ns",
        "sustained_write_command_ns",
        "sustained_write_bandwidth",
        "slc_bytes",
        "fold_ns",
    )
    assert {key: fitted[key] for key in keys} == {key: model[key] for key in keys}
    before, after = model["uncertainty"], fitted["uncertainty"]
    for kind in ("write", "cached_write", "large_write", "large_cached_write", "mixed", "sync"):
        assert after[kind] == before[kind]
    assert after["read"] < before["read"] / 2
    assert not any(key.startswith("sustained_read") for key in fitted)


@pytest.mark.parametrize("written", [10**9, 10**12])
def test_writes_that_did_not_fill_the_cache(written: int) -> None:
    model = stock_models.stock("nvme-consumer")
    truth = {**model, "program_ns": model["program_ns"] // 2, "size": "4GiB"}
    runs = measure(experiment(small=WRITES, large=LARGE_WRITES), truth, written)
    measured = fit_disk_and_host(model, runs, Bench(Path("d"), "6.1", size="4GiB"))
    fitted = measured.calibration.device
    before, after = model["uncertainty"], fitted["uncertainty"]
    sentences = [note for note in measured.notes if "cache of single-bit cells" in note]
    if written > model["slc_bytes"]:
        assert sentences == []
        assert after["write"] < before["write"]
        return
    assert sentences == [
        "the tests wrote 1.86 GiB, and the cache of single-bit cells takes 74.5 GiB: the rate of writes after it was"
        " not seen, and keeps the interval of its class"
    ]
    assert (fitted["slc_bytes"], fitted["sustained_write_command_ns"]) == (
        model["slc_bytes"], model["sustained_write_command_ns"],
    )  # fmt: skip
    assert (after["write"], after["large_write"]) == (before["write"], before["large_write"])
    assert after["cached_write"] < before["cached_write"]
    assert "large_cached_write" not in after
    assert {"fold_ns", "sustained_write_command_ns"} <= set(measured.calibration.unknown)


@pytest.mark.parametrize("busy", [1.0, 0.0])
def test_the_file_has_the_disk_and_its_host(run: Run, monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
    Path("srv").mkdir()

    def measure_points(source: ExperimentSource, *_arguments: Sequence[object], **_options: object) -> Any:
        return measure(source, {**stock_models.stock("pm983"), "size": "8GiB"}, 10**9, busy)

    monkeypatch.setattr("blklab.cli.calibrate.measure_points", measure_points)
    outcome = run("calibrate", "--directory", "srv", "--model", "pm983", "-o", "my.toml", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    file = tomllib.loads(Path("my.toml").read_text())
    assert file["device"]["kind"] == "nvme"
    if not busy:
        assert document["host"] is None
        assert "host" not in file
        lines = [line for line in outcome.err.splitlines() if "[host]" in line]
        assert len(lines) == 1
        assert "so there is no table [host]: randread-1: fio measured no processor time" in lines[0]
        return
    assert file["host"] == {"submit_ns": 3_300, "reap_ns": 1_800} == document["host"]["host"]
    Path("e.toml").write_text(
        '[devices.d]\ncalibrated = "my.toml"\nsize = "8GiB"\n[stacks]\none = { device = "d" }\n'
        '[workloads]\nr = { rw = "randread" }\n[settings.host]\ncalibrated = "my.toml"\n'
    )
    planned = run("run", "e.toml", "--dry-run", "--json")
    assert planned.status == 0, planned.err
    assert json.loads(planned.out)["cells"][0]["cell"]["host"].items() >= file["host"].items()
    table = run("calibrate", "--directory", "srv", "--model", "pm983")
    assert "An I/O takes 5.10 µs of processor time with libaio: submit_ns = 3,300, reap_ns = 1,800." in table.out
