"""Finds the hosts of a fleet that differ from the others: slow servers.

The unit is the logarithm of a host's figure over the median of all hosts in the same repeat, so a drift over time
cancels out. An outlier has (a) a modified z-score above 3.5: 0.6745 times its distance from the median, over the
median absolute deviation (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", ASQC 1993), which is at least that
of the rounding of the metric; (b) a distance above the margin of `decision`; and (c) a confidence interval, from the
repeats, without the median. The intervals of all hosts hold together.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import cast

from blklab.compare import decision
from blklab.compare.metrics import METRICS
from blklab.compare.variation import RunSample
from blklab.outcome import Outcome

NAMES = ("iops", "read.p99", "write.p99")  # Metrics by which hosts are compared
FEWEST = 3  # Hosts for which a median says what is usual
SCORE = 3.5  # The modified z-score above which a value is an outlier
CONSISTENT = 0.6745  # Quantile 0.75 of the normal distribution: the MAD of a standard normal variable


@dataclass(frozen=True)
class HostOutlier:
    """A host that differs from the others in a metric."""

    host: str
    metric: str
    change: float  # Its mean over the median of the hosts, minus 1
    low: float | None  # Confidence interval of `change`; None without repeats
    high: float | None
    score: float  # The modified z-score
    worse: bool


def values(outcome: Outcome, metric: str) -> dict[str, float]:
    """Returns a metric of each host that has it."""
    figures = {
        host.name: Outcome(read=host.read, write=host.write) for host in outcome.hosts if host.read and host.write
    }
    pairs = ((name, METRICS[metric].compute(host_outcome)) for name, host_outcome in figures.items())
    return {name: value for name, value in pairs if value}


def outliers(repeats: Sequence[Outcome]) -> list[HostOutlier]:
    """Returns the outliers of a cell in all its repeats, the slow ones first."""
    result: list[HostOutlier] = []
    for metric in NAMES:
        result += _outliers_of_metric(metric, [values(run, metric) for run in repeats])
    return sorted(result, key=lambda outlier: (not outlier.worse, -abs(math.log1p(outlier.change))))


def _outliers_of_metric(metric: str, runs: Sequence[Mapping[str, float]]) -> Iterator[HostOutlier]:
    ratios: dict[str, list[float]] = {}
    for run in runs:
        middle = median(run.values()) if len(run) >= FEWEST else None
        for name, value in run.items() if middle else ():
            ratios.setdefault(name, []).append(value / cast(float, middle))
    if len(ratios) < FEWEST:
        return
    samples = []
    for ratios_of_host in ratios.values():
        samples.append([RunSample(ratio) for ratio in ratios_of_host])
    intervals = decision.intervals(samples, [None] * len(samples), decision.Rule(METRICS[metric]), len(samples))
    logs = {name: fmean(map(math.log, host_ratios)) for name, host_ratios in ratios.items()}
    middle = median(logs.values())
    # The standard deviation of a uniform rounding error is the least that can be seen, as in `variation`.
    rounding = METRICS[metric].resolution / math.sqrt(12)
    unit = max(median(abs(log - middle) for log in logs.values()) / CONSISTENT, rounding)
    for (name, log), interval in zip(logs.items(), intervals, strict=True):
        change = math.expm1(log - middle)
        score = abs(log - middle) / unit
        usual = interval is not None and interval[0] <= math.exp(middle) <= interval[1]
        if abs(change) > decision.MARGIN and score > SCORE and not usual:
            low, high = (end / math.exp(middle) - 1 for end in interval) if interval else (None, None)
            yield HostOutlier(name, metric, change, low, high, score, (change < 0) == METRICS[metric].more_is_better)
