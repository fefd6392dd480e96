"""Traces and their views, read once."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from blklab import _core
from blklab.trace.profile import characterise
from blklab.trace.view import ProfileView
from tests.trace.generated import COMPLETED, ISSUED, QUEUED, READ, WRITE, C, D, Q, Record

TRACES = Path(__file__).parents[1] / "data" / "traces"


@cache
def bundled(name: str) -> ProfileView:
    return ProfileView(characterise([str(TRACES / name)], _core.Filter()))


@pytest.fixture
def pgbench() -> ProfileView:
    """PostgreSQL and fio on two volumes on a RAID-1 of two disks."""
    return bundled("pgbench-raid1")


@pytest.fixture
def scsi() -> ProfileView:
    """A disk that returns errors."""
    return bundled("scsi-errors")


def read_trace(path: Path, **selection: Any) -> ProfileView:
    """Returns the view of a trace that a test wrote."""
    return ProfileView(characterise([str(path)], _core.Filter(**selection)))


def life(time: int, sector: int, *, write: bool = False, size: int = 4096, **rest: int) -> list[Record]:
    """Returns the events of one I/O: 1 ms from queued to dispatched, 9 ms to completed."""
    direction = WRITE if write else READ
    where: dict[str, Any] = {"sector": sector, "size": size, **rest}
    return [
        Record(time, Q, QUEUED | direction, **where),
        Record(time + 1_000_000, D, ISSUED | direction, **where),
        Record(time + 10_000_000, C, COMPLETED | direction, **where),
    ]
