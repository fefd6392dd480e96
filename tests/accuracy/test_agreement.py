"""The simulator agrees with what the lab has measured: reference/lab."""

import itertools
import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from accuracy import agreement, recordings
from accuracy.agreement import AgreementFigures, AgreementKey, AgreementRow, agreement_figures, agreement_key
from accuracy.recordings import LabRecording
from blklab.errors import UsageError
from blklab.experiment import cells, lab_cell
from blklab.experiment.host_prices import complete_prices
from blklab.outcome import OTHER_KERNEL, IoCost, Outcome
from blklab.runners.sim.uncertainty import KERNEL

REFERENCE = Path(__file__).parents[2] / "reference"
MEMBERS = {"fast": (830, 0), "slow": (170, 0)}
KEY = AgreementKey("pairs", (("stack", "raid1"), ("workload", "reads"), ("repeat", "1")))


@cache
def recorded() -> list[tuple[LabRecording, list[AgreementRow]]]:
    return [(item, recordings.predicted(REFERENCE, item)) for item in recordings.read_recordings(REFERENCE)]


def test_the_simulator_agrees_with_the_lab_in_nine_of_ten_cells() -> None:
    kernels = [item.kernel for item, _ in recorded()]
    assert kernels == ["6.1", "6.12", "7.3"]
    for _, rows in recorded():
        (verdict,) = agreement.agreement_verdicts(rows)
        missed = [row.key.text for row in rows if not row.holds]
        assert verdict.holds, missed


def test_intervals_have_the_errors_of_known_devices() -> None:
    squares = [math.log1p(row.error) ** 2 for _, rows in recorded() for row in rows]
    assert 0.85 * KERNEL < math.sqrt(sum(squares) / len(squares)) < KERNEL


def test_most_of_the_error_is_common_to_two_kernels() -> None:
    by_cell: dict[AgreementKey, list[float]] = {}
    for _, rows in recorded():
        for row in rows:
            by_cell.setdefault(row.key, []).append(math.log1p(row.error))
    squares = [
        (first - second) ** 2 for errors in by_cell.values() for first, second in itertools.combinations(errors, 2)
    ]
    assert len(squares) > 100
    assert 0.75 * OTHER_KERNEL < math.sqrt(sum(squares) / len(squares)) < OTHER_KERNEL


def test_every_cell_is_recorded() -> None:
    by_kernel = {item.kernel: item for item, _ in recorded()}
    wanted = {path.stem: path for path in recordings.suites(REFERENCE)}
    others = {item.suite for item in by_kernel["6.12"].cells}
    assert "published" in others
    for kernel, suites in (("6.1", set(wanted)), ("6.12", others)):
        keys = {agreement_key(suite, cell.labels) for suite in suites for cell in cells.plan(wanted[suite]).cells}
        assert keys == set(by_kernel[kernel].cells)


def test_of_every_cell_that_misses_something_is_known() -> None:
    known = recordings.misses(REFERENCE)
    for _, rows in recorded():
        for row, miss in recordings.missed(known, rows):
            assert miss is not None, f"{row.kernel} {row.key.suite} {row.key.text}: {row.error:+.1%}"
            assert miss.verdict in {"explained", "open"}


def test_the_short_suite_is_short() -> None:
    (path,) = recordings.suites(REFERENCE, recordings.SHORT)
    result = cells.plan(path, form=lab_cell.FORM).cells
    assert len(result) == 8
    seconds = sum(cell.document["runtime_ns"] + cell.document["ramp_ns"] for cell in result) / 1e9
    assert seconds <= 40
    assert path not in recordings.suites(REFERENCE)


def test_shares_are_of_what_a_cell_does() -> None:
    members = {"fast": (60, 20), "slow": (40, 80)}
    assert AgreementFigures(10, 0, members).shares == {"fast": 0.6, "slow": 0.4}
    assert AgreementFigures(0, 10, members).shares == {"fast": 0.2, "slow": 0.8}
    assert AgreementFigures(5, 5, members).shares == {"fast": 0.4, "slow": 0.6}
    assert AgreementFigures(0, 0, {"fast": (0, 0)}).shares == {"fast": 0.0}


