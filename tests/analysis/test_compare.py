"""Sets of runs beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from blklab.analysis import fail_if
from blklab.analysis.compare import Comparison, Side, compare, over_time, sides
from blklab.errors import UsageError
from blklab.store.query import Run
from blklab.store.series import Point

NUMBERS = iter(range(1, 10_000))


def run(iops: float, runner: str = "host", p99: float = 1e6, **labels: str) -> Run:
    number = next(NUMBERS)
    way = {
        "total_ios": 100,
        "iops": iops,
        "bw_bytes": iops * 4096,
        "clat_ns": {"mean": 1e5, "p99": p99},
    }
    none: Mapping[str, Any] = {"total_ios": 0, "iops": 0.0, "bw_bytes": 0.0, "clat_ns": {}}
    outcome = {"runtime_ns": 10**9, "read": way, "write": none, "devices": []}
    return Run(
        number, 1, "x", runner, number, labels, {}, "done", None, None, 1.0, outcome, None, {}
    )


def no_points(_run: int) -> Sequence[Point]:
    return []


def three(base: float, **labels: str) -> list[Run]:
    return [
        run(base + n, **{**labels, "repeat": str(n)})  # type: ignore[arg-type]
        for n in (1, 2, 3)
    ]


def test_cells_are_matched_by_their_labels() -> None:
    one = [*three(100, stack="raid1"), *three(200, stack="near")]
    two = [*three(300, stack="near"), *three(100, stack="raid1")]
    found = compare([Side("a", one), Side("b", two)], ["iops"], no_points)
    assert found.by == ["stack"]
    assert [row.labels for row in found.rows] == [{"stack": "raid1"}, {"stack": "near"}]
    assert [row.verdicts for row in found.rows] == [["same"], ["better"]]
    value = found.rows[1].values[1]
    assert value is not None
    assert (value.mean, value.runs, value.least, value.most) == (302, 3, 301, 303)


def test_less_latency_is_better() -> None:
    one = [run(1, p99=5e6 + n, repeat=str(n)) for n in range(3)]
    two = [run(1, p99=3e6 + n, repeat=str(n)) for n in range(3)]
    (row,) = compare([Side("a", one), Side("b", two)], ["p99"], no_points).rows
    assert row.verdicts == ["better"]


def test_the_values_of_a_label() -> None:
    runs = [*three(100, stack="raid1", bs="4k"), *three(50, stack="near", bs="4k")]
    found = sides([("x", runs)], between="stack")
    assert [side.name for side in found] == ["stack=raid1", "stack=near"]
    (row,) = compare(found, ["iops"], no_points).rows
    assert (row.labels, row.verdicts) == ({}, ["worse"])


def test_a_label_that_one_side_has_alone_makes_several_sides_of_it() -> None:
    simulated = [run(100, "sim", stack="raid1", kernel=kernel) for kernel in ("4.19", "5.3")]
    measured = [run(90, "host", stack="raid1")]
    found = sides([("sim", simulated), ("host", measured)])
    assert [side.name for side in found] == ["sim kernel=4.19", "sim kernel=5.3", "host"]
    compared = compare(found, ["iops"], no_points)
    assert compared.notes[-1] == "these are runs of host and sim"
    assert [row.verdicts for row in compared.rows] == [["unknown", "unknown"]]


def test_a_cell_that_one_side_lacks() -> None:
    one = [*three(100, stack="raid1"), *three(100, stack="near")]
    found = compare([Side("a", one), Side("b", three(100, stack="near"))], ["iops"], no_points)
    assert found.rows[0].values[1] is None
    assert "1 of the figures are missing on one side" in found.notes
    assert found.as_dict()["rows"][0]["values"][1] is None


@pytest.mark.parametrize(
    ("metrics", "by", "said"),
    [
        (["iosp"], None, "no figure is called 'iosp'; did you mean 'iops'?"),
        (["iops"], ["stak"], "--by: not all have a label 'stak'; did you mean 'stack'?"),
        (["wall"], None, "nothing can be compared: no run has wall"),
    ],
)
def test_mistakes(metrics: list[str], by: list[str] | None, said: str) -> None:
    found = [Side("a", three(1, stack="x")), Side("b", three(1, stack="x"))]
    with pytest.raises(UsageError) as caught:
        compare(found, metrics, no_points, by=by)
    assert str(caught.value) == said


def test_one_thing_is_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="one thing cannot be compared"):
        sides([("a", three(1, stack="x"))])
    with pytest.raises(UsageError, match="has no label 'kernel'"):
        sides([("a", three(1, stack="x"))], between="kernel")


def test_figures_over_time() -> None:
    points = [
        Point("jobs", 0, 10**9, 10, 30, 1000, 3000, 5.0, 7.0),
        Point("sda", 0, 10**9, 99, 99, 99, 99, 5.0, 7.0),
        Point("jobs", 10**9, 10**9, 20, 40, 2000, 4000, None, 9.0),
        Point("jobs", 2 * 10**9, 10**8, 1, 1, 1, 1, 1.0, 1.0),
    ]
    assert over_time("iops", points) == [40, 60]
    assert over_time("read_bw", points) == [1000, 2000]
    assert over_time("mean", points) == [7, 9]
    assert over_time("read_mean", points) == [5]
    assert over_time("p99", points) == []


def pair(base: float, other: float) -> Comparison:
    found = [Side("base", three(base, stack="x")), Side("new", three(other, stack="x"))]
    return compare(found, ["iops", "p99"], no_points)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("iops < 0.95*baseline", True),
        ("iops<0.95 * baseline", True),
        ("iops < baseline*0.8", False),
        ("iops > baseline", False),
        ("iops <= 91", False),
        ("iops <= 92", True),
        ("p99 >= 1ms", True),
        ("p99 > 1ms", False),
        ("p99 > 900000", True),
    ],
)
def test_conditions(text: str, fails: bool) -> None:
    found = fail_if.failures(pair(100, 90), fail_if.parse(text), sure=False)
    assert found == ([f"new: {text}"] if fails else [])


def test_a_doubtful_failure_is_none_when_it_must_be_sure() -> None:
    condition = fail_if.parse("iops < 0.95*baseline")
    noisy = [[run(value, repeat=str(n)) for n, value in enumerate(side)] for side in (
        (100.0, 120.0, 80.0), (94.0, 110.0, 70.0)
    )]  # fmt: skip
    found = compare([Side("a", noisy[0]), Side("b", noisy[1])], ["iops"], no_points)
    assert fail_if.failures(found, condition, sure=False)
    assert not fail_if.failures(found, condition, sure=True)
    assert fail_if.failures(pair(100, 50), condition, sure=True)


def test_nothing_to_judge_is_no_success() -> None:
    one, two = three(100, stack="raid1"), three(100, stack="near")
    rows = [*one, *three(100, stack="far")]
    found = compare([Side("a", rows), Side("b", two)], ["iops"], no_points)
    with pytest.raises(UsageError, match="no cell has iops on both sides; they are told apart by"):
        fail_if.failures(found, fail_if.parse("iops < 0.95*baseline"), sure=False)
    assert fail_if.failures(found, fail_if.parse("iops < 200"), sure=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("iops", "FIGURE < BOUND is wanted"),
        ("iosp < 5", "no figure is called 'iosp'; did you mean 'iops'?"),
        ("iops < fast", "found 'fast', a number or a multiple of baseline is wanted"),
        ("iops < 2*baseline*2", "baseline is multiplied once"),
        ("p99 < 5 parsecs", "'5 parsecs'"),
    ],
)
def test_conditions_that_make_no_sense(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        fail_if.parse(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"--fail-if {text!r}: ")
