"""Whole bisections with invented figures: noise, skips, both directions, ends that do not differ."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from blklab.bisect.findings import Bisection
from blklab.bisect.git import Commit
from blklab.bisect.request import KernelList
from blklab.bisect.search import BisectionRule, BisectionSearch, CommitMeasuring, Outcomes, RunFailed
from blklab.bisect.source import BuildFailed
from blklab.compare.fail_if import parse_condition
from blklab.documents.outcome import Point
from blklab.errors import BlklabError, UsageError
from blklab.outcome import DirectionResult, Outcome
from blklab.runners.base import Runner

COUNT = 13
CELL = (("stack", "raid10"), ("workload", "randread"))


class ListSource(KernelList):
    """Kernels k0 to k12."""

    def runner(self, commit: Commit) -> Runner:
        raise AssertionError(commit)


class InventedMeasuring:
    """Takes the IOPS of a kernel, by its place in the list, from a function."""

    def __init__(self, iops: Callable[[int], float]) -> None:
        self.iops = iops
        self.campaign = 1
        self.cells: set[object] = set()
        self.runs: Counter[str] = Counter()
        self.series: list[Point] = []  # Of each run

    def plan_of(self, _commit: Commit) -> SimpleNamespace:
        return SimpleNamespace(cells=[SimpleNamespace(document={"runtime_ns": 30 * 10**9, "ramp_ns": 0})])

    def measure(self, commit: Commit, phase: str, repeat: int) -> Outcomes:
        assert repeat > 0
        self.runs[f"{phase} {commit.short}"] += 1
        iops = self.iops(int(commit.short.removeprefix("k")))
        return {CELL: Outcome(read=DirectionResult(1, iops=iops), series=self.series)}


def bisect(
    directory: Path,
    iops: Callable[[int], float],
    condition: str,
    *,
    ends: tuple[int, int] = (0, COUNT - 1),
    most: int = 50,
    log: Callable[[str], object] = lambda _log: None,
    note: Callable[[str], object] = lambda _line: None,
    series: Sequence[Point] = (),
) -> tuple[Bisection, InventedMeasuring]:
    items = [(f"k{number}", "") for number in range(COUNT)]
    source = ListSource(items, f"k{ends[0]}", f"k{ends[1]}", directory / "list")
    measuring = InventedMeasuring(iops)
    measuring.series = [*series]
    rule = BisectionRule([parse_condition(condition)], 0.99, most)
    search = BisectionSearch(source, cast(CommitMeasuring, measuring), rule, note, log)
    return search.find(), measuring


def noisy(rng: random.Random, culprit: int, slow: float, deviation: float) -> Callable[[int], float]:
    return lambda at: 1000 * (slow if at >= culprit else 1.0) * rng.lognormvariate(0, deviation)


def name(bisection: Bisection) -> str | None:
    return None if bisection.culprit is None else bisection.culprit.short


def test_three_percent_in_noise(tmp_path: Path) -> None:
    """The noise of a run is two thirds of the slowdown; each run has another culprit."""
    correct, runs = 0, []
    for seed in range(1, 11):
        culprit = 1 + seed
        result, measuring = bisect(
            tmp_path, noisy(random.Random(seed), culprit, 0.97, 0.02), "iops < 0.985*baseline", most=200
        )
        correct += name(result) == f"k{culprit}" and result.confirmed
        runs.append(measuring.runs.total())
    assert correct >= 9
    assert sorted(runs)[5] < 200, "of the median bisection; with a fixed number of runs, each commit needs 40"


def test_a_large_slowdown_needs_two_runs_each(tmp_path: Path) -> None:
    result, measuring = bisect(tmp_path, noisy(random.Random(1), 7, 0.4, 0.01), "iops < 0.9*baseline")
    assert name(result) == "k7"
    assert result.confirmed
    assert not result.fixes
    assert [verdict.commit.short for verdict in result.check] == ["k6", "k7"]
    assert max(measuring.runs.values()) <= 3
    assert len(result.verdicts) <= 6, "both ends and four steps"
    assert "k7 is the first bad kernel" in result.summary


def test_a_fix_is_found(tmp_path: Path) -> None:
    rng = random.Random(2)
    result, _ = bisect(
        tmp_path,
        lambda at: rng.lognormvariate(0, 0.01) * (1000 if at >= 9 else 400),
        "iops < 0.9*baseline",
        ends=(COUNT - 1, 0),
    )
    assert name(result) == "k9"
    assert result.fixes
    assert result.confirmed
    assert [verdict.verdict for verdict in result.check] == ["bad", "good"]


def test_an_absolute_bound(tmp_path: Path) -> None:
    result, measuring = bisect(tmp_path, noisy(random.Random(3), 4, 0.5, 0.01), "iops < 700")
    assert name(result) == "k4"
    assert result.confirmed
    assert max(measuring.runs.values()) <= 3
    assert measuring.runs["check k0"] == 0, "no baseline is needed"


@pytest.mark.parametrize("error", [BuildFailed("raid10.c: expected ;"), RunFailed("the guest is lost: panic")])
def test_what_cannot_be_measured_is_skipped(tmp_path: Path, error: BlklabError) -> None:
    rng = random.Random(4)

    def iops(at: int) -> float:
        if at in {3, 6}:
            raise error
        return noisy(rng, 8, 0.5, 0.01)(at)

    result, measuring = bisect(tmp_path, iops, "iops < 0.9*baseline")
    assert name(result) == "k8"
    skipped = [verdict for verdict in result.verdicts if verdict.verdict == "skipped"]
    assert [verdict.reason for verdict in skipped] == [str(error)] * len(skipped)
    assert measuring.runs["search k6"] == (2 if isinstance(error, RunFailed) else 1), "a guest gets a second try"


def test_only_skipped_commits_are_left(tmp_path: Path) -> None:
    def iops(at: int) -> float:
        if at in {5, 6, 7}:
            raise BuildFailed("it does not build")
        return noisy(random.Random(at), 6, 0.5, 0.01)(at)

    logs: list[str] = []
    result, _ = bisect(tmp_path, iops, "iops < 0.9*baseline", log=logs.append)
    assert result.culprit is None
    assert not result.confirmed
    assert {commit.short for commit in result.candidates} == {"k5", "k6", "k7", "k8"}
    assert "the first bad kernel is one of 4" in result.summary
    assert "git bisect skip" in logs[-1]


def test_a_commit_on_the_bound_is_skipped(tmp_path: Path) -> None:
    rng = random.Random(5)

    def iops(at: int) -> float:
        return {6: 900.0}.get(at, 1000.0 if at < 8 else 700.0) * rng.lognormvariate(0, 0.05)

    result, _ = bisect(tmp_path, iops, "iops < 0.9*baseline", most=8)
    (unclear,) = [verdict for verdict in result.verdicts if verdict.commit.short == "k6"]
    assert (unclear.verdict, unclear.reason) == ("skipped", "unclear after 8 runs")


@pytest.mark.parametrize(
    ("iops", "condition"),
    [(1000.0, "iops < 0.9*baseline"), (1000.0, "iops < 500"), (300.0, "iops < 500"), (1000.0, "p99 > 5ms")],
)
def test_ends_that_do_not_differ(tmp_path: Path, iops: float, condition: str) -> None:
    rng = random.Random(6)
    with pytest.raises(UsageError, match=r"--fail-if: (expected a condition that is true|the runs)"):
        bisect(tmp_path, lambda _at: iops * rng.lognormvariate(0, 0.01), condition, most=10)


def test_equal_ends_are_called_equal_after_few_runs(tmp_path: Path) -> None:
    """The noise of a run is as large as the distance of the bound; 50 runs of each end are allowed."""
    runs = []
    for seed in range(20):
        lines: list[str] = []
        with pytest.raises(UsageError, match="expected a condition that is true for the bad end only"):
            bisect(tmp_path, noisy(random.Random(seed), COUNT, 1.0, 0.08), "iops < 0.92*baseline", note=lines.append)
        runs.append(sum(": run " in line for line in lines))
        assert any(" of the good end)" in line for line in lines)
    assert sorted(runs)[10] <= 16


def test_ends_that_differ_by_little_are_seldom_called_equal(tmp_path: Path) -> None:
    found = 0
    for seed in range(20):
        with suppress(UsageError):
            result, _ = bisect(tmp_path, noisy(random.Random(seed), 6, 0.95, 0.02), "iops < 0.975*baseline")
            found += name(result) == "k6"
    assert found >= 18


def rates(*amounts: int) -> list[Point]:
    """A series with this many I/Os a second."""
    return [
        {"time_ns": at * 10**9, "width_ns": 10**9, "ios": [ios, 0], "bytes": [0, 0], "clat_ns": [None, None]}
        for at, ios in enumerate(amounts)
    ]


def test_cells_that_are_not_steady_are_named(tmp_path: Path) -> None:
    def iops(at: int) -> float:
        return 500.0 if at >= 6 else 1000.0

    falling = rates(*(1000 - 20 * second + second % 3 for second in range(30)))
    result, _ = bisect(tmp_path, iops, "iops < 0.75*baseline", series=falling)
    assert result.notes == [
        f"{end}, stack=raid10 workload=randread: 44 % fewer I/Os per second at the end of a run than at its "
        "beginning. Runs of another length may find another commit: set a longer runtime, or a ramp"
        for end in ("k0", "k12")
    ]
    steady = rates(*(1000 + second % 3 for second in range(30)))
    assert bisect(tmp_path, iops, "iops < 0.75*baseline", series=steady)[0].notes == []


def test_an_end_that_cannot_be_measured(tmp_path: Path) -> None:
    def iops(_at: int) -> float:
        raise RunFailed("the guest is lost")

    with pytest.raises(BlklabError, match="k0: cannot be measured: the guest is lost"):
        bisect(tmp_path, iops, "iops < 500")
    with pytest.raises(UsageError, match="--good and --bad are the same kernel, k3"):
        bisect(tmp_path, iops, "iops < 500", ends=(3, 3))


def test_each_run_says_what_it_measured_and_what_is_left(tmp_path: Path) -> None:
    lines: list[str] = []
    bisect(tmp_path, lambda at: 500.0 if at >= 6 else 1000.0, "iops < 0.75*baseline", note=lines.append)
    # Two runs of both ends, of four steps, and of both sides of the check; each has a load of 30 s.
    assert lines[1] == "at least 16 runs, each with 30 s of load: 8m 00s in all, and the time to build and boot"
    runs = [line for line in lines if ": run " in line]
    assert any(line.startswith("  k12: run 2, iops 500/s (0.50 of the good end); at least ") for line in runs)
    left = [int(line.partition("at least ")[2].split()[0]) for line in runs if "at least" in line]
    assert left[0] == 15
    assert left[-1] <= 4
