"""`accuracy/run agreement`, with a lab that boots nothing."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.outcome import Outcome
from blklab.runners.base import Ledger
from blklab.store.series import FinishedRun
from tests.conftest import Run

PAIR = """
[devices.fast]
kind = "throttled"
iops_total = 400
size = "64MiB"

[devices.slow]
kind = "throttled"
iops_total = 100
size = "64MiB"

[stacks.raid1]
level = 1
members = ["fast", "slow"]

[workloads.writes]
rw = "randwrite"
iodepth = 4
time_based = true

[settings]
kernel = "6.1"
runtime = "2s"
ramp_time = "1s"
"""


class Lab:
    """Says of every cell what a mirror's slowest member does."""

    name = "lab"
    slowest = 99.0
    io_cost: Mapping[str, int] | None = None
    cells: list[str]

    def __init__(self, **_options: Any) -> None:
        Lab.cells = []

    def session(self) -> nullcontext[None]:
        return nullcontext()

    def check(self, plan: ExperimentPlan) -> None:
        pass

    def environment(self) -> dict[str, Any]:
        packages = {"fio": "3.33-3", "mdadm": "4.2-5", "lvm2": "2.03"}
        guests = {kernel: {"packages": packages} for kernel in ("6.1", "6.12")}
        return {"programs": {"qemu": "7.2.22"}, "guests": guests}

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        for cell in cells:
            ledger.begin(cell)
            Lab.cells.append(cell.labels["stack"])
            devices = [{"name": device["name"], "ios": [0, 200], "leaf": True} for device in cell.document["devices"]]
            outcome: Any = {
                "read": {"iops": 0.0},
                "write": {"iops": Lab.slowest},
                "devices": devices,
                "lab": {"kernel": "6.1.0-1-amd64", "accel": "tcg"},
            }
            if Lab.io_cost:
                outcome["lab"]["io_cost"] = Lab.io_cost
            ledger.end(cell, FinishedRun(Outcome.from_document(outcome), 0.1, []))


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("accuracy.agreement_command.LabRunner", Lab)
    monkeypatch.setattr(Lab, "slowest", 99.0)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "pair.toml").write_text(PAIR)
    (tmp_path / "lab" / "short.toml").write_text(PAIR)
    return tmp_path


def test_both_runners_are_compared_and_kept(judge: Run, run: Run, directory: Path) -> None:
    outcome = judge("agreement", "--reference", directory, "--json", "--check")
    assert outcome.status == 0, outcome.err
    result = json.loads(outcome.out)
    assert result["verdicts"] == [{"kernel": "6.1", "cells": 1, "within": 1, "holds": True}]
    (row,) = result["rows"]
    assert row["labels"] == {"stack": "raid1", "workload": "writes", "repeat": "1"}
    assert row["measured"] == {"read_iops": 0.0, "write_iops": 99.0, "members": {"fast": [0, 200], "slow": [0, 200]}}
    assert abs(row["error"]) < 0.05
    kept = json.loads(run("runs", "list", "--json").out)
    assert sorted(item["runner"] for item in kept) == ["lab", "sim"]


def test_the_table_says_what_misses(judge: Run, directory: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Lab, "slowest", 200.0)
    outcome = judge("agreement", "pair", "--reference", directory, "--check")
    assert outcome.status == 1
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert any(line.startswith("pair raid1 writes ") and "missed" in line for line in lines)
    assert any(line.startswith("6.1 1 0 0 %") and "does not hold" in line for line in lines)
    assert "6.1 pair raid1 writes open: no explanation yet" in lines


def test_what_was_recorded_needs_no_lab(judge: Run, directory: Path, tmp_path: Path) -> None:
    options = ("agreement", "pair", "--reference", directory)
    assert judge(*options, "--record", "--set", "kernel=6.12").status == 0
    recorded = json.loads((directory / "lab" / "measured" / "6.12.json").read_text())
    assert recorded["measured_with"] == {
        "kernel": "6.1.0-1-amd64",
        "fio": "3.33-3",
        "mdadm": "4.2-5",
        "QEMU": "7.2.22",
        "accelerator": "tcg",
    }
    Lab.cells.clear()
    report = tmp_path / "lab.md"
    outcome = judge(*options, "--recorded", "--check", "-o", report)
    assert (outcome.status, Lab.cells) == (0, [])
    text = report.read_text()
    assert "## Agreement with the lab\n" in text
    assert "Measured on 6.12 with kernel 6.1.0-1-amd64, fio 3.33-3, mdadm 4.2-5" in text
    assert "| pair | raid1 writes |" in text


def test_predictions_use_the_cost_of_an_io_in_the_guest(
    judge: Run, run: Run, directory: Path, monkeypatch: Any
) -> None:
    options = ("agreement", "pair", "--reference", directory)
    without = judge(*options)
    assert "In 1 of 1 cells this cost is unknown: predictions use 0 on the disk." in " ".join(without.out.split())
    # A write each 50 ms and four in flight, on disks of 100 I/Os a second: 80 a second.
    cost = {"latency_ns": 50_000_000, "submit_ns": 100_000, "reap_ns": 1_000, "wake_ns": 10_000}
    monkeypatch.setattr(Lab, "io_cost", cost)
    outcome = judge(*options, "--record", "--json")
    (row,) = json.loads(outcome.out)["rows"]
    assert row["measured"]["io_cost"] == cost
    assert row["predicted"]["write_iops"] == pytest.approx(80, rel=0.02)
    recorded = judge(*options, "--recorded")
    text = " ".join(recorded.out.split())
    assert "what an I/O without limits takes: 50 ms on the disk, 100 µs to submit it;" in text
    assert "unknown" not in text
    stored = json.loads(run("runs", "list", "--json").out)
    assert [item["runner"] for item in stored].count("sim") == 2


def test_a_suite_without_such_cells_is_left_out(judge: Run, directory: Path) -> None:
    (directory / "lab" / "other.toml").write_text(PAIR.replace("raid1", "mirror"))
    outcome = judge("agreement", "--reference", directory, "--only", "stack=m*", "--json")
    assert outcome.status == 0, outcome.err
    assert [row["suite"] for row in json.loads(outcome.out)["rows"]] == ["other"]
    assert Lab.cells == ["mirror"]


def test_cells_are_resumed(judge: Run, directory: Path) -> None:
    options = ("agreement", "pair", "--reference", directory)
    assert judge(*options).status == 0
    assert judge(*options, "--resume").status == 0
    assert Lab.cells == []


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["pairs"], "lab: no suite 'pairs'; did you mean 'pair'"),
        (["--recorded"], "no recording of suite"),
        (["--recorded", "--record"], "--record: --recorded measures nothing"),
        (["--only", "stack=raid7"], "--only stack=raid7: no such stack;"),
    ],
)
def test_what_makes_no_sense_is_said(judge: Run, directory: Path, options: list[str], output: str) -> None:
    outcome = judge("agreement", "--reference", directory, *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert output in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_directory_without_experiments_is_said(judge: Run, tmp_path: Path) -> None:
    outcome = judge("agreement", "--reference", tmp_path)
    assert outcome.status == 2
    assert "has no experiments (*.toml)" in outcome.err
