"""Compare the simulator with the lab: predictions for each guest, and the result for each kernel."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from blklab.analysis.agreement import AgreementFigures, AgreementKey, AgreementRow, agreement_key, figures_of_cells
from blklab.outcome import IoCost
from blklab.runners.sim import runner as sim
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.spec.experiment import Lab

ENOUGH = 0.9  # Share of cells that must be within both bounds


@dataclass(frozen=True)
class AgreementVerdict:
    """The result for one kernel generation."""

    kernel: str
    rows: int
    within: int
    median: float  # The median of absolute errors

    @property
    def holds(self) -> bool:
        """Whether enough cells are within their bounds."""
        return self.within >= ENOUGH * self.rows


def agreement_verdicts(rows: Sequence[AgreementRow]) -> list[AgreementVerdict]:
    """Returns the result of each kernel generation, in the order of the rows."""
    verdicts_given = []
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in rows if row.kernel == kernel]
        median = statistics.median(abs(row.error) for row in own)
        verdicts_given.append(AgreementVerdict(kernel, len(own), sum(row.holds for row in own), median))
    return verdicts_given


def with_io_costs(plan: ExperimentPlan, measured: Mapping[AgreementKey, AgreementFigures]) -> ExperimentPlan:
    """Returns a plan for the simulator whose cells have the CPUs of their guests, and the cost of an I/O there."""
    known = {key: figures.io_cost for key, figures in measured.items() if figures.io_cost}
    costs = [(cell, known.get(agreement_key(plan.name, cell.labels))) for cell in plan.cells]
    costed = replace(plan, cells=[_with_io_cost(cell, cost) if cost else cell for cell, cost in costs])
    return sim.with_cores(costed, plan.raw.get("lab", {}).get("cpus", Lab().cpus))


def _with_io_cost(cell: Cell, cost: IoCost) -> Cell:
    """Returns a cell whose throttled disks and jobs take as long for an I/O as those of a guest.

    The file's own latencies come on top, as in the lab; its own host costs count instead.
    """
    devices = []
    for device in cell.document["devices"]:
        model = device["model"]
        if model["kind"] == "throttled":
            model = {**model, "latency_ns": model.get("latency_ns", 0) + cost.latency_ns}
        devices.append({**device, "model": model})
    host = {key: time for key, time in vars(cost).items() if key != "latency_ns"} | cell.document.get("host", {})
    return replace(cell, document={**cell.document, "devices": devices, "host": host})


def predicted(plans: Sequence[ExperimentPlan]) -> dict[AgreementKey, AgreementFigures]:
    """Simulates all cells of plans for the simulator."""
    cells = [(plan.name, cell) for plan in plans for cell in plan.cells]
    outcomes = sim.outcomes([cell.document for _, cell in cells])
    figures: dict[AgreementKey, AgreementFigures] = {}
    for (suite, cell), outcome in zip(cells, outcomes, strict=True):
        figures |= figures_of_cells(suite, [(cell.labels, outcome)])
    return figures
