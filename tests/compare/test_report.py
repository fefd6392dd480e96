"""Comparisons and sweeps where there is little room."""

import io
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from blklab.campaigns import results
from blklab.compare import report as comparison
from blklab.compare import tune_report as tuning
from blklab.compare.comparison import CellValue, Comparison, ComparisonRow
from blklab.compare.decision import Decision
from blklab.compare.tune import Effect, PersistedSettings, Tuning
from blklab.diagnostic import Diagnostic
from blklab.experiment import cells
from blklab.outcome import Outcome, PredictionInterval
from blklab.render import terminal
from blklab.runners.base import RunResult

WORSE = Decision("worse", -0.123, -0.2, -0.01, 0.0123)
UNCLEAR = Decision("unclear", -0.123, -0.2, 0.01, 0.0123, repeats=4, detectable=0.08, needed=9)
VALUE = CellValue(210_696.0, 3, 200_000.0, 220_000.0, 200_000.0, 220_000.0)


def printed(width: int, show: Callable[[Console], None]) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def compared(*sides: str, **labels: str) -> Comparison:
    others = len(sides) - 1
    rows = [ComparisonRow("iops", labels, [VALUE] * len(sides), [decision] * others) for decision in (WORSE, UNCLEAR)]
    return Comparison(sides, list(labels), rows, [], [False] * len(sides))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("sides", [("base@host", "new@host"), ("a@host", "b@host", "c@host")])
@pytest.mark.parametrize("labels", [{}, {"workload": "randread"}])
def test_labels_and_verdicts_stand_whole(width: int, sides: tuple[str, ...], labels: dict[str, str]) -> None:
    text = printed(width, lambda console: comparison.print_comparison(console, compared(*sides, **labels)))
    assert max(map(len, text.splitlines())) <= width
    assert "210,696" in text
    named = () if width <= 60 else (*labels, *labels.values())  # Their words are broken before ± is hidden
    for word in (*named, *sides[:1], *sides[2:], "worse", "cannot tell"):
        # Up to 60 columns, the words of three sides are broken.
        assert word in text or (width <= 60 and len(sides) > 2)


def test_p_goes_first_then_the_interval() -> None:
    def notes(width: int) -> str:
        output = printed(
            width, lambda console: comparison.print_comparison(console, compared("a", "b", workload="randread"))
        )
        result = re.search("Columns hidden \\(terminal too narrow\\): (.*)", output)
        return result[1] if result else ""

    facts = list(dict.fromkeys(notes(width) for width in range(120, 50, -1)))
    assert facts[:3] == ["", "p", "p, 95 % interval"]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_narrow_tables_keep_change_and_spread_and_explain_no_hidden_column(width: int) -> None:
    """Also p99, whose columns no table hides."""
    text = printed(width, lambda console: comparison.print_comparison(console, compared("a", "b", workload="randread")))
    heading = next(line for line in text.splitlines() if "change" in line)
    assert "±" in heading
    assert ("p is adjusted" in text) == bool(re.search(r" p ", heading))
    assert ("hold together" in text) == ("95 % interval" in heading)
    assert "±: the largest distance" in text
    plan = cells.plan(Path("examples/unbalanced.toml"), only={"stack": "near"})
    outcome = Outcome(interval=PredictionInterval((0.8, 1.2), (0.8, 1.2)))
    table = results.results_table(
        plan, [RunResult(each.number, each.labels, "sim", outcome, 1.0) for each in plan.cells]
    )
    shown, hidden = terminal.fit_table(table, width)
    headings = [column.heading for column in shown.columns]
    assert {"p99", "±IOPS"} <= set(headings)
    assert not set(hidden) & {"p99", "±IOPS"}
    for word in ("share", "in queues"):
        assert (f"{word}: " in shown.note) == (word in headings)
    assert ("mean and p99: " in shown.note) == ("mean" in headings)
    assert "p99: completion latencies" in shown.note


