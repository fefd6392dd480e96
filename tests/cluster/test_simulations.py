"""Simulations on a real cluster: the same figures as here, each stored once, also when processes are killed."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import PATIENCE_S, DaskProcesses
from tests.conftest import Run, Start

BLKLAB = Path(sys.executable).with_name("blklab")
EXPERIMENT = """
seed = 7
repeats = {repeats}
[devices.disk]
kind = "throttled"
size = "1TiB"  # fio ends when each block has been used
latency_ns = 100_000
iops_total = 20000

[stacks.alone]
device = "disk"

[workloads.random]
rw = "randrw"
bs = "4k"

[matrix]
iodepth = {depths}

[settings]
runtime = "1000000s"
max_ios = {ios}
"""


def experiment(directory: Path, *, depths: int = 4, repeats: int = 3, ios: int = 2000) -> Path:
    file = directory / "many.toml"
    file.write_text(EXPERIMENT.format(depths=list(range(1, depths + 1)), repeats=repeats, ios=ios))
    return file


def lines_without_progress(err: str) -> list[str]:
    """Returns the lines of stderr without those that say how far a command is: a slow machine has some."""
    return [line for line in err.splitlines() if not line.startswith("blklab: running on ")]


def figures(out: str) -> dict[int, object]:
    return {cell["number"]: {**cell, "run": None} for cell in json.loads(out)}


def stored(store: Path) -> list[tuple[str, int]]:
    """Returns the runs in the store; none before it is complete."""
    if not store.exists():
        return []
    with sqlite3.connect(store) as connection:
        if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'runs'").fetchall():
            return []
        return connection.execute("SELECT state, number FROM runs ORDER BY number").fetchall()


def test_cluster_and_this_machine_have_the_same_figures(
    run: Run, tmp_path: Path, dask_processes: DaskProcesses
) -> None:
    file = experiment(tmp_path)
    for _ in range(2):
        dask_processes.start_worker()
    here = run("run", file, "--no-store", "--json")
    there = run("run", file, "--no-store", "--json", "--cluster", dask_processes.address)
    assert there.status == 0, there.err
    assert figures(there.out) == figures(here.out)


def test_local_cluster_answers_advise_and_cache_curve(run: Run, run_apart: Run) -> None:
    trace = "tests/data/traces/pgbench-raid1"
    curve = ("cache", "curve", trace, "--device", "md127", "--policy", "smq", "--policy", "lru", "--json")
    assert json.loads(run_apart(*curve, "--cluster", "local:1").out) == json.loads(run(*curve).out)
    question = ("advise", "--load", "database", "--working-set", "1GiB", "--devices", "2xpm983:200GiB", "--json")
    answer = json.loads(run(*question).out)
    assert answer["arrangements"]
    assert json.loads(run_apart(*question, "--cluster", "local:1").out) == answer


def test_unreachable_scheduler_is_one_line_and_leaves_no_campaign(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.cluster.CONNECT_S", 0.5)
    store = tmp_path / "store.db"
    result = run("run", experiment(tmp_path), "--store", store, "--cluster", "127.0.0.1:9")
    assert result.status == 3
    assert len(result.err.splitlines()) == 1
    assert "127.0.0.1:9: cannot reach a Dask scheduler" in result.err
    assert not store.exists()


@pytest.mark.parametrize("address", ["somewhere", "local:0", "local:x", "host:port", "", "ftp://127.0.0.1:80"])
def test_invalid_address_is_a_usage_error(run: Run, tmp_path: Path, address: str) -> None:
    result = run("run", experiment(tmp_path), "--no-store", "--cluster", address)
    assert result.status == 2
    assert "expected HOST:PORT" in result.err


def test_tls_without_certificates_is_one_line(run: Run, tmp_path: Path) -> None:
    result = run("run", experiment(tmp_path), "--no-store", "--cluster", "tls://127.0.0.1:1")
    assert result.status == 3
    assert len(result.err.splitlines()) == 1
    assert "needs certificates" in result.err


def test_worker_with_another_version_is_refused(run: Run, tmp_path: Path, dask_processes: DaskProcesses) -> None:
    site = tmp_path / "site"
    information = site / "blklab-9.9.9.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: blklab\nVersion: 9.9.9\n")
    dask_processes.start_worker(environment={**os.environ, "PYTHONPATH": str(site)})
    dask_processes.wait_for_workers(1)
    result = run("run", experiment(tmp_path), "--no-store", "--cluster", dask_processes.address)
    assert result.status == 3
    assert len(result.err.splitlines()) == 1
    assert "has blklab 9.9.9, expected" in result.err


def test_worker_without_blklab_is_refused(run: Run, tmp_path: Path, dask_processes: DaskProcesses) -> None:
    # As on a worker whose Python has no blklab: what is imported by this name is refused.
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        textwrap.dedent("""
        import importlib.metadata as metadata, sys
        sys.modules["blklab"] = None
        known = metadata.version
        def version(name):
            if name == "blklab":
                raise metadata.PackageNotFoundError(name)
            return known(name)
        metadata.version = version
        """)
    )
    dask_processes.start_worker(environment={**os.environ, "PYTHONPATH": str(hook)})
    dask_processes.wait_for_workers(1)
    result = run("run", experiment(tmp_path), "--no-store", "--cluster", dask_processes.address)
    assert result.status == 3
    assert "install the same version of blklab on all workers" in result.err


def test_trace_that_workers_lack_fails_the_cell_and_names_the_worker(
    run: Run, tmp_path: Path, dask_processes: DaskProcesses
) -> None:
    # Here the path leads through a link of this process.
    link = Path(f"/proc/self/fd/{os.open('tests/data/traces', os.O_RDONLY)}")
    file = tmp_path / "replay.toml"
    file.write_text(
        '[devices.disk]\nkind = "throttled"\nsize = "1TiB"\n[stacks.alone]\ndevice = "disk"\n'
        f'[workloads.trace]\nreplay = "{link}/pgbench-raid1"\ndevice = "md127"\n'
    )
    dask_processes.start_worker()
    result = run("run", file, "--no-store", "--cluster", dask_processes.address)
    assert result.status == 1
    assert "worker tcp://127.0.0.1" in result.err


def test_dead_worker_costs_its_cell_another_attempt(
    start: Start, tmp_path: Path, dask_processes: DaskProcesses
) -> None:
    file, store = experiment(tmp_path, depths=1, repeats=1, ios=2_000_000), tmp_path / "store.db"
    dask_processes.start_worker()
    process = start("run", file, "--store", store, "--cluster", dask_processes.address)
    _wait_until(lambda: 0 in _deaths(dask_processes.address))
    dask_processes.kill_worker(0)
    dask_processes.start_worker()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert stored(store) == [("done", 1)]


def test_cell_that_kills_its_workers_fails_alone(start: Start, tmp_path: Path, dask_processes: DaskProcesses) -> None:
    file, store = experiment(tmp_path, depths=1, repeats=1, ios=2_000_000_000), tmp_path / "store.db"
    process = start("run", file, "--store", store, "--cluster", dask_processes.address)
    while process.poll() is None:  # a worker has two of the cell's tasks at a time; Dask's `allowed-failures` is 3
        dask_processes.start_worker()
        _wait_until(lambda: process.poll() is not None or _deaths(dask_processes.address))
        dask_processes.kill_worker(0)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "workers died 4 times while they computed this" in err
    assert stored(store) == [("failed", 1)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_all_processes_of_a_local_cluster_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    file, store = experiment(tmp_path, repeats=25, ios=500_000), tmp_path / "store.db"
    command = [str(BLKLAB), "run", str(file), "--store", str(store), "--cluster", "local:2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        _wait_until(lambda: any(state == "done" for state, _ in stored(store)))
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    # Whether the signal came while a result was stored, which is then named, is chance.
    lines = [line for line in lines_without_progress(err) if "is not in the store; the measurement is in" not in line]
    assert len(lines) == 1, err


def test_scheduler_that_dies_leaves_a_campaign_to_resume(
    start: Start, tmp_path: Path, dask_processes: DaskProcesses
) -> None:
    file, store = experiment(tmp_path, ios=50_000), tmp_path / "store.db"
    dask_processes.start_worker()
    command = ("run", file, "--store", store, "--cluster", dask_processes.address)
    process = start(*command)
    _wait_until(lambda: any(state == "done" for state, _ in stored(store)))
    dask_processes.kill_scheduler()
    _, err = process.communicate(timeout=PATIENCE_S)
    if process.returncode != 0:  # otherwise it was faster
        assert process.returncode == 3, err
        assert f"{dask_processes.address}: the scheduler is gone" in err
        assert len(lines_without_progress(err)) == 1, err
        assert {state for state, _ in stored(store)} == {"done", "planned"}
    dask_processes.start_scheduler()
    dask_processes.start_worker()
    assert start(*command, "--resume").wait(timeout=PATIENCE_S) == 0
    assert [state for state, _ in stored(store)] == ["done"] * 12


def test_interrupt_cancels_what_has_not_started(start: Start, tmp_path: Path, dask_processes: DaskProcesses) -> None:
    file, store = experiment(tmp_path, repeats=25, ios=500_000), tmp_path / "store.db"
    dask_processes.start_worker()
    command = ("run", file, "--store", store, "--cluster", dask_processes.address)
    process = start(*command)
    _wait_until(lambda: any(state == "done" for state, _ in stored(store)))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "repeat the command with --resume" in err
    assert {state for state, _ in stored(store)} == {"done", "planned"}
    _wait_until(lambda: _on_scheduler(dask_processes.address, lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)


@pytest.mark.proof
def test_fifty_kills_lose_nothing_and_store_nothing_twice(
    run: Run, tmp_path: Path, dask_processes: DaskProcesses
) -> None:
    kills = int(os.environ.get("BLKLAB_KILLS", "50"))
    choice = random.Random(20261123)
    file, store = experiment(tmp_path, depths=16, repeats=25, ios=60_000), tmp_path / "store.db"
    for _ in range(2):
        dask_processes.start_worker()
    command = [str(BLKLAB), "run", str(file), "--store", str(store), "--cluster", dask_processes.address, "--json"]
    killed: Counter[str] = Counter()
    with subprocess.Popen([*command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        process = first
        while killed.total() < kills:
            time.sleep(choice.uniform(0.2, 1.5))
            victim = choice.choices(["worker", "scheduler", "client"], [8, 1, 1])[0]
            killed[victim] += 1
            if victim == "worker":
                dask_processes.kill_worker(choice.randrange(2))
                dask_processes.start_worker()
                continue
            if victim == "client":
                process.kill()
            else:
                dask_processes.kill_scheduler()
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode in {0, 1, 3, -signal.SIGKILL}, err
            assert "Traceback" not in err
            if victim == "scheduler":
                dask_processes.start_scheduler()
                for _ in range(2):
                    dask_processes.kill_worker(0)
                    dask_processes.start_worker()
            process = subprocess.Popen(
                [*command, "--resume"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        out, err = process.communicate(timeout=10 * PATIENCE_S)
    while process.returncode != 0:  # cells whose workers died too often
        process = subprocess.Popen([*command, "--resume"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=10 * PATIENCE_S)
        assert "Traceback" not in err
    assert set(killed) == {"worker", "scheduler", "client"}
    assert stored(store) == [("done", number) for number in range(1, 401)]
    here = run("run", file, "--no-store", "--json")
    assert figures(out) == figures(here.out)


def _wait_until(condition: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _on_scheduler(address: str, function: object) -> object:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return client.run_on_scheduler(function)


def _deaths(address: str) -> list[int]:
    """Returns how many workers of each running task have died."""
    deaths = "suspi" + "cious"  # Dask's word, which the glossary refuses
    found: Any = _on_scheduler(
        address,
        lambda dask_scheduler: [
            getattr(task, deaths) for task in dask_scheduler.tasks.values() if task.state == "processing"
        ],
    )
    return [int(number) for number in found]
