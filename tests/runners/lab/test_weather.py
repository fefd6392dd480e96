"""Bad weather for real guests: what is said, what is stored, and what the next cell finds."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.fio.process import FioProgress
from blklab.runners.lab import cache_fill, fio_in_guest, measurement, runner
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine import boot as booting
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.store import query
from blklab.store.campaigns import Store
from tests.conftest import Run
from tests.runners.lab.conftest import filled, guests, left
from tests.throttled_pair import THROTTLED_MIRROR

pytestmark = pytest.mark.guest

MIRROR = (
    THROTTLED_MIRROR
    + """[workloads.reads]
rw = "randread"
time_based = true
runtime = "2s"
size = "32MiB"
"""
)

During = Callable[[Callable[[GuestMachine], object]], None]


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> During:
    """Returns a function that has something done once, when fio first says how it gets on."""
    playing = fio_in_guest.play

    def during(act: Callable[[GuestMachine], object]) -> None:
        acted: list[threading.Thread] = []

        def acting(machine: GuestMachine) -> None:
            with suppress(BlklabError):  # the guest may end in the midst of it
                act(machine)

        def play(machine: GuestMachine, document: Any, target: Any, progress: Any, **named: Any) -> Any:
            def report(live: FioProgress) -> None:
                progress(live)
                if not acted:
                    acted.append(threading.Thread(target=acting, args=(machine,), daemon=True))
                    acted[0].start()

            return playing(machine, document, target, report, **named)

        monkeypatch.setattr(cache_fill, "play", play)
        monkeypatch.setattr(measurement, "play", play)

    return during


def experiment(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "exp.toml"
    path.write_text(text)
    return path


def stored() -> list[tuple[str, str | None]]:
    """Returns the state of each cell of the newest campaign, and its message."""
    newest = query.all_campaigns(Store())[-1]
    return [(run.state, run.message) for run in query.runs_of(Store(), newest.number)]


def test_a_panic_costs_one_cell(cache: Path, tmp_path: Path, run: Run, during: During) -> None:
    during(lambda machine: machine.agent.write("/proc/sysrq-trigger", "c"))
    path = experiment(tmp_path, MIRROR + "[matrix]\niodepth = [4, 8]\n")
    outcome = run("run", path, "--on", "lab")
    assert outcome.status == 1
    output = "the guest is lost: Kernel panic - not syncing: sysrq triggered crash (last lines of its console: "
    assert f"cell 1 (stack=mirror workload=reads iodepth=4 repeat=1): {output}" in outcome.err
    assert outcome.err.count("\n") == 1
    (lost, why), (other, _) = stored()
    assert (lost, other) == ("failed", "done")
    assert why is not None
    assert why.startswith(output)
    assert len(why) < 1000
    assert guests(cache) == []
    again = run("run", path, "--on", "lab", "--resume")
    assert again.status == 0, again.err
    assert [state for state, _ in stored()] == ["done", "done"]
    assert left(cache) == []


def test_a_guest_that_hangs(
    cache: Path, tmp_path: Path, run: Run, during: During, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.runners.lab.machine.boot.HANGS", 3.0)
    monkeypatch.setattr("blklab.runners.lab.machine.boot.HEARTBEAT", 1.0)

    def stop(_machine: GuestMachine) -> None:
        for process in guests(cache):
            subprocess.run(["kill", f"-{signal.SIGSTOP.value}", str(process)], check=True)

    during(stop)
    outcome = run("run", experiment(tmp_path, MIRROR), "--on", "lab")
    assert outcome.status == 1
    assert "the guest is lost: it did not answer for 3 s" in outcome.err
    assert guests(cache) == []


FAILING = """
[devices.disk]
kind = "throttled"
iops_total = 1000
size = "1TiB"
[devices.other]
kind = "throttled"
iops_total = 1000
size = "1TiB"
[stacks.bare]
device = "disk"
[stacks.refused]
level = 1
bitmap = true
bitmap_chunk = "4KiB"
members = ["disk", "other"]
[workloads.unknown]
rw = "randread"
size = "32MiB"
options = { cpus_allowed = "63" }
[workloads.hungry]
rw = "randwrite"
bs = "1MiB"
iodepth = 200
numjobs = 4
size = "900MiB"
[workloads.reads]
rw = "randread"
size = "1MiB"
[lab]
memory = "512MiB"
[settings]
runtime = "1s"
"""


def test_cells_that_fail_in_one_guest(cache: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    booted = []
    boot = booting.boot

    def counted(*arguments: Any, **named: Any) -> GuestMachine:
        booted.append(boot(*arguments, **named))
        return booted[-1]

    monkeypatch.setattr(runner, "boot", counted)
    outcome = run("run", experiment(tmp_path, FAILING), "--on", "lab")
    assert outcome.status == 1
    assert len(booted) == 1
    cells = {
        (item.labels["stack"], item.labels["workload"]): item
        for item in query.runs_of(Store(), query.all_campaigns(Store())[0].number)
    }
    assert cells["bare", "reads"].state == "done"
    unknown, hungry = (cells["bare", name].message or "" for name in ("unknown", "hungry"))
    assert unknown.startswith("fio failed in the guest: ")
    assert "63" in unknown
    assert "Out of memory: Killed process" in hungry
    assert "(fio)" in hungry
    for name in ("unknown", "hungry", "reads"):
        refused = cells["refused", name].message or ""
        assert refused.startswith("in the guest: mdadm --create /dev/md0 ")
        assert "ended with status 1: mdadm: " in refused
    assert guests(cache) == []


def test_a_stack_that_stays_does_not_spoil_the_next(
    cache: Path, tmp_path: Path, run: Run, during: During, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.runners.lab.stacks.guest.PATIENCE", 10.0)
    holding = ["dmsetup", "create", "held", "--table", "0 8 linear /dev/md0 0"]
    during(lambda machine: machine.agent.run(holding))
    path = experiment(tmp_path, MIRROR + "[matrix]\niodepth = [4, 8]\n")
    outcome = run("run", path, "--on", "lab")
    assert outcome.status == 0, outcome.err
    assert stored() == [("done", None), ("done", None)]
    first, second = (item.figures.warnings for item in query.runs_of(Store(), query.all_campaigns(Store())[0].number))
    output = "after the load: cannot remove the stack: in the guest: not true after 10 s: /dev/md0 is stopped"
    assert output in first
    assert output not in second
    assert guests(cache) == []


@pytest.fixture
def small(guest_image: GuestImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache on a filesystem of 300 MiB, with the image elsewhere."""
    assert guest_image.kernel.is_file()
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300M", "tmpfs", str(directory)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no filesystem can be mounted here")
    try:
        filled(directory / "blklab" / "lab")
        monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


WRITING = """
[devices.disk]
kind = "throttled"
size = "1GiB"
[stacks.bare]
device = "disk"
[workloads.writes]
rw = "write"
bs = "1MiB"
size = "1GiB"
runtime = "60s"
"""


def test_no_space_for_the_disks(small: Path, tmp_path: Path, run: Run) -> None:
    """In the midst of a cell; and before the guest is booted."""
    ours = small / "blklab" / "lab"
    path = experiment(tmp_path, WRITING)
    outcome = run("run", path, "--on", "lab")
    assert outcome.status == 1
    assert f"the guest is lost: no space left for its disks in {ours}" in outcome.err
    assert outcome.err.count("\n") == 1
    assert guests(ours) == []
    assert left(ours) == []
    (small / "full").write_bytes(bytes(100 << 20))
    before = run("run", path, "--on", "lab")
    assert before.status == 3
    assert f"{ours}: found 200 MiB free, the guest's disks need at least 256 MiB;" in before.err
    assert before.err.count("\n") == 1
    assert [state for state, _ in stored()] == ["planned"]