def test_warnings_that_differ_in_numbers_are_one_line() -> None:
    runs = []
    for number in range(1, 12):
        outcome = Outcome(warnings=[f"CPUs: other programs use {50 + number} % of the CPUs", "vda: shared"])
        if number == 11:
            outcome.warnings = ["only here"]
        runs.append(RunResult(number, {}, "host", outcome, 1.0))
    assert results.warnings(runs) == [
        "cells 1 to 10, like this: CPUs: other programs use 51 % of the CPUs",
        "cells 1 to 10: vda: shared",
        "cell 11: only here",
    ]


@pytest.mark.parametrize("width", [40, 60])
def test_a_sweep_where_there_is_little_room(width: int) -> None:
    effects = [
        Effect("max_sectors_kb", "1280", "as is", UNCLEAR, 3),
        Effect("scheduler", "mq-deadline", "as is", WORSE, 3),
    ]
    item = Tuning({}, "iops", 19_954.0, effects, "1 of 4 combinations was not measured")
    nothing = PersistedSettings([], [], [])
    text = printed(width, lambda console: tuning.print_tuning(console, [item], nothing, one_at_a_time=True))
    rows = text.split("max_sectors_kb: ")[0]
    for word in ("max_sectors_kb", "1280", "scheduler", "mq-deadline", "worse", "cannot"):
        assert word in rows
    assert "note: 1 of 4 combinations was not" in text


def test_one_line_says_what_cells_with_one_run_show_together() -> None:
    """Reads are 28 to 35 % faster in 49 of 49 cells, writes 12 to 18 % slower, as the depth decides."""
    rows = []
    for rw, ratio in (("randread", 1.315), ("randwrite", 0.85)):
        for depth, jobs in itertools.product((1, 2, 4, 8, 16, 32, 64), repeat=2):
            values = [CellValue(base, 1, base, base, None, None) for base in (1000.0, 1000 * ratio + 15 * (depth % 3))]
            labels = {"rw": rw, "iodepth": str(depth), "numjobs": str(jobs)}
            decision = Decision("unknown", values[1].mean / values[0].mean - 1)
            rows.append(ComparisonRow("iops", labels, values, [decision]))
    found = Comparison(
        ["samsung", "intel"],
        ["rw", "iodepth", "numjobs"],
        rows,
        [Diagnostic("two-campaigns", "note", "", "")],
        [False, False],
    )
    reads, writes, doubt = comparison.headlines(found)
    assert re.fullmatch(
        r"intel: randread iops on average 3\d % higher \(interval of the mean: 3\d to 3\d %\);"
        r" higher in 49 of 49 cells",
        reads,
    )
    assert re.fullmatch(
        r"intel: randwrite iops on average 1\d % lower \(interval of the mean: 1\d to 1\d %\); lower in 49 of 49 cells",
        writes,
    )
    assert "What else differs between the campaigns" in doubt
    mixed = [replace(row, differences=[Decision("unknown", (-1) ** at * 0.2)]) for at, row in enumerate(rows[:49])]
    (undecided, _) = comparison.headlines(replace(found, rows=mixed))
    assert "cannot tell; " in undecided


def test_more_repeats_are_not_advised_against_what_differs_between_campaigns() -> None:
    decision = Decision("unclear", 0.029, -0.37, 0.68, 1.0)
    found = Comparison(["a", "b"], [], [ComparisonRow("iops", {}, [VALUE, VALUE], [decision])], [], [False, False])
    assert comparison.verdict(decision) == "cannot tell: measure in turns"
    assert comparison.summary(found, "iops") == "iops: 1 cannot tell (measure in turns)."


def test_repeats_that_differ_too_much_are_noise_and_not_a_change_by_a_factor() -> None:
    noisy = CellValue(100.0, 3, 40.0, 203.0, None, None)
    decision = replace(UNCLEAR, detectable=112.0, needed=101)
    rows = [ComparisonRow("iops", {}, [VALUE, noisy], [decision])]
    line = comparison.summary(Comparison(("a", "b"), [], rows, [], [False] * 2), "iops")
    assert line.endswith("Too noisy: runs differ from their mean by up to 103 %: find the noise first.")
    rows = [ComparisonRow("iops", {}, [VALUE, VALUE], [UNCLEAR])]
    line = comparison.summary(Comparison(("a", "b"), [], rows, [], [False] * 2), "iops")
    assert "A change by 8 % can be detected" in line
