"""Predictions of what fio measured elsewhere: the experiment for its results, verdicts, and reasons of misses."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.compare.report import judgement_lines
from blklab.compare.reproduction import (
    JudgedFigure,
    MeasuredRun,
    are_too_few,
    as_experiment,
    as_toml,
    group_reasons,
    judge,
)
from blklab.errors import UsageError
from blklab.experiment import cells
from blklab.experiment.cells import ExperimentPlan
from blklab.outcome import DeviceResult, DirectionResult, FioFacts, LatencyResult, Outcome
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import interval

JOB = {"rw": "randread", "bs": "4k", "iodepth": "32", "ioengine": "libaio", "direct": "1", "size": "1g"}
STACKS: dict[str, dict[str, Any]] = {"a": {"device": "a"}, "pair": {"level": 1, "members": ["a", "b"]}}
SETTINGS = {"kernel": "6.1", "filesystem": "none", "max_ios": 4000}
DISKS = {name: {"kind": "throttled", "iops_total": 1000, "size": "2GiB"} for name in ("a", "b")}


def measured(stack: str, iops: float, workload: str = "load", **options: str) -> MeasuredRun:
    read = DirectionResult(round(60 * iops), 0, iops, 0.0, LatencyResult(1, 32e9 / iops))
    facts = FioFacts(options={workload: {**JOB, **options}})
    return MeasuredRun({"stack": stack, "workload": workload}, Outcome(60 * 10**9, read, fio=facts), "x.json", True)


def experiment(tmp_path: Path, runs: list[MeasuredRun], stacks: Mapping[str, dict[str, Any]]) -> ExperimentPlan:
    path = tmp_path / "made.toml"
    path.write_text(as_toml(as_experiment("made", runs, DISKS, stacks, SETTINGS, print)))
    return cells.plan(path)


def judged(plan: ExperimentPlan, metric: str = "iops") -> list[JudgedFigure]:
    outcomes = {}
    for cell, outcome in zip(plan.cells, sim.outcomes([cell.document for cell in plan.cells]), strict=True):
        outcomes[cell.number] = replace(outcome, interval=interval(cell, outcome))
    rows = judge(plan, outcomes)
    return [row for row in rows if row.metric.name == metric]


def test_the_experiment_has_the_load_and_the_figures(tmp_path: Path) -> None:
    mixed = measured("fast", 500, "mixed", rw="randrw", rwmixread="70", numjobs="2", rate_iops="400", zonemode="none")
    plan = experiment(tmp_path, [measured("fast", 900), mixed], {"fast": {"device": "a"}})
    tables = tomllib.loads((tmp_path / "made.toml").read_text())
    assert tables["workloads"]["load"] == {"rw": "randread", "bs": "4k", "iodepth": 32, "size": "1g", "numjobs": 1}
    (job,) = plan.cells[1].document["jobs"]
    assert (job["read_share"], job["numjobs"], job["iodepth"]) == (0.7, 2, 32)
    assert job["rate_iops"] == pytest.approx(400 / 0.7)
    assert [(figures.cell, figures.read_iops) for figures in plan.measured] == [
        ({"stack": "fast", "workload": "load"}, 900),
        ({"stack": "fast", "workload": "mixed"}, 500),
    ]
    assert plan.cells[0].document["runtime_ns"] == 60e9


def test_equal_loads_are_one_workload_and_others_get_a_name(tmp_path: Path) -> None:
    runs = [measured("a", 1), measured("pair", 1), measured("pair", 1, iodepth="1"), measured("pair", 1, bs="8k")]
    plan = experiment(tmp_path, runs, STACKS)
    pairs = [(cell.labels["stack"], cell.labels["workload"]) for cell in plan.cells]
    assert pairs == [("a", "load"), ("pair", "load"), ("pair", "load-iodepth1"), ("pair", "load-bs8k")]


def test_measurements_are_inside_or_outside(tmp_path: Path) -> None:
    runs = [measured("a", 1002), measured("pair", 3200)]
    first, second = judged(experiment(tmp_path, runs, STACKS))
    assert (first.decision.verdict, first.reasons) == ("inside", [])
    assert second.decision.verdict == "outside"
    assert second.decision.change == pytest.approx(3200 / second.prediction - 1)
    assert any("1.6 times what a serves when it is saturated" in reason for reason in second.reasons), second.reasons


def test_repeats_of_a_cell_are_judged_together(tmp_path: Path) -> None:
    (row,) = judged(experiment(tmp_path, [measured("a", 900), measured("a", 1100)], {"a": {"device": "a"}}))
    assert (list(row.measurements), row.mean) == ([900, 1100], 1000)
    assert row.decision.verdict in {"inside", "unclear"}


def test_a_disk_that_is_slower_alone_explains_the_array(tmp_path: Path) -> None:
    runs = [measured("a", 500), measured("pair", 1000)]
    disk, array = judged(experiment(tmp_path, runs, STACKS))
    assert array.reasons == ["a alone is 50 % lower than predicted as well: this explains a part"]
    assert disk.reasons == ["the model does not fit this disk"]
    assert group_reasons([disk, array])[array.reasons[0]] == [2]
    runs[0] = measured("a", 1000)
    _, array = judged(experiment(tmp_path, runs, STACKS))
    assert array.reasons == ["no cause is known; in the simulation, a and 1 more are saturated"]


def test_other_shares_of_the_disks_are_named(tmp_path: Path) -> None:
    run = measured("pair", 1000)
    disks = [DeviceResult("a", [900, 0], kind="disk"), DeviceResult("b", [100, 0], kind="disk")]
    run = replace(run, outcome=replace(run.outcome, devices=disks))
    (row,) = judged(experiment(tmp_path, [run], {"pair": {"level": 1, "members": ["a", "b"]}}))
    assert row.reasons == ["a served 90 % of the I/Os, 50 % predicted"]


@pytest.mark.parametrize(
    ("run", "doubt"),
    [
        (measured("a", 500, direct="0"), "fio ran through the page cache (direct=0), which is not simulated"),
        (measured("a", 500, percentage_random="50"), "not simulated: percentage_random=50"),
        (replace(measured("a", 500), all_options=False), "fio's text does not contain all options"),
    ],
)
def test_what_is_not_simulated_is_a_reason(run: MeasuredRun, doubt: str, tmp_path: Path) -> None:
    (row,) = judged(experiment(tmp_path, [run], {"a": {"device": "a"}}))
    assert row.decision.verdict == "outside"
    assert row.reasons[0].startswith(doubt)


def test_a_miss_by_more_than_the_intervals_width_is_wrong_and_not_chance(tmp_path: Path) -> None:
    plan = experiment(tmp_path, [measured("a", 30, direct="0")], {"a": {"device": "a"}})
    (row,) = judged(plan)
    assert row.is_far
    first, second, *_ = judgement_lines([row])
    assert first == "iops: 0 of 1 measurements are inside: nine of ten are expected, the prediction is wrong."
    assert second.startswith("The prediction of iops is wrong in cell 1: ")
    assert second.endswith(", measured 30, because fio ran through the page cache (direct=0), which is not simulated.")


@pytest.mark.parametrize(
    ("ends", "is_far"), [((29.0, 31.0), False), ((31.0, 40.0), False), ((15.0, 29.9), False), ((50.0, 60.0), True)]
)
def test_widths_are_ratios(ends: tuple[float, float], is_far: bool, tmp_path: Path) -> None:
    (row,) = judged(experiment(tmp_path, [measured("a", 30)], {"a": {"device": "a"}}))
    row = replace(row, ends=ends)
    assert row.is_far is is_far
    chance = any("chance can explain" in line for line in judgement_lines([row]))
    assert chance is not is_far


def test_a_busy_processor_and_a_short_run_are_doubts(tmp_path: Path) -> None:
    run = measured("a", 500, numjobs="2")
    facts = replace(run.outcome.fio or FioFacts(), usr_cpu=60.0, sys_cpu=130.0)
    plan = experiment(
        tmp_path, [replace(run, outcome=replace(run.outcome, fio=facts, runtime_ns=2 * 10**9))], {"a": {"device": "a"}}
    )
    assert plan.measured[0].doubts == [
        "the run took 2 s: caches and the state of the disks decide",
        "fio's processes were busy 95 % of the time: the processor was the limit",
    ]


def test_figures_to_which_a_model_was_fitted_are_no_test(tmp_path: Path) -> None:
    plan = experiment(tmp_path, [measured("a", 500)], {"a": {"device": "a"}})
    plan = replace(plan, measured=[plan.measured[0].model_copy(update={"fitted": True})])
    (row,) = judged(plan)
    assert row.as_dict()["verdict"] == "fitted"


def test_options_that_the_simulator_ignores_are_one_warning() -> None:
    runs = [measured("a", 500, prioclass="1", zonemode="none", nice="3"), measured("a", 400, ioprio="2", verify="md5")]
    warnings: list[str] = []
    as_experiment("made", runs, DISKS, {"a": {"device": "a"}}, SETTINGS, warnings.append)
    listed = "prioclass=1, ioprio=2, verify=md5"
    assert warnings == [f"the simulator ignores these options of fio, and figures lack their effect: {listed}"]


def test_a_run_without_options_is_refused() -> None:
    run = measured("a", 500)
    unknown = replace(run, outcome=replace(run.outcome, fio=FioFacts(options={"load": {"numjobs": "1"}})))
    with pytest.raises(UsageError, match=r"x\.json: fio's options are missing"):
        as_experiment("made", [unknown], DISKS, {"a": {"device": "a"}}, SETTINGS, print)


@pytest.mark.parametrize(
    ("labels", "device", "place"),
    [
        ({"stack": "far 2"}, "md0", "far-2"),
        ({"source": "run/raid1"}, "md0", "run-raid1"),
        ({}, "nvme0n1", "nvme0n1"),
        ({}, "", "vg0-data"),
    ],
)
def test_what_was_measured_has_a_name(labels: dict[str, str], device: str, place: str) -> None:
    run = measured("", 500, filename="/dev/vg0/data")
    devices = [DeviceResult(device)] if device else []
    assert replace(run, labels=labels, outcome=replace(run.outcome, devices=devices)).place == place


def test_many_misses_of_a_disk_show_that_its_model_does_not_fit(tmp_path: Path) -> None:
    runs = [measured("a", 500, iodepth=str(depth)) for depth in (8, 16, 32)]
    rows = judged(experiment(tmp_path, runs, {"a": {"device": "a"}}))
    fits = "the model does not fit this disk: `blklab calibrate` fits one to runs of the disk alone"
    assert [row.reasons for row in rows] == [[fits]] * 3
    assert are_too_few(0, 2)
    assert not are_too_few(89, 98)
    assert not are_too_few(0, 1)


def test_how_others_vary_says_nothing_about_a_single_run(tmp_path: Path) -> None:
    noisy = [measured("a", iops) for iops in (300, 1000, 3000)]
    _, alone = judged(experiment(tmp_path, [*noisy, measured("a", 500, iodepth="16")], {"a": {"device": "a"}}))
    assert alone.verdict == "outside"


def test_a_run_that_its_rate_limits_is_no_test(tmp_path: Path) -> None:
    (row,) = judged(experiment(tmp_path, [measured("a", 200, rate_iops="200")], {"a": {"device": "a"}}))
    assert row.verdict == "limited"


def test_a_repeat_is_no_further_test(tmp_path: Path) -> None:
    path = tmp_path / "made.toml"
    experiment(tmp_path, [measured("a", 1000)], {"a": {"device": "a"}})
    path.write_text(f"repeats = 3\n{path.read_text()}")
    assert [row.cell.number for row in judged(cells.plan(path))] == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rw": "trimwrite"}, "rw: found 'trimwrite'"),
        ({"rate_iops": "800,400"}, "rate_iops"),
        ({"rw": "write"}, "fio's figures have reads and its options have none"),
        ({"iodepth": "0"}, "iodepth"),
    ],
)
def test_a_load_that_cannot_be_simulated_is_left_out(options: dict[str, str], message: str) -> None:
    said: list[str] = []
    runs = [measured("a", 500), measured("a", 500, "odd", **options)]
    made = as_experiment("made", runs, DISKS, {"a": {"device": "a"}}, SETTINGS, said.append)
    assert list(made["workloads"]) == ["load"]
    assert message in said[0]
    assert said[0].startswith("x.json: ")
    assert said[0].endswith(": left out")


def test_sizes_and_sequences_become_what_can_be_simulated(tmp_path: Path) -> None:
    run = measured("a", 500, bssplit="4k/50:64k/50", rw="randread:8")
    plan = experiment(tmp_path, [run], {"a": {"device": "a"}})
    assert plan.raw["workloads"]["load"]["rw"] == "randread"
    assert plan.measured[0].doubts == ["not simulated: rw=randread:8"]


def test_an_array_is_not_taken_for_a_disk() -> None:
    run = measured("md0", 500)
    assert run.may_be_a_disk
    array = [DeviceResult("md0", leaf=False), DeviceResult("a", leaf=True), DeviceResult("b", leaf=True)]
    assert not replace(run, outcome=replace(run.outcome, devices=array)).may_be_a_disk
    assert not measured("x", 500, filename="/dev/a:/dev/b").may_be_a_disk


def test_other_labels_keep_equal_loads_apart() -> None:
    runs = [replace(run, labels={**run.labels, "side": side}) for side in ("old", "new") for run in [measured("a", 9)]]
    made = as_experiment("made", runs, DISKS, {"a": {"device": "a"}}, SETTINGS, print)
    assert list(made["workloads"]) == ["load-old", "load-new"]
