"""Slow hosts among others: by figures that are added up by hand."""

import math
import random

import pytest

from blklab.compare.host_outliers import outliers
from blklab.outcome import Outcome


def run(iops: dict[str, float], p99: dict[str, float] | None = None) -> Outcome:
    hosts = []
    for name, rate in iops.items():
        read = {"total_ios": 1, "iops": rate, "clat_ns": {"p99": (p99 or {}).get(name, 1e6)}}
        hosts.append({"name": name, "failure": None, "clock": None, "read": read, "write": {"total_ios": 0}})
    return Outcome.from_document({"hosts": hosts})


def forty(seed: int, **slow: float) -> dict[str, float]:
    """Returns the IOPS of forty hosts that differ by about 3 %, some times a factor."""
    numbers = random.Random(seed)
    return {f"h{number}": numbers.gauss(10_000, 300) * slow.get(f"h{number}", 1) for number in range(40)}


def test_a_slow_host_is_named_with_its_interval() -> None:
    result = outliers([run(forty(seed, h7=0.6)) for seed in range(3)])
    (outlier,) = result
    assert (outlier.host, outlier.metric, outlier.worse) == ("h7", "iops", True)
    assert outlier.change == pytest.approx(-0.4, abs=0.03)
    assert outlier.low is not None
    assert outlier.high is not None
    assert outlier.low < -0.4 < outlier.high < 0
    assert outlier.score > 3.5


@pytest.mark.parametrize("seed", range(5))
def test_hosts_that_differ_as_usual_are_not_named(seed: int) -> None:
    assert outliers([run(forty(10 * seed + repeat)) for repeat in range(3)]) == []


def test_one_run_has_no_interval() -> None:
    (outlier,) = outliers([run({"a": 100, "b": 102, "c": 98, "d": 50})])
    assert (outlier.host, outlier.low, outlier.high) == ("d", None, None)
    # Logarithms over the median, 99: 0.0101, 0.0299, -0.0101, -0.6831; their median is 0, and 0.0200 that of distances.
    assert outlier.score == pytest.approx(0.6745 * 0.6831 / 0.0200, rel=0.01)


def test_one_slow_repeat_makes_no_slow_host() -> None:
    usual = {"a": 100.0, "b": 102, "c": 98, "d": 101}
    assert outliers([run(usual), run(usual), run({**usual, "d": 60})]) == []


def test_a_fast_host_is_named_after_slow_ones() -> None:
    hosts = {"a": 100.0, "b": 101, "c": 99, "d": 100, "e": 50, "f": 300}
    result = outliers([run(hosts), run(hosts)])
    assert [(outlier.host, outlier.worse) for outlier in result] == [("e", True), ("f", False)]


def test_latency_is_compared_where_rates_are_equal() -> None:
    rates = dict.fromkeys("abcd", 100.0)
    (outlier,) = outliers([run(rates, {"c": 5e6})] * 2)
    assert (outlier.host, outlier.metric, outlier.worse) == ("c", "read.p99", True)
    # All others are equal: only the rounding to bins of a 64th counts.
    assert outlier.score == pytest.approx(math.log(5) * 64 * math.sqrt(12))
