"""A campaign while it runs: which cell, how far, how long still, and the IOPS of this moment."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from blklab.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from blklab.spec.cells import Cell

BLOCKS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 30
"""Moments that the sparkline shows."""


def sparkline(values: Sequence[float]) -> str:
    """Returns values as blocks, the largest as the highest; zero is the lowest."""
    most = max(values, default=0)
    if most <= 0:
        return BLOCKS[0] * len(values)
    return "".join(BLOCKS[min(7, int(8 * value / most))] for value in values)


def expected(cells: "Sequence[Cell]") -> float:
    """Returns the seconds that cells will take at least: their runtimes, ramps and rounds."""
    return sum(_seconds(cell.document) for cell in cells)


def _seconds(document: Mapping[str, Any]) -> float:
    steady = document["host"]["steady"]
    rounds = steady["rounds"] * steady["round_ns"] if steady else 0
    return float((document["runtime_ns"] or 0) + document["ramp_ns"] + rounds) / 1e9


@dataclass
class Campaign:
    """What is shown; `update` is the runner's `progress`."""

    cells: "Sequence[Cell]"
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    cell: "Cell | None" = None
    phase: str = ""
    seconds: float = 0.0
    total: float | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=WIDTH))

    def update(self, cell: "Cell", live: Any) -> None:
        """Takes what the runner says of a cell: `runners.host.fio.process.Live`."""
        if cell is not self.cell or live.phase != self.phase:
            self.cell, self.phase = cell, live.phase
            self.rates.clear()
        self.seconds, self.total = live.seconds, live.total_seconds
        if live.read_iops is not None:
            self.rates.append(live.read_iops + (live.write_iops or 0))

    def ended(self, done: int) -> None:
        """Takes how many cells are done."""
        self.done = done

    def left(self) -> float | None:
        """Returns the seconds left, from what the cells done took; None before the first one."""
        waiting = len(self.cells) - self.done
        if not self.done:
            return expected(self.cells) or None
        return (time.monotonic() - self.began) / self.done * waiting

    def lines(self) -> list[str]:
        """Returns what is shown, two lines."""
        left = self.left()
        head = f"{self.done} of {len(self.cells)} cells"
        if left is not None:
            head += f", about {_clock(left)} left"
        if self.cell is None:
            return [head, "preparing"]
        labels = " ".join(f"{key}={value}" for key, value in self.cell.labels.items())
        of = "" if self.total is None else f" of {_clock(self.total)}"
        rate = f"  {self.rates[-1]:,.0f} IOPS {sparkline(list(self.rates))}" if self.rates else ""
        said = f"cell {self.cell.number} ({labels}): {self.phase} {_clock(self.seconds)}{of}{rate}"
        return [head, printable(said)]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def shown(console: "Console", cells: "Sequence[Cell]") -> Iterator[Campaign]:
    """Shows a campaign on a terminal while the block runs; elsewhere nothing."""
    campaign = Campaign(cells)
    if not console.is_terminal:
        yield campaign
        return
    from rich.live import Live
    from rich.text import Text

    def draw() -> "RenderableType":
        return Text("\n".join(campaign.lines()), no_wrap=True, overflow="ellipsis")

    with Live(get_renderable=draw, console=console, refresh_per_second=2, transient=True):
        yield campaign
