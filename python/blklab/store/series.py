"""What a series is made of: what was done in each interval of a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """What one source did in one interval. Times are ns since the run began, sizes bytes."""

    source: str
    """`jobs`, all of them merged, or a device's name."""
    time_ns: int
    """The start of the interval."""
    width_ns: int
    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int
    read_clat_ns: float | None
    """The mean; for devices, time in progress by I/Os completed. None without any."""
    write_clat_ns: float | None
