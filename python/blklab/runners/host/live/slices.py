"""Divides the time of a live tuning into slices: how long they are, and which value each has."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from blklab.errors import UsageError
from blklab.units import format_duration

SECOND = 10**9

FEWEST_BLOCKS = 8  # Slices of each value: fewer hardly ever decide
MOST_BLOCKS = 120  # Of each value: with more time, slices become longer, and settings change less often
SHORTEST_NS = 15 * SECOND
USUAL_NS = 30 * SECOND
LONGEST_SETTLING_NS = 5 * SECOND
INTERVAL_NS = 2 * SECOND


@dataclass(frozen=True)
class SliceTimes:
    """How the time is divided; all times are ns."""

    slice_ns: int
    settle_ns: int  # The first part of each slice, which is not counted: requests under the former value end in it
    interval_ns: int  # After each interval, the latency is compared with the limit
    blocks: int  # In each block, every value has one slice

    @property
    def window_ns(self) -> int:
        """How far back a trace is looked at: more than an interval, whose length varies a little."""
        return self.interval_ns * 3 // 2

    def total_ns(self, values: int) -> int:
        return self.slice_ns * self.blocks * values


def divide_time(total_ns: int, values: int) -> SliceTimes:
    """Returns the slices of `values` values. Raises UsageError if the time is too short.

    Slices have 30 s. They are shorter if there were fewer than 8 of each value, and longer if there were more than 120.
    """
    slice_ns = min(USUAL_NS, total_ns // (values * FEWEST_BLOCKS))
    if slice_ns < SHORTEST_NS:
        least = format_duration(SHORTEST_NS * values * FEWEST_BLOCKS)
        slice_length = format_duration(SHORTEST_NS)
        raise UsageError(
            f"--for {format_duration(total_ns)}: too short: {values} values with {FEWEST_BLOCKS} slices of "
            f"{slice_length} each need {least} or more"
        )
    slice_ns = max(slice_ns, total_ns // (values * MOST_BLOCKS))
    blocks = total_ns // (values * slice_ns)
    return SliceTimes(slice_ns, min(LONGEST_SETTLING_NS, slice_ns // 6), INTERVAL_NS, blocks)


def shuffle_values(values: Sequence[str], blocks: int, seed: int) -> list[tuple[int, str]]:
    """Returns the slices in order, each with the number of its block, from 1.

    Each block has every value once, in an order that the seed decides.
    """
    generator = random.Random(seed)  # noqa: S311 - not for secrets
    order = []
    for block in range(1, blocks + 1):
        values_of_block = list(values)
        generator.shuffle(values_of_block)
        for value in values_of_block:
            order.append((block, value))
    return order
