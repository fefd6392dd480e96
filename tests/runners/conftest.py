"""Experiments that are simulated in a moment."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blklab.experiment.cells import plan
from blklab.outcome import Outcome
from blklab.runners.sim import runner as sim
from blklab.store.series import as_outcome
from tests.runners.collecting import collected

Simulate = Callable[..., dict[str, Outcome]]


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """Returns a function that simulates an experiment and returns its outcomes.

    Keyed by stack, workload and what is varied, joined by spaces. There is one seed.
    """

    def simulate(text: str) -> dict[str, Outcome]:
        path = tmp_path / "exp.toml"
        path.write_text(text)
        result = plan(path)
        named = ["stack", "workload", *(x for x in result.varied if x not in {"stack", "workload"})]
        runs = collected(sim.SimRunner(2, seed_count=lambda _cell: 1), result.cells).ended
        return {
            " ".join(cell.labels[label] for label in named): replace(
                runs[cell.number].outcome, series=as_outcome(runs[cell.number].points)
            )
            for cell in result.cells
        }

    return simulate


def reads(outcome: Outcome) -> dict[str, float]:
    """Returns each disk's share of the reads."""
    return _shares(outcome, 0)


def writes(outcome: Outcome) -> dict[str, float]:
    """Returns each disk's share of the writes."""
    return _shares(outcome, 1)


def _shares(outcome: Outcome, direction: int) -> dict[str, float]:
    total = sum(disk.ios[direction] for disk in outcome.devices)
    return {disk.name: disk.ios[direction] / total for disk in outcome.devices}
