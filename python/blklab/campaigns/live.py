"""A campaign while it runs: current cell, progress, time left and current IOPS."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.documents import minimum_ns
from blklab.render.console import Console, RenderableType
from blklab.render.formatting import sparkline
from blklab.text.printing import printable

WIDTH = 30  # Number of values in the sparkline


def minimum_seconds(cells: Sequence[Cell]) -> float:
    """Returns the minimum time of cells in seconds: runtimes, ramps and rounds."""
    return sum(minimum_ns(cell.document) for cell in cells) / 1e9


@dataclass
class LiveCampaign:
    """The display of a campaign; `update` is the runner's `progress`."""

    cells: Sequence[Cell]
    label_names: Sequence[str] = ()  # The labels of a cell that are shown
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    began: float = field(init=False)
    cell: Cell | None = None
    phase: str = ""
    seconds: float = 0.0
    total: float | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=WIDTH))

    def __post_init__(self) -> None:
        self.began = self.clock()

    def update(self, cell: Cell, live: Any) -> None:
        """Takes the progress of a cell: `runners.fio.process.FioProgress`."""
        if cell is not self.cell or live.phase != self.phase:
            self.cell = cell
            self.phase = live.phase
            self.rates.clear()
        self.seconds = live.seconds
        self.total = live.total_seconds
        if live.read_iops is not None:
            self.rates.append(live.read_iops + (live.write_iops or 0))

    def set_done(self, done: int) -> None:
        """Takes the number of cells done."""
        self.done = done

    def seconds_left(self) -> float | None:
        """Returns the estimated seconds left; None before a cell is done if all took longer than expected."""
        spent = self.clock() - self.began
        if not self.done:
            least = minimum_seconds(self.cells) - spent
            return least if least > 0 else None
        return max(0.0, spent / self.done * len(self.cells) - spent)

    def lines(self) -> list[str]:
        """Returns the content of the display."""
        seconds_left = self.seconds_left()
        head = f"{self.done} of {len(self.cells)} cells"
        if seconds_left is not None:
            head += f", about {_clock(seconds_left)} left"
        if self.cell is None:
            return [head, "preparing"]
        labels = " ".join(f"{key}={self.cell.labels[key]}" for key in self.label_names)
        total_text = "" if self.total is None else f" of {_clock(self.total)}"
        cell_text = f"cell {self.cell.number} {labels}".rstrip()
        lines = [head, printable(f"{cell_text}: {self.phase} {_clock(self.seconds)}{total_text}")]
        if self.rates:
            lines.append(f"{sparkline(list(self.rates)):>{WIDTH}} {self.rates[-1]:,.0f} IOPS")
        return lines


def _clock(seconds: float) -> str:
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remainder:02}" if hours else f"{minutes}:{remainder:02}"


@contextmanager
def show_campaign(console: Console, plan: ExperimentPlan) -> Iterator[LiveCampaign]:
    """Shows a campaign on a terminal while the block runs; nothing if stderr is no terminal."""
    campaign = LiveCampaign(plan.cells, plan.varied)
    if not console.is_terminal:
        yield campaign
        return
    from rich.live import Live
    from rich.text import Text

    def draw() -> RenderableType:
        return Text("\n".join(campaign.lines()), no_wrap=True, overflow="ellipsis")

    with Live(get_renderable=draw, console=console, refresh_per_second=2, transient=True):
        yield campaign
