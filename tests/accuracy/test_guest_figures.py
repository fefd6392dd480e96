"""Predictions agree with what a guest of the lab measured, and that set nothing."""

from pathlib import Path

import pytest

from blklab.experiment.cells import plan
from blklab.runners.sim.runner import outcomes

REFERENCE = Path(__file__).parents[2] / "reference"


@pytest.mark.parametrize(
    ("name", "cells", "allowed"),  # `allowed` is the relative error of the IOPS of both directions
    [
        ("journals.toml", 12, 0.05),  # Commits of journals on the same disk and on another one
        ("volumes.toml", 18, 0.1),  # Logical volumes with and without redundancy
    ],
)
def test_predictions_agree_with_a_guest(name: str, cells: int, allowed: float) -> None:
    experiment = plan(REFERENCE / name)
    assert len(experiment.cells) == len(experiment.measured) == cells
    for cell, outcome in zip(experiment.cells, outcomes([cell.document for cell in experiment.cells]), strict=True):
        (figures,) = (figures for figures in experiment.measured if figures.matches(cell.labels))
        measured = (figures.read_iops or 0) + (figures.write_iops or 0)
        assert outcome.read.iops + outcome.write.iops == pytest.approx(measured, rel=allowed), cell.name
