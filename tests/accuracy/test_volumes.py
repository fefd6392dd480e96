"""Logical volumes agree with what a guest of the lab measured."""

from pathlib import Path

import pytest

from blklab.experiment.cells import plan
from blklab.runners.sim.runner import outcomes

REFERENCE = Path(__file__).parents[2] / "reference" / "volumes.toml"
ALLOWED = 0.1  # Relative error of IOPS


def test_volumes_with_and_without_redundancy() -> None:
    experiment = plan(REFERENCE)
    assert len(experiment.cells) == len(experiment.measured) == 18
    for cell, outcome in zip(experiment.cells, outcomes([cell.document for cell in experiment.cells]), strict=True):
        (figures,) = (figures for figures in experiment.measured if figures.matches(cell.labels))
        measured = (figures.read_iops or 0) + (figures.write_iops or 0)
        assert outcome.read.iops + outcome.write.iops == pytest.approx(measured, rel=ALLOWED), cell.name
