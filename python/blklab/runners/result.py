"""What a run measured, in fio's words, whichever runner it was."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blklab.outcome import Outcome


@dataclass(frozen=True)
class RunResult:
    """One cell's figures."""

    number: int
    """The cell's number in its experiment."""

    labels: Mapping[str, str]
    """What tells the cell from the others."""

    runner: str
    """What it ran on: `sim`, `host`."""

    outcome: Outcome
    """The figures: docs/reference/formats.md, "result". Times are ns, rates a second."""

    seconds: float
    """What the run took, in real time."""

    run: int | None = None
    """Its number in the store, if it is in one."""

    @property
    def read_iops(self) -> float:
        """Reads a second."""
        return float(self.outcome["read"]["iops"])

    @property
    def write_iops(self) -> float:
        """Writes a second."""
        return float(self.outcome["write"]["iops"])

    @property
    def iops(self) -> float:
        """I/Os a second, both directions."""
        return self.read_iops + self.write_iops

    def as_dict(self) -> dict[str, Any]:
        """Returns the result for `--json`."""
        return {
            "run": self.run,
            "number": self.number,
            "labels": dict(self.labels),
            "runner": self.runner,
            **self.outcome,
        }
