"""All doubts in one sentence."""

from dataclasses import replace

from blklab.compare.doubt_sentence import doubt_sentence
from blklab.diagnostic import Diagnostic
from blklab.outcome import Outcome
from blklab.store.query import StoredRun

BUSY = "CPUs: other programs use {} % of the CPUs, expected at most 20 %; find the program with top"


def run(number: int, *warnings: str, forced: tuple[str, ...] = ()) -> StoredRun:
    outcome = Outcome(10**9, warnings=list(warnings), forced=list(forced))
    return StoredRun(number, 1, "one", "host", number, {}, {}, "done", None, None, None, outcome, None, {})


def failed(number: int) -> StoredRun:
    return replace(run(number), state="failed", outcome=None, message="no space left")


def test_warnings_that_differ_in_a_figure_are_one_clause_with_its_range() -> None:
    runs = [*(run(number, BUSY.format(51 + number)) for number in range(1, 10)), failed(10)]
    assert doubt_sentence(runs, []) == (
        "Do not trust these figures: other programs used 52 to 60 % of the CPUs in all 9 runs; 1 of 10 runs failed."
    )


def test_a_doubt_about_few_runs_asks_for_care_only() -> None:
    runs = [run(1, BUSY.format(60)), run(2), run(3), run(4, forced=("device-busy",))]
    assert doubt_sentence(runs, []) == (
        "Read these figures with care: other programs used 60 % of the CPUs in 1 of 4 runs; "
        "measured with --force device-busy in 1 of 4 runs."
    )


def test_diagnostics_of_a_kind_are_one_clause_and_notes_are_none() -> None:
    runs = [run(1), run(2)]
    diagnostics = [
        Diagnostic("page-cache", "warning", "", "the page cache answered", runs=(1,)),
        Diagnostic("page-cache", "warning", "", "the page cache answered again", runs=(2,)),
        Diagnostic("busy-devices", "note", "", "sda is always busy", runs=(1, 2)),
    ]
    assert doubt_sentence(runs, diagnostics) == "Do not trust these figures: the page cache answered in both runs."


def test_runs_without_doubts_have_no_sentence() -> None:
    assert doubt_sentence([run(1)], []) == ""
