"""Where data lie on rotating disks, if the user does not say it: a second simulation shows what depends on it."""

from collections.abc import Iterator
from dataclasses import replace

from blklab.experiment.cells import Cell
from blklab.experiment.placement import FILLED, matters, share_of_stack
from blklab.outcome import Outcome, PredictionInterval
from blklab.runners.load_ramp import without_ramp
from blklab.runners.sim.uncertainty import interval, total_iops

SAME = 1.25  # Rates that differ by a smaller factor are one


def with_other_placement(cell: Cell) -> Cell | None:
    """Returns the cell with its data at the other place on rotating disks; None if that does not matter or is known."""
    document = cell.document
    if cell.is_placed or not matters(document) or share_of_stack(document, cell.capacity) >= FILLED:
        return None
    return replace(cell, document={**without_ramp(document), "spread": not document.get("spread", False)})


def reach_other_placement(cell: Cell, run: Outcome, limits: PredictionInterval, other: Outcome) -> PredictionInterval:
    """Returns the interval of a prediction that holds wherever the files of a filesystem lie.

    `other` is the outcome of `with_other_placement`. The data of a raw device are where the load says.
    """
    if not cell.document.get("spread"):
        return limits
    factor = total_iops(other) / total_iops(run)
    low, high = (factor * bound for bound in interval(cell, other).iops)
    return replace(limits, iops=(min(limits.iops[0], low), max(limits.iops[1], high)))


def describe_placements(cell: Cell, run: Outcome, limits: PredictionInterval, other: Outcome) -> Iterator[str]:
    """Yields a sentence if the rate depends on where the data lie; of rates that are not known, it has the ratio.

    `limits` is the interval of the prediction.
    """
    here, there = total_iops(run), total_iops(other)
    if max(here, there) < SAME * min(here, there):
        return
    if cell.document.get("spread"):
        rates = (
            f"files that are spread over the disks have about {here:,.0f} IOPS, files on their outermost part "
            f"{there:,.0f}"
        )
        if not limits.is_known:
            rates = (
                f"files on the outermost part of the disks have about {there / here:.2g} times the IOPS of files that "
                "are spread over them"
            )
        yield f"{rates}: if you know where they are, set placement"
    else:
        share = share_of_stack(cell.document, cell.capacity)
        rate = f"about {there:,.0f} IOPS" if limits.is_known else f"about {there / here:.2g} times the IOPS"
        yield (
            f"the load uses the first {_percent(share)} of the disks, where they are fastest; spread over all of them "
            f'it has {rate} (placement = "spread")'
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "part"
