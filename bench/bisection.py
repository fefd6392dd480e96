"""How often `blklab bisect` finds the right commit, and with how many runs: bisections of invented figures.

    PYTHONPATH=. .venv/bin/python bench/bisection.py [BISECTIONS]

Twelve commits, one of which is slower; the culprit and the noise differ in each bisection. The bound is in the middle,
and the peer is a fixed number of runs for each commit, as a shell script has it: as many runs as the bisection needs.
"""

import random
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median

from tests.bisect.test_search import COUNT, bisect, name, noisy

from blklab.errors import UsageError

CASES = [(0.9, 0.02), (0.97, 0.01), (0.97, 0.02), (0.97, 0.03)]


def sequential(slow: float, deviation: float, seed: int) -> tuple[bool, int]:
    """Returns whether the right commit is the result, and the number of runs."""
    culprit = 1 + seed % (COUNT - 1)
    with tempfile.TemporaryDirectory() as directory:
        values = noisy(random.Random(seed), culprit, slow, deviation)
        try:
            result, measuring = bisect(Path(directory), values, f"iops < {(1 + slow) / 2}*baseline", most=500)
        except UsageError:
            return False, 0
    return name(result) == f"k{culprit}" and result.confirmed, measuring.runs.total()


def fixed(slow: float, deviation: float, seed: int, runs: int) -> bool:
    """Returns whether a bisection finds the right commit that compares means of a fixed number of runs."""
    culprit = 1 + seed % (COUNT - 1)
    value = noisy(random.Random(seed), culprit, slow, deviation)
    baseline = fmean(value(0) for _ in range(runs))
    low, high = 0, COUNT - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fmean(value(middle) for _ in range(runs)) < (1 + slow) / 2 * baseline:
            high = middle
        else:
            low = middle
    return high == culprit


def main() -> None:
    """Prints a line for each case."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("slowdown, noise of a run: right, runs (median); with 3 and 10 runs of each commit: right")
    for slow, deviation in CASES:
        bisections = [sequential(slow, deviation, seed) for seed in range(count)]
        right = sum(correct for correct, _ in bisections)
        peers = [sum(fixed(slow, deviation, seed, runs) for seed in range(count)) for runs in (3, 10)]
        runs = median(runs for _, runs in bisections)
        print(f"{1 - slow:.0%}, {deviation:.0%}: {right} of {count}, {runs:g} runs; {peers[0]}, {peers[1]} of {count}")


if __name__ == "__main__":
    main()
