"""Commits of journals on the same disk and on another one agree with what a guest of the lab measured."""

from pathlib import Path

import pytest

from blklab.experiment.cells import plan
from blklab.runners.sim.runner import outcomes

REFERENCE = Path(__file__).parents[2] / "reference" / "journals.toml"
ALLOWED = 0.05  # Relative error of IOPS


def test_writes_with_fsync() -> None:
    experiment = plan(REFERENCE)
    assert len(experiment.cells) == len(experiment.measured) == 12
    for cell, outcome in zip(experiment.cells, outcomes([cell.document for cell in experiment.cells]), strict=True):
        (figures,) = (figures for figures in experiment.measured if figures.matches(cell.labels))
        assert outcome.write.iops == pytest.approx(figures.write_iops, rel=ALLOWED), cell.name
