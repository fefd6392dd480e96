"""What is to be known of a comparison beside its figures."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from blklab import units
from blklab.analysis.comparison import ComparisonRow, ComparisonSide
from blklab.analysis.metrics import scale
from blklab.diagnostic import Diagnostic
from blklab.outcome import measured
from blklab.store.query import StoredRun

Pair = Sequence[Sequence[StoredRun]]
"""The runs of one cell, side by side."""

TIMES: Final[Mapping[str, str]] = {"runtime_ns": "runtime", "ramp_ns": "ramp", "max_ios": "max_ios"}

PLACES: Final = ("name", "filename", "directory", "size", "io_bytes", "offset_increment")
"""Options of a job that follow from where it runs."""


def notes(
    compared: Sequence[ComparisonSide],
    rows: Sequence[ComparisonRow],
    pairs: Sequence[Pair],
    chosen: Collection[str],
) -> Iterator[Diagnostic]:
    """Yields what is to be said of sides, their rows and the cells that were paired."""
    single = any(value is not None and value.runs == 1 for row in rows for value in row.values)
    alone = all(difference is None for row in rows for difference in row.differences)
    if single and not alone:
        yield _note(
            "run-once",
            "some cells were run once: how much the next run would differ is not known (repeats)",
        )
    missing = sum(value is None for row in rows for value in row.values)
    if alone:
        apart = ", ".join(rows[0].labels) or "nothing"
        yield _note(
            "nothing-shared",
            f"no cell is on more than one side; they are told apart by {apart}: --by, or the label"
            " behind the colon of a campaign, compares them all the same",
        )
    elif missing:
        yield _note("figures-missing", f"{missing} of the figures are missing on one side")
    lacking = sum(len(cells) for row in rows for cells in row.lacks)
    if lacking:
        yield _note(
            "cells-missing",
            f"of what was put together, {lacking} of the first side's cells are not on another",
        )
    runners = {run.runner for side in compared for run in side.runs}
    if len(runners) > 1:
        yield _note("several-runners", f"these are runs of {' and '.join(sorted(runners))}")
    else:
        yield from _unlike(pairs, chosen)
    yield from _scaled(compared)
    yield from _doubtful(compared)


def _note(code: str, message: str) -> Diagnostic:
    return Diagnostic(code, "note", "", message)


def _scaled(compared: Sequence[ComparisonSide]) -> Iterator[Diagnostic]:
    """Yields which sides' rates are not those of their devices."""
    for side in compared:
        factors = {scale(run.outcome) for run in side.runs if run.outcome} - {1.0}
        if factors:
            listed = ", ".join(f"{factor:g}" for factor in sorted(factors))
            yield _note(
                "scaled-rates",
                f"rates of {side.name} are divided by {listed}, to be within the lab's reach:"
                " shares and orderings compare, absolute rates and latencies do not",
            )


def _unlike(pairs: Sequence[Pair], chosen: Collection[str]) -> Iterator[Diagnostic]:
    """Yields in what the cells that are compared were asked for differs from side to side."""
    differing: dict[str, tuple[str, str]] = {}
    for base, *others in pairs:
        for other in others:
            for first, two in zip(base[:1], other[:1], strict=False):
                asked = _asked(first.cell, chosen), _asked(two.cell, chosen)
                for key in dict.fromkeys([*asked[0], *asked[1]]):
                    values = tuple(side.get(key, "nothing") for side in asked)
                    if values[0] != values[1]:
                        differing.setdefault(key, (values[0], values[1]))
    for key, (mine, theirs) in differing.items():
        yield _note("unlike-cells", f"the cells are not the same: {key}: {mine} against {theirs}")


def _asked(cell: Mapping[str, Any], chosen: Collection[str]) -> dict[str, str]:
    """Returns what a cell was asked to do, by its words; without what follows from `chosen`."""
    requested = {word: _described(key, cell[key]) for key, word in TIMES.items() if cell.get(key)}
    if "workload" not in chosen:
        for at, job in enumerate(cell.get("jobs") or []):
            options = job.get("options", job)
            where = f"{job.get('name', at)}." if len(cell["jobs"]) > 1 else ""
            for key, value in options.items():
                if key not in {*PLACES, *chosen}:
                    requested[f"{where}{key}"] = _described(key, value)
    return requested


def _described(key: str, value: Any) -> str:
    if key.endswith("_ns") and isinstance(value, int | float):
        return units.format_duration(value)
    return str(value)


def _doubtful(compared: Sequence[ComparisonSide]) -> Iterator[Diagnostic]:
    """Yields how many runs of a side were forced, and why, and how many have warnings."""
    for side in compared:
        outcomes = [measured(run.outcome) for run in side.runs if run.outcome]
        forced = [outcome["forced"] for outcome in outcomes if outcome.get("forced")]
        warned = [outcome for outcome in outcomes if outcome.get("warnings")]
        parts = []
        if forced:
            names = sorted({str(name) for names_of_run in forced for name in names_of_run})
            parts.append(f"{_runs(forced)} of {side.name} were forced: {', '.join(names)}")
        if warned:
            parts.append(f"{_runs(warned)} of {side.name} with warnings (blklab runs show)")
        if parts:
            yield _note("doubtful-runs", "; ".join(parts))


def _runs(runs: Sequence[Any]) -> str:
    return f"{len(runs):,} run{'s' * (len(runs) != 1)}"
