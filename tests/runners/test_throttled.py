"""Mirrors of unlike members as real kernels run them.

Measured in QEMU guests with kernels 6.1 and 6.12: two virtio disks throttled to 1000 and 200 IOPS
(alone they gave 987 and 192), 4 KiB random reads, iodepth 32. The two agreed within 10 %.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from blklab.experiment import cells
from blklab.experiment.load import ExperimentSource
from blklab.outcome import Outcome
from blklab.runners.sim import runner as sim
from tests.runners.conftest import reads, writes

STACKS: Final[dict[str, Any]] = {
    "raid1": {"level": 1},
    "n2": {"level": 10, "layout": "n2"},
    "f2": {"level": 10, "layout": "f2"},
    "o2": {"level": 10, "layout": "o2"},
}


class Cell(NamedTuple):
    stack: str
    rotational: str
    """Of the fast member and of the slow one."""

    jobs: int
    iops: float
    fast: float
    """The fast member's share of the reads, %."""


MEASURED: Final = [
    Cell("raid1", "0/0", 1, 1177, 83),
    Cell("n2", "0/0", 1, 1176, 83),
    Cell("f2", "0/0", 1, 1178, 83),
    Cell("o2", "0/0", 1, 1178, 83),
    Cell("raid1", "0/0", 4, 1106, 82),
    Cell("n2", "0/0", 4, 1121, 82),
    Cell("f2", "0/0", 4, 1114, 82),
    Cell("o2", "0/0", 4, 1112, 82),
    Cell("raid1", "1/1", 1, 1162, 82),
    Cell("n2", "1/1", 1, 1156, 82),
    Cell("f2", "1/1", 1, 378, 49),
    Cell("o2", "1/1", 1, 379, 50),
    Cell("raid1", "1/1", 4, 969, 79),
    Cell("n2", "1/1", 4, 927, 79),
    Cell("f2", "1/1", 4, 335, 47),
    Cell("o2", "1/1", 4, 359, 51),
    Cell("raid1", "0/1", 1, 1181, 83),
    Cell("n2", "0/1", 1, 992, 100),
    Cell("f2", "0/1", 1, 991, 100),
    Cell("o2", "0/1", 1, 992, 100),
    Cell("raid1", "1/0", 1, 1177, 83),
    Cell("n2", "1/0", 1, 192, 0),
    Cell("f2", "1/0", 1, 192, 0),
    Cell("o2", "1/0", 1, 192, 0),
]

SLOWER_GUESTS: Final = {("n2", 4)}
"""Stacks and jobs where rotational members were slower in the guests than simulated.

There almost all reads in flight wait at the slow member, and the fast one has one at a time: it is
idle for as long as a guest takes to send the next. With up to 0.7 ms for that, which guests take
today, nothing changes here; what it took in these guests is unknown. RAID-1 is 7 % above them.
The lab's own runs of these cells, in reference/lab, agree within 10 %.
"""


@cache
def outcome(stack: str, rotational: str, jobs: int, rw: str, bs: str = "4k") -> Outcome:
    fast, slow = (flag == "1" for flag in rotational.split("/"))
    load = {"rw": rw, "bs": bs, "iodepth": 32, "numjobs": jobs, "time_based": True}
    raw = {
        "devices": {
            "fast": {"kind": "throttled", "iops_total": 1000, "size": "1GiB", "rotational": fast},
            "slow": {"kind": "throttled", "iops_total": 200, "size": "1GiB", "rotational": slow},
        },
        "stacks": {stack: {**STACKS[stack], "members": ["fast", "slow"]}},
        "workloads": {"one": load},
        # Without a ramp the disks alone would reach 1025 and 205: more than measured, and than their limits.
        "settings": {"kernel": "6.1", "runtime": "4s", "ramp_time": "1s"},
    }
    return sim.outcome(cells.plan(ExperimentSource(Path("exp.toml"), raw)).cells[0].document)


@pytest.mark.parametrize("cell", MEASURED, ids=lambda c: f"{c.stack} {c.rotational} {c.jobs}")
def test_the_fast_member_has_its_share(cell: Cell) -> None:
    result = outcome(cell.stack, cell.rotational, cell.jobs, "randread")
    assert 100 * reads(result)["fast"] == pytest.approx(cell.fast, abs=5)


@pytest.mark.parametrize("cell", MEASURED, ids=lambda c: f"{c.stack} {c.rotational} {c.jobs}")
def test_the_array_has_its_iops(cell: Cell, request: pytest.FixtureRequest) -> None:
    if cell.rotational == "1/1" and (cell.stack, cell.jobs) in SLOWER_GUESTS:
        request.applymarker(pytest.mark.xfail(strict=True, reason="12 % above the guests"))
    result = outcome(cell.stack, cell.rotational, cell.jobs, "randread")
    assert result.read.iops == pytest.approx(cell.iops, rel=0.1)


@pytest.mark.parametrize("stack", STACKS)
def test_writes_are_as_fast_as_the_slowest_member(stack: str) -> None:
    result = outcome(stack, "0/0", 1, "randwrite")
    assert result.write.iops == pytest.approx(192, rel=0.1)
    assert writes(result) == pytest.approx({"fast": 0.5, "slow": 0.5}, abs=0.005)


@pytest.mark.parametrize("rotational", ["0/0", "1/1"])
@pytest.mark.parametrize(("bs", "fast"), [("4k", 1), ("64k", 0)])
def test_where_a_stream_from_the_begin_goes(rotational: str, bs: str, fast: int) -> None:
    # The kernel has looked for partitions on the first member, whose head is behind the first page:
    # the second one's is at 0, but who reads pages comes to the first one's next. So in the lab.
    result = outcome("raid1", rotational, 1, "read", bs)
    assert reads(result)["fast"] == pytest.approx(fast, abs=0.001)
