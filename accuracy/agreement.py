"""Compare the simulator with the lab: predictions for each guest, and the result for each kernel.

The comparison uses IOPS and each member's share of the I/Os: of reads if a cell only reads, of
writes if it only writes, otherwise of both. Of caches it uses the hit rate instead of shares.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from blklab.compare.metrics import lowest_devices
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.host_prices import complete_prices
from blklab.experiment.tables import Lab
from blklab.outcome import IoCost, Outcome
from blklab.runners.sim import runner as sim

IOPS = 0.10  # Allowed relative error of predicted IOPS
SHARE = 0.05  # Allowed error of a member's share, as a fraction of all I/Os
CACHE_IOPS = 0.15
HIT_RATE = 0.015  # The same of caches: of IOPS, and of the hit rate


@dataclass(frozen=True)
class AgreementFigures:
    """The figures of a cell on one runner."""

    read_iops: float
    write_iops: float
    members: Mapping[str, tuple[int, int]]  # Reads and writes of each disk
    io_cost: IoCost | None = None  # What an I/O cost in the guest; None in the simulator, and in recordings without it
    hit_rate: float | None = None  # Of a cache

    @property
    def iops(self) -> float:
        """IOPS of both directions."""
        return self.read_iops + self.write_iops

    @property
    def shares(self) -> dict[str, float]:
        """Each member's share of the I/Os that count; 0 if there are none."""
        counted = {name: self._counted(ios) for name, ios in self.members.items()}
        everything = max(1, sum(counted.values()))
        return {name: ios / everything for name, ios in counted.items()}

    def _counted(self, ios: tuple[int, int]) -> int:
        return ios[0] if self.write_iops == 0 else ios[1] if self.read_iops == 0 else sum(ios)

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures for `--json` and for recordings."""
        return {
            "read_iops": self.read_iops,
            "write_iops": self.write_iops,
            "members": {name: list(ios) for name, ios in self.members.items()},
            **({} if self.hit_rate is None else {"hit_rate": self.hit_rate}),
            **({"io_cost": asdict(self.io_cost)} if self.io_cost else {}),
        }


def agreement_figures(outcome: Outcome) -> AgreementFigures:
    """Returns the figures of a result, the lab's or the simulator's."""
    return AgreementFigures(
        outcome.read.iops,
        outcome.write.iops,
        {device.name: (device.ios[0], device.ios[1]) for device in lowest_devices(outcome)},
        None if outcome.lab is None else outcome.lab.io_cost,
        _hit_rate(outcome),
    )


def _hit_rate(outcome: Outcome) -> float | None:
    """Returns the hit rate of the stack's cache: of dm-cache's reads and writes, or of bcache's reads."""
    for target in outcome.targets:
        for words in (("read_", "write_"), ("cache_", "cache_bypass_")):
            if f"{words[0]}hits" in target:
                hits, misses = (sum(target[f"{word}{kind}"] for word in words) for kind in ("hits", "misses"))
                return float(hits / (hits + misses)) if hits + misses else None
    return None


@dataclass(frozen=True)
class AgreementKey:
    """The identity of a cell."""

    suite: str  # The name of the experiment
    labels: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The labels that identify it in its suite, in short."""
        known_labels = {"stack", "workload", "repeat"}
        more = " ".join(f"{name}={value}" for name, value in self.labels if name not in known_labels)
        known = dict(self.labels)
        return " ".join(filter(None, [known["stack"], known["workload"], more]))


def figures_of_cells(
    suite: str, results: Iterable[tuple[Mapping[str, str], Outcome]]
) -> dict[AgreementKey, AgreementFigures]:
    """Returns the figures of a suite's cells, from their labels and outcomes."""
    return {agreement_key(suite, labels): agreement_figures(outcome) for labels, outcome in results}


def agreement_key(suite: str, labels: Mapping[str, str]) -> AgreementKey:
    """Returns the key of a cell."""
    return AgreementKey(suite, tuple(labels.items()))


@dataclass(frozen=True)
class AgreementRow:
    """A cell on both runners."""

    key: AgreementKey
    kernel: str  # Its generation
    predicted: AgreementFigures
    measured: AgreementFigures

    @property
    def error(self) -> float:
        """Predicted over measured IOPS, minus one."""
        return self.predicted.iops / self.measured.iops - 1 if self.measured.iops else float("inf")

    @property
    def worst_share(self) -> float:
        """The largest error of a member's share, as a fraction of all I/Os."""
        predicted, measured = self.predicted.shares, self.measured.shares
        return max(abs(predicted.get(name, 0.0) - share) for name, share in measured.items())

    @property
    def hit_rate_error(self) -> float | None:
        """Predicted hit rate minus the measured one; None if neither is of a cache."""
        predicted, measured = self.predicted.hit_rate, self.measured.hit_rate
        return None if predicted is None or measured is None else predicted - measured

    @property
    def holds(self) -> bool:
        """Whether both are within their bounds."""
        if (error := self.hit_rate_error) is not None:
            return abs(self.error) <= CACHE_IOPS and abs(error) <= HIT_RATE
        return abs(self.error) <= IOPS and self.worst_share <= SHARE

    def as_dict(self) -> dict[str, Any]:
        """Returns the row for `--json`."""
        return {
            "suite": self.key.suite,
            "labels": dict(self.key.labels),
            "predicted": self.predicted.as_dict(),
            "measured": self.measured.as_dict(),
            **{name: getattr(self, name) for name in ("kernel", "error", "worst_share", "hit_rate_error", "holds")},
        }


def agreement_rows(
    kernel: str, predicted: Mapping[AgreementKey, AgreementFigures], measured: Mapping[AgreementKey, AgreementFigures]
) -> list[AgreementRow]:
    """Returns the cells that both runners have, in the order of the predictions."""
    return [
        AgreementRow(agreement_key, kernel, agreement_figures, measured[agreement_key])
        for agreement_key, agreement_figures in predicted.items()
        if agreement_key in measured
    ]


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
    return replace(cell, document={**cell.document, "devices": devices, "host": complete_prices(host)})


def predicted(plans: Sequence[ExperimentPlan]) -> dict[AgreementKey, AgreementFigures]:
    """Simulates all cells of plans for the simulator."""
    cells = [(plan.name, cell) for plan in plans for cell in plan.cells]
    outcomes = sim.outcomes([cell.document for _, cell in cells])
    figures: dict[AgreementKey, AgreementFigures] = {}
    for (suite, cell), outcome in zip(cells, outcomes, strict=True):
        figures |= figures_of_cells(suite, [(cell.labels, outcome)])
    return figures
