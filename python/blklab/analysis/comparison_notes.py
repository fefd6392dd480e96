"""Notes about a comparison: missing cells, single runs, different conditions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from blklab import units
from blklab.analysis.comparison import ComparisonRow, ComparisonSide
from blklab.analysis.metrics import LATENCIES, directions, rate_scale
from blklab.analysis.run_conditions import condition_notes, drift_notes, note
from blklab.diagnostic import Diagnostic
from blklab.store.query import StoredRun

Pair = Sequence[Sequence[StoredRun]]  # The runs of one cell, for each side
TIMES: Final[Mapping[str, str]] = {"runtime_ns": "runtime", "ramp_ns": "ramp", "max_ios": "max_ios"}

PLACES: Final = ("name", "filename", "directory", "size", "io_bytes", "offset_increment")
"""Options of a job that depend on where it runs."""


def comparison_notes(
    compared: Sequence[ComparisonSide], rows: Sequence[ComparisonRow], pairs: Sequence[Pair], chosen: Collection[str]
) -> Iterator[Diagnostic]:
    """Yields the notes about the sides, their rows and the pairs of cells."""
    single = any(value is not None and value.runs == 1 for row in rows for value in row.values)
    repeated = any(value is not None and value.runs > 1 for row in rows for value in row.values)
    alone = all(difference is None for row in rows for difference in row.differences)
    if single and not alone:
        assumed = (
            "they are assumed to vary as much as the others" if repeated else "the variation between runs is unknown"
        )
        yield note("run-once", f"some cells have one run: {assumed}; use repeats = 2 or more")
    yield from _other_directions(rows, pairs)
    missing = sum(value is None for row in rows for value in row.values)
    if alone:
        apart = ", ".join(rows[0].labels) or "nothing"
        yield note(
            "nothing-shared",
            f"no cell exists on more than one side; the cells differ in {apart}: use --by,"
            " or select a label behind the colon of a campaign",
        )
    elif missing:
        yield note("figures-missing", f"{missing} values are missing on one side")
    lacking = sum(len(cells) for row in rows for cells in row.lacks)
    if lacking:
        yield note("cells-missing", f"in merged rows, {lacking} cells of the first side are missing on another side")
    merged = max(row.merged for row in rows)
    if merged > 1:
        yield note("cells-merged", f"rows merge up to {merged} cells: values and changes are geometric means of cells")
    runners = {run.runner for side in compared for run in side.runs}
    if len(runners) > 1:
        yield note("several-runners", f"the runs come from different runners: {' and '.join(sorted(runners))}")
    else:
        yield from _unlike(pairs, chosen)
    yield from _scaled(compared)
    metrics = list(dict.fromkeys(row.metric for row in rows))
    for side in compared:
        yield from condition_notes(side.name, side.runs)
        yield from drift_notes(side.name, side.runs, metrics)


def _other_directions(rows: Sequence[ComparisonRow], pairs: Sequence[Pair]) -> Iterator[Diagnostic]:
    """Yields a note about cells that only read on one side and only write on the other."""
    if not any(name in LATENCIES for row in rows for name in row.asked):
        return
    there = [[directions(run.outcome or {} for run in side) for side in pair] for pair in pairs]
    count = sum(all(sides) and not set.intersection(*sides) for sides in there)
    if count:
        yield note(
            "other-direction",
            "one side only reads and the other only writes: latencies are not comparable in"
            f" {count} {'cell' if count == 1 else 'cells'}",
        )


def _scaled(compared: Sequence[ComparisonSide]) -> Iterator[Diagnostic]:
    """Yields the sides whose device rates are scaled."""
    for side in compared:
        factors = {rate_scale(run.outcome) for run in side.runs if run.outcome} - {1.0}
        if factors:
            listed = ", ".join(f"{factor:g}" for factor in sorted(factors))
            yield note(
                "scaled-rates",
                f"rates of {side.name} are divided by {listed} so that the lab can reach"
                " them: compare shares and orders, not absolute rates and latencies",
            )


def _unlike(pairs: Sequence[Pair], chosen: Collection[str]) -> Iterator[Diagnostic]:
    """Yields the options in which compared cells differ."""
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
        yield note("unlike-cells", f"the cells differ in {key}: {mine} and {theirs}")


def _asked(cell: Mapping[str, Any], chosen: Collection[str]) -> dict[str, str]:
    """Returns the requested options of a cell, without those that follow from `chosen`."""
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
