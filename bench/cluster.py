"""Simulations in threads and on Dask's workers, one and two of each, in the same run.

    .venv/bin/python bench/cluster.py

Prints medians of ROUNDS rounds: the time of long cells, the ratio of one to two, and what a cell costs beyond its
simulation. Starting the workers is not included.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blklab.cluster import Parallel, connect_cluster
from blklab.experiment import cells, load
from blklab.experiment.cells import Cell
from blklab.runners.sim.runner import simulate_cell

ROUNDS = 3
LONG = (40, 200_000)  # Cells, and I/Os of each
SHORT = (400, 100)
EXPERIMENT = """
[devices.disk]
kind = "throttled"
size = "1GiB"
latency_ns = 100_000

[stacks.alone]
device = "disk"

[workloads.random]
rw = "randrw"
bs = "4k"

[matrix]
iodepth = {depths}

[settings]
runtime = "1000s"
max_ios = {ios}
"""


def planned(count: int, ios: int) -> list[Cell]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "bench.toml"
        file.write_text(EXPERIMENT.format(depths=list(range(1, count + 1)), ios=ios))
        return list(cells.plan(load.read(file)).cells)


@contextmanager
def workers(count: int) -> Iterator[Parallel]:
    """Start Dask's workers."""
    with connect_cluster(f"local:{count}") as cluster:
        parallel = Parallel(cluster=cluster)
        parallel.all(simulate_cell, planned(8 * count, 10))  # until each has imported blklab
        yield parallel


def timed(parallel: Parallel, work: list[Cell]) -> float:
    """Return the seconds that cells take."""
    begun = time.perf_counter()
    parallel.all(simulate_cell, work)
    return time.perf_counter() - begun


def main() -> None:
    """Print the table."""
    long, short = planned(*LONG), planned(*SHORT)
    seconds: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(ROUNDS):
        for count in (1, 2):
            with workers(count) as cluster:
                for name, parallel in ((f"{count} threads", Parallel(count)), (f"{count} workers", cluster)):
                    times = seconds.setdefault(name, ([], []))
                    times[0].append(timed(parallel, long))
                    times[1].append(timed(parallel, short))
    print(f"{len(os.sched_getaffinity(0))} CPUs, median of {ROUNDS}: {LONG[0]} cells of {LONG[1]:,} I/Os, and "
          f"{SHORT[0]} of {SHORT[1]}")  # fmt: skip
    for name, (longs, shorts) in seconds.items():
        each_ms = 1000 * statistics.median(shorts) / SHORT[0]
        print(f"{name:10}  {statistics.median(longs):6.2f} s   {each_ms:6.2f} ms a cell")
    for kind in ("threads", "workers"):
        single, double = (statistics.median(seconds[f"{count} {kind}"][0]) for count in (1, 2))
        print(f"two {kind} are {single / double:.2f} times as fast as one")


if __name__ == "__main__":
    main()
