#!/usr/bin/env python3
"""Import equal campaigns with the command line, compare each with the one before, and print how often that is wrong.

    scripts/equal_campaigns.py [--campaigns 200] [--cells 5] [--looks 3,5,8]

Each pair of campaigns has the results of equal machines: fio's JSON with three metrics, whose runs vary by 5 %. The two
sides of a pair get more repeats at each look, under another name, until `blklab compare` has a verdict. It is false if
any figure of any look is better or worse.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from blklab.cli.root import blklab

DEVIATION = 0.05


def make_result(cell: int, factors: Any, second: int) -> dict[str, Any]:
    """Return a result of fio with the IOPS, the mean latency and the 99th percentile of 10,000/s, 100 and 200 µs."""
    rate, mean, tail = factors
    ios = round(1e5 * rate)
    latency = {"min": 1, "max": 10**7, "mean": 1e5 * mean, "stddev": 1.0, "N": ios}
    percentiles = {"50.000000": round(1e5 * mean), "99.000000": round(2e5 * tail)}
    read = {"io_bytes": ios * 4096, "bw_bytes": ios * 409.6, "iops": ios / 10, "runtime": 10_000, "total_ios": ios}
    read |= {"clat_ns": {**latency, "percentile": percentiles}, "lat_ns": latency}
    none = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}
    options = {"rw": "randread", "bs": "4k"}
    job = {"jobname": f"c{cell}", "groupid": 0, "error": 0, "job options": options, "read": read, "write": none}
    return {"fio version": "fio-3.33", "timestamp": 1_700_000_000 + second, "jobs": [job]}


def call(store: Path, *arguments: object) -> str:
    """Run `blklab` in this process, and return what it prints. Raise RuntimeError if it fails."""
    result = CliRunner().invoke(blklab, [*map(str, arguments), "--store", str(store)])
    if result.exit_code:
        raise RuntimeError(f"blklab {' '.join(map(str, arguments))}: {result.output}")
    return result.stdout


def import_runs(directory: Path, name: str, factors: Any) -> None:
    """Import the runs of one side; `factors` has the factor of each cell, run and metric."""
    files = directory / name
    files.mkdir()
    for cell, of_cell in enumerate(factors):
        for run, of_run in enumerate(of_cell, 1):
            path = files / f"c{cell}-{run}.json"
            path.write_text(json.dumps(make_result(cell, of_run, 60 * run + cell)))
    call(directory / "store.db", "import", files, "--name", name, "--pattern", "{workload}-{repeat}.json")


def is_false(directory: Path, generator: np.random.Generator, cells: int, looks: list[int]) -> bool:
    """Compare two equal campaigns at each look; return whether any verdict is better or worse."""
    sides = np.exp(generator.normal(0, DEVIATION, size=(2, cells, looks[-1], 3)))
    for count in looks:
        names = (f"a{count}", f"b{count}")
        for name, side in zip(names, sides, strict=True):
            import_runs(directory, name, side[:, :count])
        rows = json.loads(call(directory / "store.db", "compare", *names, "--json"))["rows"]
        verdicts = {verdict for row in rows for verdict in row["verdicts"]}
        if verdicts & {"better", "worse"}:
            return True
        if "unclear" not in verdicts:
            return False
    return False


def count_false(campaigns: int, cells: int, looks: list[int], seed: int = 1) -> int:
    """Return how many pairs of `campaigns` equal campaigns get a false verdict."""
    generator = np.random.default_rng(seed)
    false = 0
    for _ in range(campaigns // 2):
        with tempfile.TemporaryDirectory() as directory:
            false += is_false(Path(directory), generator, cells, looks)
    return false


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--cells", type=int, default=5)
    parser.add_argument("--looks", default="3,5,8")
    options = parser.parse_args()
    counts = [int(text) for text in options.looks.split(",")]
    number = count_false(options.campaigns, options.cells, counts)
    pairs = options.campaigns // 2
    sys.stdout.write(
        f"{number} of {pairs} pairs of equal campaigns have a false verdict: {100 * number / pairs:.1f} %\n"
    )
