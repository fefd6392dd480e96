"""Samples to import: tests/data/imports/README.md says what they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blklab.importers.base import ImportSource
from blklab.importers.collect import Batch, batches
from blklab.importers.run_labels import RunNaming
from blklab.outcome import Outcome

DATA = Path(__file__).parents[1] / "data" / "imports"
FIO = Path(__file__).parents[1] / "data" / "fio"
ROOT = Path(__file__).parents[2]


def imported(
    *paths: Path | str, form: str | None = None, naming: RunNaming | None = None, **given: Any
) -> tuple[Batch, list[str]]:
    """Returns the only batch of files, and the notes."""
    result = batches([str(p) for p in paths], ImportSource((), **given), naming or RunNaming(), form)
    (batch,) = result.batches
    return batch, result.notes


def runs(batch: Batch) -> list[tuple[Mapping[str, str], Outcome]]:
    """Returns labels and outcome of each run."""
    return [(cell.labels, batch.finished_runs[cell.key].outcome) for cell in batch.plan.cells]


def outcome(*paths: Path | str, **given: Any) -> Outcome:
    """Returns the outcome of the only run in files."""
    ((_, result),) = runs(imported(*paths, **given)[0])
    return result