def test_devices_above_disks_do_not_count() -> None:
    direction: Any = {"iops": 5.0}
    devices: Any = [
        {"name": "fast", "ios": [3, 1], "leaf": True},
        {"name": "raid1", "ios": [3, 1], "leaf": False},
        {"name": "simulated", "ios": [2, 2]},
    ]
    result = agreement_figures(Outcome.from_document({"read": direction, "write": direction, "devices": devices}))
    assert result == AgreementFigures(5, 5, {"fast": (3, 1), "simulated": (2, 2)})


@pytest.mark.parametrize(
    ("iops", "members", "holds"),
    [
        (1090, MEMBERS, True),
        (1110, MEMBERS, False),
        (890, MEMBERS, False),
        (1000, {"fast": (870, 0), "slow": (130, 0)}, True),
        (1000, {"fast": (890, 0), "slow": (110, 0)}, False),
    ],
)
def test_both_bounds_count(iops: float, members: dict[str, tuple[int, int]], holds: bool) -> None:
    row = AgreementRow(KEY, "6.1", AgreementFigures(iops, 0, members), AgreementFigures(1000, 0, MEMBERS))
    assert row.holds == holds


@pytest.mark.parametrize(
    ("iops", "hit_rate", "holds"), [(1140, 0.61, True), (1160, 0.61, False), (1000, 0.62, False), (1000, 0.586, True)]
)
def test_of_caches_the_hit_rate_counts(iops: float, hit_rate: float, holds: bool) -> None:
    measured = AgreementFigures(1000, 0, MEMBERS, hit_rate=0.6)
    row = AgreementRow(KEY, "6.1", AgreementFigures(iops, 0, {"fast": (1, 0)}, hit_rate=hit_rate), measured)
    assert row.holds == holds


def test_hits_are_those_of_the_cache_of_the_stack() -> None:
    dm = {"read_hits": 60, "read_misses": 20, "write_hits": 15, "write_misses": 5}
    bcache = {"cache_hits": 5, "cache_misses": 5, "cache_bypass_hits": 1, "cache_bypass_misses": 9}
    direction: Any = {"iops": 5.0}
    for target, expected in ((dm, 0.75), (bcache, 0.3), ({"reads": 5}, None)):
        outcome: Any = {"read": direction, "write": direction, "devices": [], "targets": [target]}
        assert agreement_figures(Outcome.from_document(outcome)).hit_rate == expected


def test_nine_of_ten_are_enough() -> None:
    good = AgreementRow(KEY, "6.1", AgreementFigures(1000, 0, MEMBERS), AgreementFigures(1000, 0, MEMBERS))
    bad = AgreementRow(KEY, "6.1", AgreementFigures(2000, 0, MEMBERS), AgreementFigures(1000, 0, MEMBERS))
    idle = AgreementRow(KEY, "6.12", AgreementFigures(1000, 0, MEMBERS), AgreementFigures(0, 0, MEMBERS))
    assert [item.holds for item in agreement.agreement_verdicts([*[good] * 9, bad, idle])] == [True, False]
    assert not agreement.agreement_verdicts([*[good] * 8, bad])[0].holds


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    other = AgreementKey("other", KEY.labels)
    first = LabRecording("6.1", {"fio": "3.33"}, {KEY: AgreementFigures(1.25, 0, MEMBERS)})
    path = recordings.write_recording(tmp_path, first)
    assert path == tmp_path / "lab" / "measured" / "6.1.json"
    assert recordings.read_recordings(tmp_path)[0].cells[KEY] == AgreementFigures(1.2, 0, MEMBERS)
    recordings.write_recording(tmp_path, LabRecording("6.1", {"fio": "3.33"}, {other: AgreementFigures(7, 0, MEMBERS)}))
    recordings.write_recording(tmp_path, LabRecording("6.12", {}, {other: AgreementFigures(8, 0, MEMBERS)}))
    old, new = recordings.read_recordings(tmp_path)
    assert set(old.cells) == {other, KEY}
    assert (old.measured_with, new.kernel) == ({"fio": "3.33"}, "6.12")


