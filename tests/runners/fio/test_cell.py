"""Cells measured with the real fio."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.experiment import cell_form
from blklab.runners.fio import cell, target_preparation
from blklab.runners.fio.process import FioProgress
from tests.loop_devices import attach_loop_device
from tests.runners.fio.conftest import MAKE


def test_a_file_that_is_read_has_been_written(work: Path, make: MAKE) -> None:
    path = work / "data"
    begun = []
    facts: list[FioProgress] = []
    measured = cell.measure(
        make(numjobs="2", iodepth="4", time_based="1"),
        path,
        work,
        progress=facts.append,
        ready=lambda: begun.append(target_preparation.is_laid_out(path, 4 << 20)),
    )
    assert begun == [True]
    assert len(set(path.read_bytes()[::4096])) > 1  # neither holes nor zeros
    outcome, series, raw = measured
    assert outcome.read.total_ios > 0
    assert outcome.write.total_ios == 0
    assert outcome.devices == []
    assert outcome.steady is None
    assert outcome.command is None
    assert sum(item.read_ios for item in series) == outcome.read.total_ios
    assert {item.source for item in series} == {"jobs"}
    assert [item.width_ns for item in series[:3]] == [250 * 10**6] * 3
    assert outcome.fio is not None
    assert "--readonly" in outcome.fio.command
    assert outcome.job_options["work"]["randseed"] == "1"
    assert len(json.loads(raw)["jobs"]) == 2
    assert [item.name for item in work.iterdir()] == ["data"]


@pytest.mark.parametrize("timed", [False, True])
def test_a_trace_is_replayed(work: Path, make: MAKE, timed: bool) -> None:
    log = work / "load.iolog"
    lines = [
        "1 x add",
        "1 x open",
        "1 x read 0 4096",
        "300000 x write 65536 8192",
        "600000 x read 4096 4096",
        "600001 x close",
    ]
    log.write_text("\n".join(["fio version 3 iolog", *lines, ""]))
    trace = cell_form.replay_source(log, None, None)
    document = make(rw="randrw", number_ios="0", size=str(trace.end), replay_time_scale="50")
    del document["jobs"][0]["options"]["bs"]
    path = work / "data:1"  # a name that fio would split
    how = {"timed": timed, "iodepth": 2, "speed": 0.5}
    measured = cell.measure({**document, "replay": {**asdict(trace), **how}}, path, work)  # type: ignore[typeddict-item]
    outcome = measured.outcome
    assert [(each.total_ios, each.io_bytes) for each in (outcome.read, outcome.write)] == [(2, 8192), (1, 8192)]
    assert (outcome.runtime_ns >= 10**9) == timed, "0.6 s at half the speed"
    assert (outcome.read.clat_ns.count == 0) == timed, "fio collects completions late"
    assert all((point.read_clat_ns is None) >= timed for point in measured.series)
    assert sorted(item.name for item in work.iterdir()) == ["data:1", "load.iolog"]


def test_preconditioned_and_steady(work: Path, make: MAKE) -> None:
    document = make(rw="randwrite", bssplit="4k/50:8k/50", number_ios="500")
    del document["jobs"][0]["options"]["bs"]
    document["host"] = {
        "drop_caches": True,
        "precondition": "random",
        "steady": {"round_ns": 10**8, "rounds": 5, "range": 0, "slope": 0, "limit_ns": 2 * 10**8},
    }
    proc = work / "proc" / "sys" / "vm"
    proc.mkdir(parents=True)
    (proc / "drop_caches").write_text("")
    measured = cell.measure(document, work / "data", work, proc=work / "proc")
    assert (proc / "drop_caches").read_text() == "3\n"
    steady = measured.outcome.steady
    assert steady is not None
    assert not steady.reached
    assert len(steady.rounds) == 2
    assert measured.outcome.write.total_ios == 500
    assert measured.outcome.warnings == ["no steady state after 2 rounds: measured without one"]


def test_caches_that_may_not_be_dropped_are_a_warning(work: Path, make: MAKE) -> None:
    document = make(number_ios="10")
    document["host"]["drop_caches"] = True
    outcome = cell.measure(document, work / "data", work, proc=work / "nowhere").outcome
    assert outcome.warnings[0].endswith("cannot drop caches: No such file or directory")
    assert "No such file" in outcome.warnings[0]


def test_what_fio_notes_is_a_warning(work: Path, make: MAKE) -> None:
    document = make(ioengine="psync", iodepth="8", number_ios="10")
    outcome = cell.measure(document, work / "data", work).outcome
    assert any("queue depth will be capped at 1" in warning for warning in outcome.warnings)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """Returns a block device of 4 MiB, full of zeros."""
    image = tmp_path / "image"
    image.write_bytes(bytes(4 << 20))
    try:
        path = Path(attach_loop_device(image))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("loop devices cannot be made here")
    try:
        yield path
    finally:
        subprocess.run(["losetup", "--detach", path], check=True)


def test_a_device_is_filled_and_written_at_random(device: Path, work: Path, make: MAKE) -> None:
    document = make(number_ios="100")
    del document["file_bytes"]
    del document["jobs"][0]["options"]["size"]
    document["host"]["precondition"] = "random"
    before = device.read_bytes()
    with pytest.raises(BlklabError, match="cannot write to this device: the run has not claimed it for writing"):
        cell.measure(document, device, work)
    assert device.read_bytes() == before
    phases = []
    outcome, _, _ = cell.measure(
        document, device, work, may_write=True, progress=lambda live: phases.append(live.phase)
    )
    assert outcome.read.total_ios == 100
    content = device.read_bytes()
    blocks = {content[at : at + 4096] for at in range(0, len(content), 4096)}
    assert len(content) == 4 << 20
    assert len(blocks) == 1024  # all written, none twice the same
    assert set(phases) <= {"fill", "random", "measure"}
    assert outcome.fio is not None and outcome.fio.disk_util[0]["name"] == device.name
    assert list(work.iterdir()) == []


def test_a_file_is_laid_out_once(work: Path, make: MAKE) -> None:
    path = work / "data"
    document = make(number_ios="10")
    cell.measure(document, path, work)
    content = path.read_bytes()
    cell.measure(document, path, work)
    assert path.read_bytes() == content
    # A hole is read without I/O: it is written again.
    with path.open("r+b") as file:
        file.truncate(0)
        file.truncate(4 << 20)
    assert not target_preparation.is_laid_out(path, 4 << 20)
    cell.measure(document, path, work)
    assert target_preparation.is_laid_out(path, 4 << 20)
    assert path.read_bytes() == content  # of the same seed


def test_a_command(work: Path, make: MAKE) -> None:
    (work / "sub").mkdir()
    document = make()
    document["command"] = {"argv": ["touch", "made"], "directory": "sub", "times": 3}
    document["host"]["drop_caches"] = True
    begun = []
    outcome, series, raw = cell.measure(document, work, work, proc=work / "nowhere", ready=lambda: begun.append(True))
    assert begun == [True]
    assert (work / "sub" / "made").exists()
    assert (series, raw) == ([], "")
    assert outcome.command is not None
    assert outcome.command.argv == ["touch", "made"]
    assert [run.status for run in outcome.command.runs] == [0, 0, 0]
    assert outcome.runtime_ns == sum(run.wall_ns for run in outcome.command.runs)
    assert outcome.read.total_ios == outcome.write.iops == 0
    assert len(outcome.warnings) == 1


def test_cells_that_make_no_sense(work: Path, make: MAKE) -> None:
    document = make()
    del document["file_bytes"]
    with pytest.raises(UsageError, match="expected file_bytes"):
        cell.measure(document, work / "data", work)
    document = make()
    document["host"]["precondition"] = "purge"
    with pytest.raises(BlklabError, match="expected none, fill or random"):
        cell.measure(document, work / "data", work)
    with pytest.raises(BlklabError, match="fio failed: "):
        cell.measure(make(bs="777"), work / "data", work)
