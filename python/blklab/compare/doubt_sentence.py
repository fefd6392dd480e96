"""All doubts about the figures of runs in one plain sentence: what is wrong, and in how many runs."""

import re
from collections.abc import Sequence

from blklab.diagnostic import Diagnostic
from blklab.grouping import by_key
from blklab.render import formatting
from blklab.store.query import StoredRun
from blklab.text.printing import printable

MOST_WARNINGS = 3  # Kinds of warnings that the sentence quotes
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")

CLAUSES = {  # What a kind of diagnostics means; "in 3 of 9 runs" follows
    "cpus": "the CPUs of the host had no time left",
    "drift": "IOPS rose or fell during the measurement",
    "impossible-rate": "a cache answered, or the disk is virtual (more IOPS than such a disk has)",
    "not-steady": "no steady state was reached",
    "odd-one-out": "IOPS differ much from the other repeats",
    "outliers": "IOPS broke down or rose for a moment",
    "page-cache": "the page cache answered",
    "processor": "each job needed a whole CPU (this measures the CPU)",
    "small-data": "the data fit into a cache",
    "two-levels": "IOPS changed between two levels",
    "unequal-twins": "equal disks did not do equal work",
    "unfair-shares": "equal jobs got unequal shares",
    "unwritten": "blocks were read that were never written (no flash was read)",
}

WHOLE = {  # Kinds that are not about single runs
    "drift-of-the-campaign": "later repeats differ from earlier ones, so something else changed",
    "prediction": "measurements are outside of the intervals of their predictions",
}

OF_RUNS = frozenset({"failed", "forced", "warning"})
"""Kinds that are read from the runs."""

SEVERE = frozenset({"impossible-rate", "page-cache", "small-data", "unwritten"})
"""Kinds that make a figure useless: it is not that of the storage."""

DISTURBED = re.compile(r"other programs|hypervisor|because of heat")
"""Warnings of the same weight."""


def doubt_sentence(runs: Sequence[StoredRun], diagnostics: Sequence[Diagnostic]) -> str:
    """Returns the sentence; empty if there is no doubt.

    `runs` are all runs, with those that failed. Of `diagnostics`, only those about other things than failures and
    warnings count: these are read from the runs.
    """
    done = [run for run in runs if run.outcome]
    clauses: list[str] = []
    severe_runs: set[int] = set()
    for text, ids in _group_warnings(done)[:MOST_WARNINGS]:
        clauses.append(f"{text} {_in_runs(len(ids), len(done))}")
        if DISTURBED.search(text):
            severe_runs |= ids
    hidden_count = len(_group_warnings(done)) - MOST_WARNINGS
    if hidden_count > 0:
        clauses.append(f"the runs have {formatting.plural(hidden_count, 'more kind', 'more kinds')} of warnings")
    forced = [run for run in done if run.figures.forced]
    if forced:
        names = " ".join(sorted({f"--force {name}" for run in forced for name in run.figures.forced}))
        clauses.append(f"measured with {names} {_in_runs(len(forced), len(done))}")
    for code, ids in _group_diagnostics(diagnostics).items():
        if code in WHOLE:
            clauses.append(WHOLE[code])
        else:
            clauses.append(f"{CLAUSES.get(code, code)} {_in_runs(len(ids), len(done))}")
        if code in SEVERE:
            severe_runs |= ids
    failed_count = sum(run.state == "failed" for run in runs)
    if failed_count:
        clauses.append(f"{failed_count} of {formatting.plural(len(runs), 'run')} failed")
    if not clauses:
        return ""
    is_severe = bool(severe_runs) and 2 * len(severe_runs) >= len(done)
    start = "Do not trust these figures" if is_severe else "Read these figures with care"
    return f"{start}: {'; '.join(clauses)}."


def _in_runs(count: int, total: int) -> str:
    """Returns `in all 9 runs` or `in 3 of 9 runs`."""
    if count == total:
        return {1: "in the only run", 2: "in both runs"}.get(total, f"in all {total:,} runs")
    return f"in {count:,} of {total:,} runs"


def _group_diagnostics(diagnostics: Sequence[Diagnostic]) -> dict[str, set[int]]:
    """Returns the runs of each kind."""
    ids_by_code: dict[str, set[int]] = {}
    for diagnostic in diagnostics:
        if diagnostic.severity != "note" and diagnostic.code not in OF_RUNS:
            ids_by_code.setdefault(diagnostic.code, set()).update(diagnostic.runs)
    return ids_by_code


def _group_warnings(runs: Sequence[StoredRun]) -> list[tuple[str, set[int]]]:
    """Returns the warnings that differ only in numbers, as one text, with their runs; those of most runs first."""
    pairs = []
    for run in runs:
        for warning in run.figures.warnings:
            text = _first_clause(printable(str(warning)))
            if not text.startswith("no steady state"):  # a diagnostic of its own
                pairs.append((NUMBER.sub("0", text), (text, run.id)))
    groups = []
    for members in by_key(pairs).values():
        ids = {run_id for _, run_id in members}
        groups.append((_merge_numbers([text for text, _ in members]), ids))
    return sorted(groups, key=lambda group: -len(group[1]))


def _first_clause(warning: str) -> str:
    """Returns what a warning says, without its subject, what was expected, and what to do."""
    text = warning.split("; ", maxsplit=1)[0].split(", expected ", maxsplit=1)[0].rstrip(".")
    text = text.removeprefix("CPUs: ")
    return text.replace("other programs use ", "other programs used ").replace("hypervisor takes", "hypervisor took")


def _merge_numbers(texts: Sequence[str]) -> str:
    """Returns texts that differ in numbers as one: `used 52 to 79 % of the CPUs`."""
    columns = list(zip(*(NUMBER.findall(text) for text in texts), strict=True))
    words = NUMBER.split(texts[0])
    merged = words[0]
    for values, word in zip(columns, words[1:], strict=True):
        low = min(values, key=_parse)
        high = max(values, key=_parse)
        figures = low if low == high else f"{low} to {high}"
        merged = f"{merged}{figures}{word}"
    return merged


def _parse(number: str) -> float:
    return float(number.replace(",", ""))