def test_a_recording_is_of_one_environment(tmp_path: Path) -> None:
    other = AgreementKey("other", KEY.labels)
    for item, fio in ((KEY, "3.33"), (other, "3.39")):
        recordings.write_recording(tmp_path, LabRecording("6.1", {"fio": fio}, {item: AgreementFigures(7, 0, MEMBERS)}))
    (result,) = recordings.read_recordings(tmp_path)
    assert (list(result.cells), result.measured_with) == ([other], {"fio": "3.39"})


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("{", "is not a recording: JSONDecodeError"),
        ("[]", "is not a recording: TypeError"),
        ('{"kernel": "6.1"}', "is not a recording: KeyError"),
        ('{"kernel": "new", "measured_with": {}, "cells": []}', "expected a generation"),
        ('{"kernel": "6.1", "measured_with": {}, "cells": [3]}', "is not a recording"),
    ],
)
def test_what_is_no_recording_is_said(tmp_path: Path, text: str, output: str) -> None:
    recordings.recordings_directory(tmp_path).mkdir(parents=True)
    (recordings.recordings_directory(tmp_path) / "6.1.json").write_text(text)
    with pytest.raises(UsageError, match=output):
        recordings.read_recordings(tmp_path)


def test_misses_are_found_by_pattern(tmp_path: Path) -> None:
    assert recordings.misses(tmp_path) == []
    recordings.recordings_directory(tmp_path).mkdir(parents=True)
    path = recordings.recordings_directory(tmp_path) / "misses.toml"
    path.write_text('[[misses]]\ncell = "raid1 *"\nverdict = "open"\ntext = """\ntwo\nlines"""\n')
    good = AgreementRow(KEY, "6.1", AgreementFigures(1000, 0, MEMBERS), AgreementFigures(1000, 0, MEMBERS))
    bad = AgreementRow(KEY, "6.1", AgreementFigures(2000, 0, MEMBERS), AgreementFigures(1000, 0, MEMBERS))
    ((row, miss),) = recordings.missed(recordings.misses(tmp_path), [good, bad])
    assert row is bad
    assert miss is not None
    assert miss.text == "two lines"
    path.write_text("misses = 3\n")
    with pytest.raises(UsageError, match="is not valid"):
        recordings.misses(tmp_path)


def test_rows_keep_what_json_can_say() -> None:
    row = AgreementRow(KEY, "6.1", AgreementFigures(1000, 0, MEMBERS), AgreementFigures(1000, 0, MEMBERS))
    assert json.loads(json.dumps(row.as_dict()))["holds"] is True


def test_latencies_of_a_file_come_on_top_of_those_of_the_guest(tmp_path: Path) -> None:
    text = """
[devices]
limited = { kind = "throttled", iops_total = 100, size = "64MiB" }
slow = { kind = "throttled", iops_total = 100, size = "64MiB", latency_ns = 7 }
disk = { model = "sm883", size = "64MiB" }
[stacks.mirror]
level = 1
members = ["limited", "slow", "disk"]
[workloads.reads]
rw = "randread"
[settings]
runtime = "1s"
host = { wake_ns = 5 }
"""
    (tmp_path / "one.toml").write_text(text)
    plan = cells.plan(tmp_path / "one.toml")
    (cell,) = plan.cells
    figures = AgreementFigures(1, 0, MEMBERS, IoCost(latency_ns=100, submit_ns=20, reap_ns=9, wake_ns=30))
    (changed,) = agreement.with_io_costs(plan, {agreement_key("one", cell.labels): figures}).cells
    models = [device["model"] for device in changed.document["devices"]]
    assert [model.get("latency_ns") for model in models] == [100, 107, None]
    assert models[2] == cell.document["devices"][2]["model"]
    host = {"cores": 2, "submit_ns": 20, "reap_ns": 9, "wake_ns": 5}
    assert changed.document["host"] == complete_prices(host)
    assert host.items() <= changed.document["host"].items()
    larger = replace(plan, raw={**plan.raw, "lab": {"cpus": 4}})
    (changed,) = agreement.with_io_costs(larger, {}).cells
    assert changed.document == {**cell.document, "host": {"cores": 4, "wake_ns": 5}}


def test_recordings_keep_the_cost_of_an_io_and_may_lack_it(tmp_path: Path) -> None:
    other = AgreementKey("other", KEY.labels)
    cost = IoCost(latency_ns=300_000, submit_ns=200_000, reap_ns=50_000, wake_ns=100_000)
    figures = {KEY: AgreementFigures(7, 0, MEMBERS, cost), other: AgreementFigures(8, 0, MEMBERS)}
    path = recordings.write_recording(tmp_path, LabRecording("6.1", {}, figures))
    assert path.read_text().count("io_cost") == 1
    assert recordings.read_recordings(tmp_path)[0].cells == figures
