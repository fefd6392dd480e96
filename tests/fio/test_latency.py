"""Latencies of several jobs, merged."""

import math
import statistics
from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.fio import latency, logs, output
from blklab.fio.latency import QUANTILES, LatencySummary
from tests.fio.conftest import DATA, plat_value, recorded

VALUES = st.lists(st.integers(1, 10**10), min_size=1, max_size=40)


def of(values: list[int], *, bins: bool = True) -> LatencySummary:
    """Returns what fio says of I/Os with these latencies."""
    return LatencySummary(
        len(values),
        statistics.fmean(values),
        statistics.stdev(values) if len(values) > 1 else 0.0,
        min(values),
        max(values),
        Counter(map(plat_value, values)) if bins else None,
        {} if bins else {"p50": statistics.median_low(values)},
    )


def test_merged_processes_are_what_fio_merges_itself() -> None:
    # The latency of every I/O of each process, and what fio made of all of them in the same run.
    document = recorded("grouped.json")
    outcome = output.outcome(document).as_document()
    processes = [logs.parse_log((DATA / f"grouped_clat.{number}.log").read_text(), "") for number in range(1, 5)]
    for at, direction in enumerate(("read", "write")):
        values = [[item.value for item in process if item.direction == at] for process in processes]
        merged = asdict(latency.merge([of(item) for item in values if item]).as_result())
        whole = outcome[direction]["clat_ns"]
        assert merged.pop("mean") == pytest.approx(whole.pop("mean"), rel=1e-6)
        assert merged.pop("stddev") == pytest.approx(whole.pop("stddev"), rel=1e-6)
        assert {key: value for key, value in merged.items() if value is not None} == whole
        given = document["jobs"][0][direction]["clat_ns"]["percentile"]
        for name, percentage in QUANTILES.items():
            if name not in {"p25", "p75"}:
                assert merged[name] == min(given[f"{percentage:.6f}"], merged["max"])


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_merging_is_measuring_the_whole(parts: list[list[int]]) -> None:
    everything = [value for part in parts for value in part]
    merged = latency.merge([of(part) for part in parts])
    whole = of(everything)
    assert merged.bins == whole.bins
    assert (merged.count, merged.low, merged.high) == (whole.count, whole.low, whole.high)
    assert merged.mean == pytest.approx(whole.mean)
    assert merged.stddev == pytest.approx(whole.stddev, rel=1e-6, abs=whole.high * 1e-7)


@given(VALUES)
def test_quantiles_are_of_nearest_rank_within_the_error_stated(values: list[int]) -> None:
    result = asdict(of(values).as_result())
    ranked = sorted(values)
    for name, percentage in QUANTILES.items():
        exact = ranked[max(1, math.ceil(percentage / 100 * len(values) - 1e-9)) - 1]
        assert result[name] == pytest.approx(exact, rel=result["relative_error"], abs=1)
        assert result["min"] <= result[name] <= result["max"]
    assert sum(count for _, count in result["bins"]) == len(values)


@given(st.lists(VALUES, min_size=2, max_size=4))
def test_quantiles_are_never_averaged(parts: list[list[int]]) -> None:
    merged = latency.merge([of(parts[0], bins=False), *map(of, parts[1:])]).as_result()
    assert merged.p50 is None
    assert merged.relative_error == 0
    assert merged.mean == pytest.approx(statistics.fmean(v for part in parts for v in part))


def test_a_job_without_io_does_not_hide_the_quantiles_of_the_other() -> None:
    item = of([5, 7, 9], bins=False)
    assert latency.merge([LatencySummary(), item]).as_result().p50 == 7
