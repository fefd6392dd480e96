"""The verdict of a comparison: the answer first, in at most five sentences."""

from dataclasses import replace

import pytest

from blklab.compare.comparison import Comparison, ComparisonSide, compare, comparison_sides, find_side_label
from blklab.compare.report import verdict_sentences
from blklab.compare.verdict import MOST_SENTENCES, describe_verdict
from blklab.errors import UsageError
from blklab.store.query import StoredRun
from tests.compare.test_compare import no_points, run


def repeats(base: float, spread: float = 0.01, count: int = 5, **labels: str) -> list[StoredRun]:
    """Returns runs around a number of IOPS, equally far apart; `spread` is the share between the outer ones."""
    runs = []
    for number in range(count):
        iops = base * (1 + spread * (number / max(1, count - 1) - 0.5))
        runs.append(run(iops, **labels, repeat=str(number)))  # type: ignore[arg-type]
    return runs


def two_kernels(new: dict[str, float], spread: float = 0.01, count: int = 5) -> Comparison:
    """Returns the comparison of two kernels: the old one has 1,000 IOPS with each workload."""
    old_runs = [item for workload in new for item in repeats(1000, spread, count, workload=workload)]
    new_runs = [item for workload in new for item in repeats(new[workload], spread, count, workload=workload)]
    sides = [ComparisonSide("6.6", old_runs), ComparisonSide("6.12", new_runs)]
    return compare(sides, ["iops"], no_points)


def test_a_regression_is_the_first_sentence() -> None:
    verdict = describe_verdict(two_kernels({"oltp": 880, "backup": 1000}))
    assert verdict[0].startswith(
        "6.12 is worse than 6.6 in 1 of 2 cells: oltp: I/Os a second −12.0 % (1,000 to 880; interval −1"
    )
    assert verdict[1].startswith("1 of 2 compared values is the same within ±")
    assert len(verdict) == 2


def test_both_directions_have_a_sentence_and_many_cells_are_counted() -> None:
    iops = {"a": 700.0, "b": 720, "c": 740, "d": 760, "e": 1300}
    verdict = describe_verdict(two_kernels(iops))
    assert verdict[0].startswith("6.12 is worse than 6.6 in 4 of 5 cells: a: I/Os a second −30.0 %")
    assert verdict[0].endswith("; 1 more in the tables.")
    assert verdict[1].startswith("6.12 is better than 6.6 in 1 of 5 cells: e: I/Os a second +30.0 % (1,000 to 1,300; ")


def test_equal_sides_are_the_same() -> None:
    (sentence,) = describe_verdict(two_kernels({"a": 1000, "b": 1001}))
    assert sentence.startswith("6.12 and 6.6 are the same within ±")
    assert sentence.endswith(": no compared value differs.")


def test_what_is_open_says_how_many_repeats_are_needed() -> None:
    (sentence,) = describe_verdict(two_kernels({"a": 970}, spread=0.1, count=3))
    assert sentence.startswith("Cannot tell whether they differ: ")
    assert sentence.endswith("needed.")


def test_noise_is_named_instead_of_a_factor() -> None:
    verdict = describe_verdict(two_kernels({"a": 1000}, spread=1.9, count=3))
    assert verdict[-1] == "Too noisy: runs differ from their mean by up to 95 %: find the noise first."


def test_single_runs_are_named_once() -> None:
    comparison = two_kernels({"a": 900, "b": 800, "c": 1000}, count=1)
    sentences = verdict_sentences(comparison)
    assert sum("run once" in sentence for sentence in sentences) == 1
    assert len(sentences) <= MOST_SENTENCES


def test_many_sides_have_a_sentence_each_and_no_more_than_five() -> None:
    sides = [ComparisonSide(f"kernel {number}", repeats(1000 - 50 * number)) for number in range(9)]
    verdict = describe_verdict(compare(sides, ["iops"], no_points))
    assert len(verdict) == MOST_SENTENCES
    assert verdict[0].startswith(
        "kernel 8 against kernel 0, 1 compared value: 1 worse, most of all I/Os a second −40.0 % (1,000 to 600; "
    )


def test_the_label_that_distinguishes_two_directories_makes_sides() -> None:
    runs = [*repeats(1000, source="6.6", workload="oltp"), *repeats(880, source="6.12", workload="oltp")]
    assert find_side_label(runs) == "source"
    assert [side.name for side in comparison_sides([("results", runs)])] == ["6.6", "6.12"]


def test_several_labels_or_cells_that_do_not_match_make_no_sides() -> None:
    runs = [*repeats(1000, kernel="6.6", disk="a"), *repeats(880, kernel="6.12", disk="b")]
    assert find_side_label(runs) is None
    runs += [*repeats(1000, kernel="6.6", disk="b"), *repeats(880, kernel="6.12", disk="a")]
    assert find_side_label(runs) is None
    sweep = [item for depth in ("1", "2", "4") for item in repeats(1000, iodepth=depth)]
    assert find_side_label(sweep) is None
    with pytest.raises(UsageError, match="needs two sides"):
        comparison_sides([("x", sweep)])


def test_a_side_without_any_is_no_doubt() -> None:
    some = [run(value, workload="a", repeat=str(number)) for number, value in enumerate((100, 101, 99))]
    none = [run(0, workload="a", repeat=str(number)) for number in range(3)]
    ended = describe_verdict(compare([ComparisonSide("a", some), ComparisonSide("b", none)], ["iops"], no_points))
    assert ended == ["b has none of what a has: I/Os a second −100.0 % (100 to 0)."]
    begun = describe_verdict(compare([ComparisonSide("a", none), ComparisonSide("b", some)], ["iops"], no_points))
    assert begun == ["The values of a are 0: no change of b can be computed."]


def test_sides_that_are_left_out_are_counted() -> None:
    sides = [ComparisonSide(f"s{number}", [run(1000 if number < 5 else 100, workload="a")]) for number in range(6)]
    verdict = describe_verdict(compare(sides, ["iops"], no_points))
    assert len(verdict) == MOST_SENTENCES
    assert verdict[-2:] == [
        "2 more sides are in the tables.",
        "Some cells were run once: their differences may be chance. Use repeats = 2 or more.",
    ]
    assert verdict[0].startswith("s5 against s0")


def test_failed_runs_make_no_side() -> None:
    runs = [*repeats(1000, source="6.6", workload="oltp"), *repeats(880, source="6.12", workload="oltp")]
    failed = replace(runs[0], id=9999, outcome=None, labels={"source": "6.18", "workload": "oltp"})
    assert [side.name for side in comparison_sides([("results", [*runs, failed])])] == ["6.6", "6.12"]


def measured(stored: StoredRun, stamp: str) -> StoredRun:
    return replace(stored, cell={"source": "x", "measured": stamp})


def test_sides_are_in_the_order_of_time_also_across_time_zones() -> None:
    late = measured(run(1000, source="new", workload="a"), "2026-01-01T09:30:00+00:00")
    early = measured(run(1000, source="old", workload="a"), "2026-01-01T10:00:00+01:00")
    assert [side.name for side in comparison_sides([("x", [late, early])], "source")] == ["old", "new"]
    unknown = replace(early, cell={"source": "x"})
    assert [side.name for side in comparison_sides([("x", [late, unknown])], "source")] == ["new", "old"]
