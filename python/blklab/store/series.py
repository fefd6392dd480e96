"""What was measured over time: one flat table, whichever runner it was."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One source in one interval of time."""

    source: str
    """`jobs` for all jobs together, or a device's name."""

    time_ns: int
    """Start of the interval, since the measurement began."""

    width_ns: int

    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int

    read_clat_ns: float | None
    """Mean; None where nothing completed. Of a device, its ticks by its I/Os."""

    write_clat_ns: float | None
