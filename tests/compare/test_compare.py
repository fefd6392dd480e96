"""Comparisons of sets of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from blklab.campaigns.runs import figure_headings, outcome_figures, split_directions
from blklab.compare import fail_if
from blklab.compare.comparison import Comparison, ComparisonSide, compare, comparison_sides
from blklab.compare.metrics import with_direction, with_directions
from blklab.compare.samples import Points, over_time
from blklab.compare.verdict import describe_verdict
from blklab.errors import UsageError
from blklab.outcome import Outcome, PredictionInterval
from blklab.store.query import StoredRun
from blklab.store.series import SeriesPoint

NUMBERS = iter(range(1, 10_000))


def run(iops: float, runner: str = "host", p99: float = 1e6, **labels: str) -> StoredRun:
    number = next(NUMBERS)
    direction = {"total_ios": 100, "iops": iops, "bw_bytes": iops * 4096, "clat_ns": {"mean": 1e5, "p99": p99}}
    none: Mapping[str, Any] = {"total_ios": 0, "iops": 0.0, "bw_bytes": 0.0, "clat_ns": {}}
    outcome = Outcome.from_document({"runtime_ns": 10**9, "read": direction, "write": none, "devices": []})
    return StoredRun(number, 1, "x", runner, number, labels, {}, "done", None, None, 1.0, outcome, None, {})


def no_points(_run: int) -> Sequence[SeriesPoint]:
    return []


def three(base: float, **labels: str) -> list[StoredRun]:
    return [
        run(base + n, **{**labels, "repeat": str(n)})  # type: ignore[arg-type]
        for n in (1, 2, 3)
    ]


def test_cells_are_matched_by_their_labels() -> None:
    item = [*three(100, stack="raid1"), *three(200, stack="near")]
    two = [*three(300, stack="near"), *three(100, stack="raid1")]
    result = compare([ComparisonSide("a", item), ComparisonSide("b", two)], ["iops"], no_points)
    assert result.by == ["stack"]
    assert [row.labels for row in result.rows] == [{"stack": "raid1"}, {"stack": "near"}]
    assert [row.verdicts for row in result.rows] == [["same"], ["better"]]
    value = result.rows[1].values[1]
    assert value is not None
    assert (value.mean, value.runs, value.least, value.most) == (302, 3, 301, 303)


def test_merged_rows_compare_matched_cells() -> None:
    sizes = {"4k": 100.0, "64k": 1000.0, "1m": 30.0}
    base = [each for size, iops in sizes.items() for each in three(iops, stack="x", bs=size)]
    other = [replace(each, outcome=run(1.1 * each.outcome.read.iops).outcome) for each in base if each.outcome]
    sides = [ComparisonSide("a", [*base, *three(9, stack="x", bs="9k")]), ComparisonSide("b", other)]
    result = compare(sides, ["iops"], no_points, by=["stack"])
    (row,) = result.rows
    assert row.verdicts == ["better"]
    first, second = row.values
    assert first
    assert second
    assert first.mean == pytest.approx((102 * 1002 * 32) ** (1 / 3))
    assert second.mean / first.mean == pytest.approx(1.1)
    difference = row.differences[0]
    assert difference
    assert difference.change == pytest.approx(0.1)
    assert "rows merge up to 3 cells: values and changes are geometric means of cells" in map(str, result.notes)


def mix(reads: int, writes: int, p99: float = 2e6, syncs: int = 0) -> Outcome:
    """Returns the outcome of a load whose reads take 100 µs, and whose writes have this 99th percentile."""
    latencies = {"read": 1e5, "write": p99}
    counts = {"read": reads, "write": writes}
    document: dict[str, Any] = {}
    for name, count in counts.items():
        latency = {"mean": latencies[name] / 2, "p99": latencies[name]}
        document[name] = {"total_ios": count, "iops": float(count), "clat_ns": latency if count else {}}
    if syncs:
        document["sync"] = {"total_ios": syncs, "iops": 1.0, "lat_ns": {"mean": 6e6, "p99": 7e6}}
    return Outcome.from_document(document)


def test_a_table_has_the_latencies_of_both_directions() -> None:
    outcomes = [mix(1001, 1000), mix(1000, 1101)]
    directions = split_directions(outcomes)
    assert figure_headings(directions) == [
        "read IOPS", "write IOPS", "read mean", "read p99", "write mean", "write p99",
    ]  # fmt: skip
    assert outcome_figures(outcomes[0], directions) == ["1,001", "1,000", "50 µs", "100 µs", "1 ms", "2 ms"]
    alone = [mix(100, 0), mix(0, 100)]
    assert split_directions(alone) == []
    assert [outcome_figures(outcome, [])[2:] for outcome in alone] == [["50 µs", "100 µs"], ["1 ms", "2 ms"]]
    assert outcome_figures(alone[0], ["read", "write"])[2:] == ["50 µs", "100 µs", "–", "–"]


def test_a_table_has_the_latencies_of_fsyncs() -> None:
    outcome = mix(0, 100, syncs=100)
    directions = split_directions([outcome, None])
    assert figure_headings(directions)[2:] == ["write mean", "write p99", "fsync mean", "fsync p99"]
    assert outcome_figures(outcome, directions)[-2:] == ["6 ms", "7 ms"]


def test_one_more_write_does_not_change_the_direction() -> None:
    assert with_direction("p99", [[mix(1001, 1000)], [mix(999, 1001)]]) == "read.p99"


def test_a_latency_means_all_directions_that_the_sides_have() -> None:
    assert with_directions("p99", [[mix(500, 500)], [mix(700, 300)]]) == ["read.p99", "write.p99"]
    assert with_directions("p99", [[mix(500, 500)], [mix(500, 0)]]) == ["read.p99"]
    assert with_directions("p99", [[mix(500, 0)], [mix(0, 500)]]) == ["read.p99"]
    assert with_directions("p99", [[mix(9990, 10)], [mix(9990, 10)]]) == ["read.p99"]
    assert with_directions("mean", [[mix(0, 9, syncs=9)], [], [mix(0, 9, syncs=9)]]) == ["write.mean", "sync.mean"]
    assert with_directions("mean", [[mix(0, 9, syncs=9)], [mix(0, 9)]]) == ["write.mean"]
    assert with_directions("write.p99", [[mix(9, 0)]]) == ["write.p99"]


def test_slower_writes_of_a_mixed_load_are_found() -> None:
    def side(name: str, latency: float) -> ComparisonSide:
        runs = []
        for number in range(5):
            outcome = mix(500, 500, p99=latency + number)
            runs.append(replace(run(1, repeat=str(number)), outcome=outcome))
        return ComparisonSide(name, runs)

    result = compare([side("old", 2e6), side("new", 2.4e6)], ["p99"], no_points)
    assert {row.metric: row.verdicts for row in result.rows} == {"read.p99": ["same"], "write.p99": ["worse"]}
    judgement = fail_if.judge_condition(result, fail_if.parse_condition("p99 > 1.1*baseline"), sure=True)
    assert list(judgement.failed) == ["new: p99 > 1.1*baseline (write.p99)"]


def test_less_latency_is_better() -> None:
    item = [run(1, p99=5e6 + n, repeat=str(n)) for n in range(3)]
    two = [run(1, p99=3e6 + n, repeat=str(n)) for n in range(3)]
    (row,) = compare([ComparisonSide("a", item), ComparisonSide("b", two)], ["p99"], no_points).rows
    assert row.verdicts == ["better"]


def test_the_values_of_a_label() -> None:
    runs = [*three(100, stack="raid1", bs="4k"), *three(50, stack="near", bs="4k")]
    result = comparison_sides([("x", runs)], between="stack")
    assert [side.name for side in result] == ["stack=raid1", "stack=near"]
    (row,) = compare(result, ["iops"], no_points, side_labels={"stack"}).rows
    assert (row.labels, row.verdicts) == ({}, ["worse"])


def test_a_label_that_one_side_has_alone_makes_several_sides_of_it() -> None:
    simulated = [run(100, "sim", stack="raid1", kernel=kernel) for kernel in ("4.19", "5.3")]
    measured = [run(90, "host", stack="raid1")]
    result = comparison_sides([("sim", simulated), ("host", measured)])
    assert [side.name for side in result] == ["sim kernel=4.19", "sim kernel=5.3", "host"]
    compared = compare(result, ["iops"], no_points)
    assert str(compared.notes[-1]) == "the runs come from different runners: host and sim"
    assert [row.verdicts for row in compared.rows] == [["unknown", "unknown"]]


def test_a_cell_that_one_side_lacks() -> None:
    item = [*three(100, stack="raid1"), *three(100, stack="near")]
    result = compare([ComparisonSide("a", item), ComparisonSide("b", three(100, stack="near"))], ["iops"], no_points)
    assert result.rows[0].values[1] is None
    assert "1 values are missing on one side" in map(str, result.notes)
    assert result.as_dict()["rows"][0]["values"][1] is None


@pytest.mark.parametrize(
    ("metrics", "by", "output"),
    [
        (["iosp"], None, "no metric 'iosp'; did you mean 'iops'?"),
        (["iops"], ["stak"], "--by: not all sides have a label 'stak'; did you mean 'stack'?"),
        (["wall"], None, "nothing to compare: no run has wall"),
    ],
)
def test_mistakes(metrics: list[str], by: list[str] | None, output: str) -> None:
    result = [ComparisonSide("a", three(1, stack="x")), ComparisonSide("b", three(1, stack="x"))]
    with pytest.raises(UsageError) as caught:
        compare(result, metrics, no_points, by=by)
    assert str(caught.value) == output


def test_one_thing_is_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="a comparison needs two sides"):
        comparison_sides([("a", three(1, stack="x"))])
    with pytest.raises(UsageError, match="no label 'kernel'"):
        comparison_sides([("a", three(1, stack="x"))], between="kernel")


def test_figures_over_time() -> None:
    points = [
        SeriesPoint("jobs", 0, 10**9, 10, 30, 1000, 3000, 5.0, 7.0),
        SeriesPoint("sda", 0, 10**9, 99, 99, 99, 99, 5.0, 7.0),
        SeriesPoint("jobs", 10**9, 10**9, 20, 40, 2000, 4000, None, 9.0),
        SeriesPoint("jobs", 2 * 10**9, 10**8, 1, 1, 1, 1, 1.0, 1.0),
    ]
    assert over_time("iops", points) == [40, 60]
    assert over_time("read.bw", points) == [1000, 2000]
    assert over_time("write.mean", points) == [7, 9]
    assert over_time("read.mean", points) == [5]
    assert over_time("read.p99", points) == []


def pair(base: float, other: float) -> Comparison:
    result = [ComparisonSide("base", three(base, stack="x")), ComparisonSide("new", three(other, stack="x"))]
    return compare(result, ["iops", "p99"], no_points)


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
    result = fail_if.judge_condition(pair(100, 90), fail_if.parse_condition(text), sure=False).failed
    assert [line.partition(";")[0].replace(" (read.p99)", "") for line in result] == ([f"new: {text}"] if fails else [])


def test_a_doubtful_failure_is_none_when_it_must_be_sure() -> None:
    condition = fail_if.parse_condition("iops < 0.95*baseline")
    noisy = [[run(value, repeat=str(n)) for n, value in enumerate(side)] for side in (
        (100.0, 120.0, 80.0), (94.0, 110.0, 70.0)
    )]  # fmt: skip
    result = compare([ComparisonSide("a", noisy[0]), ComparisonSide("b", noisy[1])], ["iops"], no_points)
    assert fail_if.judge_condition(result, condition, sure=False).failed
    judged = fail_if.judge_condition(result, condition, sure=True)
    assert (judged.failed, judged.list_unjudged(allow_missing=False)) == ([], [])
    assert judged.undecided == [
        "b: iops < 0.95*baseline: cannot tell, the interval includes the bound: use repeats = 5 or more"
    ]
    assert fail_if.judge_condition(pair(100, 50), condition, sure=True).failed


def test_nothing_to_judge_is_no_success() -> None:
    item, two = three(100, stack="raid1"), three(100, stack="near")
    rows = [*item, *three(100, stack="far")]
    result = compare([ComparisonSide("a", rows), ComparisonSide("b", two)], ["iops"], no_points)
    judged = fail_if.judge_condition(result, fail_if.parse_condition("iops < 0.95*baseline"), sure=False)
    assert judged.failed == []
    (output,) = judged.list_unjudged(allow_missing=True)
    assert "no cell has iops on both sides; the cells differ in stack" in output
    judged = fail_if.judge_condition(result, fail_if.parse_condition("iops < 200"), sure=False)
    assert judged.failed == ["b stack=near: iops < 200"]


@pytest.mark.parametrize("text", ["iops < 0.95*baseline", "iops < 50"])
def test_a_cell_that_vanished_is_no_success(text: str) -> None:
    item = [*three(100, workload="rd"), *three(100, workload="wr")]
    two = [*three(100, workload="wr"), *three(100, workload="rw")]
    two += [replace(run_, outcome=None, state="failed") for run_ in three(100, workload="rd")]
    result = compare([ComparisonSide("c1", item), ComparisonSide("c2", two)], ["iops"], no_points)
    judged = fail_if.judge_condition(result, fail_if.parse_condition(text), sure=False)
    assert judged.failed == []
    assert judged.list_unjudged(allow_missing=False) == ["iops: workload=rd: not measured on c2"]
    assert judged.list_unjudged(allow_missing=True) == []


def test_a_cell_that_vanished_among_others_is_no_success() -> None:
    item = [*three(100, stack="x", workload="rd"), *three(50, stack="x", workload="wr")]
    two = three(100, stack="x", workload="rd")
    result = compare([ComparisonSide("c1", item), ComparisonSide("c2", two)], ["iops"], no_points, by=["stack"])
    condition = fail_if.parse_condition("iops < 0.95*baseline")
    judged = fail_if.judge_condition(result, condition, sure=False)
    assert judged.failed == []
    assert judged.list_unjudged(allow_missing=False) == ["iops: stack=x workload=wr: not measured on c2"]
    assert "in merged rows, 1 cells of the first side are missing on another side" in map(str, result.notes)
    # One of each is no loss: it was named so.
    other = [ComparisonSide("c1", two), ComparisonSide("c2", three(90, stack="x", workload="wr"))]
    result = compare(other, ["iops"], no_points, by=["stack"])
    assert fail_if.judge_condition(result, condition, sure=False).list_unjudged(allow_missing=False) == []


def steady(_run: int) -> Sequence[SeriesPoint]:
    return [SeriesPoint("jobs", at * 10**9, 10**9, 90 + at % 3, 0, 4096, 0, 5.0, None) for at in range(60)]


@pytest.mark.parametrize("text", ["iops < 0.95*baseline", "iops < 95", "p99 > 0.9*baseline"])
@pytest.mark.parametrize("points", [no_points, steady])
def test_of_one_run_nothing_is_sure(text: str, points: Points) -> None:
    result = compare([ComparisonSide("a", [run(100)]), ComparisonSide("b", [run(50)])], ["iops", "p99"], points)
    judged = fail_if.judge_condition(result, fail_if.parse_condition(text), sure=True)
    assert judged.failed == []
    assert [line.partition("cannot tell, ")[2] for line in judged.undecided] == [
        "the variation between runs is unknown with one run: use repeats = 2 or more"
    ]
    assert fail_if.judge_condition(result, fail_if.parse_condition(text), sure=False).failed


def test_being_sure_of_a_bound() -> None:
    new = [run(value, repeat=str(value)) for value in (80.0, 90.0, 100.0)]
    result = compare([ComparisonSide("a", three(100)), ComparisonSide("b", new)], ["iops"], no_points)
    judged = {
        bound: fail_if.judge_condition(result, fail_if.parse_condition(f"iops < {bound}"), sure=True)
        for bound in (10, 95, 250)
    }
    assert [judged[bound].failed for bound in judged] == [[], [], ["b: iops < 250"]]
    assert [len(judged[bound].undecided) for bound in judged] == [0, 1, 0]


def test_two_single_runs_are_neither_better_nor_worse() -> None:
    outcomes = [run(90.0), run(50.0)]

    def points(number: int) -> Sequence[SeriesPoint]:
        iops = 90 if number == outcomes[0].id else 50
        return [SeriesPoint("jobs", at * 10**9, 10**9, iops + at % 3, 0, 4096, 0, 5.0, None) for at in range(60)]

    sides_ = [ComparisonSide("a", outcomes[:1]), ComparisonSide("b", outcomes[1:])]
    result = compare(sides_, ["iops"], points)
    assert [row.verdicts for row in result.rows] == [["differ"]]
    assert str(result.notes[0]).startswith("some cells have one run")
    both = [ComparisonSide("a", three(90.0)), ComparisonSide("b", outcomes[1:])]
    assert [row.verdicts for row in compare(both, ["iops"], points).rows] == [["worse"]]


def test_what_each_side_has_one_of_is_no_other_name_for_it() -> None:
    reads, writes = three(100, workload="rd", bs="4k"), three(50, workload="wr", bs="4k")
    result = [ComparisonSide("a", reads), ComparisonSide("b", writes)]
    apart = compare(result, ["iops"], no_points)
    assert (apart.by, [row.labels["workload"] for row in apart.rows]) == (["workload"], ["rd", "wr"])
    assert all(row.differences == [None] for row in apart.rows)
    assert "the cells differ in workload: use --by, or select a label behind the colon" in str(apart.notes[0])
    meant = compare(result, ["iops"], no_points, side_labels={"workload"})
    assert [row.verdicts for row in meant.rows] == [["worse"]]
    assert [row.verdicts for row in compare(result, ["iops"], no_points, by=["bs"]).rows] == [["worse"]]


def test_cells_that_were_asked_for_other_things_are_noted() -> None:
    def asked(size: str, seconds: int, **rest: Any) -> list[StoredRun]:
        job = {"name": "rd", "options": {"bs": size, "filename": f"/{size}"}}
        cell = {"jobs": [job], "runtime_ns": seconds * 10**9, "ramp_ns": 0}
        return [replace(item, cell=cell, **rest) for item in three(100)]

    result = [ComparisonSide("a", asked("4k", 10)), ComparisonSide("b", asked("64k", 60))]
    assert [str(each) for each in compare(result, ["iops"], no_points).notes] == [
        "the cells differ in runtime: 10 s and 1m 00s",
        "the cells differ in bs: 4k and 64k",
    ]
    assert len(compare(result, ["iops"], no_points, side_labels={"bs"}).notes) == 1
    assert len(compare(result, ["iops"], no_points, side_labels={"workload"}).notes) == 1
    other = [ComparisonSide("a", asked("4k", 10)), ComparisonSide("b", asked("64k", 60, runner="sim"))]
    assert [str(each) for each in compare(other, ["iops"], no_points).notes] == [
        "the runs come from different runners: host and sim"
    ]


def test_runs_that_were_forced_are_noted() -> None:
    def doubtful(item: StoredRun, **rest: Any) -> StoredRun:
        return replace(item, outcome=replace(item.figures, **rest))

    new = [doubtful(each, forced=["device-busy"]) for each in three(100)[:2]]
    new += [doubtful(run(100), warnings=["hot"])]
    result = compare([ComparisonSide("a", three(100)), ComparisonSide("X", new)], ["iops"], no_points)
    assert [str(each) for each in result.notes] == [
        "2 runs of X were forced: device-busy",
        "1 run of X with this warning: hot",
    ]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("iops", "expected METRIC < BOUND"),
        ("iosp < 5", "no metric 'iosp'; did you mean 'iops'?"),
        ("iops < fast", "found 'fast', expected a number or a multiple of baseline"),
        ("iops < 2*baseline*2", "expected one factor of baseline"),
        ("p99 < 5 parsecs", "'5 parsecs'"),
    ],
)
def test_conditions_that_make_no_sense(text: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        fail_if.parse_condition(text)
    assert output in str(caught.value)
    assert str(caught.value).startswith(f"--fail-if {text!r}: ")


def mixed(reads: int, writes: int, read_p99: float, write_p99: float) -> StoredRun:
    def direction(count: int, p99: float) -> dict[str, Any]:
        clat = {"mean": p99 / 2, "p99": p99} if count else {}
        return {"total_ios": count, "iops": float(count), "bw_bytes": 1.0, "clat_ns": clat}

    outcome = {"read": direction(reads, read_p99), "write": direction(writes, write_p99)}
    return replace(run(1), outcome=Outcome.from_document(outcome))


def test_one_more_read_does_not_turn_reads_into_writes() -> None:
    """The same disk twice: 1 ms for reads, 100 µs for writes."""
    more_reads = ComparisonSide("a", [mixed(1001, 1000, 1e6 + n, 1e5 + n) for n in range(3)])
    more_writes = ComparisonSide("b", [mixed(1000, 1001, 1e6 + n, 1e5 + n) for n in range(3)])
    gate = fail_if.parse_condition("p99 > 1.1*baseline")
    for pair_of_sides in ((more_reads, more_writes), (more_writes, more_reads)):
        result = compare(pair_of_sides, ["p99", "mean"], no_points)
        assert [row.metric for row in result.rows] == ["read.p99", "write.p99", "read.mean", "write.mean"]
        assert [row.verdicts for row in result.rows] == [["same"]] * 4
        assert fail_if.judge_condition(result, gate, sure=False).failed == []


def test_a_latency_is_of_the_direction_that_both_sides_have() -> None:
    both = ComparisonSide("a", [mixed(1000, 10, 1e6, 1e5) for _ in range(2)])
    writes = ComparisonSide("b", [mixed(0, 10, 0, 2e5) for _ in range(2)])
    (row,) = compare([both, writes], ["p99"], no_points).rows
    assert (row.metric, row.requested_names, row.verdicts) == ("write.p99", ["p99"], ["worse"])
    reads = ComparisonSide("c", [mixed(1000, 0, 1e6, 0) for _ in range(2)])
    apart = compare([reads, writes], ["p99", "iops"], no_points)
    assert [row.values.count(None) for row in apart.rows] == [1, 0]
    assert "latencies are not comparable in 1 cell" in str(
        next(note for note in apart.notes if note.code == "other-direction")
    )


@pytest.mark.parametrize(
    ("spelling", "name"), [("read_p99", "read.p99"), ("read.p99.9", "read.p99_9"), ("p99.99", "p99_99"), ("bw", "bw")]
)
def test_spellings_of_metrics(spelling: str, name: str) -> None:
    assert fail_if.parse_condition(f"{spelling} > 5").metric == name


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([100, 101, 40], "a: iops: 1 of 3 runs is 60 % lower than the others"),
        ([100, 101, 250], "a: iops: 1 of 3 runs is 2.5 times as high as the others"),
        ([100, 101, 60, 61], "a: iops: two modes: 2 of 4 runs are 40 % lower than the others"),
    ],
)
def test_runs_in_two_groups_are_named(rates: Sequence[float], words: str) -> None:
    base = [run(rate, stack="x", repeat=str(at)) for at, rate in enumerate(rates)]
    result = compare([ComparisonSide("a", base), ComparisonSide("b", three(100, stack="x"))], ["iops"], no_points)
    assert [str(note) for note in result.notes if note.code == "two-groups"] == [words]


def predicted(cell: Mapping[str, Any]) -> StoredRun:
    of = run(1000, runner="sim", stack="x")
    assert of.outcome is not None
    known = PredictionInterval((0.8, 1.25), (0.5, 2.0))
    return replace(of, cell=cell, outcome=replace(of.outcome, interval=known, simulated_ios=100))


@pytest.mark.parametrize(
    ("job", "ends"),
    [
        ({"read_share": 1.0}, (0.8e5, 1.25e5)),
        ({"read_share": 0.5}, (0.5e5, 2e5)),
        ({"read_share": 1.0, "rate_iops": 1000.0}, (0.5e5, 2e5)),
    ],
)
def test_a_mean_latency_follows_from_the_iops_if_the_queue_is_always_full(
    job: Mapping[str, Any], ends: tuple[float, float]
) -> None:
    sides = [ComparisonSide("p", [predicted({"jobs": [job]})]), ComparisonSide("m", [run(1000, stack="x")])]
    (row,) = compare(sides, ["read.mean"], no_points).rows
    value = row.values[0]
    assert value is not None
    assert (value.low, value.high) == pytest.approx(ends, rel=1e-3)


def test_the_mean_of_merged_cells_has_an_interval() -> None:
    sides = [
        ComparisonSide(name, [*three(100, stack="x", bs="4k"), *three(400, stack="x", bs="8k")]) for name in ("a", "b")
    ]
    (row,) = compare(sides, ["iops"], no_points, by=["stack"]).rows
    value = row.values[1]
    assert value is not None
    assert value.low is not None
    assert value.high is not None
    assert value.low < value.mean < value.high
    judged = fail_if.judge_condition(
        compare(sides, ["iops"], no_points, by=["stack"]), fail_if.parse_condition("iops < 150"), sure=True
    )
    assert (judged.failed, judged.undecided) == ([], []), "its mean is 203"


def on_day(runs: Sequence[StoredRun], *days: str) -> list[StoredRun]:
    """Returns the runs as they began at noon of these days, in turn."""
    return [replace(item, started=f"{days[number % len(days)]}T12:00:00.000+00:00") for number, item in enumerate(runs)]


def test_sides_of_different_days_say_what_they_cannot_separate() -> None:
    before = on_day(three(100), "2026-11-28")
    after = on_day(three(150), "2026-11-29", "2026-11-30")
    result = compare([ComparisonSide("a", before), ComparisonSide("b", after)], ["iops"], no_points)
    assert result.days_doubt == (
        "a was measured on 2026-11-28, b on 2026-11-29 to 2026-11-30: "
        "what else changed on the machine cannot be separated from the difference."
    )
    assert describe_verdict(result)[-1] == result.days_doubt
    turns = on_day(three(150), "2026-11-28", "2026-11-29")
    result = compare([ComparisonSide("a", before), ComparisonSide("b", turns)], ["iops"], no_points)
    assert result.days_doubt == ""
