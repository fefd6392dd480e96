"""The rates that the model predicts, each with the figure of a data sheet that says something of it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class FlashRate:
    """A rate of a flash disk."""

    name: str
    rated: Mapping[str, str]
    """The attribute of `Product` with what its maker states, by way of measuring."""

    by_bus: bool = True
    """Whether disks behind another bus say nothing of it."""


RANDOM = FlashRate("random", {"read": "rated_random_read_iops", "cached_write": "rated_random_write_iops"})
"""4 KiB at random places, enough in flight to saturate the disk: reads, and writes while the cache of single-bit cells
takes them. Few measured such writes, so that what reads show counts for them too."""

RANDOM_WRITE = FlashRate("random_write", {"": "rated_random_write_iops"})
"""Writes of 4 KiB at random places when the cache of single-bit cells is full. Disks behind SATA have the same rate in
both states: their interface limits it."""

READ_BYTES = FlashRate("read_bytes", {"": "rated_read_bandwidth"})
"""Bytes read a second, in sequence."""

WRITE_BYTES = FlashRate("write_bytes", {"": "rated_write_bandwidth"})
"""Bytes written a second, in sequence, while the cache of single-bit cells takes them."""

WRITE_BYTES_AFTER = FlashRate("write_bytes_after", {"": "rated_write_bandwidth"})
"""Bytes written a second, in sequence, after that."""

DURABLE = FlashRate("durable", {}, by_bus=False)
"""Small writes a second that must be durable, one at a time: `flush` after each, or with forced unit access (`fua`)."""

QUANTITIES = (RANDOM, RANDOM_WRITE, READ_BYTES, WRITE_BYTES, WRITE_BYTES_AFTER, DURABLE)
