"""The result of a run, in fio's words, for every runner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blklab.outcome import Outcome


@dataclass(frozen=True)
class RunResult:
    """One cell's figures."""

    number: int  # The cell's number in its experiment
    labels: Mapping[str, str]  # How the cell differs from the others
    runner: str  # Its runner: `sim`, `host`
    outcome: Outcome  # The figures: docs/reference/formats.md, "result". Times are ns, rates per second.
    seconds: float  # Real duration of the run, ns
    run: int | None = None  # Its number in the store, if it is in one

    @property
    def read_iops(self) -> float:
        """Reads a second."""
        return float(self.outcome["read"]["iops"])

    @property
    def write_iops(self) -> float:
        """Writes a second."""
        return float(self.outcome["write"]["iops"])

    def as_dict(self) -> dict[str, Any]:
        """Returns the result for `--json`."""
        return {
            "run": self.run,
            "number": self.number,
            "labels": dict(self.labels),
            "runner": self.runner,
            **self.outcome,
        }
