"""Characterise sets of shards on a Dask cluster of this machine: time, CPU time, merging, bytes, memory.

    .venv/bin/python bench/shards.py [EVENTS [SHARDS...]]

The sets have EVENTS events together (100 million), made by bench/generate.rs, ten shards a host. Each is read in
threads of one process and by one worker process for each CPU. Needs 48 bytes of disk for each event.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from blklab import _core

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
HOST_SHARDS = 10
EVENTS_PER_IO = 5
HEADINGS = (
    "shards",
    "set MiB",
    "threads s",
    "cluster s",
    "threads CPU",
    "client CPU",
    "worker CPU",
    "partial kB",
    "merge ms",
)
MEMORY = ("client MiB", "worker MiB")


def main(events: int, counts: list[int]) -> None:
    """Print a line for each number of shards."""
    cargo = [ROOT / "scripts/cargo", "build", "--release", "--locked", "--quiet"]
    subprocess.run([*cargo, "-p", "blklab-trace", "--example", "generate"], cwd=ROOT, check=True)
    print(*(f"{heading:>11}" for heading in (*HEADINGS, *MEMORY)))
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="blklab-bench-") as name:
            directory = Path(name)
            generate(directory, events // count, count)
            figures = [count, size(directory) >> 20, *measure(directory)]
        print(*(f"{figure:>11,.3g}" if isinstance(figure, float) else f"{figure:>11,}" for figure in figures))


def generate(directory: Path, events: int, count: int) -> None:
    """Write a set."""
    for shard in range(count):
        host = directory / f"host-{shard // HOST_SHARDS}"
        host.mkdir(exist_ok=True)
        program = ROOT / "target/release/examples/generate"
        subprocess.run([program, host / f"t{shard}", str(events // EVENTS_PER_IO), str(shard + 1)], check=True)


def size(directory: Path) -> int:
    """Return the bytes of a set."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def measure(directory: Path) -> list[float | int]:
    """Return the figures of a set."""
    pattern = f"{directory}/host-*/*"
    threads, here = timed(pattern)
    cluster, client, worker = on_cluster(pattern)
    shard = str(directory / "host-0/t0")
    partial = _core.characterise_partial([shard], _core.Filter(), host="host-0")[0]
    (stored,) = partial.__getnewargs__()
    start = time.perf_counter()
    for _ in range(100):
        partial.merge(_core.PartialProfile(stored))
    merge = (time.perf_counter() - start) / 100
    times = [threads, cluster, cpu(here), cpu(client), cpu(worker)]
    return [*times, len(stored) // 1000, merge * 1e3, client.ru_maxrss >> 10, worker.ru_maxrss >> 10]


def cpu(usage: resource.struct_rusage) -> float:
    """Return the CPU seconds of a process."""
    return usage.ru_utime + usage.ru_stime


def timed(pattern: str, *options: str) -> tuple[float, resource.struct_rusage]:
    """Return the wall seconds of a command, and what its process used."""
    start = time.perf_counter()
    command = [BIN / "blklab", "trace", "stat", "--json", pattern, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    json.load(process.stdout)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bench: exit status {process.returncode}")
    return time.perf_counter() - start, usage


def on_cluster(pattern: str) -> tuple[float, resource.struct_rusage, resource.struct_rusage]:
    """Return the wall seconds, and what the client and the busiest worker used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    dask, quiet = BIN / "dask", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"], **quiet)
    address = f"127.0.0.1:{port}"
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
    workers = [
        subprocess.Popen([dask, "worker", f"tcp://{address}", *options], **quiet) for _ in os.sched_getaffinity(0)
    ]
    try:
        time.sleep(10)  # They import their packages
        wall, client = timed(pattern, "--cluster", address)
    finally:
        for process in (*workers, scheduler):
            process.kill()
    used = [os.wait4(process.pid, 0)[2] for process in workers]
    scheduler.wait()
    return wall, client, max(used, key=cpu)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(numbers[0] if numbers else 100_000_000, numbers[1:] or [10, 100, 1000])
